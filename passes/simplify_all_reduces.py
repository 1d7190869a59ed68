"""Reductions of uniform values as arithmetic on each device."""

import itertools
from collections.abc import Sequence

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from paropt.passes.dataflow.engine import backward
from paropt.passes.dataflow.uniformity import Uniformity
from paropt.passes.ir.constants import CONSTANT
from paropt.passes.ir.op_table import is_elementwise, is_same_in_group, keeps_elements, ops_with
from paropt.passes.reductions.uniform_terms import SUBTRACT, UniformTerm, uniform_terms
from paropt.passes.sharding.collectives import (
    ADD,
    ALL_REDUCE,
    IDEMPOTENT,
    Reduction,
    reduced_over,
    reduction_of,
)
from paropt.passes.support.registry import register
from paropt.passes.support.remarks import Declined, Remark, applied, missed, require
from paropt.passes.support.traversal import defining_op, op_of, ops_of

NAME = "simplify-all-reduces"

_BROADCAST = "stablehlo.broadcast_in_dim"
_MOST_VALUES = 64  # that are looked at for each reduction


@register
def simplify_all_reduces(module: ir.Operation) -> list[Remark]:
    """Replace the all_reduce of a uniform value by a multiplication with the number of devices.

    JAX's automatic differentiation sums the gradients of replicated values, under `jax.shard_map` with `check_vma`.
    Steps that `pmean` these gradients, as they did under `pmap`, reduce them twice in each micro-batch.

    A program may carry a mean on, `acc = pmean(acc + g)`: the accumulator is uniform, so its mean is the accumulator,
    and only the other terms have to be reduced. Such a sum can leave its loop.

    Before:

        %a = all_reduce(%x)
        %b = all_reduce(%a)                         of 8 devices

        %s = add %acc, %g
        %r = all_reduce(%s)                         of 8 devices
        %next = divide %r, %eight

    After:

        %a = all_reduce(%x)
        %b = multiply %a, %eight

        %r = all_reduce(%g)
        %m = divide %r, %eight
        %next = add %acc, %m

    A maximum, minimum, and, or of a uniform value is that value. So is a reduction over groups of one
    device each, as over a mesh axis of size 1: it goes without a remark, as nothing is sent.

    Legal when:

    - the reduced value is uniform over the replica groups
    - the reduction can be moved: its reducer is one op, its groups are known, its shape is static
    - the reducer is add, maximum, minimum, and, or
    - all its replica groups are of one size, and list devices (with a channel but no global ids, each is many devices)
    - the element type is numeric, and represents the number of devices exactly
    - a term that is taken out is uniform over the replica groups
    - a sum with such a term is multiplied by exactly one over the number of devices; a maximum or minimum, by nothing
    - such a term is combined with others by the op of the reducer

    Worth it when:

    - the reduced value is an elementwise function of reductions over the same devices, constants and scalars
    - a term that is taken out is a loop-carried value with the result as its next value, perhaps with other terms, or
      the result of an all_reduce over the same devices; nothing else reads it

    A sum of equal floats is rounded once, not at each addition. Of a mean with a term taken out, the sum and the
    division are reassociated, so it may differ by rounding.

    Sources: XLA `AllReduceSimplifier`, by `HloReplicationAnalysis`.
    """
    found = ops_of(module, ALL_REDUCE)
    if not found:
        return []
    for op in filter(_is_of_one_device, found):
        _replace(op, 1)
    done: list[Remark] = []
    while True:  # the result of one may be the operand of another
        blocks: dict[ir.Block, list[ir.Operation]] = {}
        for op in ops_of(module, ALL_REDUCE):
            blocks.setdefault(op.block, []).append(op)
        remarks = [
            remark for block, ops in blocks.items() for remark in (*_simplify(block, ops), *_take_out_terms(block))
        ]
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
                uniformity[reduction].require_uniform(operand, "its operand", op)
            factors.append((op, _factor(op, reduction)))
        except Declined as declined:
            remarks.append(missed(NAME, op, declined))
    for op, factor in factors:
        remarks.append(
            applied(NAME, op, f"its operand is uniform over the replica groups: it is multiplied by {factor}")
        )
        _replace(op, factor)
    return remarks


def _is_of_one_device(op: ir.Operation) -> bool:
    """Whether each device reduces only its own value."""
    try:
        return _group_size(op, reduction_of(op)) == 1
    except Declined:
        return False


def _replace(op: ir.Operation, factor: int) -> None:
    for operand, result in zip(op.operands, op.results, strict=True):
        result.replace_all_uses_with(_times(operand, factor, op))
    op.erase()


