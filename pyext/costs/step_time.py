"""The step time of an executable, from its scheduled HLO: compute, communication, and how much of it is hidden.

Instructions run in the order of the schedule, one after the other. A collective that is started and done by two
instructions runs beside those between them; collectives share the links, and wait for one another. docs/costs.md.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from paropt.base.argument_types import require_type
from paropt.costs.clusters import Cluster
from paropt.costs.collective_times import collective_seconds
from paropt.costs.machines import CostError
from paropt.costs.operations import Work, as_if_not_started, work_of
from paropt.hlo import parser as hlo
from paropt.hlo.census import is_scattered, is_sync, kind_of, payload_of, started_in
from paropt.hlo.origins import counterpart
from paropt.hlo.participants import Device, participants
from paropt.hlo.trip_counts import Scope


class OpTime(NamedTuple):
    """One instruction of the executable, in all its runs of a step."""

    name: str  # in HLO
    opcode: str  # of a collective, its kind
    bound: str  # compute, memory or communication: the resource that it waits for
    executions: int  # per step
    seconds: float  # per step, hidden or not
    flops: float  # per step
    bytes: float  # per step: read and written, or of a collective its payload
    op_name: str  # JAX's name stack


@dataclass(frozen=True)
class Estimate:
    """The estimated time of a step on one device, in seconds: `compute` + `communication` - `hidden` + `waiting`."""

    cluster: str
    compute: float
    communication: float
    hidden: float  # the part of the communication that runs beside other instructions
    flops: float
    at_least: bool  # a loop runs an unknown number of times: it is counted once
    at_most: bool  # of the branches of a conditional, the slowest is counted
    unknown: tuple[str, ...]  # targets of custom calls of which only the bytes are known
    ops: tuple[OpTime, ...]  # the slowest first
    waiting: float = 0.0  # for other stages of a pipeline

    @property
    def seconds(self) -> float:
        """Of one step."""
        return self.compute + self.communication - self.hidden + self.waiting

    @property
    def bound(self) -> str:
        """The sign before the seconds: none where loops and branches are known."""
        return {(False, False): "", (True, False): ">= ", (False, True): "<= ", (True, True): "~ "}[
            self.at_least, self.at_most
        ]


def estimate(text: str, cluster: Cluster, devices: Iterable[Device] = ()) -> Estimate:
    """The estimate for optimized HLO, whose partitions run on `devices`, in their order (default: the cluster's).

    Raises HloError when the text cannot be read, CostError when it is for more devices than the cluster has.
    """
    require_type(text, str, "estimate", "optimized HLO, as `compiled.as_text()` gives it")
    require_type(cluster, Cluster, "estimate", "a cluster, as `cluster_of` returns it")
    module = hlo.parse(text)
    walk = _Walk(module, cluster, tuple(devices))
    total = walk.run(Scope.of_entry(module), 1, ())
    slowest = sorted(walk.ops.values(), key=lambda op: (-op.seconds, op.name))
    return Estimate(
        cluster.name,
        total.compute,
        total.communication,
        total.hidden,
        sum(op.flops for op in slowest),
        walk.at_least,
        walk.at_most,
        tuple(sorted(walk.unknown)),
        tuple(slowest),
    )


@dataclass
class _Total:
    """Of one run of a computation, in seconds."""

    compute: float = 0.0
    communication: float = 0.0
    hidden: float = 0.0

    @property
    def seconds(self) -> float:
        return self.compute + self.communication - self.hidden

    def add(self, other: "_Total", times: int = 1) -> None:
        self.compute += other.compute * times
        self.communication += other.communication * times
        self.hidden += other.hidden * times


@dataclass
class _Run:
    """One computation in progress: its clock, its links, and the collectives in flight."""

    total: _Total = field(default_factory=_Total)
    clock: float = 0.0
    links_free: float = 0.0
    in_flight: dict[str, tuple[float, float]] = field(default_factory=dict)  # when it begins, how long it takes

    def compute(self, seconds: float) -> None:
        self.clock += seconds
        self.total.compute += seconds

    def inside(self, total: _Total) -> None:
        """A loop, a branch or a call has run."""
        self.total.add(total)
        self.clock += total.seconds

    def start(self, name: str, seconds: float) -> None:
        begin = max(self.clock, self.links_free)
        self.links_free = begin + seconds
        self.in_flight[name] = begin, seconds
        self.total.communication += seconds

    def wait(self, name: str) -> None:
        """Until the collective has ended; the part of its time for which the clock does not wait is hidden.

        Waiting for the links, too, is time of the collective that has them: its own wait will be as much shorter.
        """
        if name not in self.in_flight:
            return
        begin, seconds = self.in_flight.pop(name)
        # The sum in this order is exact where the clock stands at the beginning: nothing is hidden then, not -1e-20.
        waited = max(0.0, begin - self.clock + seconds)
        self.clock += waited
        self.total.hidden += seconds - waited

    def finish(self) -> _Total:
        for name in list(self.in_flight):
            self.wait(name)
        return self.total


class _Found(NamedTuple):
    """A collective, and the computation that it stands in."""

    computation: hlo.Computation
    collective: hlo.Instruction

    @property
    def channel(self) -> str:
        return self.collective.attributes.get("channel_id", "")


class _Walk:
    """Follows the schedule of a module from its entry."""

    def __init__(self, module: hlo.Module, cluster: Cluster, devices: tuple[Device, ...]) -> None:
        self.module = module
        self.cluster = cluster
        self._position_of_id = {device: place for place, device in enumerate(sorted(d.id for d in devices))}
        self._positions = _positions(module, cluster, devices, self._position_of_id)
        self.ops: dict[str, OpTime] = {}
        self.at_least = self.at_most = False
        self.unknown: set[str] = set()
        starts = [start for c in module.computations.values() for start in started_in(c)]
        instructions = (i for c in module.computations.values() for i in c.instructions.values())
        self._fused = {i.callee("calls") for i in instructions if i.opcode == "fusion"}
        self._channels = {start.attributes.get("channel_id", "") for start in starts}

    def run(self, scope: Scope, times: int, callers: tuple[str, ...]) -> _Total:
        """The time of one run of the computation of `scope`, which runs `times` times per step."""
        name = scope.computation.name
        if name in callers:
            raise hlo.HloError(f"HLO computation `{name}` calls itself")
        run = _Run()
        inside = (*callers, name)
        ends = self._last_fusions(scope.computation)
        for written in scope.computation.instructions.values():
            starts_collectives = written.opcode.endswith("-start") and self._collectives(scope.computation, written)
            instruction = written if starts_collectives else as_if_not_started(written)
            match instruction.opcode:
                case "while":
                    run.inside(self._loop(scope, instruction, times, inside))
                case "conditional":
                    run.inside(self._slowest_branch(scope, instruction, times, inside))
                case "async-start" if not starts_collectives:
                    callee = scope.inside(instruction, instruction.callee("calls"))
                    run.inside(self.run(callee, times, inside))
                case "call":
                    callee = scope.inside(instruction, instruction.callee("to_apply"))
                    run.inside(self.run(callee, times, inside))
                case opcode if opcode.endswith("-done"):
                    run.wait(_start_of(scope.computation, instruction))
                case opcode if kind_of(instruction) or (
                    opcode.endswith("-start") and "calls" in instruction.attributes
                ):
                    self._collective(scope.computation, instruction, run, times)
                case "fusion":
                    self._fusion(scope.computation, instruction, run, times, ends)
                case _:
                    run.compute(self._computed(scope.computation, instruction, times))
        return run.finish()

    def _loop(self, scope: Scope, loop: hlo.Instruction, times: int, callers: tuple[str, ...]) -> _Total:
        count = scope.trip_count(loop)
        self.at_least |= count is None
        trips = 1 if count is None else count
        total = _Total()
        total.add(self.run(scope.inside_loop(loop, "body"), times * trips, callers), trips)
        total.add(self.run(scope.inside_loop(loop, "condition"), times * (trips + 1), callers), trips + 1)
        return total

    def _slowest_branch(
        self, scope: Scope, conditional: hlo.Instruction, times: int, callers: tuple[str, ...]
    ) -> _Total:
        branches = conditional.called("branch_computations", "true_computation", "false_computation")
        inside = [self.run(scope.inside(conditional, b, i), times, callers) for i, b in enumerate(branches, 1)]
        self.at_most = True
        return max(inside, key=lambda total: total.seconds)

    def _collective(self, computation: hlo.Computation, instruction: hlo.Instruction, run: _Run, times: int) -> None:
        """A collective by itself, or an op that starts one or several together."""
        found = self._collectives(computation, instruction)
        run.start(instruction.name, sum(self._communicated(each, times) for each in found))
        is_started = instruction.opcode.endswith("-start") or instruction.opcode == "send"
        if not is_started or is_sync(instruction):
            run.wait(instruction.name)

    def _fusion(
        self,
        computation: hlo.Computation,
        fusion: hlo.Instruction,
        run: _Run,
        times: int,
        ends: dict[str, str],
    ) -> None:
        """XLA:TPU starts a collective in one fusion, continues it in others that compute beside it, and ends it."""
        found = self._collectives(computation, fusion)
        for each in found:
            if each.channel not in self._channels:
                run.start(fusion.name, self._communicated(each, times))
                run.wait(fusion.name)
            elif each.channel not in run.in_flight:
                run.start(each.channel, self._communicated(each, times))
        run.compute(self._computed(computation, fusion, times))
        for each in found:
            if ends.get(each.channel) == fusion.name:
                run.wait(each.channel)

    def _last_fusions(self, computation: hlo.Computation) -> dict[str, str]:
        """Of each collective that fusions of `computation` start and continue, by channel, the last one."""
        fusions = [i for i in computation.instructions.values() if i.opcode == "fusion"]
        return {found.channel: i.name for i in fusions for found in self._collectives(computation, i)}

    def _collectives(self, computation: hlo.Computation, instruction: hlo.Instruction) -> list[_Found]:
        """The collectives in an instruction: itself, or in the computations that it calls."""
        if kind_of(instruction):
            return [_Found(computation, instruction)]
        if instruction.opcode != "fusion" and not instruction.opcode.endswith("-start"):
            return []
        callees = [self.module.computation(name, instruction) for name in instruction.called("calls")]
        return [
            found for callee in callees for i in callee.instructions.values() for found in self._collectives(callee, i)
        ]

    def _communicated(self, found: _Found, times: int) -> float:
        """Seconds of one run of a collective, which is noted."""
        computation, collective = found
        kind = kind_of(collective)
        assert kind is not None
        taking_part = participants(kind, self.module, collective)
        if computation.name in self._fused and is_scattered(computation, collective):
            kind = "reduce-scatter"
        payload = sum(array.bytes for array in payload_of(kind, computation, collective))
        places = self._position_of_id if taking_part.by_device else dict(enumerate(self._positions))
        groups = [[places[number] for number in group] for group in taking_part.pairs or taking_part.groups]
        seconds = collective_seconds(kind, payload, self.cluster.route(groups))
        self._note(collective, kind, "communication", times, seconds, Work(bytes=payload))
        return seconds

    def _computed(self, computation: hlo.Computation, instruction: hlo.Instruction, times: int) -> float:
        """Seconds of one run of an instruction, which is noted: the roofline."""
        work = work_of(self.module, computation, instruction)
        self.unknown.update(work.unknown)
        if not work.flops and not work.bytes:
            return 0.0
        machine = self.cluster.machine
        by_flops = work.flops / machine.flops_of(work.dtype)
        by_bytes = work.bytes / machine.memory_bandwidth
        bound = "compute" if by_flops > by_bytes else "memory"
        seconds = machine.op_start + max(by_flops, by_bytes)
        self._note(instruction, instruction.opcode, bound, times, seconds, work)
        return seconds

    def _note(
        self, instruction: hlo.Instruction, opcode: str, bound: str, times: int, seconds: float, work: Work
    ) -> None:
        earlier = self.ops.get(instruction.name)
        made = OpTime(
            instruction.name,
            opcode,
            bound,
            times + (earlier.executions if earlier else 0),
            seconds * times + (earlier.seconds if earlier else 0),
            work.flops * times + (earlier.flops if earlier else 0),
            work.bytes * times + (earlier.bytes if earlier else 0),
            instruction.metadata().get("op_name", ""),
        )
        self.ops[instruction.name] = made


def _positions(
    module: hlo.Module, cluster: Cluster, devices: tuple[Device, ...], position_of_id: dict[int, int]
) -> list[int]:
    """The position in the cluster of each device of the executable. Of several TPU slices, it is that of the first."""
    count = module.replicas * module.partitions
    most = len(devices) or cluster.size
    if count > cluster.size or most > cluster.size:
        raise CostError(f"{cluster.name} has {cluster.size} devices, the executable is for {max(count, most)}")
    if not devices:
        return list(range(count))
    own = [device for device in devices if device.slice == devices[0].slice]
    return [position_of_id[device.id] for device in (own if count == len(own) else devices)]


def _start_of(computation: hlo.Computation, done: hlo.Instruction) -> str:
    """The instruction that starts the op that `done` ends, perhaps through updates between the two."""
    before = computation.instructions[done.operands[0]] if done.operands else done
    while before.opcode.endswith("-update"):
        before = computation.instructions[before.operands[0]]
    return _send_for(computation, before).name if before.opcode == "recv" else before.name


def _send_for(computation: hlo.Computation, recv: hlo.Instruction) -> hlo.Instruction:
    """The `send` that takes the time of the received value; `recv` itself where it is not in this computation."""
    channel = recv.attributes.get("channel_id", "")
    sends = (i for i in computation.instructions.values() if i.opcode == "send")
    same = next((send for send in sends if channel and send.attributes.get("channel_id") == channel), recv)
    return counterpart(computation, recv, "send") or same
