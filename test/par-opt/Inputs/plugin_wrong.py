"""A pass with a defect that no verifier finds."""

from jaxlib.mlir import ir

from paropt.passes.support.registry import register
from paropt.passes.support.remarks import Remark, applied
from paropt.passes.support.traversal import ops_of, parent_of


@register
def forget_terms(module: ir.Operation) -> list[Remark]:
    """Leave the second term of each sum in a function out."""
    remarks = []
    for op in ops_of(module, "stablehlo.add"):
        if parent_of(op).name != "func.func":
            continue
        remarks.append(applied("forget-terms", op, "left out"))
        op.results[0].replace_all_uses_with(op.operands[0])
        op.erase()
    return remarks
