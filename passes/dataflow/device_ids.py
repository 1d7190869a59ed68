"""Integers that only the number of the device decides: `lax.axis_index`, and values computed from it.

    %id    = partition_id         0 1 2 3 4 5 6 7
    %model = remainder %id, %two  0 1 0 1 0 1 0 1    equal in each of the groups [[0, 2, 4, 6], [1, 3, 5, 7]]

They are computed for each device of each group, at compile time.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from jaxlib.mlir import ir

from paropt.passes.dataflow.loop_eval import Known, evaluated
from paropt.passes.sharding.axes import axes_in, names_of
from paropt.passes.sharding.collectives import Reduction, partition_count
from paropt.passes.sharding.shardings import MANUAL, mesh_behind, shardings_across
from paropt.passes.support.traversal import module_of

PARTITION_ID, REPLICA_ID = "stablehlo.partition_id", "stablehlo.replica_id"


class DeviceNumbers:
    """Integers made of device ids and constants, on each device of the groups of `reduction`. Holds live values.

    In a loop they are loop-invariant, because only pass-through values are known of those that a loop carries.
    """

    def __init__(self, module: ir.Operation, reduction: Reduction) -> None:
        groups = list(_groups(module, reduction))
        devices = [device for group in groups for device in group]
        self._numbers = {
            REPLICA_ID: [replica for replica, _ in devices],
            PARTITION_ID: [partition for _, partition in devices if partition is not None],
        }
        sizes = [len(group) for group in groups]
        self._first = np.repeat(np.cumsum([0, *sizes])[:-1], sizes)  # of each device, the first of its group
        self._known: Known = {}

    def __contains__(self, value: ir.Value) -> bool:
        """Whether `value` has been computed."""
        return value in self._known

    def learn(self, op: ir.Operation) -> None:
        """Takes note of the number that `op`, a device id, gives each device, if that is known."""
        numbers = self._numbers[op.name]
        if numbers and (op.name == REPLICA_ID or _is_per_device(op)):
            self._known[op.results[0]] = np.array(numbers, np.uint32)

    def are_equal(self, value: ir.Value) -> bool:
        """Whether `value` is known on all devices, and equal on those of each group."""
        numbers = evaluated(value, self._known, of_devices=True)
        return numbers is not None and (not numbers.shape or bool(np.all(numbers == numbers[self._first])))


def _groups(module: ir.Operation, reduction: Reduction) -> Iterator[Sequence[tuple[int, int | None]]]:
    """The devices that `reduction` brings together: of each, the replica, and the partition if the module says it.

    As StableHLO numbers them: device i is partition i % partitions of replica i / partitions. Groups list devices, or
    replicas; then, without a channel, the partitions of the replicas stay apart, and with one they come together.
    """
    partitions = partition_count(module)
    if reduction.global_ids:
        if partitions:
            yield from ([divmod(device, partitions) for device in group] for group in reduction.groups)
        return
    each = range(partitions) if partitions else [None]
    for group in reduction.groups:
        if reduction.crosses_partitions:
            yield [(replica, partition) for replica in group for partition in each]
        else:
            yield from ([(replica, partition) for replica in group] for partition in each)


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
