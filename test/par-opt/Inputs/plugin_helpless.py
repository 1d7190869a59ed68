"""A plug-in whose pass has an option without help."""

from jaxlib.mlir import ir

from paropt.passes.support.registry import register
from paropt.passes.support.remarks import Remark


@register
def helpless(module: ir.Operation, *, size: int = 1) -> list[Remark]:
    """Do nothing."""
    return []
