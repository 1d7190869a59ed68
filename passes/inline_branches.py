"""Inlines the branches that are always taken."""

from jaxlib.mlir import ir

from paropt.passes.analysis.branches import BRANCHES
from paropt.passes.analysis.evaluation import branch_taken
from paropt.passes.core.erasing import erase_unread
from paropt.passes.core.registry import register
from paropt.passes.core.remarks import Declined, Remark, applied, missed, require
from paropt.passes.core.traversal import captured, ops_of, terminator_of

NAME = "inline-branches"


@register
def inline_branches(module: ir.Operation) -> list[Remark]:
    """Replace an if or case by the branch that it always takes, and erase what only the others read.

    `jax.lax.cond(i == 0, ...)` in a loop that Python unrolls is one, and so is a `cond` on a setting of the model: JAX
    lowers it with a constant. XLA finds out after it has split the program over the devices. What only a branch reads
    that is not taken, such as the gradient of a micro-batch that is left out, it then drops with its reduction.

    Before:

        %p = constant dense<1> : tensor<i32>
        %r = case %p ({
          return %x
        }, {
          %y = add %x, %g
          return %y
        })

    After:

        %r = add %x, %g

    Legal when:

    - the index is computed from constants, and no arithmetic there rounds; or there is one branch
    - the op has no attributes of its own

    Sources: XLA `ConditionalSimplifier`.
    """
    remarks: list[Remark] = []
    for op in ops_of(module, *BRANCHES):
        taken = branch_taken(op, {}) if len(op.regions) > 1 else 0
        if taken is None:  # as most: it says nothing about them
            continue
        try:
            require(not len(op.attributes), f"it has attributes of its own: {', '.join(op.attributes)}")
        except Declined as reason:
            remarks.append(missed(NAME, op, reason))
            continue
        remarks.append(applied(NAME, op, f"it always takes branch {taken} of {len(op.regions)}"))
        _inline(op, taken)
    return remarks


def _inline(op: ir.Operation, taken: int) -> None:
    branch = op.regions[taken].blocks[0]
    end = terminator_of(branch)
    for old, new in zip(op.results, end.operands, strict=True):
        old.replace_all_uses_with(new)
    for inner in [view.operation for view in branch.operations if view.operation != end]:
        inner.move_before(op)
    read = [*op.operands, *captured(op)]
    op.erase()
    erase_unread(read)
