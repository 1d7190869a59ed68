"""Clusters of machines: which link a group of devices spans.

The description of a target says which devices share a host and a slice: a `gpu:h100:2x4x8` has 8 devices per host and 4
hosts per slice; a TPU slice is one, whatever hosts it has; devices of a CPU are of one host.
"""

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

from paropt.clusters.compiled import TargetError
from paropt.clusters.gpus import GPUS
from paropt.clusters.targets import CpuTarget, GpuTarget, HostTarget, Target, TpuTarget, target_of
from paropt.costs.machines import WITHIN, CostError, Link, Machine, read_table


class Step(NamedTuple):
    """One level of a group: so many are joined by this link."""

    link: Link
    members: int


# jax's names of the TPUs of a host, whose devices are those that libtpu describes. A device of a host with `TPU v4` is
# a whole chip, and one that libtpu describes is half of one: it has no row.
_TPU_KINDS = {"TPU v5 lite": "v5e", "TPU v5": "v5p", "TPU v6 lite": "v6e", "TPU7x": "tpu7x"}

Route = tuple[Step, ...]  # inner first; the members multiply to the size of the group


class Unit(NamedTuple):
    """The host, slice and cluster of a device. Two are joined by the innermost link within which they are equal."""

    host: int
    slice: int

    def within(self, level: str) -> int:
        return {"host": self.host, "slice": self.slice, "cluster": 0}[level]


@dataclass(frozen=True)
class Cluster:
    """A machine, and for each device position (in the order of the target's devices) where it stands."""

    name: str
    machine: Machine
    units: tuple[Unit, ...]

    def route(self, groups: Iterable[Sequence[int]]) -> Route:
        """How the largest-spanning of `groups`, of device positions, is joined, link by link, inner first.

        Groups that a level cuts into unequal parts count with the largest part, so a route may have more members.
        Raises CostError where a group has another member than a position of the cluster.
        """
        routes = [self._route_of(self._positions(group)) for group in _several(groups)]
        return max(routes, key=_outermost_first, default=())

    def _positions(self, group: Sequence[int]) -> list[int]:
        found = _several(group)
        wrong = [each for each in found if not isinstance(each, Integral) or not 0 <= int(each) < self.size]
        if wrong:
            raise CostError(f"route: {self.name} has the devices 0 to {self.size - 1}, not {wrong[0]!r}")
        return found

    def _route_of(self, group: list[int]) -> Route:
        steps = []
        # The devices joined so far are one member of the next level.
        members: dict[object, list[int]] = {position: [position] for position in group}
        for link in self.machine.links:
            joined: dict[object, list[object]] = {}
            for key, positions in members.items():
                joined.setdefault(self.units[positions[0]].within(link.within), []).append(key)
            steps.append(Step(link, max(map(len, joined.values()), default=1)))
            members = {unit: [p for key in keys for p in members[key]] for unit, keys in joined.items()}
        return tuple(step for step in steps if step.members > 1)

    @property
    def size(self) -> int:
        return len(self.units)


def _several(groups: Iterable[Any]) -> list[Any]:
    if isinstance(groups, str) or not isinstance(groups, Iterable):
        raise CostError(f"route: expected groups of devices, such as [[0, 1], [2, 3]] or [range(8)], not {groups!r}")
    return list(groups)


def _outermost_first(route: Route) -> list[tuple[int, int]]:
    """A key: a route that needs an outer link is larger, then one with more members."""
    return [(WITHIN.index(step.link.within), step.members) for step in reversed(route)]


def cluster_of(target: Target | str, table: Mapping[str, Machine] | None = None) -> Cluster:
    """The cluster that stands for `target`, with the figures of `table` (default: those of the library).

    Raises TargetError for another target, CostError where the table has no figures for it.
    """
    found = target_of(target)
    table = read_table() if table is None else table
    if not isinstance(table, Mapping):
        raise CostError(f"cluster_of: expected a table as `read_table` returns it, not {table!r}")
    match found:
        case CpuTarget():
            return Cluster(found.name, _machine("cpu", found.name, table), (Unit(0, 0),) * found.count)
        case TpuTarget():
            kind = found.topology.partition(":")[0]
            return _of_slices(found, _machine(kind, found.name, table))
        case GpuTarget():
            return _of_hosts(found, _machine(_stem(found.gpu), found.name, table))
        case HostTarget():
            return _of_this_host(found, table)
    raise CostError(f"{found.name}: no costs are known for targets of its kind")


def _of_slices(target: TpuTarget, machine: Machine) -> Cluster:
    try:
        slices = [getattr(device, "slice_index", None) or 0 for device in target.devices]
    except TargetError:  # without libtpu: its topology says how many chips there are
        slices = [position // target.chips for position in range(target.chips * target.slices)]
    return Cluster(target.name, machine, tuple(Unit(number, number) for number in slices))


def _of_hosts(target: GpuTarget, machine: Machine) -> Cluster:
    slices, hosts, devices = map(int, target.shape.split("x"))
    positions = range(math.prod((slices, hosts, devices)))
    return Cluster(target.name, machine, tuple(Unit(p // devices, p // (hosts * devices)) for p in positions))


def _of_this_host(target: HostTarget, table: Mapping[str, Machine]) -> Cluster:
    devices: tuple[Any, ...] = target.devices
    machine = _machine(kind_of(devices[0]), target.name, table)
    return Cluster(target.name, machine, (Unit(0, 0),) * len(devices))


def kind_of(device: Any) -> str:
    """The name of a jax device in a table of costs; jax's own name, where no table has one."""
    kinds = _TPU_KINDS | {gpu.description: name for name, gpu in GPUS.items()}
    return "cpu" if device.platform == "cpu" else kinds.get(device.device_kind, device.device_kind)


def _stem(gpu: str) -> str:
    """Of the table, or the file name of a description: `my/gpu.txtpb` is `gpu`."""
    return gpu.rpartition("/")[2].partition(".")[0]


def _machine(name: str, target: str, table: Mapping[str, Machine]) -> Machine:
    if name in table:
        return table[name]
    near = difflib.get_close_matches(name, table, n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"there are {', '.join(table)}"
    raise CostError(f"{target}: the table of costs has no machine `{name}`; {hint}; a file of your own may add it")
