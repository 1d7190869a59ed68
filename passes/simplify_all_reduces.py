"""Replaces reductions of what all their devices have already by arithmetic on each device."""

import itertools

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from paropt.passes.analysis.collectives import (
    ADD,
    ALL_GATHER,
    ALL_REDUCE,
    IDEMPOTENT,
    Reduction,
    reduced_over,
    reduction_of,
)
from paropt.passes.analysis.constants import CONSTANT
from paropt.passes.analysis.uniformity import ELEMENTWISE, Uniformity
from paropt.passes.core.registry import register
from paropt.passes.core.remarks import Declined, Remark, applied, missed, require
from paropt.passes.core.traversal import defining_op, ops_of

NAME = "simplify-all-reduces"

_LOOKED_THROUGH = ELEMENTWISE | {f"stablehlo.{name}" for name in ("broadcast_in_dim", "reshape", "transpose")}
_GATHERED = (ALL_REDUCE, ALL_GATHER)
_MOST_VALUES = 64  # that are looked at for each reduction


@register
def simplify_all_reduces(module: ir.Operation) -> list[Remark]:
    """Multiply what is reduced already by the number of devices, where a program reduces it once more.

    JAX's automatic differentiation sums the gradients of what all devices have, under `jax.shard_map` with
    `check_vma`. Steps that `pmean` these gradients, as they did under `pmap`, reduce them twice in each micro-batch.

    Before:

        %a = all_reduce(%x)
        %b = all_reduce(%a)                         of 8 devices

    After:

        %a = all_reduce(%x)
        %b = multiply %a, %eight

    A maximum, minimum, and, or of what is the same on all devices is that itself.

    Legal when:

    - what it reduces is uniform over its replica groups
    - it is one that can be moved: one op as its reducer, known groups, static shapes
    - it adds, or takes the maximum, minimum, and, or
    - all its replica groups are of one size, and list devices (with a channel but no global ids, each is many devices)
    - its element type is of numbers, and has the number of devices, not a rounded one

    Worth it when:

    - it reduces what ops on elements make of reductions over the same devices, constants and scalars

    A sum of equal floats is rounded once, not at each addition.

    Sources: XLA `AllReduceSimplifier`, by `HloReplicationAnalysis`.
    """
    done: list[Remark] = []
    while True:  # what one leaves may be all that another reduces
        blocks: dict[ir.Block, list[ir.Operation]] = {}
        for op in ops_of(module, ALL_REDUCE):
            blocks.setdefault(op.block, []).append(op)
        remarks = [remark for block, ops in blocks.items() for remark in _simplify(block, ops)]
        made = [remark for remark in remarks if remark.applied]
        done += made
        if not made:
            return done + remarks


def _simplify(block: ir.Block, all_reduces: list[ir.Operation]) -> list[Remark]:
    remarks: list[Remark] = []
    uniformity: dict[Reduction, Uniformity] = {}  # of the program as it was
    factors: list[tuple[ir.Operation, int]] = []
    for op in all_reduces:
        made_of = [_made_of(operand) for operand in op.operands]
        if not all(made_of):
            continue
        try:
            reduction = reduction_of(op)
            if not all(reduced_over(each, reduction) for each in itertools.chain(*made_of)):
                continue
            if reduction not in uniformity:
                uniformity[reduction] = Uniformity(block, reduction)
            for operand in op.operands:
                uniformity[reduction].require_uniform(operand, "what it reduces", op)
            factors.append((op, _factor(op, reduction)))
        except Declined as declined:
            remarks.append(missed(NAME, op, declined))
    for op, factor in factors:
        remarks.append(applied(NAME, op, f"all devices of a group have the same: it is that, {factor} times"))
        for operand, result in zip(op.operands, op.results, strict=True):
            result.replace_all_uses_with(_times(operand, factor, op))
        op.erase()
    return remarks


def _made_of(value: ir.Value) -> list[ir.Operation]:
    """The reductions and gathers of which ops on elements make `value`; none if they make it of other arrays, too."""
    waiting, seen = [value], {value}
    found: list[ir.Operation] = []
    while waiting and len(seen) <= _MOST_VALUES:
        op = defining_op(each := waiting.pop())
        if op is not None and op.name in _GATHERED:
            found.append(op)
        elif op is not None and op.name in _LOOKED_THROUGH:
            new = dict.fromkeys(operand for operand in op.operands if operand not in seen)
            waiting += new
            seen.update(new)
        elif (op is None or op.name != CONSTANT) and ir.RankedTensorType(each.type).shape:
            return []
    return found if not waiting else []


def _factor(op: ir.Operation, reduction: Reduction) -> int:
    """How many times what all devices of a group have `op` makes of it."""
    sizes = {len(group) for group in reduction.groups}
    require(len(sizes) == 1, "its replica groups are of several sizes, or not known", op)
    listed = reduction.global_ids or not reduction.crosses_partitions
    require(listed, "each number in its replica groups is many devices", op)
    if reduction.combiner in IDEMPOTENT:
        return 1
    require(reduction.combiner == ADD, f"the reducer is {reduction.combiner}", op)
    (factor,) = sizes
    element = ir.RankedTensorType(op.results[0].type).element_type
    require(_number(element, factor) is not None, f"{element} has no {factor}", op)
    return factor


def _number(element: ir.Type, number: int) -> ir.Attribute | None:
    """`number`, of devices, as an element; None where that would be another number."""
    if isinstance(element, ir.IntegerType):
        return ir.IntegerAttr.get(element, number) if number < 1 << element.width - 1 else None
    if not isinstance(element, ir.FloatType):
        return None
    rounded = ir.FloatAttr.get(element, number, loc=ir.Location.unknown(element.context))
    return rounded if rounded.value == number else None


def _times(value: ir.Value, factor: int, op: ir.Operation) -> ir.Value:
    if factor == 1:
        return value
    tensor = ir.RankedTensorType(value.type)
    number = _number(tensor.element_type, factor)
    assert number is not None, "it is asked first"
    with op.context, ir.InsertionPoint(op), op.location:
        return stablehlo.multiply(value, stablehlo.constant(ir.DenseElementsAttr.get_splat(tensor, number)))
