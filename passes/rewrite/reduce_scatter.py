"""An all_reduce with readers of one shard per device, as a reduce_scatter and an all_reduce of the shards.

Tests: test/passes/defer-sync-untiled.mlir, test/numeric/test_shard_map_accumulation.py.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxlib.mlir import ir

from paropt.passes.dataflow.loop_eval import Known, evaluated
from paropt.passes.ir.loops import Loop
from paropt.passes.ir.types import tensor_of, unsqueezes
from paropt.passes.rewrite.residual_split import CONVERT, in_type, reduction
from paropt.passes.sharding.collectives import (
    ADD,
    ALL_REDUCE,
    REDUCE_SCATTER,
    Groups,
    Reduction,
    combiner_of,
    reduction_of,
    replica_count,
)
from paropt.passes.sharding.shardings import SHARDING
from paropt.passes.support.remarks import Declined, Remark, applied, missed, require
from paropt.passes.support.traversal import module_of, op_of, ops_of

SLICE, ID = "stablehlo.dynamic_slice", "stablehlo.partition_id"
BROADCAST, TRANSPOSE = "stablehlo.broadcast_in_dim", "stablehlo.transpose"


class Shards(NamedTuple):
    """The shards of a reduced value on the devices of each group."""

    dimension: int
    scattered: Groups  # whose devices keep different shards, in the order of these
    summed: Groups  # whose devices keep the same shard; one device each when all shards of a group differ


def own_shards_scattered(loop: Loop, pass_name: str) -> list[Remark]:
    """Rewrites the all_reduces in the body of `loop` of which only this device's shard is read."""
    remarks: list[Remark] = []
    for op in [view.operation for view in loop.body.operations if view.operation.name == ALL_REDUCE]:
        cut = _only_cut(op)
        if cut is None:
            continue
        try:
            _require_alone(op)
            shards = _shards(cut, reduction_of(op))
        except Declined as declined:
            remarks.append(missed(pass_name, op, declined))
            continue
        remarks.append(applied(pass_name, op, f"each device reads one shard: scattered over {_sizes(shards)}"))
        _scatter(op, cut, shards)
    return remarks


def shard_kept(op: ir.Operation, declined: Declined) -> Declined:
    """Why `op` stays in a loop: where it is `declined` for a cut by which each device reads its shard, that says so."""
    cut = _only_cut(op) if op.name == ALL_REDUCE else None
    if cut is None or declined.op != cut:
        return declined
    try:
        _require_alone(op)
        _shards(cut, reduction_of(op))
    except Declined:
        return declined
    return Declined(
        "each device reads one shard: its accumulator would have to be unscattered (option policy=defer allows it)"
    )


def scatters_in(loop: Loop) -> list[ir.Operation]:
    """The reduce_scatters in the body of `loop`, in program order, which `moved_first` does not change."""
    return [view.operation for view in loop.body.operations if view.operation.name == REDUCE_SCATTER]


def moved_first(scatters: list[ir.Operation]) -> None:
    """Moves the elements of the addends of each of `scatters` first, where a move is the only user of the result.

    A loop over layers adds a dimension to a gradient, and writes it into a stack: so the whole stack may be scattered.
    """
    for op in scatters:
        _move_first(op)


def may_move_first(op: ir.Operation) -> bool:
    """Whether `moved_first` changes the reduce_scatter `op`."""
    return _to_move(op) is not None


def _move_first(op: ir.Operation) -> None:
    found = _to_move(op)
    if found is not None:
        _move_first(_moved(op, *found))


def _to_move(op: ir.Operation) -> tuple[list[ir.Operation], ir.Operation, int] | None:
    """The converts of the sum of `op`, the op that then moves its elements, and the dimension to scatter then."""
    converts, last = list[ir.Operation](), _only_reader(op)
    while last is not None and last.name == CONVERT:
        converts.append(last)
        last = _only_reader(last)
    dimension = ir.IntegerAttr(op.attributes["scatter_dimension"]).value
    to = _moved_to(last, dimension) if last is not None else None
    if last is None or to is None or not _is_static(op) or combiner_of(op) != ADD:
        return None
    return converts, last, to


def _only_reader(op: ir.Operation) -> ir.Operation | None:
    uses = list(op.results[0].uses) if len(op.results) == 1 else []
    return uses[0].owner.operation if len(uses) == 1 else None


def _is_static(op: ir.Operation) -> bool:
    return all(tensor_of(value) is not None for value in (*op.operands, *op.results))


def _moved_to(op: ir.Operation, dimension: int) -> int | None:
    """Where `op` puts that dimension of its operand, if it only turns it, or adds dimensions of size 1."""
    if op.name == TRANSPOSE:
        return list(ir.DenseI64ArrayAttr(op.attributes["permutation"])).index(dimension)
    if op.name != BROADCAST or not _is_static(op) or not unsqueezes(op):
        return None
    return int(ir.DenseI64ArrayAttr(op.attributes["broadcast_dimensions"])[dimension])


