"""`stablehlo.optimization_barrier`: a result for each operand, which is that operand; nothing is moved across it.

Tests: test/passes/defer-sync-barriers.mlir, test/numeric/test_optimization_barriers.py.
"""

from jaxlib.mlir import ir

BARRIER = "stablehlo.optimization_barrier"


def made_of(op: ir.Operation, operand: int) -> ir.Value:
    """The result of the linear `op` for its operand of that number: its only one, or a barrier's in the same place."""
    return op.results[operand if op.name == BARRIER else 0]


def before_barrier(result: ir.Value) -> int:
    """The number of the operand that the `result` of a barrier is."""
    return ir.OpResult(result).result_number
