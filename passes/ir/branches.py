"""`stablehlo.if` and `stablehlo.case`: which op is in a branch of which."""

from jaxlib.mlir import ir

from paropt.passes.ir.op_table import is_branch, ops_with
from paropt.passes.support.traversal import parent_of, terminator_of

IF, CASE = "stablehlo.if", "stablehlo.case"
BRANCHES = ops_with("branch")


def is_end(op: ir.Operation) -> bool:
    """Whether `op` ends a branch, so that its operands become results of the if or case."""
    return op.name == "stablehlo.return" and is_branch(parent_of(op))


def ends_of(op: ir.Operation) -> list[ir.Operation]:
    """The terminator of each branch of the if or case `op`."""
    return [terminator_of(region.blocks[0]) for region in op.regions]


def branch_around(op: ir.Operation, block: ir.Block) -> ir.Operation | None:
    """The if or case that directly holds `op`, which is in `block` or in branches within it; None in the block."""
    return None if op.block == block else parent_of(op)


def chosen(op: ir.Operation, number: int) -> int:
    """Which of its regions the if or case `op` runs when its operand is `number`."""
    if op.name == IF:
        return 0 if number else 1
    return number if 0 <= number < len(op.regions) else len(op.regions) - 1
