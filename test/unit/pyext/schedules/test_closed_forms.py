"""The simulator against what is known on paper."""

from fractions import Fraction

import pytest

from paropt.schedules import SCHEDULES, Costs, schedule, simulate, steady_bubble
from paropt.schedules.closed_forms import CLOSED_FORMS, Sizes, measured

SIZES = [(s, m) for s in (1, 2, 3, 4, 6) for m in (1, 2, 4, 6, 8, 9, 12)]
COSTS = (Costs(), Costs(F=2, B=2, W=1), Costs(F=3, B=3, W=2, pair=7), Costs(F=3, B=4, W=2), Costs(F=1, B=2, W=0))


def fitting(name: str) -> list[tuple[int, int]]:
    return [(s, m) for s, m in SIZES if all(each.holds(s, m) for each in SCHEDULES[name].restrictions)]


def test_each_schedule_has_formulas() -> None:
    assert list(CLOSED_FORMS) == list(SCHEDULES)


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_simulator_finds_what_the_formulas_say(name: str) -> None:
    form, compared = CLOSED_FORMS[name], 0
    for stages, microbatches in fitting(name):
        made = schedule(name, stages=stages, microbatches=microbatches)
        for costs in COSTS:
            sizes = Sizes.of(made, costs)
            if form.holds(sizes):
                found = measured(made, costs)
                expected = tuple(each.value(sizes) for each in (form.idle, form.peak, form.traffic, form.weights))
                assert (found.idle, found.peak, found.traffic, found.weights) == expected, sizes
                compared += 1
    assert compared >= 10


@pytest.mark.parametrize("chunks", [1, 2, 3, 4])
def test_more_chunks_wait_less(chunks: int) -> None:
    made = schedule("interleaved", stages=4, microbatches=8, chunks=chunks)
    found, sizes = measured(made, Costs()), Sizes.of(made, Costs())
    assert found.idle == Fraction(9, chunks) == CLOSED_FORMS["interleaved"].idle.value(sizes)
    assert found.peak == 4 + Fraction(3, chunks)
    assert found.traffic == 2 * (4 * chunks - 1)


def test_interleaved_with_one_chunk_waits_as_1f1b() -> None:
    one = simulate(schedule("interleaved", stages=4, microbatches=8, chunks=1))
    assert one.makespan == simulate(schedule("1f1b", stages=4, microbatches=8)).makespan


@pytest.mark.parametrize("name", ["gpipe", "1f1b"])
def test_the_published_bubble(name: str) -> None:
    for stages, microbatches in fitting(name):
        found = simulate(schedule(name, stages=stages, microbatches=microbatches), Costs(F="1/3", B=1, W=2))
        assert found.bubble == Fraction(stages - 1, microbatches + stages - 1)


def test_1f1b_keeps_less_from_stage_to_stage() -> None:
    for stages, microbatches in fitting("1f1b"):
        found = simulate(schedule("1f1b", stages=stages, microbatches=microbatches))
        assert found.live == tuple(min(stages - stage, microbatches) for stage in range(stages))


@pytest.mark.parametrize("stages", [2, 4, 6, 8])
def test_chimera_as_published(stages: int) -> None:
    """With as many micro-batches as stages: both bubbles, and memory of S/2 + 1 to S."""
    made = schedule("chimera", stages=stages, microbatches=stages)
    equal = simulate(made, Costs(F=1, B=1, W=0))
    assert equal.bubble == Fraction(stages - 2, 3 * stages - 2)
    assert (min(equal.peak), max(equal.peak)) == (stages // 2 + 1, stages)
    double = simulate(made, Costs(F=1, B=1, W=1))
    assert double.bubble == Fraction(stages - 2) / (Fraction(3 * stages, 2) + stages - 2)


@pytest.mark.parametrize("stages", [1, 2, 4, 7])
def test_zero_bubble_has_none_in_a_row_of_steps(stages: int) -> None:
    for name in ("zb-h2", "zb-v"):
        made = schedule(name, stages=stages, microbatches=2 * stages)
        assert steady_bubble(made) == 0
    assert steady_bubble(schedule("zb-v", stages=4, microbatches=8), Costs(F=2, B=2, W=1)) > 0


def test_a_third_of_the_waiting_of_1f1b() -> None:
    classic, filled = (max(simulate(schedule(n, stages=8, microbatches=32)).idle) for n in ("1f1b", "zb-h1"))
    assert filled == classic / 3


def test_pairs_hide_time() -> None:
    made = schedule("dualpipe", stages=4, microbatches=8)
    apart, beside = simulate(made), simulate(made, Costs(pair=2))
    assert (apart.makespan, set(apart.idle)) == (26, {2})
    assert (beside.makespan, set(beside.idle)) == (22, {1})
    assert [sum(each in made.paired for each in device) for device in made.devices] == [3, 3, 3, 3]


def test_uneven_token_slices() -> None:
    """The forward of increasing slices takes their sum, and `S - 1` times the last."""
    made = schedule("terapipe", stages=4, microbatches=1, token_slices=4)
    found = simulate(made, Costs(F=15, slices=["3/15", "3/15", "4/15", "5/15"]))
    last = [event.end for event in found.events[3] if event.instruction.kind == "F"][-1]
    assert last == 15 + 3 * 5


@pytest.mark.parametrize("stages", [1, 2, 4, 8])
def test_asynchronous_schedules_use_old_weights(stages: int) -> None:
    downwards = tuple(reversed(range(stages)))
    stashed = simulate(schedule("pipedream", stages=stages, microbatches=32)).versions
    assert stashed.kept == tuple(age + 1 for age in downwards)
    assert stashed.staleness == downwards
    assert stashed.skew == (0,) * stages
    bare = simulate(schedule("ampnet", stages=stages, microbatches=32)).versions
    assert bare.kept == (1,) * stages
    assert bare.staleness == bare.skew == downwards


@pytest.mark.parametrize("name", [name for name, row in SCHEDULES.items() if row.semantics == "synchronous"])
def test_synchronous_schedules_use_one_version(name: str) -> None:
    versions = simulate(schedule(name, stages=4, microbatches=8)).versions
    assert set(versions.kept) == {1}
    assert set(versions.staleness) | set(versions.skew) == {0}
