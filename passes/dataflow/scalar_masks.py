"""Factors and predicates that are one scalar for all elements, and that are 0 or 1 by some truth value.

Tests: test/passes/defer-sync-selects.mlir, test/passes/hoist-gathers-renewed.mlir.
"""

import numpy as np
from jaxlib.mlir import ir

from paropt.passes.dataflow.loop_eval import evaluated_in
from paropt.passes.ir.constants import is_constant, scalar_of
from paropt.passes.ir.op_table import is_predicate
from paropt.passes.support.traversal import defining_op

_CONVERT = "stablehlo.convert"


def scalar_under(value: ir.Value) -> ir.Value | None:
    """The scalar that `value` is a broadcast of; None for a constant of more dimensions, too."""
    scalar = scalar_of(value)
    return scalar if scalar is not None and not ir.RankedTensorType(scalar.type).shape else None


def unconverted(value: ir.Value) -> ir.Value:
    """The integer or truth value that `value` was before it was converted, if it was."""
    op = defining_op(value)
    while op is not None and op.name == _CONVERT:
        value = op.operands[0]
        op = defining_op(value)
    return value


def truth_under(predicate: ir.Value) -> ir.Value | None:
    """The truth value that `predicate` depends on and nothing else."""
    value = predicate
    while (op := defining_op(value)) is not None and not is_predicate(op):
        read = [operand for operand in op.operands if not is_constant(operand)]
        if len(set(read)) != 1:
            return None
        value = read[0]
    return value if op is not None else None


def by_truth(value: ir.Value, root: ir.Value) -> tuple[bool, bool] | None:
    """`value`, which depends on the truth value `root` alone, where that is false and where it is true; None if it is
    not 0 and 1 by turns."""
    numbers = evaluated_in([{root: np.array(truth)} for truth in (False, True)], value)
    if any(number is None or number not in (0, 1) for number in numbers):
        return None
    if_false, if_true = (bool(number) for number in numbers)
    return (if_false, if_true) if if_false != if_true else None


def mask_under(factor: ir.Value) -> ir.Value | None:
    """The scalar that is 0 where `factor` is, and 1 elsewhere; None where it may be another number, or differ between
    elements."""
    scalar = scalar_under(factor)
    number = unconverted(scalar) if scalar is not None else None
    root = truth_under(number) if number is not None else None
    return number if number is not None and root is not None and by_truth(number, root) is not None else None