def _moved(op: ir.Operation, converts: list[ir.Operation], last: ir.Operation, to: int) -> ir.Operation:
    """Moves elements as `last` does in front of `op`, which then scatters over dimension `to`, and does `converts`
    after it."""
    dimension = ir.IntegerAttr(op.attributes["scatter_dimension"]).value
    wide, element = ir.RankedTensorType(op.operands[0].type).shape[dimension], _element(op.operands[0])
    shape = ir.RankedTensorType(last.results[0].type).shape
    with ir.InsertionPoint(op), last.location:
        unscattered = ir.RankedTensorType.get([*shape[:to], wide, *shape[to + 1 :]], element)
        first = ir.Operation.create(last.name, [unscattered], [op.operands[0]], attributes=_kept(last))
    with ir.InsertionPoint(op), op.location:
        number = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), to)
        attributes = {**_kept(op), "scatter_dimension": number}
        new = reduction(op.name, first.results[0], ir.RankedTensorType.get(shape, element), attributes, ADD)
    value = new
    for each in converts:
        with ir.InsertionPoint(each), each.location:
            value = in_type(value, _element(each.results[0]))
    last.results[0].replace_all_uses_with(value)
    for each in (last, *reversed(converts), op):
        each.erase()
    return op_of(new)


def _kept(op: ir.Operation) -> dict[str, ir.Attribute]:
    """The attributes of `op`, for one with results of another shape."""
    return {name: op.attributes[name] for name in op.attributes if name != SHARDING}


def _element(value: ir.Value) -> ir.Type:
    return ir.RankedTensorType(value.type).element_type


def _sizes(shards: Shards) -> str:
    among = f"{len(shards.scattered[0])} devices"
    return among if len(shards.summed[0]) == 1 else f"{among}, and the shards summed over {len(shards.summed[0])}"


def _only_cut(op: ir.Operation) -> ir.Operation | None:
    """The dynamic_slice that alone reads the one result of `op`."""
    uses = list(op.results[0].uses) if len(op.results) == 1 else []
    reader = uses[0].owner.operation if len(uses) == 1 else None
    return reader if reader is not None and reader.name == SLICE and uses[0].operand_number == 0 else None


def _require_alone(op: ir.Operation) -> None:
    """Declines an operand that XLA reduces once for `op` and another all_reduce: that would stay, and this be added."""
    readers = [use.owner.operation for use in op.operands[0].uses]
    alone = sum(reader.name == ALL_REDUCE and reader.block == op.block for reader in readers) == 1
    require(alone, "its operand is reduced for another reader, too")


def _shards(cut: ir.Operation, over: Reduction) -> Shards:
    """Proves that `cut` takes one shard on each device, by computing its indices for each."""
    require(over.combiner == ADD, "only sums are scattered", cut)
    counts = over.global_ids and over.crosses_partitions and bool(over.groups)
    require(counts and replica_count(module_of(cut)) <= 1, "its replica groups do not name partitions", cut)
    whole, part = (ir.RankedTensorType(v.type).shape for v in (cut.operands[0], cut.results[0]))
    dimensions = [i for i, (a, b) in enumerate(zip(whole, part, strict=True)) if a != b]
    require(len(dimensions) == 1, "a shard is cut in several dimensions", cut)
    (dimension,) = dimensions
    size = part[dimension]
    require(size > 0 and whole[dimension] % size == 0, "shards are not of one size", cut)
    count = whole[dimension] // size
    ids = [op.results[0] for op in ops_of(module_of(cut), ID)]
    scattered: list[tuple[int, ...]] = []
    summed: list[tuple[int, ...]] = []
    for group in over.groups:
        devices: list[list[int]] = [[] for _ in range(count)]
        for device in group:
            start = _start(cut, dimension, dict.fromkeys(ids, np.array(device, np.uint32)))
            aligned = start is not None and start % size == 0 and 0 <= start < whole[dimension]
            require(aligned, "it is not known which shard each device reads", cut)
            assert start is not None
            devices[start // size].append(device)
        require(len({len(same) for same in devices}) == 1, "shards are not read equally often", cut)
        scattered += list(zip(*devices, strict=True))
        summed += [tuple(same) for same in devices]
    return Shards(dimension, tuple(scattered), tuple(summed))


def _start(cut: ir.Operation, dimension: int, known: Known) -> int | None:
    """Where the slice starts; None when that is not known."""
    start = evaluated(cut.operands[1 + dimension], known)
    return None if start is None else int(start)


def _scatter(op: ir.Operation, cut: ir.Operation, shards: Shards) -> None:
    shard = ir.RankedTensorType(cut.results[0].type)
    kept = {name: op.attributes[name] for name in op.attributes if name not in ("replica_groups", SHARDING)}
    with ir.InsertionPoint(op), op.location:
        dimension = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), shards.dimension)
        attributes = {**kept, "replica_groups": groups_attribute(shards.scattered), "scatter_dimension": dimension}
        result = reduction(REDUCE_SCATTER, op.operands[0], shard, attributes, ADD)
        if len(shards.summed[0]) > 1:
            result = reduction(
                ALL_REDUCE, result, shard, {**kept, "replica_groups": groups_attribute(shards.summed)}, ADD
            )
    cut.results[0].replace_all_uses_with(result)
    cut.erase()
    op.erase()


def groups_attribute(groups: Groups) -> ir.Attribute:
    """`groups` as the attribute `replica_groups` of a collective; smaller ones end in -1."""
    size = max(map(len, groups))
    numbers: Any = np.array([(*group, *[-1] * (size - len(group))) for group in groups], np.int64)
    return ir.DenseIntElementsAttr.get(numbers)
