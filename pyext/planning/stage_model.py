"""A model of pipeline stages before they are compiled: seconds, memory and bytes sent.

An instruction of a stage takes its share of the step's time on one device, by floating-point operations, or the time to
read its arguments; and the collectives of the sharding inside the stage, by the alpha-beta model.

Tests: test/unit/pyext/planning/test_stage_plans.py.
"""

from collections.abc import Iterator
from functools import cached_property
from math import prod
from typing import NamedTuple

from paropt.costs.clusters import Cluster
from paropt.costs.collective_times import collective_seconds
from paropt.hlo.census import sent_per_byte
from paropt.passes.pipelining.stage_manifest import StageProgram
from paropt.planning.stage_audits import Links
from paropt.planning.stage_steps import PART_OF, Footprint, host_seconds, peak_memory, step_seconds
from paropt.planning.strategies import Choices
from paropt.stages.cut_step import CutStep
from paropt.stages.stage_report import size_of
from paropt.stages.stages_apart import Layout
from paropt.stages.step_plan import Action, StepPlan

_STARTS = 3  # ops for each contraction: itself, and the fusions around it


class Modelled(NamedTuple):
    """The model's estimate of a step."""

    seconds: float
    memory: int  # bytes per device of arguments, sums and values of micro-batches, of the place with most
    sent: float  # bytes per device, of the place with most


class _Collective(NamedTuple):
    kind: str
    bytes: int  # of the whole array


class Alone(NamedTuple):
    """The time of the whole step on one device, in seconds."""

    work: float  # that devices share
    starts: float  # of ops, on each device that runs them

    def on(self, devices: int) -> float:
        """With `devices` that share the examples."""
        return self.work / devices + self.starts


def seconds_alone(choices: Choices, cluster: Cluster) -> Alone:
    """By the roofline of each op. Ops between contractions are fused."""
    machine = cluster.machine
    work = (
        each.executions * max(each.flops / machine.flops_of(each.dtype), each.bytes / machine.memory_bandwidth)
        for each in choices.work
    )
    contractions = sum(each.executions for each in choices.work if each.flops)
    return Alone(sum(work), machine.op_start * _STARTS * contractions)


def seconds_per_flop(cut: CutStep, alone: Alone, devices: int) -> float:
    """Of a part of the step that runs on `devices`."""
    return alone.on(devices) / max(1, _flops(cut))


def data_parallel_seconds(cut: CutStep, cluster: Cluster, alone: Alone) -> float:
    """Of the step without stages, all devices over the examples: gradients are reduced once."""
    gradients = sum(size_of(cut.shapes[name]) for name in cut.manifest.gradients)
    return alone.on(cluster.size) + collective_seconds("all-reduce", gradients, cluster.route([range(cluster.size)]))


def _flops(cut: CutStep) -> int:
    """Of one step."""
    trips = (each for each in cut.manifest.programs if each.kind in PART_OF)
    return cut.microbatches * sum(cut.flops[each.symbol] for each in trips)


