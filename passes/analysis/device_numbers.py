"""What `lax.axis_index` is, and what is computed of it: integers that nothing but the number of the device decides.

    %id    = partition_id         0 1 2 3 4 5 6 7
    %model = remainder %id, %two  0 1 0 1 0 1 0 1    equal in each of the groups [[0, 2, 4, 6], [1, 3, 5, 7]]

They are computed for each device of each group, at compile time.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from jaxlib.mlir import ir

from paropt.passes.analysis.collectives import Reduction, partition_count
from paropt.passes.analysis.evaluation import INTEGERS, Known, evaluated
from paropt.passes.analysis.shardings import MANUAL, axes_in, mesh_behind, names_of, shardings_across
from paropt.passes.core.traversal import module_of

PARTITION_ID, REPLICA_ID = "stablehlo.partition_id", "stablehlo.replica_id"
NUMBERS = (PARTITION_ID, REPLICA_ID)


class _Device(NamedTuple):
    """Which device, and what is known there; a number is None when the module does not say."""

    replica: int | None
    partition: int | None
    known: Known


class DeviceNumbers:
    """Integers made of `NUMBERS` and constants, on each device of the groups of `reduction`. Holds live values.

    In a loop they are the same in each trip, because nothing else is known of what a loop carries than what it
    carries unchanged.
    """

    def __init__(self, module: ir.Operation, reduction: Reduction) -> None:
        self._groups = [list(group) for group in _groups(module, reduction)]

    def __contains__(self, value: ir.Value) -> bool:
        """Whether `value` has been computed."""
        return bool(self._groups) and value in self._groups[0][0].known

    def learn(self, op: ir.Operation) -> None:
        """Takes note of what `op`, one of `NUMBERS`, gives each device, if that is known."""
        if op.name == PARTITION_ID and not _is_per_device(op):
            return
        for device in self._devices():
            number = device.partition if op.name == PARTITION_ID else device.replica
            if number is not None:
                device.known[op.results[0]] = np.array(number, np.uint32)

    def pass_on(self, value: ir.Value, copies: Iterable[ir.Value]) -> None:
        """Takes note that each of `copies` is what `value` is."""
        copies = list(copies)
        for device in self._devices():
            number = evaluated(value, device.known, dtypes=INTEGERS)
            if number is not None:
                device.known.update(dict.fromkeys(copies, number))

    def are_equal(self, value: ir.Value) -> bool:
        """Whether `value` is known on all devices, and equal on those of each group."""
        return bool(self._groups) and all(_is_one_value(value, group) for group in self._groups)

    def _devices(self) -> Iterator[_Device]:
        for group in self._groups:
            yield from group


def _is_one_value(value: ir.Value, group: list[_Device]) -> bool:
    """Lazily: most values that differ do so between the first two devices, or are not integers at all."""
    numbers = (evaluated(value, device.known, dtypes=INTEGERS) for device in group)
    first = next(numbers)
    return first is not None and all(number is not None and np.array_equal(number, first) for number in numbers)


def _groups(module: ir.Operation, reduction: Reduction) -> Iterator[Iterable[_Device]]:
    """The devices that `reduction` brings together: its groups list all devices, or replicas.

    As StableHLO numbers them: device i is partition i % partitions of replica i / partitions. Without a channel, the
    partitions of the replicas stay apart; with one, they come together.
    """
    partitions = partition_count(module)
    if reduction.global_ids:
        if partitions and reduction.crosses_partitions:
            yield from ([_Device(*divmod(i, partitions), {}) for i in group] for group in reduction.groups)
        return
    each = range(partitions) if partitions else [None]
    for group in reduction.groups:
        if reduction.crosses_partitions:
            yield [_Device(replica, partition, {}) for replica in group for partition in each]
        else:
            yield from ([_Device(replica, partition, {}) for replica in group] for partition in each)


def _is_per_device(op: ir.Operation) -> bool:
    """Whether XLA's partitioner leaves `op` to each device: all axes of the mesh around it are manual.

    Elsewhere it refuses to compile a partition_id, "since the meaning is ambiguous".
    """
    module = module_of(op)
    axes: set[str] = set()
    meshes = set()
    while op.parent is not None:
        op = op.parent.operation
        if op.name == MANUAL:
            axes |= names_of(axes_in(op.attributes["manual_axes"]))
            meshes |= {sharding.mesh for sharding in shardings_across(op)}
    mesh = mesh_behind(module, meshes.pop()) if len(meshes) == 1 else None
    return mesh is not None and set(mesh.names) <= axes
