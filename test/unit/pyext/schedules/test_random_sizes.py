"""All schedules, with random sizes and costs: all work is done once, in an order that the model allows."""

import re
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paropt.schedules import SCHEDULES, Costs, Deadlock, Instruction, Schedule, schedule, simulate

SIZES = {
    name: [(s, m) for s, m in product(range(1, 7), range(1, 14)) if all(each.holds(s, m) for each in row.restrictions)]
    for name, row in SCHEDULES.items()
}
TIMES = st.fractions(0, 5, max_denominator=6)


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    name = draw(st.sampled_from(list(SCHEDULES)))
    stages, microbatches = draw(st.sampled_from(SIZES[name]))
    varies = SCHEDULES[name].varies
    more = {varies: draw(st.integers(1, 3))} if varies else {}
    return schedule(name, stages=stages, microbatches=microbatches, **more)


@st.composite
def with_costs(draw: st.DrawFn) -> tuple[Schedule, Costs]:
    made = draw(schedules())
    chunks = made.chunks

    def each(count: int) -> list[Fraction]:
        return draw(st.lists(TIMES, min_size=count, max_size=count))

    pair = each(chunks) if draw(st.booleans()) else None
    return made, Costs(each(chunks), each(chunks), each(chunks), each(chunks), pair, each(chunks - 1))


@given(schedules())
def test_all_work_is_done_once(made: Schedule) -> None:
    instructions = list(made.instructions())
    work = list(product(range(made.chunks), range(made.microbatches), range(made.token_slices)))
    for kind in "FB":
        done = sorted((i.chunk, i.microbatch, i.token_slice) for i in instructions if i.kind == kind)
        assert done == work
    weights = [i for i in instructions if i.kind == "W"]
    assert len(set(weights)) == len(weights)
    assert {i._replace(kind="B") for i in weights} <= set(instructions)
    ways = {i.microbatch: i.direction for i in instructions if i.kind != "U"}
    assert all(ways[i.microbatch] == i.direction for i in instructions if i.kind != "U"), "a micro-batch turned around"
    updates = {(i.chunk, i.direction): i.microbatch for i in instructions if i.kind == "U"}
    assert updates == dict.fromkeys(product(range(made.chunks), range(made.directions)), made.microbatches - 1)


@given(with_costs())
def test_all_run_in_an_order_that_the_model_allows(case: tuple[Schedule, Costs]) -> None:
    made, costs = case
    found = simulate(made, costs)
    started = {event.instruction: event.start for events in found.events for event in events}
    ended = {event.instruction: event.end for events in found.events for event in events}
    assert ended.keys() == set(made.instructions())
    for instruction, start in started.items():
        for before, transfer in needed(made, costs, instruction):
            assert start >= ended[before] + transfer, (instruction, before)


def needed(made: Schedule, costs: Costs, it: Instruction) -> list[tuple[Instruction, Fraction]]:
    """What the model says, apart from the library's own rule: with the time on the way."""
    found: list[tuple[Instruction, Fraction]] = []
    if it.kind in ("F", "B"):
        neighbour = it.chunk - 1 if it.kind == "F" else it.chunk + 1
        if 0 <= neighbour < made.chunks:
            near = made.homes[it.direction][neighbour] == made.homes[it.direction][it.chunk]
            ways: Any = costs.transfer  # of each pair, here
            way = ways[min(it.chunk, neighbour)]
            found.append((it._replace(chunk=neighbour), Fraction(0) if near else way))
    if it.kind in ("B", "W"):
        found.append((it._replace(kind="F"), Fraction(0)))
    if it.kind == "W":
        found.append((it._replace(kind="B"), Fraction(0)))
    if it.kind == "U":
        others = [i for i in made.instructions() if i.kind in "BW" and i.microbatch <= it.microbatch]
        found += [(i, Fraction(0)) for i in others if made.update == "together" or i.chunk == it.chunk]
    return found


@given(with_costs())
def test_devices_wait_for_a_reason_only(case: tuple[Schedule, Costs]) -> None:
    made, costs = case
    found = simulate(made, costs)
    ends = {event.end for events in found.events for event in events}
    ways = {Fraction(0), *costs.transfer}  # type: ignore[misc]  # the same
    arrivals = {end + way for end in ends for way in ways} | {Fraction(0)}
    for events in found.events:
        for before, after in pairwise(events):
            assert after.start >= before.end or (after.start, after.end) == (before.start, before.end)
        assert {event.start for event in events} <= arrivals
    assert found.makespan >= max(found.busy)
    assert found.makespan * made.stages * (1 - found.bubble) == sum(found.busy)


@given(with_costs(), st.integers(2, 3))
def test_steps_in_a_row_take_no_longer_than_alone(case: tuple[Schedule, Costs], steps: int) -> None:
    made, costs = case
    alone, together = simulate(made, costs), simulate(made, costs, steps=steps)
    assert together.busy == tuple(steps * busy for busy in alone.busy)
    assert max(together.busy) <= together.makespan <= steps * alone.makespan


@given(schedules(), st.data())
def test_a_broken_order_runs_or_names_a_circle(made: Schedule, data: st.DataObject) -> None:
    device = data.draw(st.integers(0, made.stages - 1))
    shuffled = tuple(data.draw(st.permutations(made.devices[device])))
    broken = replace(made, devices=(*made.devices[:device], shuffled, *made.devices[device + 1 :]), paired=frozenset())
    try:
        found = simulate(broken)
    except Deadlock as deadlock:
        assert_is_stuck(broken, deadlock)
    else:
        assert sum(map(len, found.events)) == len(list(made.instructions()))


def assert_is_stuck(made: Schedule, deadlock: Deadlock) -> None:
    """Each waits for what stands behind what another one, or it itself, stands at; the text has a circle of them."""
    for _, before in deadlock.waiting.values():
        device, position = made.places[before]
        assert position >= made.places[deadlock.waiting[device][0]].position
    named = [int(number) for number in re.findall(r"device (\d+) stands at", str(deadlock))]
    awaited = [made.places[deadlock.waiting[device][1]].device for device in named]
    assert awaited == [*named[1:], named[0]]


@pytest.mark.parametrize("name", SCHEDULES)
def test_what_lacks_a_forward_is_a_named_deadlock(name: str) -> None:
    made = schedule(name, stages=4, microbatches=8)
    lost = Instruction("F", 0, 0)
    devices = tuple(tuple(each for each in device if each != lost) for device in made.devices)
    with pytest.raises(Deadlock, match="waits for forward of chunk 0, micro-batch 0, which no device runs"):
        simulate(replace(made, devices=devices, paired=frozenset()))
