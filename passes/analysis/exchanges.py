"""Where devices exchange parts of a value for one reader, because XLA alone decides so on some targets only."""

from collections.abc import Sequence

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from paropt.passes.analysis.propagation import Propagated
from paropt.passes.analysis.shardings import Axes, Sharding, names_of
from paropt.passes.analysis.types import tensor_of
from paropt.passes.core.remarks import require
from paropt.passes.core.traversal import defining_op


def require_not_exchanged(op: ir.Operation, splits: Sequence[tuple[Axes, ...]], propagated: Propagated) -> None:
    """Declines where a batched scatter alone splits what is added up so that devices exchange parts for the sum.

    So of `take_along_axis` of logits that are split by classes. XLA:TPU makes a select of that scatter before it
    propagates shardings (`sparse-gradient-rewrite`): the select follows the classes, and the other operand is gathered.
    """
    for operand, split in zip(op.operands, splits, strict=True):
        axes = names_of(axis for over in split for axis in over)
        exchange = _exchange_before(operand, axes, propagated) if axes else None
        over = ", ".join(sorted(axes))
        require(exchange is None, f"for it, a scatter has devices exchange what is split over {over}", exchange)


def _exchange_before(value: ir.Value, axes: frozenset[str], propagated: Propagated) -> ir.Operation | None:
    """The op on elements on the way to `value` that reads a batched scatter, and else what is split over `axes`."""
    waiting, seen = [value], {value}
    while waiting:
        op = defining_op(waiting.pop())
        if op is None or not _is_on_elements(op):
            continue
        made, lies = propagated.sharding_of(op.results[0]), propagated.operand_shardings(op)
        apart = [made is not None and each is not None and _differ(made, each, axes) for each in lies]
        if any(apart) and any(map(_is_batched_scatter, op.operands)):
            return op
        waiting += [operand for operand in op.operands if operand not in seen]
        seen.update(op.operands)
    return None


def _is_on_elements(op: ir.Operation) -> bool:
    tensors = [tensor_of(value) for value in (op.results[0], *op.operands)]
    shapes = {str(tensor.shape) if tensor is not None else "" for tensor in tensors}
    return len(tensors) > 1 and len(shapes) == 1 and "" not in shapes


def _is_batched_scatter(value: ir.Value) -> bool:
    op = defining_op(value)
    while op is not None and len(op.operands) == 1 and _is_on_elements(op):
        op = defining_op(op.operands[0])
    if op is None or op.name != "stablehlo.scatter":
        return False
    return bool(stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"]).input_batching_dims)


def _differ(one: Sharding, other: Sharding, axes: frozenset[str]) -> bool:
    """Whether one of `axes` splits another dimension of the `one` than of the `other`."""
    both = axes & names_of(one.axes) & names_of(other.axes)
    return any(both & (names_of(a) ^ names_of(b)) for a, b in zip(one.dimensions, other.dimensions, strict=True))
