"""Multiplication and division by a constant scalar, which commute with taking parts of an array.

Tests: test/passes/compose-all-reduces.mlir, test/numeric/test_hierarchical_reductions.py.
"""

import math
from typing import NamedTuple

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from paropt.passes.ir.constants import CONSTANT, scalar_of, splat_of
from paropt.passes.ir.op_table import scales
from paropt.passes.support.traversal import defining_op

_MULTIPLY = "stablehlo.multiply"


class Scale(NamedTuple):
    """The factor that an op multiplies an operand by."""

    op: ir.Operation
    operand: int  # the array that is scaled
    number: ir.Attribute

    @property
    def is_exact(self) -> bool:
        """Whether it rounds nothing, but for numbers too large or too small: it may be done after a sum, or before."""
        return isinstance(self.number, ir.FloatAttr) and abs(math.frexp(self.number.value)[0]) == 0.5


def scale_of(op: ir.Operation) -> Scale | None:
    """The operand that `op` multiplies or divides by a constant number, as a scale; None when `op` does something
    else."""
    if not scales(op):
        return None
    for operand in (0, 1) if op.name == _MULTIPLY else (0,):
        scalar = scalar_of(op.operands[1 - operand])
        constant = defining_op(scalar) if scalar is not None else None
        number = splat_of(constant) if constant is not None and constant.name == CONSTANT else None
        if number is not None:
            return Scale(op, operand, number)
    return None


def scaled(value: ir.Value, scale: Scale) -> ir.Value:
    """`value`, of the same element type, scaled at the insertion point."""
    number = ir.DenseElementsAttr.get_splat(value.type, scale.number)
    factor = stablehlo.constant(number)
    operands = [value, factor] if scale.operand == 0 else [factor, value]
    return ir.Operation.create(scale.op.name, results=[value.type], operands=operands).results[0]
