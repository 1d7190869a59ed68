"""A program as XLA hands it to Shardy: what XLA makes of it first, as far as that decides how values are split.

XLA drops sums with zero and products with one, turns loops that carry a value unchanged into loops that read it from
outside, lets what they read be split further than the program says, and makes reshapes of broadcasts that only add
dimensions of one element.
"""

from collections.abc import Iterator
from typing import Any

from jaxlib.mlir import ir

from paropt.passes.analysis.constants import CONSTANT, splat_of
from paropt.passes.analysis.linearity import unsqueezes
from paropt.passes.analysis.loops import WHILE, Loop
from paropt.passes.analysis.shardings import CONSTRAINT, MANUAL, open_sharding, rank_of, sharding_of
from paropt.passes.core.traversal import defining_op, ops_of, parent_of

_BROADCAST, _RESHAPE, _CUSTOM_CALL = (f"stablehlo.{name}" for name in ("broadcast_in_dim", "reshape", "custom_call"))
# Ops that make what they read of it, the number, and at which operands that may be. MHLO's folders; not division.
_NEUTRAL = {"stablehlo.add": (0, (0, 1)), "stablehlo.subtract": (0, (1,)), "stablehlo.multiply": (1, (0, 1))}


def neutral_ops(root: ir.Operation) -> list[tuple[ir.Operation, int]]:
    """The sums with zero, and products with one, and at which operand they have what they are."""
    found: list[tuple[ir.Operation, int]] = []
    for op in ops_of(root, *_NEUTRAL):
        number, positions = _NEUTRAL[op.name]
        at = next((i for i in positions if _is_number(op.operands[i], number)), None)
        if at is not None:
            found.append((op, 1 - at))
    return found


def _is_number(value: ir.Value, number: int) -> bool:
    made = defining_op(value)
    while made is not None and made.name == _BROADCAST:
        made = defining_op(made.operands[0])
    splat: Any = splat_of(made) if made is not None and made.name == CONSTANT else None
    return splat is not None and bool(splat.value == number)


def bypass(op: ir.Operation, position: int) -> None:
    """Has all that reads the result of `op` read that operand; `op` itself stays, so that it can be asked about."""
    result = op.results[0]
    result.replace_all_uses_with(op.operands[position])
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
