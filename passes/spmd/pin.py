"""Pins of the shardings that XLA would infer alone, where constraints of moved sums would change them.

Shardy resolves conflicts in the order in which it meets shardings, constraints first: where parameters are sharded over
the same axes as examples, new constraints could change the shardings of activations, which would be all-gathered for
that.

Tests: test/passes/annotate-unreduced.mlir, test/numeric/test_pinned_shardings.py.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.dataflow.unreduced import said_unreduced
from paropt.passes.ir.barriers import BARRIER
from paropt.passes.ir.constraints import CONSTRAINT
from paropt.passes.ir.loops import WHILE, loop_around
from paropt.passes.ir.op_table import is_cloned, is_contraction
from paropt.passes.sharding.annotations import ALONE, OPERANDS, noted_alone
from paropt.passes.sharding.axes import Axes
from paropt.passes.sharding.explicit_ops import constrained
from paropt.passes.sharding.propagation import Propagated, propagated_or_none
from paropt.passes.sharding.shardings import Sharding, closed_sharding, is_manual, rank_of, read_sharding
from paropt.passes.spmd.global_form import noted_ops, remember, sources, take_back
from paropt.passes.support.traversal import all_ops_of, is_used, op_of, parent_of

_GATHER = "stablehlo.gather"
_ROUNDS = 6  # pinned ops may move others


class Change(NamedTuple):
    """A result whose sharding differs from its annotation, and the sharding that it should have."""

    result: ir.OpResult
    mesh: str
    dimensions: tuple[Axes, ...]


def note_alone(module: ir.Operation, *propagated: Propagated) -> None:
    """Annotates the shardings that XLA would infer for results of ops, where all of `propagated` agree."""
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
    """Neither ops that Shardy clones for each reader, nor loop-carried values, which are pinned where they are made."""
    named = op.name.startswith(("stablehlo.", "chlo.")) and not is_cloned(op) and op.name != WHILE
    return named and (op.name == BARRIER or len(op.results) == 1) and any(map(rank_of, op.results))


def _leads(op: ir.Operation) -> bool:
    """Whether most other ops follow the sharding of the result of `op`."""
    return is_contraction(op) or op.name == _GATHER


def unlike_alone(module: ir.Operation) -> list[ir.Operation]:
    """The sources of scalar sums, for which XLA would shard the computation in their loop otherwise than it does.

    That is worth it for gradients: the ops after the loop, such as those on an optimizer's sharded state, have XLA
    shard the loop's weights in place of its examples. So it is none where an array's sum has moved from the loop.
    """
    by_loop: dict[ir.Value, list[ir.Operation]] = {}
    for source in sources(module):
        loop = _outermost_loop(source)
        if loop is not None:
            by_loop.setdefault(loop.results[0], []).append(source)
    numbers = [op for ops in by_loop.values() if not any(rank_of(each.results[0]) for each in ops) for op in ops]
    if not numbers:
        return []
    copy = module.clone()
    copies = dict(zip([op.results[0] for op in _with_results(module)], _with_results(copy), strict=True))
    made_by = [copies[op_of(source.operands[0]).results[0]] for source in numbers]
    take_back(copy)
    alone = propagated_or_none(copy)
    if alone is None:
        return []
    return [
        source for source, op in zip(numbers, made_by, strict=True) if _differs(source, alone.operand_shardings(op))
    ]


def _outermost_loop(op: ir.Operation) -> ir.Operation | None:
    found = None
    while op.parent is not None:
        op = parent_of(op)
        found = op if op.name == WHILE else found
    return found


def _with_results(module: ir.Operation) -> list[ir.Operation]:
    return [op for op in all_ops_of(module) if len(op.results)]


def _differs(source: ir.Operation, alone: Sequence[Sharding | None]) -> bool:
    """Whether the op before `source` has operands sharded differently than `alone`."""
    pins = ir.ArrayAttr(source.attributes[OPERANDS])
    for pin, lies in zip(pins, alone, strict=False):  # none behind a reduce_scatter
        wanted = () if isinstance(pin, ir.UnitAttr) else read_sharding(pin).dimensions
        if any(axes and (lies is None or lies.dimensions[i] != axes) for i, axes in enumerate(wanted)):
            return True
    return False


def hold(module: ir.Operation) -> list[ir.Operation]:
    """Pins the results that would be sharded differently than annotated. Returns their ops."""
    noted = [op for op in noted_ops(module) if ALONE in op.attributes]
    held: dict[ir.Value, ir.Operation] = {}
    for _ in range(_ROUNDS if noted else 0):
        propagated = propagated_or_none(module)
        changed = list(_changed(noted, propagated)) if propagated is not None else []
        if not changed:
            break
        for change in [each for each in changed if _leads(op_of(each.result))] or changed:
            _hold(change)
            op = op_of(change.result)
            held[op.results[0]] = op
    return list(held.values())


def _hold(change: Change) -> None:
    """Pins the result; where a loop carries it, its init operand as well."""
    result, sharding = change.result, closed_sharding(change.mesh, change.dimensions)
    with result.context, ir.InsertionPoint.after(op_of(result)), op_of(result).location:
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
        for result in op.results:
            listed = noted_alone(result)
            if listed is None:
                continue
            change = _change(result, read_sharding(listed[0]) if len(listed) else None, propagated)
            if change is not None:
                yield change


def _change(result: ir.OpResult, alone: Sharding | None, propagated: Propagated) -> Change | None:
    now = propagated.sharding_of(result)
    known = alone or now
    if known is None or (now is not None and now.unreduced) or _is_said_unreduced(result):
        return None
    unsplit = ((),) * rank_of(result)
    wanted = alone.dimensions if alone is not None else unsplit
    if not _leads(op_of(result)) and not any(wanted):
        return None  # XLA may drop the op, as a sum with zero: to constrain it would gather its operand
    return Change(result, known.mesh, wanted) if wanted != (now.dimensions if now is not None else unsplit) else None


def _is_said_unreduced(result: ir.OpResult) -> bool:
    """Whether a constraint behind `result` says so, as Shardy does not of an op that leaves a value as it is."""
    readers = [use.owner.operation for use in result.uses]
    return any(op.name == CONSTRAINT and said_unreduced(op.results[0]) for op in readers)
