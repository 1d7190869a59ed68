"""Ops through which XLA tracks unreduced values although they read other values, too.

In a global-view program, a sharding constraint declares a value unreduced, and XLA trusts it through ops that do the
same on each device as on the whole array, as most linear ops do. The ops of this table read other values, too, which
XLA may reshard, or reduce over dimensions that may be sharded: the conditions of each row were measured, on CPU, TPU
and GPU.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from paropt.passes.ir.barriers import made_of
from paropt.passes.ir.op_table import ops_with
from paropt.passes.ir.types import real_of
from paropt.passes.sharding.annotations import MOVES, noted_operands, noted_sharding
from paropt.passes.sharding.axes import Axes, names_of
from paropt.passes.sharding.shardings import Sharding
from paropt.passes.support.remarks import Declined, refusal, require

UNEQUAL_PARTS = "an unreduced value is sharded into unequal parts"
PARTS_MOVE = "XLA would move unreduced values between devices, and add the wrong parts"


class TrackedRow(NamedTuple):
    """An op that XLA tracks, where no dimension is sharded that `whole` names."""

    op: str
    require: Callable[[ir.Operation], None]
    whole: Callable[[ir.Operation], list[frozenset[int]]]  # per operand
    reason: str


def always(_: ir.Operation) -> None:
    """Declines nothing."""


def _adds_up(op: ir.Operation) -> None:
    adds = any(contracted(op))
    require(
        adds, "XLA:TPU and XLA:GPU make a product of broadcasts of a dot_general without contracting dimensions", op
    )


def require_one_group(op: ir.Operation) -> None:
    """Declines a convolution in groups, which XLA:TPU and XLA:GPU reduce after they have made other ops of it."""
    counts = [ir.IntegerAttr(op.attributes[name]).value for name in ("feature_group_count", "batch_group_count")]
    require(counts == [1, 1], "XLA reduces a grouped convolution itself, whatever the constraints", op)


def _is_of_one_array(op: ir.Operation) -> None:
    require(len(op.operands) == 3, "a scatter of several arrays", op)


def contracted(op: ir.Operation) -> list[frozenset[int]]:
    """The contracting dimensions of each operand."""
    numbers = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    return [frozenset(numbers.lhs_contracting_dimensions), frozenset(numbers.rhs_contracting_dimensions)]


def convolved(op: ir.Operation) -> list[frozenset[int]]:
    """All dimensions but the examples and the features of the result: a sharded window would be exchanged."""
    numbers = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    return [
        _but(op.operands[0], [numbers.input_batch_dimension]),
        _but(op.operands[1], [numbers.kernel_output_feature_dimension]),
    ]


def _indexed(op: ir.Operation) -> list[frozenset[int]]:
    """All dimensions but those of the rows that are added."""
    numbers = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    rows = frozenset(numbers.inserted_window_dims) | frozenset(numbers.scattered_dims_to_operand_dims)
    rows |= frozenset(numbers.input_batching_dims)
    return [rows, _but(op.operands[1], []), _but(op.operands[2], numbers.update_window_dims)]


def _looked_up(op: ir.Operation) -> list[frozenset[int]]:
    """The dimensions of which parts are looked up: XLA sums the devices' results twice along a sharded one."""
    shape = ir.RankedTensorType(op.operands[0].type).shape
    sizes = ir.DenseI64ArrayAttr(op.attributes["slice_sizes"])
    return [frozenset(i for i, size in enumerate(sizes) if size < shape[i]), frozenset()]


def _but(value: ir.Value, dimensions: Sequence[int]) -> frozenset[int]:
    return frozenset(range(ir.RankedTensorType(value.type).rank)) - frozenset(dimensions)


_TABLE = (
    TrackedRow("stablehlo.dot_general", _adds_up, contracted, "each device multiplies its addend by the same factor"),
    TrackedRow("stablehlo.convolution", require_one_group, convolved, "the same, of its window"),
    TrackedRow("stablehlo.scatter", _is_of_one_array, _indexed, "each device adds its addends to the same rows"),
    TrackedRow("stablehlo.gather", always, _looked_up, "each device looks up the same of its addend"),
)
TRACKED_IF = {row.op: row for row in _TABLE}

