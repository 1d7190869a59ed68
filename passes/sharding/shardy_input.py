"""A program as XLA hands it to Shardy: simplified, as far as that changes the shardings that it infers.

XLA drops ops that leave a value as it is, turns loops that carry a value unchanged into loops that read it from
outside, lets what they read be split further than the program says, and makes reshapes of broadcasts that only add
dimensions of one element.

Tests: test/numeric/test_as_xla_splits.py.
"""

from collections.abc import Callable, Iterator
from typing import Any

from jaxlib.mlir import ir

from paropt.passes.ir.constants import CONSTANT, splat_of
from paropt.passes.ir.constraints import CONSTRAINT
from paropt.passes.ir.loops import WHILE, Loop
from paropt.passes.ir.op_table import keeps_elements
from paropt.passes.ir.types import unsqueezes
from paropt.passes.sharding.shardings import MANUAL, open_sharding, rank_of, sharding_of
from paropt.passes.support.traversal import defining_op, op_of, ops_of, parent_of

_BROADCAST, _RESHAPE, _TRANSPOSE = "stablehlo.broadcast_in_dim", "stablehlo.reshape", "stablehlo.transpose"
_COMPLEX, _CUSTOM_CALL = "stablehlo.complex", "stablehlo.custom_call"

Same = dict[ir.Value, ir.Value]  # of the results of ops that leave a value as it is: that value


def same_values(root: ir.Operation) -> Same:
    """What XLA reads in place of the results of ops that leave a value as it is, such as a product with one.

    It drops these ops before it splits anything. `bypass` does it to a copy.
    """
    same: Same = {}
    for op in ops_of(root, *_SAME):  # in program order
        value = _SAME[op.name](op, same)
        if value is not None:
            same[op.results[0]] = same.get(value, value)
    return same


def _with_number(number: int, *positions: int) -> Callable[[ir.Operation, Same], ir.Value | None]:
    """The other operand, where one of those at `positions` is that number."""

    def other(op: ir.Operation, _: Same) -> ir.Value | None:
        at = next((i for i in positions if _is_number(op.operands[i], number)), None)
        return None if at is None else op.operands[1 - at]

    return other


def _is_number(value: ir.Value, number: int) -> bool:
    splat = _number(value)
    return splat is not None and bool(splat.value == number)


def _number(value: ir.Value) -> Any:
    """The attribute of the one number that `value` is full of; None of complex ones, which XLA does not fold."""
    made = defining_op(value)
    while made is not None and (keeps_elements(made) or made.name == _BROADCAST):  # as MHLO's folders do
        made = defining_op(made.operands[0])
    return splat_of(made) if made is not None and made.name == CONSTANT else None


def _all_ones(op: ir.Operation, _: Same) -> ir.Value | None:
    for position in (0, 1):
        element, splat = ir.RankedTensorType(op.results[0].type).element_type, _number(op.operands[position])
        if splat is not None and int(splat.value) in (-1, 2 ** ir.IntegerType(element).width - 1):
            return op.operands[1 - position]
    return None


def _chosen(select: ir.Operation, _: Same) -> ir.Value | None:
    predicate, on_true, on_false = select.operands
    if on_true == on_false:
        return on_true
    splat = _number(predicate)
    return None if splat is None else on_true if splat.value else on_false


def _whole(op: ir.Operation, _: Same) -> ir.Value | None:
    """The operand of a slice, a pad, a conversion or the like of which the type says that it keeps all."""
    kept = op.operands[0].type == op.results[0].type
    return op.operands[0] if kept and ir.RankedTensorType(op.results[0].type).has_static_shape else None


def _kept_by_pad(op: ir.Operation, same: Same) -> ir.Value | None:
    amounts = (ir.DenseI64ArrayAttr(op.attributes[f"edge_padding_{side}"]) for side in ("low", "high"))
    return _whole(op, same) if not any(amount for side in amounts for amount in side) else None


def _kept_by_broadcast(op: ir.Operation, same: Same) -> ir.Value | None:
    dimensions = list(ir.DenseI64ArrayAttr(op.attributes["broadcast_dimensions"]))
    return _whole(op, same) if dimensions == sorted(dimensions) else None


def _reshaped_back(op: ir.Operation, same: Same) -> ir.Value | None:
    value = op.operands[0]
    while (made := defining_op(value := same.get(value, value))) is not None and made.name == _RESHAPE:
        value = made.operands[0]
    return value if value.type == op.results[0].type else None


def _transposed_back(op: ir.Operation, same: Same) -> ir.Value | None:
    order = list(ir.DenseI64ArrayAttr(op.attributes["permutation"]))
    if order == sorted(order):
        return op.operands[0]
    made = defining_op(same.get(op.operands[0], op.operands[0]))
    if made is None or made.name != _TRANSPOSE:
        return None
    first = ir.DenseI64ArrayAttr(made.attributes["permutation"])
    return made.operands[0] if [first[i] for i in order] == sorted(order) else None


def _part(number: int) -> Callable[[ir.Operation, Same], ir.Value | None]:
    """The part of a complex number that is made of two."""

    def part(op: ir.Operation, same: Same) -> ir.Value | None:
        made = defining_op(same.get(op.operands[0], op.operands[0]))
        return made.operands[number] if made is not None and made.name == _COMPLEX else None

    return part


