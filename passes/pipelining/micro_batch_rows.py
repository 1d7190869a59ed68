"""Arrays with a row for each micro-batch, or for each layer: built, written and read at the insertion point.

Tests: test/passes/pipeline-layer-loop.mlir, test/passes/pipeline-layer-loop-circular.mlir.
"""

from collections.abc import Sequence
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.ir.induction_variable import constant, create
from paropt.passes.rewrite.residual_split import neutral
from paropt.passes.sharding.device_dimension import reshaped


class Layers(NamedTuple):
    """Consecutive rows of an array that has one for each layer."""

    first: ir.Value
    rows: int


def zeros(count: int, row: ir.Type) -> ir.Value:
    """`count` rows of zeros."""
    return neutral(rows_type(count, row))


def rows_type(count: int, row: ir.Type) -> ir.RankedTensorType:
    tensor = ir.RankedTensorType(row)
    return ir.RankedTensorType.get([count, *tensor.shape], tensor.element_type)


def zeros_like(array: ir.Value) -> ir.Value:
    return neutral(array.type)


def row_at(rows: ir.Value, index: ir.Value) -> ir.Value:
    """The row of a micro-batch."""
    _, *shape = ir.RankedTensorType(rows.type).shape
    return reshaped(_part(rows, [1, *shape], [index]), shape)


def with_row(rows: ir.Value, row: ir.Value, index: ir.Value, layers: Layers | None = None) -> ir.Value:
    """With that row; where it is an array of layers, perhaps of these `layers` only."""
    shape = list(ir.RankedTensorType(row.type).shape)
    return _with_part(rows, reshaped(row, [1, *shape]), [index] if layers is None else [index, layers.first])


def layers_of(array: ir.Value, layers: Layers) -> ir.Value:
    _, *others = ir.RankedTensorType(array.type).shape
    return _part(array, [layers.rows, *others], [layers.first])


def with_layers(array: ir.Value, part: ir.Value, layers: Layers) -> ir.Value:
    return _with_part(array, part, [layers.first])


def part_of(array: ir.Value, shape: Sequence[int], start: ir.Value, dimension: int) -> ir.Value:
    """The part of `array` of this `shape` that starts at `start` in `dimension`, and is all of it in others."""
    return _part(array, shape, _start_in(dimension, start))


def with_part(array: ir.Value, part: ir.Value, start: ir.Value, dimension: int) -> ir.Value:
    return _with_part(array, part, _start_in(dimension, start))


def _start_in(dimension: int, start: ir.Value) -> Sequence[ir.Value]:
    return [*[_zero(start)] * dimension, start] if dimension else [start]


def _part(array: ir.Value, shape: Sequence[int], starts: Sequence[ir.Value]) -> ir.Value:
    part = ir.RankedTensorType.get(list(shape), ir.RankedTensorType(array.type).element_type)
    sizes = ir.DenseI64ArrayAttr.get(list(shape))
    return create("stablehlo.dynamic_slice", part, array, *_padded(starts, len(shape)), slice_sizes=sizes)


def _with_part(array: ir.Value, part: ir.Value, starts: Sequence[ir.Value]) -> ir.Value:
    rank = ir.RankedTensorType(array.type).rank
    return create("stablehlo.dynamic_update_slice", array.type, array, part, *_padded(starts, rank))


def _padded(starts: Sequence[ir.Value], rank: int) -> Sequence[ir.Value]:
    """These, and zeros for other dimensions."""
    if len(starts) == rank:
        return starts
    return [*starts, *[_zero(starts[0])] * (rank - len(starts))]


def _zero(like: ir.Value) -> ir.Value:
    tensor = ir.RankedTensorType(like.type)
    return constant(tensor, ir.IntegerAttr.get(tensor.element_type, 0))
