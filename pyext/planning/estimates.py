"""An estimate of a candidate before anything is compiled: seconds, bytes by kind and link, and memory.

Per device and step, from the shapes of the step, its shardings as they spread over it, and the figures of the machine:

- compute: of each op the roofline, FLOPs or the bytes that it moves as ops are fused, shared by the devices that shard
  it, and its start;
- collectives: what an op reads otherwise than it is made, and the sums over sharded dimensions; how often, as the
  policy says; small ones of a kind are one, as compilers combine them;
- memory: the arguments, what is live at the fullest moment, and what is gathered.

Tests: test/unit/pyext/planning/test_estimates.py; `python tools/bench_alpa.py --check` compares with executables.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from math import prod
from typing import NamedTuple

import numpy as np

from paropt.costs.clusters import Cluster, Route
from paropt.costs.collective_times import collective_seconds
from paropt.hlo.census import sent_per_byte
from paropt.passes.deferral.policy import HOLDS_PARAMETERS, HOLDS_SUMS
from paropt.planning.candidates import ALONE, Mesh
from paropt.planning.spread_shardings import Dimensions, Placed, spread
from paropt.planning.strategies import Choices, Classes, Move, Stored, Sum

# Of XLA:GPU's schedules, by tools/bench_alpa.py: the part of the collectives in loops that may run beside compute, and
# of the compute beside which they run.
HIDDEN = 0.6
BESIDE = 0.16
SMALL = 10e6  # bytes: smaller collectives of a kind are combined


class Transfer(NamedTuple):
    """A collective, as often as a step runs it."""

    kind: str
    axes: tuple[str, ...]
    payload: float  # bytes per device of each run: of an all-gather the result, else the operand
    executions: int
    is_gradient: bool = False  # or another collective of the whole step, whatever the micro-batches

    def sent(self, axes: Mapping[str, int]) -> float:
        """Bytes per device and step."""
        return self.payload * self.executions * sent_per_byte(self.kind, prod(axes[axis] for axis in self.axes))


class Estimated(NamedTuple):
    """Per device and step."""

    compute: float  # seconds
    communication: float  # seconds
    hidden: float  # seconds of communication beside compute
    once: float  # seconds of the communication that is once per step, hidden or not
    memory: float  # bytes
    sent: Mapping[str, float]  # bytes, by kind of collective
    by_link: Mapping[str, float]  # bytes, by the link that they cross
    waiting: float = 0.0  # seconds, for other stages of a pipeline

    @property
    def seconds(self) -> float:
        return self.compute + self.communication - self.hidden + self.waiting

    @property
    def bytes(self) -> float:
        """Sent per device and step."""
        return sum(self.sent.values())


class Modelled:
    """A step laid out over the devices of a cluster. `given` are the shardings of its arguments, by their numbers."""

    def __init__(
        self, choices: Choices, cluster: Cluster, mesh: Mesh, policy: str, given: Mapping[int, Dimensions]
    ) -> None:
        self.choices, self._cluster, self._policy, self._given = choices, cluster, policy, given
        self.axes = dict(mesh.axes)
        self._placed: Placed = spread(choices, self.axes, given)
        self._routes: dict[tuple[str, ...], Route] = {}
        self._parts: dict[Classes, int] = {}

    def estimate(self) -> Estimated:
        """Of the whole step."""
        sent: defaultdict[str, float] = defaultdict(float)
        links: defaultdict[str, float] = defaultdict(float)
        communication = once = 0.0
        for each in self.transfers:
            route = self.route(each.axes)
            seconds = each.executions * collective_seconds(each.kind, each.payload, route)
            communication += seconds
            once += seconds if each.is_gradient else 0.0
            sent[each.kind] += each.sent(self.axes)
            for link, size in link_bytes(each.kind, each.payload, route):
                links[link] += size * each.executions
        compute = self.compute()
        hidden = min(HIDDEN * (communication - once), BESIDE * compute)
        return Estimated(compute, communication, hidden, once, self.memory(), sent, links)

    def compute(self) -> float:
        """Seconds of all ops but collectives."""
        machine = self._cluster.machine
        seconds = 0.0
        for each in self.choices.work:
            if (each.flops or each.traffic) and not (each.is_stacking and self._policy != ALONE):
                parts = self.parts(each.classes)
                by_flops = each.flops / machine.flops_of(each.dtype)
                longest = max(by_flops, each.traffic / machine.memory_bandwidth)
                seconds += each.executions * (longest / parts + machine.op_start)
        converted = sum(
            (2 * each.bytes + each.wider) * each.executions / self._staying(each.made, each.read)
            for each in self.choices.moves
            if each.wider and self._is_gathered(each) and self._policy not in HOLDS_PARAMETERS
        )
        return seconds + converted / machine.memory_bandwidth

    def memory(self) -> float:
        """Bytes at the fullest moment."""
        fullest = max((self.held(moment) for moment in self.choices.moments), default=0.0)
        return self.arguments() + fullest + self.gathered()

    def memory_of_stage(self, share: float, in_flight: int) -> float:
        """Bytes at the fullest moment of a pipeline stage with a `share` of the layers, of which so many micro-batches
        are under way. What is no parameter, sum or residual is of one layer, or of the loss, and counts whole.

        The program of a stage gathers all its parameters, and makes whole gradients of them.
        """
        shared = {each.classes for each in self.choices.arguments if each.is_parameter}
        shared |= {each.classes for each in self.choices.layers.stacked}
        fullest = max(
            (
                self.held(each for each in moment if each.classes not in shared)
                + share * self.held(each for each in moment if each.classes in shared)
                for moment in self.choices.moments
            ),
            default=0.0,
        )
        kept = share * self.held(self.choices.layers.stacked) + self.held(self.choices.layers.crossing)
        return share * (self.arguments() + 2 * self._over_examples()) + fullest + (in_flight - 1) * kept

    def arguments(self) -> float:
        """Bytes of the arguments."""
        return sum(each.bytes / self._parts_of_argument(each.number) for each in self.choices.arguments)

    def held(self, values: Iterable[Stored]) -> float:
        """Bytes of values; without gradients that the passes add up in place."""
        return sum(
            each.bytes / self.parts(each.classes) for each in values if not (each.is_stacking and self._policy != ALONE)
        )

    def gathered(self) -> float:
        """Bytes of parameters that are gathered, and of sums that are whole, beyond those of their shards."""
        whole = self._beyond_shards()
        kept = (
            whole * self._widths if self._policy in HOLDS_PARAMETERS else 2 * max(self._gathers.values(), default=0.0)
        )
        return kept + (whole if self._policy in HOLDS_SUMS else 0.0)

    def _beyond_shards(self) -> float:
        """Bytes that parameters would take more if those that are gathered were whole."""
        return sum(
            each.bytes * (1 / self._parts_but_gathered(each.classes) - 1 / self.parts(each.classes))
            for each in self.choices.arguments
            if each.is_parameter
        )

    def _over_examples(self) -> float:
        """Bytes that parameters would take more without the axis `data` of a stage, whatever else it shards."""
        return sum(
            each.bytes * (1 / self.parts(each.classes)) * (self.axes.get("data", 1) - 1)
            for each in self.choices.arguments
            if each.is_parameter and self._shards(each.classes, "data")
        )

    @property
    def _widths(self) -> float:
        """The bytes of a parameter as it is read, of one as it is held."""
        held = sum(each.bytes for each in self.choices.arguments if each.is_parameter)
        read = sum(
            {each.made: each.bytes * each.executions for each in self.choices.moves if self._is_gathered(each)}.values()
        )
        return min(1.0, read / self.choices.layers.microbatches / held) if held and read else 1.0

    @cached_property
    def _gathers(self) -> dict[Classes, float]:
        """Bytes of each parameter, or layer of one, when it is gathered."""
        return {
            each.made: each.bytes / self._parts_but_gathered(each.made)
            for each in self.choices.moves
            if self._is_gathered(each)
        }

    @cached_property
    def transfers(self) -> list[Transfer]:
        """The collectives of a step; small ones of a kind, over the same axes and as often, are one."""
        small: defaultdict[tuple[str, tuple[str, ...], int, bool], float] = defaultdict(float)
        found = []
        for each in self._transfers():
            if each.payload < SMALL:
                small[each.kind, each.axes, each.executions, each.is_gradient] += each.payload
            else:
                found.append(each)
        return found + [Transfer(kind, axes, size, times, late) for (kind, axes, times, late), size in small.items()]

    def _transfers(self) -> Iterator[Transfer]:
        once = self._policy in HOLDS_PARAMETERS
        if once:
            yield from self._gathered_once()
        seen: set[tuple[Classes, int]] = set()
        for move in self.choices.moves:
            is_gathered = self._is_gathered(move)
            if not is_gathered:
                yield from self._moved(move)
            elif not once and (move.made, move.executions) not in seen:  # readers share what is gathered
                seen.add((move.made, move.executions))
                yield from self._moved(move)
        for each in self.choices.sums:
            yield from self._summed(each)

    def _gathered_once(self) -> Iterator[Transfer]:
        for each in (each for each in self.choices.arguments if each.is_parameter):
            axes = tuple(a for a in self.axes if any((c, a) in self._placed.gathered for c in each.classes))
            if axes:
                size = each.bytes * self._widths / self._parts_but_gathered(each.classes)
                yield Transfer("all-gather", axes, size, 1, True)

    def _moved(self, move: Move) -> Iterator[Transfer]:
        gather, exchange = self._leaving(move.made, move.read)
        wider = move.wider if self._is_gathered(move) else 0
        whole = (move.bytes + wider) / self._staying(move.made, move.read)
        if exchange:
            yield Transfer("all-to-all", exchange, whole / self._size(exchange), move.executions)
        if gather:
            yield Transfer("all-gather", gather, whole, move.executions)

    def _summed(self, each: Sum) -> Iterator[Transfer]:
        over = tuple(
            axis for axis in self.axes if self._shards(each.over, axis) and not self._shards(each.beside, axis)
        )
        scattered = tuple(axis for axis in over if self._shards(each.kept, axis))
        reduced = tuple(axis for axis in over if axis not in scattered)
        late = each.deferred > 1 and self._policy != ALONE
        parts = self._staying(each.made, each.kept)
        size, added = each.bytes / parts, each.added_bytes / parts
        if scattered:
            late_too = late and self._policy in HOLDS_SUMS
            times = each.executions * (1 if late_too else each.deferred)
            yield Transfer("reduce-scatter", scattered, added if late_too else size, times, late_too)
        if reduced:
            times = each.executions * (1 if late else each.deferred)
            yield Transfer("all-reduce", reduced, (added if late else size) / self._size(scattered), times, late)
        gather, exchange = self._leaving(each.made, each.kept)
        if exchange and not over:
            yield Transfer("all-to-all", exchange, size / self._size(exchange), each.executions)
        if gather:
            yield Transfer("all-gather", gather, size, each.executions * each.deferred)

    def route(self, axes: tuple[str, ...]) -> Route:
        """The links that groups of devices along `axes` span."""
        if axes not in self._routes:
            names = tuple(self.axes)
            grid = np.arange(prod(self.axes.values())).reshape(tuple(self.axes.values()))
            last = [names.index(axis) for axis in axes]
            groups = np.moveaxis(grid, last, range(-len(last), 0)).reshape(-1, self._size(axes))
            self._routes[axes] = self._cluster.route(groups.tolist())
        return self._routes[axes]

    def parts(self, classes: Classes) -> int:
        """Of how many parts a device has one."""
        if classes not in self._parts:
            self._parts[classes] = self._size(tuple(axis for axis in self.axes if self._shards(classes, axis)))
        return self._parts[classes]

    def _parts_but_gathered(self, classes: Classes) -> int:
        gathered = {axis for axis in self.axes if any((each, axis) in self._placed.gathered for each in classes)}
        return self.parts(classes) // self._size(tuple(gathered))

    def _parts_of_argument(self, number: int) -> int:
        return self._size(tuple(axis for over in self._given.get(number, ()) for axis in over))

    def _is_gathered(self, move: Move) -> bool:
        return not move.is_part and any((each, a) in self._placed.gathered for each in move.made for a in self.axes)

    def _shards(self, classes: Classes, axis: str) -> bool:
        return any((each, axis) in self._placed.sharded for each in classes)

    def _stays(self, made: Classes, read: Classes, axis: str) -> bool:
        sharded = self._placed.sharded
        return any((a, axis) in sharded and (b, axis) in sharded for a, b in zip(made, read, strict=True))

    def _staying(self, made: Classes, read: Classes) -> int:
        return self._size(tuple(axis for axis in self.axes if self._stays(made, read, axis)))

    def _leaving(self, made: Classes, read: Classes) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The axes that are gathered, and those that shard another dimension then."""
        leaving = [a for a in self.axes if self._shards(made, a) and not self._stays(made, read, a)]
        exchanged = tuple(axis for axis in leaving if self._shards(read, axis))
        return tuple(axis for axis in leaving if axis not in exchanged), exchanged

    def _size(self, axes: tuple[str, ...]) -> int:
        return prod(self.axes[axis] for axis in axes)


def link_bytes(kind: str, payload: float, route: Route) -> Iterator[tuple[str, float]]:
    """Bytes that a device sends over each link in one collective: outer links have what inner ones leave."""
    for link, members in route:
        yield link.name, payload * sent_per_byte(kind, members)
        if kind in ("all-reduce", "all-gather", "reduce-scatter"):
            payload /= members
