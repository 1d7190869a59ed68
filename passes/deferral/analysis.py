"""The accumulators of a loop that may stay partial in all of it, and the reductions that can then leave it.

Whether that is worth it, `deferral_cost` says.

Tests: test/passes/defer-sync-readers.mlir, test/passes/defer-sync-shardings.mlir.
"""

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.dataflow.engine import nearest_first
from paropt.passes.dataflow.partial_values import BlockFacts, PartialValues
from paropt.passes.deferral.branch_reads import branch_of
from paropt.passes.ir.branches import BRANCHES
from paropt.passes.ir.control_flow import predecessors
from paropt.passes.ir.loops import Loop
from paropt.passes.sharding.collectives import IN_BRANCH, REDUCTIONS, Reduction, neutral_number
from paropt.passes.sharding.shardings import SHARDING
from paropt.passes.support.disjoint_sets import connected
from paropt.passes.support.remarks import Declined, refusal, require
from paropt.passes.support.traversal import defining_op, terminator_of


class Deferral(NamedTuple):
    """Carried values that one kind of reduction may leave, and without which none of them may."""

    values: PartialValues
    positions: tuple[int, ...]  # of the loop-carried values
    members: frozenset[ir.Value]  # the partial values that they are made of
    reductions: tuple[ir.Operation, ...]  # those that the loop no longer needs
    order: tuple[ir.Value, ...]  # the members in program order


class Deferrals(NamedTuple):
    """The deferrals of one kind of reduction, in parts that may leave independently; and why it stays elsewhere."""

    parts: list[Deferral]
    values: PartialValues
    reductions: Sequence[ir.Operation]  # of this kind, whether or not they may leave
    reasons: dict[ir.Value, Declined]  # by the partial values that lead to a loop-carried value that may not


def deferrals(
    loop: Loop,
    reduction: Reduction,
    facts: BlockFacts,
    results: Sequence[ir.Value] = (),
    stay_reduced: frozenset[int] = frozenset(),
) -> Deferrals:
    """The deferrals of `reduction` out of `loop`, where the `results` of loops in it count as reduced there, too.

    The loop-carried values number `stay_reduced` are not to become partial.
    """
    sources: list[ir.Value] = [result for op in movable(reduction, facts) for result in op.results]
    sources += results
    found = _deferrals(loop, reduction, facts, sources, stay_reduced)
    if not found.parts and found.reasons:
        found = _deferrals(loop, reduction, facts, sources, stay_reduced, as_carried=True)
    leaving = frozenset().union(*(part.members for part in found.parts))
    if found.reasons and (read := _read_by_others(loop, facts.partial_values(reduction, sources), leaving)):
        found = _deferrals(loop, reduction, facts, [value for value in sources if value not in read], stay_reduced)
        return found._replace(reasons=read | found.reasons)
    return found


def movable(reduction: Reduction, facts: BlockFacts) -> list[ir.Operation]:
    """The reductions of this kind, but for those with which branches reduce a loop-carried value already."""
    return [op for op in facts.reductions.kinds.get(reduction, []) if IN_BRANCH not in op.attributes]


def combines_by(op: ir.Operation) -> tuple[ir.Block, ir.Type]:
    """The block and element type of a reduction: XLA makes one collective of those that are alike."""
    return op.block, ir.RankedTensorType(op.results[0].type).element_type


def is_scalar(op: ir.Operation) -> bool:
    return all(prod(ir.RankedTensorType(result.type).shape) == 1 for result in op.results)


def made_by_branches(found: Deferrals, loop: Loop) -> frozenset[int]:
    """The loop-carried values that may be partial and that only branches change, such as the momentum of gradients.

    A branch that reduces the sum which it makes them of may as well return them reduced.
    """
    positions = [i for part in found.parts for i in part.positions]
    return frozenset(i for i in positions if _is_made_by_branches(loop.next_values.operands[i], i, loop))


