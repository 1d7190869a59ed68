"""Costs of ops before compilation: floating-point operations, and bytes of values.

Tests: test/unit/passes/test_cut_stages.py.
"""

from math import prod

from jaxlib.mlir import ir

from paropt.passes.dataflow.xla_tracking import contracted, convolved
from paropt.passes.ir.loops import WHILE, Loop, trip_count
from paropt.passes.ir.op_table import is_end
from paropt.passes.ir.types import bytes_of, tensor_of

_PRODUCTS = {"stablehlo.dot_general": contracted, "stablehlo.convolution": convolved}


def flops_of(op: ir.Operation) -> int:
    """Two for each multiplication of a product, one for each element that another op makes or reduces; those of a loop
    in each trip, or in one where their number is not known.
    """
    if is_end(op):
        return 0
    if op.name == WHILE:
        loop = Loop(op)
        return (trip_count(loop) or 1) * sum(flops_of(each.operation) for each in loop.body.operations)
    dimensions = _PRODUCTS.get(op.name)
    if dimensions is not None:
        shape = ir.RankedTensorType(op.operands[1].type).shape
        _, right = dimensions(op)
        return 2 * _size(op.results[0]) * prod(shape[d] for d in right)
    return max((_size(value) for value in (*op.operands, *op.results)), default=0)


def _size(value: ir.Value) -> int:
    tensor = tensor_of(value)
    return prod(tensor.shape) if tensor is not None else 0


def value_bytes(value: ir.Value) -> int:
    """The bytes of the whole of `value`."""
    tensor = tensor_of(value)
    return bytes_of(tensor) if tensor is not None else 0
