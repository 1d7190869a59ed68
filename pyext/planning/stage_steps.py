"""The time and the memory of a step of pipeline stages, from those of its programs and transfers.

The plan of the step tells the functions that run and the values that are kept and sent; the simulator of schedules, who
waits for whom. Times and bytes come from elsewhere: the model before compilation, or the executables.

Tests: test/unit/pyext/planning/test_stage_plans.py.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

from paropt.passes.pipelining.stage_manifest import StageProgram
from paropt.schedules import Costs, simulate
from paropt.stages.step_plan import Action, StepPlan

_UNIT = 1e-12  # seconds; times are whole numbers of it, so that a simulation is exact
PART_OF: dict[str, Literal["F", "B", "W"]] = {"rows": "F", "forward": "F", "backward": "B", "weights": "W"}

Seconds = Callable[[Action], float]  # of one run


class Footprint(NamedTuple):
    """The bytes per device that a run of a program takes beside those that its place holds."""

    made: int = 0  # results in new memory
    temporary: int = 0
    replaced: int = 0  # of arguments of the step, which results overwrite


def step_seconds(plan: StepPlan, run: Seconds, send: Seconds) -> float:
    """Of one step: `run` has the seconds of actions at a place, `send` those of transfers.

    Each part of the schedule takes as long as in the first micro-batch. Before it, each place makes its sums and
    gathers its parameters; behind it, it waits for the values that other places send it once per step.
    """
    before, after = defaultdict[int, float](float), defaultdict[int, float](float)
    parts = {kind: [0.0] * plan.schedule.chunks for kind in "FBWU"}
    crossing = _Crossing(plan)
    for action in plan.actions:
        microbatch = microbatch_of(plan, action)
        if action.what == "send" and microbatch < 0:
            after[plan.slots[action.inputs[0]].place] += send(action)
        elif action.what == "send" and microbatch == 0:
            crossing.add(action, send(action))
        elif action.what == "send" or microbatch > 0:
            continue
        elif isinstance(action.what, StageProgram) and action.what.kind in PART_OF:
            parts[PART_OF[action.what.kind]][action.what.stage] += run(action)
        elif is_before_trips(action):
            before[action.place] += run(action)
        else:
            parts["U"][_chunk_of(plan, action)] += run(action)
    units = {kind: [*map(_units, seconds)] for kind, seconds in parts.items()}
    costs = Costs(
        F=units["F"],
        B=units["B"],
        W=units["W"],
        U=units["U"],
        transfer=[_units(max(both)) for both in zip(crossing.down, crossing.up, strict=True)],
    )
    whole = float(simulate(plan.schedule, costs).makespan) * _UNIT
    return max(before.values(), default=0.0) + whole + max(after.values(), default=0.0)


def _units(seconds: float) -> int:
    return round(seconds / _UNIT)


def microbatch_of(plan: StepPlan, action: Action) -> int:
    """The micro-batch that an action is for; -1 for those of the whole step."""
    if action.instruction is not None:
        return action.instruction.microbatch
    return plan.slots[action.outputs[0]].microbatch if action.outputs else -1


def is_before_trips(action: Action) -> bool:
    """Whether an action of the whole step runs before the first micro-batch."""
    if isinstance(action.what, StageProgram):
        return action.what.kind == "init"
    return action.what in ("zeros", "gather")


def _chunk_of(plan: StepPlan, action: Action) -> int:
    """The chunk with whose update an action runs: its own, or the first of its place."""
    if isinstance(action.what, StageProgram):
        return action.what.stage
    return plan.schedule.homes[0].index(action.place)


class _Crossing:
    """The seconds of the transfers across each boundary between chunks, with the forward and with the backward.

    A transfer that skips chunks counts at the last boundary that it crosses.
    """

    def __init__(self, plan: StepPlan) -> None:
        self._plan = plan
        self.down, self.up = ([0.0] * (plan.schedule.chunks - 1) for _ in range(2))

    def add(self, action: Action, seconds: float) -> None:
        name = self._plan.slots[action.inputs[0]].name
        maker = self._plan.manifest.maker_of(name)
        assert maker is not None, f"{name} is sent, so it was made"
        stages = [each for each in self._plan.manifest.stages_of(name) if self._plan.place_of(each) == action.place]
        below, above = ([s for s in stages if s > maker.stage], [s for s in stages if s < maker.stage])
        if below and maker.kind == "forward":
            self.down[min(below) - 1] += seconds
        elif above:
            self.up[max(above)] += seconds


def peak_memory(plan: StepPlan, held: Callable[[int], int], footprint: Callable[[Action], Footprint]) -> list[int]:
    """The most bytes per device at each place during a step: those that it holds, and those that its programs take
    beside.

    `held` has the bytes of a slot on each device of its place.
    """
    now = [0] * len(plan.schedule.devices)
    for number, slot in plan.given.items():
        now[slot.place] += held(number)
    most = [*now]
    for action in plan.actions:
        takes, place = footprint(action), action.place
        most[place] = max(most[place], now[place] + takes.made + takes.temporary)
        now[place] += sum(map(held, action.outputs)) - takes.replaced
        for number in action.frees:
            now[plan.slots[number].place] -= held(number)
        most[place] = max(most[place], now[place])
    return most


def host_seconds(plan: StepPlan, hosts: Sequence[frozenset[int]], start: float) -> float:
    """The seconds that the busiest host takes to start the programs and transfers of a step, `start` each; `hosts` are
    those of each place. A host starts its programs one after the other, before it knows that those before have ended.
    """
    started = Counter[int]()
    for action in plan.actions:
        if action.what != "send":
            started.update(hosts[action.place])
        else:
            started.update(hosts[action.place] | hosts[plan.slots[action.inputs[0]].place])
    return max(started.values(), default=0) * start


def busiest(numbers: Iterable[float]) -> int:
    """The place with the largest number; the first of several."""
    listed = list(numbers)
    return listed.index(max(listed))
