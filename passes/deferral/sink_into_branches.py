"""Ops with a branch as their only reader, sunk into it, so that only the iterations that take it need the sum.

Callers that have computed the value already write it so: `lax.cond(is_last, lambda: new, lambda: old)`.
"""

from functools import partial

from jaxlib.mlir import ir

from paropt.passes.dataflow.partial_values import BlockFacts
from paropt.passes.deferral.counter_selects import only_read_by
from paropt.passes.ir.branches import BRANCHES
from paropt.passes.ir.loops import Loop
from paropt.passes.sharding.collectives import IN_BRANCH, REDUCTIONS
from paropt.passes.support.remarks import Remark, applied
from paropt.passes.support.traversal import captured, defining_op, is_in, ops_of

WAS_OUTSIDE = "paropt.was_outside"  # on an op of a branch


def sums_sunk(loop: Loop, facts: BlockFacts) -> bool:
    """Sinks ops with one branch as their only reader into it, where they depend on sums that the trip reduces.

    Returns whether there is such; `sums_taken_back` must follow.
    """
    sums = facts.sums() if facts.reductions.kinds else set()
    made = False
    before = _ops_of(loop.body) if sums else []
    places = {op.results[0]: place for place, op in enumerate(before) if len(op.results)}
    for branch in _branches(loop) if sums else ():
        ops = only_read_by(partial(_is_read_in, branch), branch.owner.operation, loop)
        if sums.isdisjoint(operand for op in ops for operand in op.operands):
            continue
        first = branch.operations[0]
        for op in ops:
            op.move_before(first)
            op.attributes[WAS_OUTSIDE] = ir.DenseI64ArrayAttr.get([places[op.results[0]], len(before)], op.context)
        made = True
    return made


def sums_taken_back(loop: Loop, pass_name: str) -> list[Remark]:
    """Reverts `sums_sunk` for branches that reduce no sum now; ops that have left the loop stay there."""
    remarks: list[Remark] = []
    for view in loop.op.block.operations:
        if WAS_OUTSIDE in view.attributes:
            del view.attributes[WAS_OUTSIDE]
    back: list[tuple[int, ir.Operation]] = []
    count = 0
    for branch in _branches(loop):
        holder = branch.owner.operation
        moved = [op for op in _ops_of(branch) if WAS_OUTSIDE in op.attributes]
        reduces = any(IN_BRANCH in op.attributes for op in ops_of(holder, *REDUCTIONS))
        for op in moved:
            place, count = ir.DenseI64ArrayAttr(op.attributes[WAS_OUTSIDE])
            del op.attributes[WAS_OUTSIDE]
            if not reduces:
                op.move_before(holder)
                back.append((place, op))
        if moved and reduces:
            remarks.append(applied(pass_name, holder, "a branch computes what it alone reads, and alone reads the sum"))
    if len(_ops_of(loop.body)) == count:
        _put_back(loop.body, back)
    return remarks


def _put_back(body: ir.Block, moved: list[tuple[int, ir.Operation]]) -> None:
    """Gives ops their places in `body` again, so that a pass that changes nothing keeps their order, too."""
    made = {result for _, op in moved for result in op.results}
    order = [op for op in _ops_of(body) if made.isdisjoint(op.results)]
    for place, op in sorted(moved, key=lambda each: each[0]):
        read = map(defining_op, [*op.operands, *captured(op)])
        needed = [other for other in read if other is not None and other.block == body]
        if all(other.is_before_in_block(order[place]) for other in needed):
            op.move_before(order[place])
            order.insert(place, op)


def _ops_of(block: ir.Block) -> list[ir.Operation]:
    return [view.operation for view in block.operations]


def _is_read_in(branch: ir.Block, user: ir.Operation, _: ir.Value) -> bool:
    return is_in(user, branch)


def _branches(loop: Loop) -> list[ir.Block]:
    found = [op for op in ops_of(loop.op, *BRANCHES) if op.block == loop.body]
    return [region.blocks[0] for op in found for region in op.regions]
