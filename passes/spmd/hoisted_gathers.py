"""All-gathers in front of a loop, and their users in it: the edit behind `hoist-gathers` in per-device programs.

Tests: test/passes/hoist-gathers-explicit.mlir, test/numeric/test_shard_map_all_gathers.py.
"""

from collections.abc import Sequence
from math import prod

from jaxlib.mlir import ir

from paropt.passes.ir.barriers import BARRIER
from paropt.passes.rewrite.erase import erase_unread
from paropt.passes.rewrite.residual_split import in_type
from paropt.passes.sharding.collectives import ALL_GATHER
from paropt.passes.sharding.shardings import SHARDING
from paropt.passes.spmd.loop_gathers import GATHERED, Copy, LoopGather, gathered_type
from paropt.passes.spmd.loop_parameters import CONVERT, DYNAMIC_SLICE, SLICE, copy_by
from paropt.passes.support.traversal import is_used


def gathered_before_loop(gathers: Sequence[LoopGather], element: ir.Type) -> None:
    """Does all of `gathers`, whose keys are equal, once in front of their loop, in that element type."""
    first = gathers[0]
    with ir.InsertionPoint(first.loop.op), first.op.location:
        whole = _gathered(first, in_type(first.value, element))
    copied: dict[ir.Value, ir.Value] = {}
    for gather in gathers:
        _read(gather, whole, copied)
    erase_unread([gather.op.results[0] for gather in gathers])


def _gathered(gather: LoopGather, value: ir.Value) -> ir.Value:
    type_ = gathered_type(gather, ir.RankedTensorType(value.type).element_type)
    kept = {name: gather.op.attributes[name] for name in gather.op.attributes if name != SHARDING}
    attributes = {**kept, GATHERED: _index(gather.dimension)}
    return ir.Operation.create(ALL_GATHER, results=[type_], operands=[value], attributes=attributes).results[0]


def _read(gather: LoopGather, whole: ir.Value, copied: dict[ir.Value, ir.Value]) -> None:
    """Has the readers of `gather` read copies of `whole`. `copied` maps copies to those already made for others."""
    value = whole
    for copy in gather.copies:
        old = copy_by(copy.use)
        if old not in copied:
            copied[old] = _copied(copy, value)
        value = copied[old]
    result = gather.op.results[0]
    for reader in [use.owner.operation for use in result.uses]:
        if reader.name == CONVERT and reader.results[0].type == value.type:
            reader.results[0].replace_all_uses_with(value)
            reader.erase()
    if not is_used(gather.op):
        return
    with ir.InsertionPoint(gather.op), gather.op.location:
        result.replace_all_uses_with(in_type(value, ir.RankedTensorType(result.type).element_type))


def _copied(copy: Copy, value: ir.Value) -> ir.Value:
    """The copy of `value`, which is unsharded along the gathered dimension, by the op of `copy`."""
    op, position = copy.use
    with ir.InsertionPoint(op), op.location:
        if op.name == CONVERT:
            return in_type(value, ir.RankedTensorType(copy_by(copy.use).type).element_type)
        shape = list(ir.RankedTensorType(copy_by(copy.use).type).shape)
        before, after = (prod(ir.RankedTensorType(v.type).shape) for v in (op.operands[position], value))
        shape[copy.dimension] *= after // before
        type_ = ir.RankedTensorType.get(shape, ir.RankedTensorType(value.type).element_type)
        others = [] if op.name == BARRIER else list(op.operands)[1:]  # the barrier holds them for other readers
        attributes = {} if op.name == BARRIER else _attributes(op, copy.dimension, shape)
        return ir.Operation.create(op.name, [type_], [value, *others], attributes=attributes).results[0]


def _attributes(op: ir.Operation, dimension: int, shape: Sequence[int]) -> dict[str, ir.Attribute]:
    """The attributes of `op`, for a result of this shape, of which it takes all of that dimension."""
    kept = {name: op.attributes[name] for name in op.attributes if name != SHARDING}
    changed = {
        DYNAMIC_SLICE: {"slice_sizes": shape[dimension]},
        SLICE: {"start_indices": 0, "limit_indices": shape[dimension], "strides": 1},
    }.get(op.name, {})
    for name, number in changed.items():
        numbers = list(ir.DenseI64ArrayAttr(kept[name]))
        numbers[dimension] = number
        kept[name] = ir.DenseI64ArrayAttr.get(numbers)
    return kept


def _index(number: int) -> ir.Attribute:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)
