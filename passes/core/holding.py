"""Holds how XLA alone splits a program, where what is written about sums that have moved would change that.

Shardy settles conflicts by what it meets first, and a constraint is met before all else: where parameters are split
over the same axes as examples, activations could come to be split otherwise, and be gathered for that.
"""

from collections.abc import Iterator

from jaxlib.mlir import ir

from paropt.passes.analysis.noted import ALONE
from paropt.passes.analysis.propagation import Propagated
from paropt.passes.analysis.shardings import Axes, closed_sharding, is_manual, rank_of, read_sharding
from paropt.passes.core.global_form import constrained, remember
from paropt.passes.core.remarks import Declined
from paropt.passes.core.traversal import is_used, op_of, ops_of

# What else there is follows how these are split.
_KINDS = ("stablehlo.convolution", "stablehlo.dot_general", "stablehlo.gather")
_ROUNDS = 4  # what is held may move what is not: in all programs tried, two were enough


def note_alone(module: ir.Operation, propagated: Propagated) -> None:
    """Notes how XLA alone splits the results of products, windows and lookups."""
    for op in ops_of(module, *_KINDS):
        if is_used(op) and not is_manual(op):
            op.attributes[ALONE] = propagated.listed(op) or ir.ArrayAttr.get([], module.context)
    remember(module, set(_KINDS))


def hold(module: ir.Operation) -> list[ir.Operation]:
    """Constrains the results that would be split otherwise than noted. Returns the ops that make these."""
    noted = [op for op in ops_of(module, *_KINDS) if ALONE in op.attributes]
    held: dict[ir.Value, ir.Operation] = {}
    for _ in range(_ROUNDS if noted else 0):
        try:
            changed = list(_changed(noted, Propagated(module)))
        except Declined:  # Shardy would abort: whoever compiles this finds out
            break
        if not changed:
            break
        for op, mesh, dimensions in changed:
            with op.context, ir.InsertionPoint.after(op), op.location:
                holder = constrained(op.results[0], closed_sharding(mesh, dimensions))
            op.results[0].replace_all_uses_except(holder, op_of(holder))
            held[op.results[0]] = op
    return list(held.values())


def _changed(ops: list[ir.Operation], propagated: Propagated) -> Iterator[tuple[ir.Operation, str, tuple[Axes, ...]]]:
    """The ops whose results lie otherwise than noted, and how they would."""
    for op in ops:
        listed = ir.ArrayAttr(op.attributes[ALONE])
        alone = read_sharding(listed[0]) if len(listed) else None
        now = propagated.sharding_of(op.results[0])
        known = alone or now
        if known is None or (now is not None and now.unreduced):
            continue
        unsplit = ((),) * rank_of(op.results[0])
        wanted = alone.dimensions if alone is not None else unsplit
        if wanted != (now.dimensions if now is not None else unsplit):
            yield op, known.mesh, wanted
