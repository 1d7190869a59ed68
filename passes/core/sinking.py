"""Computes in a branch what nothing but that branch reads, so that only the trips that take it need the sum.

So is written what a caller has computed already: `lax.cond(is_last, lambda: new, lambda: old)`.
"""

from functools import partial

from jaxlib.mlir import ir

from paropt.passes.analysis.branches import BRANCHES
from paropt.passes.analysis.collectives import IN_BRANCH, REDUCTIONS
from paropt.passes.analysis.loops import Loop
from paropt.passes.analysis.partial import BlockFacts
from paropt.passes.analysis.selects import only_read_by
from paropt.passes.core.remarks import Remark, applied
from paropt.passes.core.traversal import is_in, ops_of

_WAS_OUTSIDE = "paropt_was_outside"  # on an op of a branch


def sums_sunk(loop: Loop, facts: BlockFacts) -> bool:
    """Moves into the branches of the body what each alone reads, where that is made of sums that the trip reduces.

    Returns whether there is such; `sums_taken_back` must follow.
    """
    sums = facts.sums() if facts.reductions.kinds else set()
    made = False
    for branch in _branches(loop) if sums else ():
        ops = only_read_by(partial(_is_read_in, branch), branch.owner.operation, loop)
        if sums.isdisjoint(operand for op in ops for operand in op.operands):
            continue
        first = branch.operations[0]
        for op in ops:
            op.move_before(first)
            op.attributes[_WAS_OUTSIDE] = ir.UnitAttr.get(op.context)
        made = True
    return made


def sums_taken_back(loop: Loop, pass_name: str) -> list[Remark]:
    """Moves back what `sums_sunk` moved into branches that reduce no sum now; what has left the loop stays there."""
    remarks: list[Remark] = []
    for view in loop.op.block.operations:
        if _WAS_OUTSIDE in view.attributes:
            del view.attributes[_WAS_OUTSIDE]
    for branch in _branches(loop):
        holder = branch.owner.operation
        moved = [view.operation for view in branch.operations if _WAS_OUTSIDE in view.attributes]
        reduces = any(IN_BRANCH in op.attributes for op in ops_of(holder, *REDUCTIONS))
        for op in moved:
            del op.attributes[_WAS_OUTSIDE]
            if not reduces:
                op.move_before(holder)
        if moved and reduces:
            remarks.append(applied(pass_name, holder, "a branch computes what it alone reads, and alone reads the sum"))
    return remarks


def _is_read_in(branch: ir.Block, user: ir.Operation, _: ir.Value) -> bool:
    return is_in(user, branch)


def _branches(loop: Loop) -> list[ir.Block]:
    found = [op for op in ops_of(loop.op, *BRANCHES) if op.block == loop.body]
    return [region.blocks[0] for op in found for region in op.regions]
