"""Branches that read an accumulator of the loop around them, and may reduce it for themselves.

For example, a loop over the micro-batches of several steps updates the parameters in every fourth iteration: only that
branch reads the sum of gradients.

Tests: test/passes/defer-sync-branches.mlir, test/numeric/test_update_branches.py.
"""

from collections.abc import Sequence
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.dataflow.partial_values import PartialValues
from paropt.passes.ir.branches import BRANCHES
from paropt.passes.support.traversal import op_of


class BranchRead(NamedTuple):
    """The uses that need the partial `value` reduced in the branch `block`: first in there, or behind its definition
    there."""

    value: ir.Value
    block: ir.Block
    uses: list[ir.OpOperand]


class BranchSum(NamedTuple):
    """A sum that is reduced in a branch: bytes per device, and how often in one execution of the loop around it."""

    branch: ir.Operation  # the if or case
    size: int
    runs: int | None  # None: not known
    often: int  # its count then


def branch_reads(values: PartialValues, order: Sequence[ir.Value], body: ir.Block) -> list[BranchRead]:
    """How branches in the loop's `body` read the partial values `order`, other than to make one of these."""
    members = frozenset(order)
    found: dict[tuple[ir.Value, ir.Block], BranchRead] = {}
    for value in order:
        for use in value.uses:
            if use.owner.operation.block == body or values.made_by(use) in members:
                continue
            block = branch_of(value, use, body)
            assert block is not None, "it is asked first"
            found.setdefault((value, block), BranchRead(value, block, [])).uses.append(use)
    return list(found.values())


def branch_of(value: ir.Value, use: ir.OpOperand, body: ir.Block) -> ir.Block | None:
    """The branch in `body` in which `value` is to be reduced for `use`, where it is first known; None if in none."""
    made_in = value.owner if isinstance(value.owner, ir.Block) else op_of(value).block
    if made_in != body:
        return made_in
    block, holder = use.owner.operation.block, None
    while block != body:
        found, holder = block, block.owner.operation
        block = holder.block
    return found if holder is not None and holder.name in BRANCHES else None


def branches_to(block: ir.Block, body: ir.Block) -> list[ir.Operation]:
    """The ifs and cases in `body` around `block`."""
    found: list[ir.Operation] = []
    while block != body:
        found.append(block.owner.operation)
        block = found[-1].block
    return found
