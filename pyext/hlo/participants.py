"""Participants of a collective of optimized HLO: device ids, group by group, and the mesh axes that they span."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from paropt.hlo import parser as hlo
from paropt.hlo.mesh_axes import Groups, Pairs, axes_of_groups, axes_of_pairs
from paropt.hlo.replica_groups import read_groups, read_pairs, read_slice_groups
from paropt.passes.sharding.meshes import Mesh, mesh_of
from paropt.passes.support.traversal import ops_of

# Without `use_global_device_ids`, the groups of these list replicas, and all partitions of a replica take part.
_FLAGGED_KINDS = ("all-reduce", "reduce-scatter", "all-gather")

_SLICE_TARGET = re.compile(r'_xla_megascale_target=("[^"]*"|\{(?:[^{}]|\{[^{}]*\})*\})')


class Device(NamedTuple):
    """A device of a program."""

    id: int
    slice: int  # equal for the devices that one executable runs on; XLA:TPU compiles one per slice


@dataclass(frozen=True)
class Layout:
    """Over which devices a program is laid out, as far as that is known."""

    meshes: tuple[Mesh, ...] = ()  # of partitions
    devices: tuple[Device, ...] = ()  # of the partitions, in their order

    @classmethod
    def of_module(cls, module: Any, devices: Sequence[Device] = ()) -> "Layout":
        """Of a StableHLO module: its `sdy.mesh` ops, in their order."""
        found = [mesh_of(op.attributes["mesh"]) for op in ops_of(module.operation, "sdy.mesh")]
        return cls(tuple(mesh for mesh in found if len(mesh.device_ids) > 1), tuple(devices))

    @classmethod
    def of_mesh(cls, mesh: Any) -> "Layout":
        """Of a `jax.sharding.Mesh`, for a program whose shardings are over it."""
        axes = tuple((str(name), int(size)) for name, size in mesh.shape.items())
        return cls((Mesh(axes, tuple(range(mesh.devices.size))),), devices_of(mesh.devices.flat))

    def axes(self, taking_part: "Participants", module: hlo.Module) -> tuple[str, ...]:
        """The axes that they span; empty when that is not known, or no axes describe it."""
        names = self._partitions_of_slices(module)
        if taking_part.by_device:
            names = [{device.id: partition for partition, device in enumerate(self.devices)}]
        ids = taking_part.pairs or taking_part.groups
        if any(number not in known for known in names for together in ids for number in together):
            return ()
        renamed = tuple(tuple(known[number] for number in together) for known in names for together in ids)
        if taking_part.pairs:
            return axes_of_pairs(tuple((source, target) for source, target in renamed), self.meshes)
        return axes_of_groups(renamed, self.meshes)

    def _partitions_of_slices(self, module: hlo.Module) -> list[dict[int, int]]:
        """For each slice, which partition of the program is which of the executable, which may be for one slice."""
        count = module.replicas * module.partitions
        slices: dict[int, list[int]] = defaultdict(list)
        for partition, device in enumerate(self.devices):
            slices[device.slice].append(partition)
        if count < len(self.devices) and all(len(partitions) == count for partitions in slices.values()):
            return [dict(enumerate(partitions)) for partitions in slices.values()]
        return [{partition: partition for partition in range(count)}]


def devices_of(devices: Iterable[Any]) -> tuple[Device, ...]:
    """jax's devices, as ours."""
    return tuple(Device(device.id, getattr(device, "slice_index", None) or 0) for device in devices)


class Participants(NamedTuple):
    """The ids that a collective lists, in groups or, for a transfer, in pairs of source and target."""

    groups: Groups
    pairs: Pairs = ()
    by_device: bool = False  # ids are those of jax's devices, not of the executable's partitions

    @property
    def group(self) -> int:
        """Devices that take part together; the most when groups differ."""
        if self.pairs:
            return len({device for pair in self.pairs for device in pair})
        return max(map(len, self.groups), default=0)


def participants(kind: str, module: hlo.Module, instruction: hlo.Instruction) -> Participants:
    """Who takes part in the collective `instruction`. Raises HloError where that cannot be read."""
    attributes = instruction.attributes
    try:
        if target := _SLICE_TARGET.search(attributes.get("frontend_attributes", "")):
            pairs = read_pairs(target[1]) if "->" in target[1] else ()
            return Participants(() if pairs else read_slice_groups(target[1]), pairs, by_device=True)
        if kind in ("collective-permute", "send"):
            where = "source_target_pairs" if kind == "collective-permute" else "frontend_attributes"
            return Participants((), read_pairs(attributes.get(where, "")))
        listed = read_groups(attributes.get("replica_groups", "{}"))
    except ValueError as error:
        raise hlo.HloError(f"HLO line {instruction.line}: {error}") from error
    return Participants(_flat(listed, kind, module, instruction))


def _flat(listed: Groups, kind: str, module: hlo.Module, instruction: hlo.Instruction) -> Groups:
    """The groups of flattened ids, replica times partitions plus partition, that `listed` stands for."""
    replicas, partitions = range(module.replicas), range(module.partitions)
    if "channel_id" not in instruction.attributes:  # of replicas, in each partition
        groups = listed or (tuple(replicas),)
        return tuple(tuple(r * len(partitions) + p for r in group) for group in groups for p in partitions)
    if kind not in _FLAGGED_KINDS:  # of partitions, in each replica
        groups = listed or (tuple(partitions),)
        return tuple(tuple(r * len(partitions) + p for p in group) for r in replicas for group in groups)
    if instruction.attributes.get("use_global_device_ids") == "true":
        return listed or (tuple(range(len(replicas) * len(partitions))),)
    groups = listed or (tuple(replicas),)
    return tuple(tuple(r * len(partitions) + p for r in group for p in partitions) for group in groups)