def _is_made_by_branches(value: ir.Value, position: int, loop: Loop) -> bool:
    op = defining_op(value)
    if op is None or op.name not in BRANCHES:
        return False
    return all(
        use.value == loop.body.arguments[position]
        or ((maker := defining_op(use.value)) is not None and maker.block == use.op.block)
        for use in predecessors(value) or ()
    )


def _deferrals(
    loop: Loop,
    reduction: Reduction,
    facts: BlockFacts,
    sources: Sequence[ir.Value],
    stay_reduced: frozenset[int],
    *,
    as_carried: bool = False,
) -> Deferrals:
    """The deferrals of the sums `sources`. Branches may read loop-carried values, too, `as_carried`: rarely better."""
    reductions = movable(reduction, facts)
    reasons: dict[ir.Value, Declined] = {}
    nexts = list(loop.next_values.operands)

    def reached(positions: Sequence[int]) -> PartialValues:
        return facts.partial_values(reduction, [*sources, *(loop.body.arguments[i] for i in positions)])

    positions: list[int] = []
    values = reached(positions)
    others = [i for i in range(len(nexts)) if i not in stay_reduced]
    while more := [i for i in others if nexts[i] in values.values and i not in positions]:
        positions = sorted([*positions, *more])
        values = reached(positions)
    while True:
        made_of = {i: [*values.made_of(nexts[i]), loop.body.arguments[i]] for i in positions}
        members = frozenset().union(*made_of.values())
        context = Context(loop, values, facts, frozenset(positions), members, as_carried, {})
        refused: set[int] = set()
        for i in positions:
            try:
                _require_deferrable(i, made_of[i], context)
            except Declined as declined:
                refused.add(i)
                for value in made_of[i]:
                    reasons.setdefault(value, declined)
        if not refused:
            break
        positions = [i for i in positions if i not in refused]
        values = reached(positions)
    return Deferrals(_parts(connected(positions, made_of), made_of, reductions, values), values, reductions, reasons)


def merged(parts: Sequence[Deferral]) -> Deferral:
    """Several parts of one kind of reduction as one."""
    values = parts[0].values
    found = {op.results[0]: op for part in parts for op in part.reductions}
    members = frozenset().union(*(part.members for part in parts))
    return Deferral(
        values,
        tuple(sorted(i for part in parts for i in part.positions)),
        members,
        tuple(found.values()),
        tuple(value for value in values.values if value in members),
    )


def _parts(
    groups: list[list[int]],
    made_of: dict[int, list[ir.Value]],
    reductions: Sequence[ir.Operation],
    values: PartialValues,
) -> list[Deferral]:
    """A part for each group of loop-carried values."""
    group_of = {value: g for g, group in enumerate(groups) for i in group for value in made_of[i]}
    order: list[list[ir.Value]] = [[] for _ in groups]
    for value in values.values:
        if value in group_of:
            order[group_of[value]].append(value)
    gone: list[list[ir.Operation]] = [[] for _ in groups]
    for op in reductions:
        for g in dict.fromkeys(group_of[result] for result in op.results if result in group_of):
            gone[g].append(op)
    return [
        Deferral(values, tuple(group), frozenset(order[g]), tuple(gone[g]), tuple(order[g]))
        for g, group in enumerate(groups)
    ]


class Context(NamedTuple):
    """The loop and the reduction that conditions are asked about."""

    loop: Loop
    values: PartialValues
    facts: BlockFacts
    positions: frozenset[int]
    members: frozenset[ir.Value]  # the partial values that those at these positions are made of
    as_carried: bool
    refused: dict[ir.Value, Declined | None]  # of those members that were asked about, why not: others share them

    def may_be_read(self, value: ir.Value) -> bool:
        """Whether a branch may reduce the partial `value` for itself."""
        return self.values.reduction.is_whole and (self.as_carried or not isinstance(value.owner, ir.Block))