def _take_out_terms(block: ir.Block) -> list[Remark]:
    """Takes uniform terms out of the operands of reductions in `block`."""
    remarks: list[Remark] = []
    uniformity: dict[Reduction, Uniformity] = {}  # of the program as it was
    taken: list[UniformTerm] = []
    for each in uniform_terms(block):
        op = each.all_reduce
        try:
            reduction = reduction_of(op)
            if each.made_by is not None and not reduced_over(each.made_by, reduction):
                continue
            _require_own_mean(each, reduction)
            if reduction not in uniformity:
                uniformity[reduction] = Uniformity(block, reduction)
            uniformity[reduction].require_uniform(each.term, "a term of its operand", op)
        except Declined as declined:
            if each.made_by is None:  # else it is hardly meant for a mean that is carried on
                remarks.append(missed(NAME, op, declined))
            continue
        taken.append(each)
        remarks.append(applied(NAME, op, "a uniform term is added after it"))
    for each in reversed(taken):  # the results of the first ones are terms of the others
        _take_out(each)
    return remarks


def _require_own_mean(found: UniformTerm, reduction: Reduction) -> None:
    """Declines unless the term adds the same to the result, on each device, as to the operand."""
    op = found.all_reduce
    fits = found.combined_by <= ({*ops_with("sum")} if reduction.is_sum else {reduction.combiner})
    require(fits, f"{' and '.join(sorted(found.combined_by))} does not commute with the reduction", op)
    if reduction.is_sum:
        count = _group_size(op, reduction)
        exact = abs(found.factor) * count == 1
        require(exact, f"a uniform term is not multiplied by one over the number of devices, {count}", op)
    else:
        require(found.factor == 1, f"a multiply does not commute with {reduction.combiner}", op)


def _take_out(found: UniformTerm) -> None:
    """Combines the term with the reduction of the others."""
    addition = found.addition
    is_first = addition.operands[0] == found.term
    others = addition.operands[1 if is_first else 0]
    if addition.name == SUBTRACT and is_first:
        with ir.InsertionPoint(addition), addition.location:
            others = stablehlo.negate(others)
    addition.results[0].replace_all_uses_with(others)
    readers = list(found.end.uses)
    name = SUBTRACT if found.factor < 0 else reduction_of(found.all_reduce).combiner
    operands = [found.end, found.term] if found.factor < 0 else [found.term, found.end]
    with ir.InsertionPoint.after(op_of(found.end)), addition.location:
        combined = ir.Operation.create(name, results=[found.end.type], operands=operands)
    for use in readers:
        use.owner.operation.operands[use.operand_number] = combined.results[0]
    addition.erase()


def _made_of(value: ir.Value) -> list[ir.Operation]:
    """The reductions and gathers of which ops on elements make `value`; none if they make it of other arrays, too."""
    found: list[ir.Operation] = []
    for number, each in enumerate(backward([value], _looked_through)):
        op = defining_op(each)
        is_other = op is None or not (is_same_in_group(op) or _is_looked_through(op) or op.name == CONSTANT)
        if number == _MOST_VALUES or (is_other and ir.RankedTensorType(each.type).shape):
            return []
        found += [op] if op is not None and is_same_in_group(op) else []
    return found


def _looked_through(value: ir.Value) -> Sequence[ir.Value]:
    op = defining_op(value)
    return op.operands if op is not None and not is_same_in_group(op) and _is_looked_through(op) else ()


def _is_looked_through(op: ir.Operation) -> bool:
    return is_elementwise(op) or keeps_elements(op) or op.name == _BROADCAST


def _factor(op: ir.Operation, reduction: Reduction) -> int:
    """The factor by which `op` multiplies a uniform operand."""
    factor = _group_size(op, reduction)
    if reduction.combiner in IDEMPOTENT:
        return 1
    require(reduction.combiner == ADD, f"the reducer is {reduction.combiner}", op)
    element = ir.RankedTensorType(op.results[0].type).element_type
    require(_number(element, factor) is not None, f"{element} has no {factor}", op)
    return factor


def _group_size(op: ir.Operation, reduction: Reduction) -> int:
    """The number of devices in each group of `op`."""
    sizes = {len(group) for group in reduction.groups}
    require(len(sizes) == 1, "its replica groups are of several sizes, or not known", op)
    listed = reduction.global_ids or not reduction.crosses_partitions
    require(listed, "each id in its replica groups stands for several devices", op)
    (size,) = sizes
    return size


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
