"""A branch of the last iteration only, sunk out of its loop: users write "sync on the last micro-batch" like that.

Tests: test/passes/defer-sync-regions.mlir, test/numeric/test_user_programs.py.
"""

from jaxlib.mlir import ir

from paropt.passes.dataflow.loop_eval import Known, branch_taken, trips_of
from paropt.passes.dataflow.side_effects import is_plain
from paropt.passes.deferral.certification import Site, peel_certificate
from paropt.passes.ir.branches import BRANCHES, ends_of
from paropt.passes.ir.loops import Loop
from paropt.passes.ir.op_table import is_exposed
from paropt.passes.sharding.collectives import PER_DEVICE, REDUCTIONS
from paropt.passes.support.remarks import Declined, Remark, applied, missed, require
from paropt.passes.support.traversal import is_defined_in, nested, ops_of


def last_trip_peeled(loop: Loop, pass_name: str, site: Site) -> list[Remark]:
    """Moves each branch that runs in the last trip only to after the loop: with reductions, or behind reductions.

    Trips before the last keep the results of the other branch, so returning them must be all that it does.
    """
    own = any(op.block == loop.body for op in ops_of(loop.op, *REDUCTIONS))
    branches = [op for op in ops_of(loop.op, *BRANCHES) if op.block == loop.body]
    candidates = [op for op in branches if ops_of(op, *PER_DEVICE) or (own and _only_computes(op))]
    if not candidates:
        return []
    trips = trips_of(loop)
    remarks: list[Remark] = []
    for branch in candidates:
        last = _only_in_last_trip(branch, trips)
        if last is None:
            continue
        reductions = ops_of(branch, *PER_DEVICE)
        try:
            _require_peelable(branch, last, loop)
            proofs = [peel_certificate(op, branch, site) for op in reductions]
        except Declined as declined:
            remarks += [missed(pass_name, op, declined) for op in reductions]
            continue
        text = "taken in the last trip only, the branch now follows the loop"
        remarks += [applied(pass_name, op, text, proof) for op, proof in zip(reductions, proofs, strict=True)]
        remarks += [] if reductions else [applied(pass_name, branch, text)]
        _peel(branch, last, loop)
    return remarks


def _only_computes(branch: ir.Operation) -> bool:
    """Whether the branches compute their results, and sums that the partitioner takes, and do nothing else."""
    return all(is_exposed(op) or is_plain(op) for op in nested(branch))


def _only_in_last_trip(branch: ir.Operation, trips: list[Known] | None) -> int | None:
    """The region that runs in the last trip, when it runs in that alone and only it has reductions."""
    if not trips:
        return None
    taken = [branch_taken(branch, known) for known in trips]
    *before, last = taken
    reducing = [i for i, region in enumerate(branch.regions) if _reduces(region.blocks[0])]
    same = len(set(before)) == 1 and None not in taken
    return last if same and reducing in ([last], []) and last not in before else None


def _reduces(block: ir.Block) -> bool:
    return any(op.operation.name in PER_DEVICE or ops_of(op.operation, *PER_DEVICE) for op in block.operations)


def _require_peelable(branch: ir.Operation, last: int, loop: Loop) -> None:
    """Declines unless the branch needs nothing after the loop but loop-carried values of the other trips."""
    ends = ends_of(branch)
    others = [end for i, end in enumerate(ends) if i != last]
    idle = len(others) == 1 and len(list(others[0].block.operations)) == 1
    require(idle, "in the other trips the branch does something, too", branch)
    for result in branch.results:
        for use in result.uses:
            reader = use.owner.operation
            require(reader == loop.next_values, f"the loop reads the result of the branch by {reader.name}", reader)
            read = next(loop.condition.arguments[use.operand_number].uses, None)
            require(read is None, "the condition reads the result of the branch", loop.op)
    carried = _carried(branch, others[0], loop)
    for value, reader in _captured(branch.regions[last].blocks[0]):
        known = value in carried or not is_defined_in(value, loop.op)
        require(known, "the branch reads a value of the last trip that the loop does not carry", reader)


def _carried(branch: ir.Operation, other: ir.Operation, loop: Loop) -> dict[ir.Value, int]:
    """The values that the loop carries on, or other trips do in place of the results of `branch`, and where."""
    found: dict[ir.Value, int] = {}
    for position, value in enumerate(loop.next_values.operands):
        found.setdefault(value, position)
    for result, value in zip(branch.results, other.operands, strict=True):
        for use in result.uses:
            found.setdefault(value, use.operand_number)
    return found


def _captured(block: ir.Block) -> list[tuple[ir.Value, ir.Operation]]:
    """The values of outer blocks that ops in `block` read, and by which op."""
    holder = block.owner.operation
    found: list[tuple[ir.Value, ir.Operation]] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        found.extend((operand, op) for operand in op.operands if not is_defined_in(operand, holder))
        return ir.WalkResult.ADVANCE

    for op in block.operations:
        op.operation.walk(visit)
    return found


def _peel(branch: ir.Operation, last: int, loop: Loop) -> None:
    ends = ends_of(branch)
    other = next(end for i, end in enumerate(ends) if i != last)
    carried = _carried(branch, other, loop)
    block = branch.regions[last].blocks[0]
    *ops, _ = [view.operation for view in block.operations]
    returned = list(ends[last].operands)
    followed = [
        (use.operand_number, returned[i], other.operands[i])
        for i, result in enumerate(branch.results)
        for use in result.uses
    ]
    after = {position: loop.op.results[position] for position, _, _ in followed}
    users = {position: list(result.uses) for position, result in after.items()}
    for value, reader in _captured(block):
        if value in carried:
            for i, operand in enumerate(reader.operands):
                if operand == value:
                    reader.operands[i] = loop.op.results[carried[value]]
    at = loop.op
    for op in ops:
        op.move_after(at)
        at = op
    for position, result, value in followed:
        result = loop.op.results[carried[result]] if result in carried else result
        for use in users[position]:
            use.owner.operation.operands[use.operand_number] = result
        loop.next_values.operands[position] = value
    branch.erase()
