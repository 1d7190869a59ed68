"""A pass that does what a compiler may do: lose a sharding constraint."""

from jaxlib.mlir import ir

from paropt.passes.support.registry import register
from paropt.passes.support.remarks import Remark
from paropt.verify.tags import tags_of


@register
def lose_tag(module: ir.Operation) -> list[Remark]:
    """Erase the second constraint that says that a value is not reduced: that of the product."""
    tag = tags_of(module)[1]
    tag.results[0].replace_all_uses_with(tag.operands[0])
    tag.erase()
    return []
