"""Branches and selects with constant predicates, inlined."""

from jaxlib.mlir import ir

from paropt.passes.dataflow.loop_eval import branch_taken, evaluated
from paropt.passes.ir.branches import BRANCHES, ends_of
from paropt.passes.ir.constants import scalar_of
from paropt.passes.ir.metadata import add_hints, hints_of, others_than_hints
from paropt.passes.rewrite.erase import erase_unread
from paropt.passes.support.registry import register
from paropt.passes.support.remarks import Declined, Remark, applied, missed, require
from paropt.passes.support.traversal import captured, ops_of, terminator_of

NAME = "inline-branches"

_SELECT = "stablehlo.select"


@register
def inline_branches(module: ir.Operation) -> list[Remark]:
    """Replace an if, case or select with a constant predicate by its branch, and erase dead ops.

    `jax.lax.cond(i == 0, ...)` in a loop that Python unrolls is one, and so is a `cond` on a setting of the model: JAX
    lowers it with a constant, as it does `jax.numpy.where(i == 0, ...)`. XLA folds it after partitioning only. It then
    drops the live-ins of a branch that is not taken, such as the gradient of a micro-batch that is left out, with their
    reductions. Results of ifs and cases that nothing reads are dropped, too.

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

    - the index is computed from constants, without arithmetic that rounds; or there is one branch
    - the predicate of a select is such a scalar
    - the op has no attributes of its own, but for metadata that only hints

    Sources: XLA `ConditionalSimplifier`.
    """
    remarks: list[Remark] = []
    found = ops_of(module, *BRANCHES, _SELECT)
    branches = [op for op in found if op.name != _SELECT]
    for op in branches:
        taken = branch_taken(op, {}) if len(op.regions) > 1 else 0
        if taken is None:  # as most: it says nothing about them
            continue
        try:
            others = others_than_hints(op)
            require(not others, f"it has attributes of its own: {others}")
        except Declined as reason:
            remarks.append(missed(NAME, op, reason))
            continue
        remarks.append(applied(NAME, op, f"it always takes branch {taken} of {len(op.regions)}"))
        _inline(op, taken)
    selects = ops_of(module, _SELECT) if branches else found  # some may be gone with their branches
    remarks += [remark for op in selects for remark in _selected(op)]
    while branches and (fewer := [remark for op in ops_of(module, *BRANCHES) for remark in _less_unread(op)]):
        remarks += fewer  # a result that one drops may come from another
    return remarks


def _selected(op: ir.Operation) -> list[Remark]:
    """Replaces the select `op` by the operand that it always selects, if that is known."""
    predicate = scalar_of(op.operands[0])
    chosen = evaluated(predicate, {}) if predicate is not None else None
    if chosen is None:
        return []
    taken = op.operands[1] if chosen.flat[0] else op.operands[2]
    name = "first" if chosen.flat[0] else "second"
    remark = applied(NAME, op, f"it always selects the {name} value")
    read = list(op.operands)
    op.results[0].replace_all_uses_with(taken)
    op.erase()
    erase_unread(read)
    return [remark]


def _inline(op: ir.Operation, taken: int) -> None:
    branch = op.regions[taken].blocks[0]
    end = terminator_of(branch)
    for old, new in zip(op.results, end.operands, strict=True):
        old.replace_all_uses_with(new)
    moved = [view.operation for view in branch.operations if view.operation != end]
    add_hints(moved, hints_of(op))
    for inner in moved:
        inner.move_before(op)
    read = [*op.operands, *captured(op)]
    op.erase()
    erase_unread(read)


def _less_unread(op: ir.Operation) -> list[Remark]:
    """Makes an if or case anew without the unread results of `op`."""
    kept = [i for i, result in enumerate(op.results) if next(result.uses, None) is not None]
    unread = len(op.results) - len(kept)
    if not unread or not kept or others_than_hints(op):
        return []
    remark = applied(NAME, op, f"nothing reads {unread} of its {len(op.results)} results")
    dropped: list[ir.Value] = []
    with ir.InsertionPoint(op), op.location:
        types, operands = [op.results[i].type for i in kept], list(op.operands)
        new = ir.Operation.create(
            op.name, results=types, operands=operands, attributes=dict(op.attributes), regions=len(op.regions)
        )
    for end, region in zip(ends_of(op), new.regions, strict=True):
        block = end.block
        dropped += [value for i, value in enumerate(end.operands) if i not in kept]
        with ir.InsertionPoint(end), end.location:
            ir.Operation.create(end.name, operands=[end.operands[i] for i in kept])
        end.erase()
        block.append_to(region)
    for result, i in zip(new.results, kept, strict=True):
        op.results[i].replace_all_uses_with(result)
    op.erase()
    erase_unread(dropped)
    return [remark]
