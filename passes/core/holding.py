"""Holds how XLA alone splits a program, where what is written about sums that have moved would change that.

Shardy settles conflicts by what it meets first, and a constraint is met before all else: where parameters are split
over the same axes as examples, activations could come to be split otherwise, and be gathered for that.
"""

from collections.abc import Iterator
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.analysis.loops import loop_around
from paropt.passes.analysis.noted import ALONE
from paropt.passes.analysis.propagation import Propagated
from paropt.passes.analysis.shardings import Axes, closed_sharding, is_manual, rank_of, read_sharding
from paropt.passes.core.global_form import constrained, noted_ops, remember
from paropt.passes.core.remarks import Declined
from paropt.passes.core.traversal import all_ops_of, is_used, op_of

# What else there is follows how these are split, mostly.
_FIRST = frozenset(f"stablehlo.{name}" for name in ("convolution", "dot_general", "gather"))
# Never held: Shardy makes a copy of a constant for each reader, and what loops carry is held where it is made.
_LEFT = frozenset(f"stablehlo.{name}" for name in ("broadcast_in_dim", "constant", "iota", "while"))
_ROUNDS = 6  # what is held may move what is not


class Change(NamedTuple):
    """An op whose result lies otherwise than noted, and how it should."""

    op: ir.Operation
    mesh: str
    dimensions: tuple[Axes, ...]


def note_alone(module: ir.Operation, *propagated: Propagated) -> None:
    """Notes how XLA alone splits what ops make, where all of `propagated` say the same."""
    names: set[str] = set()
    for op in all_ops_of(module):
        if not _is_noted(op) or not is_used(op) or is_manual(op) or not all(each.knows(op) for each in propagated):
            continue
        alone, *others = (each.listed(op) or ir.ArrayAttr.get([], module.context) for each in propagated)
        if all(other == alone for other in others):
            op.attributes[ALONE] = alone
            names.add(op.name)
    remember(module, names)


def _is_noted(op: ir.Operation) -> bool:
    named = op.name.startswith(("stablehlo.", "chlo.")) and op.name not in _LEFT
    return named and len(op.results) == 1 and rank_of(op.results[0]) > 0


def hold(module: ir.Operation) -> list[ir.Operation]:
    """Constrains the results that would be split otherwise than noted. Returns the ops that make these."""
    noted = [op for op in noted_ops(module) if ALONE in op.attributes]
    held: dict[ir.Value, ir.Operation] = {}
    for _ in range(_ROUNDS if noted else 0):
        try:
            changed = list(_changed(noted, Propagated(module)))
        except Declined:  # Shardy would abort: whoever compiles this finds out
            break
        if not changed:
            break
        for change in [each for each in changed if each.op.name in _FIRST] or changed:
            _hold(change)
            held[change.op.results[0]] = change.op
    return list(held.values())


def _hold(change: Change) -> None:
    """Constrains the result; where a loop carries it, what the loop starts with as well."""
    result, sharding = change.op.results[0], closed_sharding(change.mesh, change.dimensions)
    with result.context, ir.InsertionPoint.after(change.op), change.op.location:
        holder = constrained(result, sharding)
    result.replace_all_uses_except(holder, op_of(holder))
    for use in holder.uses:
        end = use.owner.operation
        loop = loop_around(end.block)
        if end.name == "stablehlo.return" and loop is not None:
            with loop.op.context, ir.InsertionPoint(loop.op), loop.op.location:
                start = constrained(loop.op.operands[use.operand_number], sharding)
            loop.op.operands[use.operand_number] = start


def _changed(ops: list[ir.Operation], propagated: Propagated) -> Iterator[Change]:
    for op in ops:
        listed = ir.ArrayAttr(op.attributes[ALONE])
        alone = read_sharding(listed[0]) if len(listed) else None
        now = propagated.sharding_of(op.results[0])
        known = alone or now
        if known is None or (now is not None and now.unreduced):
            continue
        unsplit = ((),) * rank_of(op.results[0])
        wanted = alone.dimensions if alone is not None else unsplit
        if op.name not in _FIRST and not any(wanted):
            continue  # XLA may drop the op, as a sum with zero: to constrain it would gather its operand
        if wanted != (now.dimensions if now is not None else unsplit):
            yield Change(op, known.mesh, wanted)
