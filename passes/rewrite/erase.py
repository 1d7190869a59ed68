"""Erasure of dead ops.

Tests: test/passes/inline-branches.mlir.
"""

from collections.abc import Sequence

from jaxlib.mlir import ir

from paropt.passes.dataflow.side_effects import is_repeatable
from paropt.passes.support.traversal import captured, defining_op, is_used


def erase_unread(values: Sequence[ir.Value]) -> None:
    """Erases the ops that compute `values`, also those whose results regions there read, as far as they are dead."""
    waiting = dict.fromkeys(values)
    while waiting:
        value, _ = waiting.popitem()
        op = defining_op(value)
        if op is None or is_used(op) or not is_repeatable(op):
            continue
        for result in op.results:
            waiting.pop(result, None)  # gone with the op
        waiting |= dict.fromkeys([*op.operands, *captured(op)])
        op.erase()
