"""Arrays with a row for each micro-batch: built, written and read at the insertion point.

Tests: test/passes/pipeline-layer-loop.mlir.
"""

from collections.abc import Sequence

from jaxlib.mlir import ir

from paropt.passes.ir.induction_variable import constant, create
from paropt.passes.rewrite.residual_split import neutral
from paropt.passes.sharding.device_dimension import reshaped


def zeros(count: int, row: ir.Type) -> ir.Value:
    """`count` rows of zeros."""
    return neutral(rows_type(count, row))


def rows_type(count: int, row: ir.Type) -> ir.RankedTensorType:
    tensor = ir.RankedTensorType(row)
    return ir.RankedTensorType.get([count, *tensor.shape], tensor.element_type)


def row_at(rows: ir.Value, index: ir.Value) -> ir.Value:
    tensor = ir.RankedTensorType(rows.type)
    shape = list(tensor.shape)[1:]
    sizes = ir.DenseI64ArrayAttr.get([1, *shape])
    row = ir.RankedTensorType.get([1, *shape], tensor.element_type)
    taken = create("stablehlo.dynamic_slice", row, rows, *_starts(index, len(shape)), slice_sizes=sizes)
    return reshaped(taken, shape)


def with_row(rows: ir.Value, row: ir.Value, index: ir.Value) -> ir.Value:
    shape = list(ir.RankedTensorType(row.type).shape)
    starts = _starts(index, len(shape))
    return create("stablehlo.dynamic_update_slice", rows.type, rows, reshaped(row, [1, *shape]), *starts)


def _starts(index: ir.Value, rank: int) -> Sequence[ir.Value]:
    if not rank:
        return [index]
    tensor = ir.RankedTensorType(index.type)
    zero = constant(tensor, ir.IntegerAttr.get(tensor.element_type, 0))
    return [index, *[zero] * rank]
