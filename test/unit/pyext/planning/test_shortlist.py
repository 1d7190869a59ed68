"""Which candidates of a large step are compiled, and what the plan says of the others."""

import pytest
from unit.pyext.planning.test_estimates import CHOICES, scanned_step

from paropt.clusters import targets
from paropt.costs.machines import read_table
from paropt.passes.state.role_rules import parse
from paropt.plan import PlanError, compiled_for, planned
from paropt.planning import shortlist
from paropt.planning.candidates import Candidate, Mesh, StageMesh, Stages, templates, zero1_with_tensor
from paropt.planning.estimates import Estimated
from paropt.planning.goals import Goal
from paropt.planning.shortlist import FEW, Guess, batches, in_order, is_large, pipelines, rows_of

UNEVEN = Stages("1f1b", 4, None, (), (StageMesh(2, 1, 0.25), StageMesh(1, 2, 0.25), StageMesh(4, 1, 0.5)))
BY_HAND = Candidate("by hand", Mesh((("device", 8),)), "", "keep-shards", UNEVEN)


def guess(
    candidate: Candidate, seconds: float, memory: float = 10.0, communication: float = 0.0, sent: float = 0.0
) -> Guess:
    kinds = {"all_gather": sent}
    return Guess(candidate, Estimated(seconds - communication, communication, 0.0, 0.0, memory, kinds, {}))


DP, ZERO, FSDP, *OTHERS = [each for each in templates(8) if each.policy == "keep-shards"]
FOUND = [guess(DP, 4.0, 100.0), guess(ZERO, 3.0, 20.0), guess(FSDP, 5.0, 5.0, 4.0), guess(BY_HAND, 2.0, 20.0)]


@pytest.mark.parametrize(
    ("memory", "names"),
    [
        (None, ["by hand", "zero1", "dp", "fsdp"]),
        (50, ["by hand", "zero1", "fsdp", "dp"]),
        (1, ["fsdp", "zero1", "by hand", "dp"]),
    ],
)
def test_those_that_fit_come_first(memory: int | None, names: list[str]) -> None:
    assert [each.candidate.name for each in in_order(FOUND, Goal(memory))] == names


def test_what_cannot_run_is_not_compiled() -> None:
    (only,) = batches(FOUND, Goal())
    assert only == [ZERO, DP, FSDP]
    many = [guess(each, float(number)) for number, each in enumerate(OTHERS[: FEW + 1])]
    assert [len(each) for each in batches(many, Goal())] == [FEW, 1]


def test_each_template_says_why_it_lost() -> None:
    titles, *rows = rows_of(FOUND, [ZERO], Goal(50))
    assert titles[-2:] == ("step", "")
    assert {row[0]: row[-1] for row in rows} == {
        "by hand": "an estimate only, not run; 0.667 x the time",
        "fsdp": "1.67 x the time: communication",
        "dp": "50 B over the memory budget",
    }
    assert rows_of([FOUND[1]], [ZERO], Goal()) == []


def test_by_bytes_the_one_that_sends_least_comes_first() -> None:
    goal = Goal(50, "bytes")
    lean, quick = guess(ZERO, 9.0, sent=100), guess(FSDP, 1.0, sent=1000)
    found = [quick, guess(DP, 1.0, 100.0, sent=1), lean]
    assert [each.candidate.name for each in in_order(found, goal)] == ["zero1", "fsdp", "dp"]
    assert [row[-1] for row in rows_of(found, [ZERO], goal)[1:]] == ["sends 900 B more", "50 B over the memory budget"]


def test_a_stage_that_differs_shows_its_mesh() -> None:
    (row,) = rows_of([FOUND[3]], [], Goal())[1:]
    assert row[1] == "1 of 2x1, 1 of 1x2, 1 of 4x1"
    assert "stages 1 of 2x1, 1 of 1x2, 1 of 4x1" in str(BY_HAND)


def test_large_steps_are_estimated_first() -> None:
    assert not is_large(CHOICES)
    assert is_large(CHOICES._replace(work=(CHOICES.work[0]._replace(flops=10**14),)))


def test_pipelines_have_as_many_stages_as_layers_and_micro_batches_allow() -> None:
    layers = CHOICES.layers._replace(depth=3, microbatches=4)
    found = list(pipelines(8, CHOICES._replace(layers=layers)))
    tensor = {f"stage=2 x data={data} x model={4 // data}" for data in (1, 2)}
    assert {str(each.mesh) for each in found} == {"stage=2 x data=4", *tensor}
    assert {each.name for each in found if "model" in str(each.mesh)} == {"pp x tp", "pp x dp x tp"}
    assert all(each.batch_axes == ("data",) for each in found)
    assert list(pipelines(8, CHOICES)) == []  # layers are not in a scan


@pytest.mark.parametrize(
    ("path", "role", "size", "rank", "action", "axes"),
    [
        ("layers/up", "parameter", 1 << 30, 3, "shard", ("...", "model")),
        ("embedding", "parameter", 1 << 30, 2, "largest", ("model",)),
        ("embedding", "gradient", 1 << 30, 2, "largest", ("model",)),
        ("mu/embedding", "optimizer", 1 << 30, 2, "largest", ("both",)),
        ("layers/norm", "parameter", 1 << 20, 2, "whole", ()),
        ("mu/layers/norm", "optimizer", 1 << 20, 2, "largest", ("optimizer",)),
    ],
)
def test_with_tensor_parallelism_embeddings_are_cut_as_well(
    path: str, role: str, size: int, rank: int, action: str, axes: tuple[str, ...]
) -> None:
    """Whole on each device of the last stage, that of 39 G parameters took 6 GB more."""
    first = next(rule for rule in parse(zero1_with_tensor(), "rules").rules if rule.fits(path, [role], size, rank))
    assert (first.action, first.axes) == (action, axes)


def test_a_large_step_compiles_a_few_and_estimates_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortlist, "ALL_COMPILED_BELOW", 0.0)
    target = compiled_for(targets.get("cpu:4"), read_table())
    plan = planned(scanned_step(4, 4), target, Goal(), progress=lambda _: None)
    assert len(plan.ranking) == FEW
    assert {"dp", "zero1", "fsdp", "hsdp", "grid"} <= {each.candidate.name for each in plan.guesses}
    assert "by estimate before compilation" in str(plan) and "an estimate only" in str(plan)
    assert "by estimate before compilation" in plan.html() and "an estimate only" in plan.html()
    assert {judged.candidate for judged in plan.ranking} <= {each.candidate for each in plan.guesses}


def test_a_plan_by_hand_is_estimated_beside_those_that_are_compiled() -> None:
    target = compiled_for(targets.get("cpu:8"), read_table())
    plan = planned(scanned_step(4, 4), target, Goal(), candidates=[BY_HAND, DP], progress=lambda _: None)
    assert plan.candidate == DP and [each.candidate for each in plan.guesses] == [BY_HAND]
    assert "by hand   1 of 2x1, 1 of 1x2, 1 of 4x1" in str(plan)
    with pytest.raises(PlanError, match="are estimates only; give a candidate that can be compiled"):
        planned(scanned_step(4, 4), target, Goal(), candidates=[BY_HAND], progress=lambda _: None)
