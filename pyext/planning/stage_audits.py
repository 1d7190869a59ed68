"""The audit of a candidate with pipeline stages: its programs compiled, counted and timed, the schedule simulated.

Tests: test/unit/pyext/planning/test_stage_plans.py.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from jaxlib.mlir import ir

from paropt.clusters.compiled import TargetError
from paropt.clusters.targets import Target
from paropt.costs.clusters import Cluster
from paropt.costs.collective_times import collective_seconds
from paropt.costs.step_time import Estimate, OpTime, estimate
from paropt.hlo import parser as hlo
from paropt.hlo.census import Collective, Loop, census
from paropt.hlo.participants import Layout as HloLayout
from paropt.passes.pipelining.stage_manifest import StageProgram
from paropt.passes.support.context import make_context
from paropt.planning.candidates import STAGE
from paropt.planning.stage_steps import Footprint, busiest, host_seconds, microbatch_of, peak_memory, step_seconds
from paropt.reports.totals import Audit
from paropt.stages.cut_step import CutStep
from paropt.stages.stages_apart import Layout, StagesCompiled, compile_stages
from paropt.stages.step_plan import Action, StepPlan

_TRIPS = "micro-batches"  # the loop that a schedule is


@dataclass(frozen=True)
class Transfer(Collective):
    """An array that the devices of a stage send to those of another."""

    @property
    def wire_bytes(self) -> float:
        """All of it, once."""
        return self.payload


def staged_audit(target: Target, cut: CutStep, layout: Layout, cluster: Cluster) -> Audit:
    """As if one executable: of the stage that sends most its collectives, of that which takes most its memory, of that
    which is busy longest its time, with its waits for others. Raises TargetError, StageError.
    """
    return _Audited(cut, layout.plan(cut), compile_stages(target, cut, layout), cluster, target.name).audit()


class Links:
    """Transfers between the devices of places, which are next to one another in the cluster."""

    def __init__(self, cluster: Cluster, places: int) -> None:
        self._cluster, self._places, self._size = cluster, places, cluster.size // places

    def part(self, place: int) -> Cluster:
        """The devices of a place."""
        units = self._cluster.units[place * self._size : (place + 1) * self._size]
        return replace(self._cluster, units=units)

    @property
    def hosts(self) -> list[frozenset[int]]:
        """Of the devices of each place."""
        return [frozenset(unit.host for unit in self.part(place).units) for place in range(self._places)]

    def seconds(self, source: int, place: int, payload: float) -> float:
        """Of `payload` bytes from each device."""
        pairs = [[source * self._size + i, place * self._size + i] for i in range(self._size)]
        return collective_seconds("collective-permute", payload, self._cluster.route(pairs))


class _Audited:
    def __init__(self, cut: CutStep, plan: StepPlan, made: StagesCompiled, cluster: Cluster, target: str) -> None:
        self._cut, self._plan, self._made, self._cluster, self._target = cut, plan, made, cluster, target
        self._links = Links(cluster, len(plan.schedule.devices))
        self._estimates: dict[object, Estimate] = {}

    def audit(self) -> Audit:
        places = range(len(self._plan.schedule.devices))
        peaks = peak_memory(self._plan, self._made.slots.__getitem__, self._footprint)
        sending = [self._collectives(place) for place in places]
        sent = (sum(each.wire_bytes * (each.executions or 0) for each in found) for found in sending)
        return Audit(tuple(sending[busiest(sent)]), max(peaks), self._estimate())

    def _number(self, action: Action) -> int | None:
        """The program that an action runs; None where it needs none of its own."""
        match action.what:
            case StageProgram() as program:
                return self._made.numbers[program.symbol, action.place]
            case "gather" | "reduce":
                return self._made.numbers.get((f"{action.what}_{action.place}", action.place))
        return None

    def _footprint(self, action: Action) -> Footprint:
        number = self._number(action)
        if number is None:  # a sum that is whole on each device already stays where it is
            return Footprint(0 if action.what == "reduce" else sum(self._made.slots[n] for n in action.outputs))
        memory = self._made.programs[number].memory
        if memory is None:
            raise TargetError(f"{self._target} does not tell how much memory a program takes")
        is_update = isinstance(action.what, StageProgram) and action.what.kind == "update"
        return Footprint(memory.output - memory.alias, memory.temp, memory.alias if is_update else 0)

    def _run(self, action: Action) -> float:
        number = self._number(action)
        return 0.0 if number is None else self._timed(number, action.place).seconds

    def _send(self, action: Action) -> float:
        (number,) = action.inputs
        return self._links.seconds(self._plan.slots[number].place, action.place, self._made.slots[number])

    def _timed(self, number: int, place: int) -> Estimate:
        part = self._links.part(place)
        if (number, part.units) not in self._estimates:
            devices = self._made.devices[place]
            self._estimates[number, part.units] = estimate(self._made.programs[number].hlo, part, devices)
        return self._estimates[number, part.units]

    @cached_property
    def _runs(self) -> Counter[tuple[int, int]]:
        """How often a step runs each program at each place."""
        numbered = ((self._number(action), action.place) for action in self._plan.actions)
        return Counter((number, place) for number, place in numbered if number is not None)

    def _estimate(self) -> Estimate:
        by_host = host_seconds(self._plan, self._links.hosts, self._cluster.machine.program_start)
        whole = max(step_seconds(self._plan, self._run, self._send), by_host)
        by_place = [
            [(self._timed(number, at), runs) for (number, at), runs in self._runs.items() if at == place]
            for place in range(len(self._plan.schedule.devices))
        ]
        busy = [sum(each.seconds * runs for each, runs in found) for found in by_place]
        own = by_place[busiest(busy)]
        ops = (op for each, runs in own for op in _repeated(each, runs))
        return Estimate(
            self._cluster.name,
            sum(each.compute * runs for each, runs in own),
            sum(each.communication * runs for each, runs in own),
            sum(each.hidden * runs for each, runs in own),
            sum(each.flops * runs for each, runs in own),
            any(each.at_least for each, _ in own),
            any(each.at_most for each, _ in own),
            tuple(sorted({name for each, _ in own for name in each.unknown})),
            tuple(sorted(ops, key=lambda op: (-op.seconds, op.name))),
            max(0.0, whole - max(busy)),
        )

    def _collectives(self, place: int) -> list[Collective]:
        """Those of the place's programs, as often as a step runs them, and its transfers."""
        found = [
            each for (number, at), runs in self._runs.items() if at == place for each in self._counted(number, at, runs)
        ]
        return [*found, *self._transfers(place)]

    def _counted(self, number: int, place: int, runs: int) -> Iterator[Collective]:
        program = self._made.programs[number]
        module = ir.Module.parse(program.module, make_context())
        layout = HloLayout.of_module(module, self._made.devices[place])
        return (_in_trips(each, runs) for each in census(program.hlo, layout))

    def _transfers(self, place: int) -> Iterator[Collective]:
        sent: Counter[tuple[str, int, bool]] = Counter()
        for action in self._plan.actions:
            if action.what == "send" and self._plan.slots[action.inputs[0]].place == place:
                name, number = self._plan.slots[action.inputs[0]].name, action.inputs[0]
                sent[name, self._made.slots[number], microbatch_of(self._plan, action) >= 0] += 1
        for (name, size, in_trips), runs in sent.items():
            array = hlo.Array("u8", (size,))
            made = Transfer("send", name, (array,), 2, (), False, True, "", "", 0, (STAGE,))
            yield _in_trips(made, runs) if in_trips else made


def _in_trips(collective: Collective, runs: int) -> Collective:
    return replace(collective, loops=(Loop(_TRIPS, runs), *collective.loops)) if runs > 1 else collective


def _repeated(each: Estimate, runs: int) -> Iterator[OpTime]:
    for op in each.ops:
        yield op._replace(
            executions=op.executions * runs, seconds=op.seconds * runs, flops=op.flops * runs, bytes=op.bytes * runs
        )