# XLA:TPU has no complex numbers: it makes ops on their parts of these, and forgets or confuses the constraints.
# Products are written as products of parts instead.
_QUOTIENT = "XLA:TPU reduces a complex division itself, whatever the constraints"
_SUM = "XLA:TPU aborts at an unreduced sum within arrays of complex numbers"
LEFT = {op: _QUOTIENT if op == "stablehlo.divide" else _SUM for op in ops_with("real-only")}


def require_real(op: ir.Operation) -> None:
    """Declines where `op` works on complex numbers, and XLA does not track unreduced values through that."""
    require(op.name not in LEFT or real_of(op.results[0]) is None, LEFT.get(op.name, ""), op)


def _require_two_dimensions(op: ir.Operation) -> None:
    """Declines a window along the only dimension, of which XLA:TPU makes one of two dimensions first."""
    along = op.name != "stablehlo.reduce_window" or ir.RankedTensorType(op.results[0].type).rank > 1
    require(along, "XLA:TPU reduces a window along the only dimension itself, whatever the constraints", op)


def require_followed(op: ir.Operation, addends: Sequence[int], axes: Axes) -> None:
    """Declines unless XLA tracks the operands `addends`, unreduced over `axes`, through `op`."""
    require_real(op)
    _require_two_dimensions(op)
    if MOVES in op.attributes:
        raise Declined(ir.StringAttr(op.attributes[MOVES]).value, op)
    _require_not_moved(op, addends, axes)
    row = TRACKED_IF.get(op.name)
    if row is None:
        return
    row.require(op)
    lies = noted_operands(op, addends)
    require(lies is not None, f"the shardings of the operands of a {_short(op)} are not annotated", op)
    assert lies is not None
    for i, (sharding, whole) in enumerate(zip(lies, row.whole(op), strict=True)):
        over = names_of(sharding.axes) if sharding is not None else frozenset()
        fits = i in addends or not over & names_of(axes)
        require(
            fits, f"another operand of the {_short(op)} is sharded over the same axes, and would be all-gathered", op
        )
        require(
            not _split(sharding, whole, axes), f"a {_short(op)} contracts, or looks up along, a sharded dimension", op
        )
    result = noted_sharding(op.results[0])
    shards = names_of(result.axes) if result is not None else frozenset()
    require(not shards & names_of(axes), f"the result of a {_short(op)} is sharded over the same axes", op)


def _require_not_moved(op: ir.Operation, addends: Sequence[int], axes: Axes) -> None:
    """Declines where XLA alone would shard the result over some of `axes` in place of those that shard an addend.

    A value cannot be unreduced and sharded over the same axes: the shards would be all-gathered, not moved.
    """
    result = noted_sharding(made_of(op, addends[0]))
    kept = names_of(result.axes) if result is not None else frozenset()
    if not kept & names_of(axes):
        return
    for lies in (noted_sharding(op.operands[i]) for i in addends):
        lost = names_of(lies.axes) - kept - names_of(axes) if lies is not None else frozenset()
        require(not lost, f"its operand, sharded over {', '.join(sorted(lost))}, would be all-gathered", op)


def is_followed(op: ir.Operation, addends: Sequence[int], axes: Axes) -> bool:
    """Whether nothing makes `require_followed` decline."""
    return refusal(require_followed, op, addends, axes) is None


def _split(sharding: Sharding | None, dimensions: frozenset[int], but: Axes) -> bool:
    """Whether one of `dimensions` is sharded over other axes than `but`."""
    if sharding is None:
        return False
    return any(names_of(over) - names_of(but) for i, over in enumerate(sharding.dimensions) if i in dimensions)


def _short(op: ir.Operation) -> str:
    return op.name.removeprefix("stablehlo.")
