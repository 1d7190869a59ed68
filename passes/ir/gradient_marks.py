"""Values marked by the user: `paropt.mark_gradient` separates gradients from the update."""

from jaxlib.mlir import ir

from paropt.passes.support.traversal import ops_of

# A mark is a reshape to the same shape that says so in an attribute. XLA removes the reshape; copied or moved by a
# pass, it stays a mark.
MARK_OP = "stablehlo.reshape"
ATTRIBUTES, MARK = "mhlo.frontend_attributes", "paropt.mark"
GRADIENT = "gradient"


def marked_gradients(root: ir.Operation) -> list[ir.Value]:
    """The gradients under `root` that are marked, as they are after the mark; inner regions first."""
    return [op.results[0] for op in ops_of(root, MARK_OP) if mark_of(op) == GRADIENT]


def mark_of(op: ir.Operation) -> str | None:
    """The name of the mark on the operand of `op`; None for an op that is no mark."""
    attributes = op.attributes.get(ATTRIBUTES)
    if attributes is None or MARK not in ir.DictAttr(attributes):
        return None
    return str(ir.StringAttr(ir.DictAttr(attributes)[MARK]).value)