# Ops that may leave a value as it is, and which; measured on what XLA hands to Shardy. Not division, nor maximum.
_SAME: dict[str, Callable[[ir.Operation, Same], ir.Value | None]] = {
    "stablehlo.add": _with_number(0, 0, 1),
    "stablehlo.subtract": _with_number(0, 1),
    "stablehlo.multiply": _with_number(1, 0, 1),
    "stablehlo.or": _with_number(0, 0, 1),
    "stablehlo.xor": _with_number(0, 0, 1),
    "stablehlo.and": _all_ones,
    "stablehlo.select": _chosen,
    "stablehlo.convert": _whole,
    "stablehlo.slice": _whole,
    "stablehlo.concatenate": _whole,
    "stablehlo.pad": _kept_by_pad,
    _BROADCAST: _kept_by_broadcast,
    _RESHAPE: _reshaped_back,
    _TRANSPOSE: _transposed_back,
    "stablehlo.real": _part(0),
    "stablehlo.imag": _part(1),
}


def bypass(result: ir.Value, value: ir.Value) -> None:
    """Has all that reads `result` read `value`; its op stays, so that it can be asked about."""
    op = op_of(result)
    result.replace_all_uses_with(value)
    with op.context, ir.InsertionPoint.after(op), op.location:
        _call("keep", result)


def _call(name: str, *operands: ir.Value, result: ir.Type | None = None) -> ir.Operation:
    """Of a function about which nothing is known, made at the insertion point."""
    attributes = {"call_target_name": ir.StringAttr.get(name), "has_side_effect": ir.BoolAttr.get(True)}
    results = [] if result is None else [result]
    return ir.Operation.create(_CUSTOM_CALL, operands=list(operands), results=results, attributes=attributes)


def reshape(broadcast: ir.Operation) -> None:
    """Makes a reshape of what only adds dimensions of one element."""
    operand, result = broadcast.operands[0], broadcast.results[0]
    if not ir.RankedTensorType(result.type).has_static_shape or not unsqueezes(broadcast):
        return
    with broadcast.context, ir.InsertionPoint(broadcast), broadcast.location:
        reshaped = ir.Operation.create(_RESHAPE, results=[result.type], operands=[operand])
    result.replace_all_uses_with(reshaped.results[0])
    broadcast.erase()


def lift_unchanged(loop: ir.Operation) -> list[int]:
    """Lets the loop read from outside what it carries and never changes. Returns the positions of these values.

    It carries something else there: what Shardy propagates along a loop would reach the value, which XLA has outside.
    """
    parts = Loop(loop)
    carried = zip(parts.body.arguments, parts.next_values.operands, strict=True)
    positions = [position for position, (argument, following) in enumerate(carried) if argument == following]
    for position in positions:
        value = loop.operands[position]
        for carrier in (parts.condition.arguments, parts.body.arguments, loop.results):
            carrier[position].replace_all_uses_with(value)
        parts.next_values.operands[position] = parts.body.arguments[position]
        with loop.context, ir.InsertionPoint(loop), loop.location:
            loop.operands[position] = _call("other", result=value.type).results[0]
    return positions


def open_read_by_loops(root: ir.Operation) -> list[ir.Operation]:
    """Lets each loop split further what it reads from outside and the program says how to split.

    Returns the constraints that allow it, each in front of its loop.
    """
    constraints: list[ir.Operation] = []
    for value, mesh in list(_said(root)):
        while (inside := _read_in_a_loop(value)) is not None:
            loop, uses = inside
            with loop.context, ir.InsertionPoint(loop), loop.location:
                attributes = {"sharding": open_sharding(mesh, [()] * rank_of(value))}
                constraint = ir.Operation.create(CONSTRAINT, [value.type], [value], attributes)
            for use in uses:
                use.owner.operation.operands[use.operand_number] = constraint.results[0]
            constraints.append(constraint)
    return constraints


def _said(root: ir.Operation) -> Iterator[tuple[ir.Value, str]]:
    """The values of which the program says how they are split, and over which mesh."""
    functions = [function.regions[0].blocks for function in ops_of(root, "func.func")]
    arguments = [argument for blocks in functions if len(blocks) for argument in blocks[0].arguments]
    results = [result for op in ops_of(root, CONSTRAINT, MANUAL) for result in op.results]
    for value in (*arguments, *results):
        sharding = sharding_of(value)
        if sharding is not None and rank_of(value):
            yield value, sharding.mesh


def _read_in_a_loop(value: ir.Value) -> tuple[ir.Operation, list[ir.OpOperand]] | None:
    """A loop that reads `value` from outside, no loop in which does, and where it does; None when there is no more."""
    around = [(list(_loops_around(use.owner.operation, value)), use) for use in value.uses]
    depth = max((len(loops) for loops, _ in around), default=0)
    loop = next((loops[0] for loops, _ in around if depth and len(loops) == depth), None)
    return (loop, [use for loops, use in around if loops and loops[0] == loop]) if loop is not None else None


def _loops_around(op: ir.Operation, value: ir.Value) -> Iterator[ir.Operation]:
    """The loops around `op` that `value` is outside of, inner ones first."""
    block = value.owner if isinstance(value.owner, ir.Block) else value.owner.operation.block
    while op.block != block:
        op = parent_of(op)
        if op.name == WHILE:
            yield op
