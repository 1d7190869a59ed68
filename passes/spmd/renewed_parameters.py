"""Parameters that a loop changes in some trips only, as `optax.MultiSteps` does in the last of each group.

The trips between two changes read one value. Which trips change it may depend on an argument of the program: that is
told by a scalar of the trip, such as the predicate of the update.

Tests: test/passes/hoist-gathers-renewed.mlir, test/numeric/test_renewed_parameters.py.
"""

from collections.abc import Callable
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.dataflow.scalar_masks import mask_under, scalar_under
from paropt.passes.ir.branches import BRANCHES, chosen, ends_of
from paropt.passes.ir.constants import is_zero
from paropt.passes.ir.constraints import unconstrained
from paropt.passes.ir.loops import Loop
from paropt.passes.ir.types import widens
from paropt.passes.support.traversal import captured, defining_op

_ADD, _SUBTRACT = "stablehlo.add", "stablehlo.subtract"
_SELECT, _MULTIPLY, _CONVERT = "stablehlo.select", "stablehlo.multiply", "stablehlo.convert"
_DEEPEST = 6  # products within each other


class Change(NamedTuple):
    """When a trip changes a value: where the scalar `predicate` of its body is not 0, or else where it is."""

    predicate: ir.Value
    where_true: bool
    by_addend: bool = False  # by an update that is 0 in other trips: of finite numbers only, and -0 + 0 is 0


class Renewal(NamedTuple):
    """A loop-carried value, and when a trip changes it for the trips behind it."""

    position: int
    change: Change


def renewal_of(loop: Loop, value: ir.Value) -> Renewal | None:
    """How `loop` changes `value`, which it begins with; None where any trip may change it, or it is read otherwise."""
    positions = [number for number, init in enumerate(loop.op.operands) if init == value]
    if len(positions) != 1 or value in captured(loop.op):
        return None
    (position,) = positions
    change = _change(loop.next_values.operands[position], loop.body.arguments[position])
    return Renewal(position, change) if change is not None else None


def _change(value: ir.Value, before: ir.Value) -> Change | None:
    """When `value` is another one than `before`; None where that is not known."""
    value = _rounded(unconstrained(value), before)
    op = defining_op(value)
    if op is None:
        return None
    kept = [0, 1] if op.name == _ADD else [0] if op.name == _SUBTRACT else []
    if kept:
        others = [op.operands[1 - number] for number in kept if _is_same(op.operands[number], before)]
        change = _nonzero(others[0]) if len(others) == 1 else None
        return change._replace(by_addend=True) if change is not None else None
    return _other_side(value, lambda side: _is_same(side, before))


def _rounded(value: ir.Value, before: ir.Value) -> ir.Value:
    """The value that `value` is rounded from, where it is computed in a wider type than the narrow one of `before`."""
    op = defining_op(value)
    is_narrowed = op is not None and op.name == _CONVERT and _widens(value.type, op.operands[0].type)
    return unconstrained(op.operands[0]) if is_narrowed and op is not None and value.type == before.type else value


def _is_same(value: ir.Value, before: ir.Value) -> bool:
    """Whether `value` is `before`, or that in a wider type, which rounds to it again."""
    value = unconstrained(value)
    op = defining_op(value)
    if op is not None and op.name == _CONVERT and _widens(op.operands[0].type, value.type):
        value = unconstrained(op.operands[0])
    return bool(value == before)


def _widens(narrow: ir.Type, wide: ir.Type) -> bool:
    """Whether each number of the first type is one of the second, which has more."""
    first, second = (ir.RankedTensorType(each).element_type for each in (narrow, wide))
    return bool(first != second) and widens(first, second)


def _other_side(value: ir.Value, is_kept: Callable[[ir.Value], bool]) -> Change | None:
    """When `value` is selected, by a scalar, from that side of two of which `is_kept` does not hold; None unless it
    holds of the other."""
    op = defining_op(value)
    if op is None:
        return None
    if op.name == _SELECT:
        predicate, sides = scalar_under(op.operands[0]), [op.operands[2], op.operands[1]]
    elif op.name in BRANCHES and len(op.regions) == 2:
        predicate, number = op.operands[0], ir.OpResult(value).result_number
        ends = ends_of(op)
        sides = [ends[chosen(op, truth)].operands[number] for truth in (0, 1)]
    else:
        return None
    kept = [is_kept(side) for side in sides]
    if predicate is None or kept.count(True) != 1:
        return None
    return Change(predicate, where_true=kept[0])


def _nonzero(value: ir.Value, depth: int = _DEEPEST) -> Change | None:
    """When `value` may be other than 0, of finite numbers; None where that is not known."""
    value = unconstrained(value)
    op = defining_op(value)
    if op is None or not depth:
        return None
    if op.name == _CONVERT:
        return _nonzero(op.operands[0], depth - 1)
    if op.name == _MULTIPLY:
        masks = [mask for factor in op.operands if (mask := mask_under(factor)) is not None]
        if masks:
            return Change(masks[0], where_true=True)
        found = (_nonzero(factor, depth - 1) for factor in op.operands)
        return next((change for change in found if change is not None), None)
    return _other_side(value, is_zero)
