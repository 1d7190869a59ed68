"""Roundings to a narrower float type and back, which a reduction crosses by leaving them out.

Tests: test/passes/defer-sync-converts.mlir.
"""

from collections.abc import Sequence

from jaxlib.mlir import ir

from paropt.passes.dataflow.engine import exhaust, forward
from paropt.passes.ir.control_flow import successors
from paropt.passes.ir.op_table import is_widenable
from paropt.passes.ir.types import same_range, widens
from paropt.passes.support.traversal import op_of

_CONVERT = "stablehlo.convert"


def is_excess(convert: ir.Operation) -> bool:
    """Whether `convert` only rounds values that are all widened again, to a type with the same exponents.

    As JAX computes the gradient of a parameter in f32 that is cast to bf16 and multiplied in f32: rounded to bf16, and
    added to an accumulator in f32. XLA leaves it out as well (its option xla_allow_excess_precision, set by default).
    """
    source, target = _element(convert.operands[0]), _element(convert.results[0])
    return same_range(source, target) and _is_widened(convert.results[0], target)


def _is_widened(value: ir.Value, narrow: ir.Type) -> bool:
    """Whether each way from `value` leads to a convert from the type `narrow` to a wider one."""
    ends: list[ir.Operation] = []

    def made_by(use: ir.OpOperand) -> Sequence[ir.Value]:
        made = _made_by(use, narrow)
        if made is None:
            ends.append(use.owner.operation)
        return made or ()

    exhaust(forward([value], made_by))
    return not ends


def _made_by(use: ir.OpOperand, narrow: ir.Type) -> Sequence[ir.Value] | None:
    """The values made of `use` in the type `narrow`; None where they can't be made in a wider type instead.

    In the same block, or out of branches: a loop carries its values in their own types.
    """
    op = use.owner.operation
    value = op.operands[use.operand_number]
    if op_of(value).block != op.block:
        return None
    if op.name == _CONVERT:
        element = _element(op.results[0])
        return list(op.results) if element == narrow else () if widens(narrow, element) else None
    becomes = successors(use, manual=False)
    if becomes is None:
        return list(op.results) if is_widenable(op) else None
    carried = not becomes or isinstance(becomes[0].owner, ir.Block)
    return None if carried else becomes


def _element(value: ir.Value) -> ir.Type:
    return ir.RankedTensorType(value.type).element_type
