"""Ops without side effects: they may run anywhere, and any number of times.

Tests: test/passes/roll-accumulation-order.mlir, test/passes/fuse-loops.mlir.
"""

from jaxlib.mlir import ir

from paropt.passes.ir.op_table import only_computes
from paropt.passes.ir.types import tensor_of
from paropt.passes.support.remarks import require
from paropt.passes.support.traversal import nested


def require_repeatable(op: ir.Operation) -> None:
    """Declines an op that may have side effects, or whose results have no fixed size."""
    for result in op.results:
        require(tensor_of(result) is not None, "a shape is dynamic", op)
    for each in (op, *nested(op)):
        require(is_plain(each), f"{each.name} may have side effects", each)


def is_repeatable(op: ir.Operation) -> bool:
    """Whether `op` and the ops in its regions only compute results, wherever and however often they are done."""
    return all(map(is_plain, (op, *nested(op))))


def is_plain(op: ir.Operation) -> bool:
    """Whether `op` itself, whatever is in its regions, only computes results."""
    return only_computes(op) or op.name.startswith("chlo.") or _is_plain_custom_call(op)


def _is_plain_custom_call(op: ir.Operation) -> bool:
    if op.name != "stablehlo.custom_call":
        return False
    effect = op.attributes.get("has_side_effect")
    return effect is None or not ir.BoolAttr(effect).value