class StageModel:
    """A cut step, laid out on a cluster, for a step that takes one of its devices `alone`."""

    def __init__(self, cut: CutStep, layout: Layout, plan: StepPlan, cluster: Cluster, alone: Alone) -> None:
        self._cut, self._layout, self._plan, self._cluster = cut, layout, plan, cluster
        self._places = range(len(self._plan.schedule.devices))
        self._size = cluster.size // len(self._places)
        self._links = Links(cluster, len(self._places))
        self._per_flop = seconds_per_flop(cut, alone, self._size)
        self._routes = [self._links.part(place).route([range(self._size)]) for place in self._places]
        # By slot, of which there are as many as micro-batches for each name.
        bytes_of = {name: size_of(shape) for name, shape in cut.shapes.items()}
        parts_of = {name: self._parts(name) for name in cut.shapes}
        self._whole = [bytes_of[slot.name] for slot in plan.slots]
        parts = [1 if slot.whole else parts_of[slot.name] for slot in plan.slots]
        self._held = [size // count for size, count in zip(self._whole, parts, strict=True)]
        self._split = [parts_of[slot.name] > 1 for slot in plan.slots]
        self._found: dict[tuple[str, int], list[_Collective]] = {}

    def step(self) -> Modelled:
        """The model's estimate of one step."""
        by_host = host_seconds(self._plan, self._links.hosts, self._cluster.machine.program_start)
        seconds = max(step_seconds(self._plan, self._run, self._send), by_host)
        memory = peak_memory(self._plan, self._held.__getitem__, self._footprint)
        sent = [0.0] * len(self._places)
        for action in self._plan.actions:
            if action.what == "send":
                sent[self._plan.slots[action.inputs[0]].place] += self._held[action.inputs[0]]
            for each in self._collectives(action):
                sent[action.place] += each.bytes * sent_per_byte(each.kind, self._size)
        return Modelled(seconds, max(memory), max(sent))

    def _footprint(self, action: Action) -> Footprint:
        return Footprint(sum(self._held[number] for number in action.outputs))

    def _run(self, action: Action) -> float:
        route = self._routes[action.place]
        found = sum(collective_seconds(each.kind, each.bytes, route) for each in self._collectives(action))
        if not isinstance(action.what, StageProgram):
            return found
        by_flops = self._cut.flops[action.what.symbol] * self._per_flop
        touched = sum(self._held[number] for number in {*action.inputs, *action.outputs})
        return found + max(by_flops, touched / self._cluster.machine.memory_bandwidth)

    def _send(self, action: Action) -> float:
        (number,) = action.inputs
        return self._links.seconds(self._plan.slots[number].place, action.place, self._held[number])

    def _collectives(self, action: Action) -> list[_Collective]:
        """Those of an action over the devices of its place: the same in each micro-batch."""
        if action.what == "send":
            return []
        key = (action.what.symbol if isinstance(action.what, StageProgram) else action.what, action.place)
        if key not in self._found:
            self._found[key] = [*self._collectives_of(action)]
        return self._found[key]

    def _collectives_of(self, action: Action) -> Iterator[_Collective]:
        match action.what:
            case StageProgram(kind="update"):
                if any(self._split[number] for number in action.inputs):
                    yield from (_Collective("all-gather", self._whole[n]) for n in action.outputs if self._is_whole(n))
            case StageProgram() as program if program.kind in PART_OF:
                read = [n for n in action.inputs if self._is_sharded_parameter(n) and not self._plan.slots[n].whole]
                yield from (_Collective("all-gather", self._whole[n]) for n in read)
                sums = [n for n in action.outputs if self._split[n] and self._is_sum(n)]
                yield from (_Collective("reduce-scatter", self._whole[n]) for n in sums)
            case "gather":
                yield from (_Collective("all-gather", self._whole[n]) for n in action.inputs)
            case "reduce":
                for number in (n for n in action.inputs if not self._split[n]):
                    argument = self._cut.manifest.gradients.get(self._plan.slots[number].name, "")
                    is_scattered = self._spec_parts(argument) > 1
                    yield _Collective("reduce-scatter" if is_scattered else "all-reduce", self._whole[number])

    def _is_whole(self, number: int) -> bool:
        """Whether the new value of an argument is on each device."""
        return self._plan.slots[number].name in self._news and not self._split[number]

    def _is_sum(self, number: int) -> bool:
        return self._plan.slots[number].name in self._cut.manifest.sums

    def _is_sharded_parameter(self, number: int) -> bool:
        return self._split[number] and self._plan.slots[number].name.startswith(("argument", "piece"))

    @cached_property
    def _news(self) -> dict[str, str]:
        """Of each new value, the argument or piece that it replaces."""
        return {new: old for old, new in self._plan.new_values.items()}

    def _parts(self, name: str) -> int:
        """Of how many parts devices of a place have one each."""
        if name.startswith(("value", "row")):
            return self._size
        if name in self._news:
            name = self._news[name]
        if name.startswith("carried") and self._layout.policy == "keep-shards":
            name = self._cut.manifest.gradients.get(self._cut.manifest.shares.get(name, name), "")
        return self._spec_parts(name)

    def _spec_parts(self, name: str) -> int:
        piece = self._cut.manifest.pieces.get(name)
        argument = name if piece is None else f"argument{piece.argument}"
        sizes = dict(self._layout.axes)
        dimensions = self._layout.specs.get(argument.removeprefix("argument"), ())
        return prod(sizes[axis] for axes in dimensions for axis in axes)
