"""Collectives that give the devices of each group of a reduction one result, if each group has one operand.

The groups of a reduction over the columns of a mesh are its columns, those of a collective over rows are its rows.
Devices of one column get the same if each reads the same columns, in the same order:

    %f = all_gather(%x)    over rows     of what is equal in each column
    %s = all_reduce(%y)    over columns
    %p = multiply %s, %f
"""

from collections.abc import Iterator

import numpy as np
from jaxlib.mlir import ir

from paropt.passes.ir.op_table import counts_partitions, depends_on_place, is_same_in_group
from paropt.passes.sharding.collectives import Groups, Reduction, replica_count, replica_groups, works_like
from paropt.passes.support.traversal import module_of

# A device gets the operand of its source from it, if it has a source.
_PERMUTE = "stablehlo.collective_permute"

_Read = tuple[tuple[int, ...], int | None]  # the groups of `reduction` whose operands a device gets, and its place


def keeps_groups_equal(op: ir.Operation, reduction: Reduction) -> bool:
    """Whether the collective `op` gives one result to all devices of each group of `reduction`, if they read one."""
    known = is_same_in_group(op) or depends_on_place(op) or op.name == _PERMUTE
    if not known or not reduction.groups or not _counts_like(op, reduction):
        return False
    number = {device: i for i, group in enumerate(reduction.groups) for device in group}
    reads = _reads(op, number)
    if reads is None:
        return False
    together = [[reads.get(device) for device in group] for group in reduction.groups]
    return all(each == alike[0] and each is not None for alike in together for each in alike)


def _counts_like(op: ir.Operation, reduction: Reduction) -> bool:
    """Whether the ids in `op` mean the same as those of `reduction`, and say which place each device has."""
    if counts_partitions(op) and reduction.global_ids:  # they have no `use_global_device_ids`
        return works_like(op, reduction._replace(global_ids=False)) and replica_count(module_of(op)) == 1
    if is_same_in_group(op):
        return works_like(op, reduction)
    # With a channel and ids of replicas, a place is taken by all partitions of a replica.
    return works_like(op, reduction) and reduction.crosses_partitions == reduction.global_ids


def _reads(op: ir.Operation, number: dict[int, int]) -> dict[int, _Read] | None:
    """Of each device, the numbers of the groups of the devices that it gets something of; None when one is in none."""
    if op.name == _PERMUTE:
        pairs = np.array(op.attributes["source_target_pairs"]).tolist()
        if not all(source in number for source, _ in pairs):
            return None
        got: dict[int, _Read] = {target: ((number[source],), None) for source, target in pairs}
        return {device: got.get(device, ((), None)) for device in number}
    groups = replica_groups(op) or ()
    if not all(device in number for group in groups for device in group):
        return None
    return dict(_in_groups(groups, number, has_place=depends_on_place(op)))


def _in_groups(groups: Groups, number: dict[int, int], *, has_place: bool) -> Iterator[tuple[int, _Read]]:
    for group in groups:
        read = tuple(number[device] for device in group)
        for place, device in enumerate(group):
            yield device, (read, place if has_place else None)