def _require_deferrable(position: int, made_of: list[ir.Value], context: Context) -> None:
    """Declines unless loop-carried value `position`, made of the values `made_of`, may stay partial in all the loop."""
    loop, values = context.loop, context.values
    reduction = values.reduction
    elements = dict.fromkeys(ir.RankedTensorType(value.type).element_type for value in made_of)
    for element in (element for element in elements if neutral_number(reduction.combiner, element) is None):
        sources = [op for value in made_of if values.is_source(value) and (op := defining_op(value)) is not None]
        require(False, f"no identity element is known for a {reduction.combiner} of {element}", *sources[:1])
    require(SHARDING not in loop.op.attributes, "the loop says how its values are sharded", loop.op)
    context.facts.require_uniform(loop.predicate, "the trip count", loop.op, reduction)
    for use in loop.condition.arguments[position].uses:
        require(False, "the condition reads the accumulator", use.owner.operation)
    for value in made_of:
        if value not in context.refused:
            context.refused[value] = refusal(_require_members, value, context)
        if (declined := context.refused[value]) is not None:
            raise declined


def _require_members(value: ir.Value, context: Context) -> None:
    """Declines unless each use of the partial `value` ends in an accumulator that is deferred too."""
    for use in value.uses:
        _require_member(value, use, context)


def _require_member(value: ir.Value, use: ir.OpOperand, context: Context) -> None:
    """Declines unless `use` of the partial `value` ends in an accumulator that is deferred too."""
    made = context.values.made_by(use)
    if made is not None and made in context.members:
        return
    op = use.owner.operation
    if made is not None and all(map(context.values.is_unread, op.results)):
        return
    if op == context.loop.next_values:
        ends = use.operand_number in context.positions
        require(ends, f"{_described(value)} is also carried to the next trip", op)
        return
    again = op.name in REDUCTIONS
    require(not again, f"{_described(value)} is reduced again, in a trip that is not proven to be the last only", op)
    branch = branch_of(value, use, context.loop.body) if context.may_be_read(value) else None
    if branch is not None:
        context.facts.require_same_branch(terminator_of(branch), context.values.reduction)
        return  # reduced in there
    require(made is None, f"{_described(value)} also reaches a value that is not accumulated", op)
    raise _reason_for(value, use, context.values)


def _read_by_others(loop: Loop, values: PartialValues, leaving: frozenset[ir.Value]) -> dict[ir.Value, Declined]:
    """Why a sum, none of `leaving`, is reduced where the body needs it: other addends of the same accumulators may
    still leave.
    """
    reasons: dict[ir.Value, Declined] = {}
    added = {part for value in loop.next_values.operands for part in values.made_of(value)}
    for value in values.values if added else ():
        uses = [use for use in values.other_uses(value) if use.owner.operation != loop.next_values]
        made_of = [each for each in values.made_of(value) if values.is_source(each)] if uses else []
        if len(made_of) == 1 and made_of[0] in added - leaving:
            reasons.setdefault(made_of[0], _reason_for(value, uses[0], values))
    return reasons


def _reason_for(value: ir.Value, use: ir.OpOperand, values: PartialValues) -> Declined:
    """Why `use` needs the partial `value` reduced."""
    op = use.owner.operation
    declined = values.stopped_at(use)
    because = f": {declined.reason}" if declined is not None else ""
    return Declined(f"{_described(value)} is also read by {op.name}{because}", op)


def _described(value: ir.Value) -> str:
    op = defining_op(value)
    if op is None:
        return "the accumulator"
    return "the reduced value" if op.name in REDUCTIONS else "a sum of reduced values"


def reason_to_stay(op: ir.Operation, found: Deferrals, otherwise: Declined) -> Declined:
    """Why the reduction `op` stays in the loop: the first obstacle on the ways that its results go; `otherwise`, if it
    might leave.
    """
    if any(result in part.members for part in found.parts for result in op.results):
        return otherwise

    def made_by(value: ir.Value) -> Iterator[ir.Value]:
        return (made for use in value.uses if (made := found.values.made_by(use)) is not None)

    results: list[ir.Value] = list(op.results)
    for value in nearest_first(results, made_by):
        reasons = (found.reasons.get(value), *map(found.values.stopped_at, value.uses))
        for reason in reasons:
            if reason is not None:
                return reason
    return otherwise
