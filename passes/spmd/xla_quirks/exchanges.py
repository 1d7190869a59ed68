"""Exchanges of parts of a value for one reader, which XLA decides on by itself, on some targets only.

Target: TPU, GPU.
Measured with: jaxlib 0.10.2 with libtpu 0.0.42; 0.12.0.1 with libtpu 0.0.50 (TPU).
Reproducer: test/numeric/test_xla_quirks.py::test_xla_still_does_it.

Tests: test/passes/expose-all-reduces-rows.mlir, test/numeric/test_hybrid_sharding.py.
"""

from collections.abc import Collection, Sequence

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from paropt.passes.dataflow.engine import backward, exhaust, forward
from paropt.passes.ir.types import tensor_of
from paropt.passes.sharding.axes import Axes, names_of
from paropt.passes.sharding.propagation import Propagated
from paropt.passes.sharding.shardings import Sharding
from paropt.passes.support.remarks import require
from paropt.passes.support.traversal import defining_op, ops_of

_SCATTER = "stablehlo.scatter"


def exchanges(module: ir.Operation, propagated: Propagated) -> frozenset[ir.Value]:
    """The results of elementwise ops on a batched scatter and a value that the same axes shard otherwise."""
    found: set[ir.Value] = set()

    def made_by(use: ir.OpOperand) -> list[ir.Value]:
        op = use.owner.operation
        if not op.results or not _is_on_elements(op):
            return []
        if len(op.operands) == 1:
            return [op.results[0]]
        if _is_exchanged(op, None, propagated):
            found.add(op.results[0])
        return []

    exhaust(forward([op.results[0] for op in ops_of(module, _SCATTER) if _is_batched(op)], made_by))
    return frozenset(found)


def require_not_exchanged(
    op: ir.Operation, splits: Sequence[tuple[Axes, ...]], exchanged: Collection[ir.Value], propagated: Propagated
) -> None:
    """Declines where a batched scatter alone splits the addends so that devices exchange parts for the sum.

    So of `take_along_axis` of logits that are split by classes. XLA:TPU makes a select of that scatter before it
    propagates shardings (`sparse-gradient-rewrite`): the select follows the classes, and the other operand is gathered.
    `exchanged` are the `exchanges` of the module.
    """
    for operand, split in zip(op.operands, splits, strict=True) if exchanged else ():
        axes = names_of(axis for over in split for axis in over)
        exchange = _exchange_before(operand, axes, exchanged, propagated) if axes else None
        over = ", ".join(sorted(axes))
        require(
            exchange is None, f"for it, devices exchange operands of a scatter that are sharded over {over}", exchange
        )


def _exchange_before(
    value: ir.Value, axes: frozenset[str], exchanged: Collection[ir.Value], propagated: Propagated
) -> ir.Operation | None:
    """The op that makes one of `exchanged`, split over `axes`, on the way to `value` through ops on elements."""

    def ends_here(op: ir.Operation) -> bool:
        return op.results[0] in exchanged and _is_exchanged(op, axes, propagated)

    def read(value: ir.Value) -> Sequence[ir.Value]:
        op = defining_op(value)
        return op.operands if op is not None and _is_on_elements(op) else ()

    makers = map(defining_op, backward([value], read))
    return next((op for op in makers if op is not None and _is_on_elements(op) and ends_here(op)), None)


def _is_exchanged(op: ir.Operation, axes: frozenset[str] | None, propagated: Propagated) -> bool:
    """Whether one of `axes` (None: any) shards another dimension of an operand than of the result."""
    made = propagated.sharding_of(op.results[0])
    operands = propagated.operand_shardings(op) if made is not None else ()
    return any(made is not None and lies is not None and _differ(made, lies, axes) for lies in operands)


def _is_on_elements(op: ir.Operation) -> bool:
    tensors = [tensor_of(value) for value in (op.results[0], *op.operands)]
    shapes = {str(tensor.shape) if tensor is not None else "" for tensor in tensors}
    return len(tensors) > 1 and len(shapes) == 1 and "" not in shapes


def _is_batched(scatter: ir.Operation) -> bool:
    numbers = stablehlo.ScatterDimensionNumbers(scatter.attributes["scatter_dimension_numbers"])
    return bool(numbers.input_batching_dims)


def _differ(one: Sharding, other: Sharding, axes: frozenset[str] | None) -> bool:
    both = names_of(one.axes) & names_of(other.axes)
    if axes is not None:
        both &= axes
    return any(both & (names_of(a) ^ names_of(b)) for a, b in zip(one.dimensions, other.dimensions, strict=True))
