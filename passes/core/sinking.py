"""Computes in a branch what nothing but that branch reads, so that only the trips that take it need the sum.

So is written what a caller has computed already: `lax.cond(is_last, lambda: new, lambda: old)`.
"""

from jaxlib.mlir import ir

from paropt.passes.analysis.branches import BRANCHES
from paropt.passes.analysis.collectives import IN_BRANCH, REDUCTIONS
from paropt.passes.analysis.loops import Loop
from paropt.passes.analysis.partial import BlockFacts
from paropt.passes.analysis.selects import may_move
from paropt.passes.core.remarks import Remark, applied
from paropt.passes.core.traversal import ops_of, parent_of

_WAS_OUTSIDE = "paropt_was_outside"  # on an op of a branch


def sums_sunk(loop: Loop, facts: BlockFacts) -> bool:
    """Moves into the branches of the body what each alone reads, where that is made of sums that the trip reduces.

    Returns whether there is such; `sums_taken_back` must follow.
    """
    sums = facts.sums() if facts.reductions.kinds else set()
    made = False
    for branch in _branches(loop) if sums else ():
        ops = _read_in_alone(branch, loop)
        if sums.isdisjoint(operand for op in ops for operand in op.operands):
            continue
        first = branch.operations[0]
        for op in ops:
            op.move_before(first)
            op.attributes[_WAS_OUTSIDE] = ir.UnitAttr.get(op.context)
        made = True
    return made


def sums_taken_back(loop: Loop, pass_name: str) -> list[Remark]:
    """Moves back what `sums_sunk` moved into branches that reduce no sum now."""
    remarks: list[Remark] = []
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


def _branches(loop: Loop) -> list[ir.Block]:
    found = [op for op in ops_of(loop.op, *BRANCHES) if op.block == loop.body]
    return [region.blocks[0] for op in found for region in op.regions]


def _read_in_alone(branch: ir.Block, loop: Loop) -> list[ir.Operation]:
    """The ops of the body, in program order, that nothing reads but `branch`, or what is among them."""
    ops = [view.operation for view in loop.body.operations]
    before = ops[: next(i for i, op in enumerate(ops) if op == branch.owner.operation)]
    found: set[ir.Value] = set()  # by first results
    for op in reversed(before):
        users = [use.owner.operation for result in op.results for use in result.uses]
        if users and may_move(op) and all(_is_in(user, branch, loop, found) for user in users):
            found.add(op.results[0])
    return [op for op in before if len(op.results) and op.results[0] in found]


def _is_in(op: ir.Operation, branch: ir.Block, loop: Loop, found: set[ir.Value]) -> bool:
    """Whether `op` is in the branch, or is one of `found` or in it."""
    while op.block != loop.body:
        if op.block == branch:
            return True
        op = parent_of(op)
    return len(op.results) > 0 and op.results[0] in found
