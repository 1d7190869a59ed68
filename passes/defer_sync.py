"""Defers the reduction of accumulated gradients until after the loop."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from jaxlib.mlir import ir

from paropt.passes.analysis.collectives import (
    ADD,
    ALL_REDUCE,
    GLOBAL_ALL_REDUCE,
    REDUCE_SCATTER,
    Reduction,
    neutral_number,
)
from paropt.passes.analysis.constants import is_zero
from paropt.passes.analysis.linearity import ConvertPolicy
from paropt.passes.analysis.loops import WHILE, Loop, loop_around, trip_count
from paropt.passes.analysis.partial import BlockFacts, PartialValues, first_source
from paropt.passes.analysis.types import bytes_of
from paropt.passes.core.loops import carry, rebuilt, uncarry
from paropt.passes.core.registry import register
from paropt.passes.core.remarks import Declined, Remark, applied, missed, require
from paropt.passes.core.split import Split, closed, erase_unused, neutral, split_values
from paropt.passes.core.traversal import defining_op, op_of, ops_of

NAME = "defer-sync"


@register
def defer_sync(
    module: ir.Operation,
    *,
    convert: Annotated[
        ConvertPolicy, "What a reduction may cross: converts to a wider float type, or to any float type."
    ] = "widening",
) -> list[Remark]:
    """Accumulate on each device and reduce once after the loop, instead of in every iteration.

    Before:

        %r = while (%acc = %start) {
          %g = all_reduce(%x)
          %next = add %acc, %g
          return %next
        }

    After:

        %d = while (%delta = %zero) {
          %next = add %delta, %x
          return %next
        }
        %s = all_reduce(%d)
        %r = add %start, %s

    Inner loops come first, so a sync leaves a nest of loops one by one. What the accumulator holds from elsewhere
    (its start value, terms that are not reduced) is kept apart and counted once, not once per device: a start value
    that is not zero is added after the loop, and is carried beside the sum only if the loop changes it. Maxima and
    minima are deferred in the same way.

    Legal when:

    - the reduction is an all_reduce
    - the reduction has a neutral element to start from: it is a sum, a maximum or a minimum
    - each op between the reduction and the accumulator is linear
    - a factor is uniform over the replica groups
    - a predicate is uniform over the replica groups
    - an index is uniform over the replica groups
    - the number of trips is uniform over the replica groups
    - the loop has no shardings of its own (they are one per carried value)
    - the condition does not read the accumulator
    - nothing else in the body reads the accumulator
    - nothing else in the body reads the reduced value
    - the reduction is directly in the body of the loop

    Worth it when:

    - fewer bytes are reduced after the loop than in all trips of it, or as many in fewer arrays

    Right for any number of trips, zero included. Floating-point sums are reassociated, so results may differ by
    rounding.

    Sources: XLA `WhileLoopAllReduceCodeMotion`, without its unsound cases; Alpa's gradient accumulation.
    """
    remarks: list[Remark] = []
    for op in ops_of(module, WHILE):
        remarks += _defer_from(Loop(op), convert)
    return remarks


def _defer_from(loop: Loop, convert: ConvertPolicy) -> list[Remark]:
    """Defers what can be, one kind of reduction after the other; each rewrite makes a new loop."""
    remarks: list[Remark] = []
    while True:
        facts = BlockFacts(loop.body, convert)  # made anew: facts do not outlive a rewrite
        stays: list[Remark] = [missed(NAME, op, declined) for op, declined in facts.reductions.declined]
        for reduction in facts.reductions.kinds:
            found = _deferral(loop, reduction, facts)
            if isinstance(found, Deferral):
                remarks += _remarks(found, loop)
                loop = _rewrite(loop, found, facts)
                break
            stays += found
        else:
            return remarks + stays + _in_branches(loop)


class Deferral(NamedTuple):
    """Carried values that one kind of reduction may leave."""

    values: PartialValues
    positions: tuple[int, ...]  # of the carried values
    members: frozenset[ir.Value]  # the partial values that they are made of
    reductions: tuple[ir.Operation, ...]  # those that the loop no longer needs


def _deferral(loop: Loop, reduction: Reduction, facts: BlockFacts) -> Deferral | list[Remark]:
    """What to defer; or, for each reduction of this kind that stays, the reason."""
    reductions = facts.reductions.kinds[reduction]
    sources = [result for op in reductions for result in op.results]
    reached = facts.partial_values(reduction, sources)
    nexts = list(loop.next_values.operands)
    positions = [i for i, value in enumerate(nexts) if value in reached.values]
    blame: dict[ir.Value, Declined] = {}
    while True:
        values = facts.partial_values(reduction, [*sources, *(loop.body.arguments[i] for i in positions)])
        made_of = {i: _made_of(nexts[i], values) | {loop.body.arguments[i]} for i in positions}
        members = frozenset().union(*made_of.values())
        refused: set[int] = set()
        for i in positions:
            try:
                _require_deferrable(i, made_of[i], members, Context(loop, values, facts, frozenset(positions)))
            except Declined as declined:
                refused.add(i)
                blame |= {value: declined for value in made_of[i] if value not in blame}
        if not refused:
            break
        positions = [i for i in positions if i not in refused]
    gone = tuple(op for op in reductions if any(result in members for result in op.results))
    found = Deferral(values, tuple(positions), members, gone)
    try:
        require(bool(positions), "no accumulator takes it")
        _require_worth(loop, found)
    except Declined as declined:
        return [missed(NAME, op, _reason(op, values, blame, declined)) for op in reductions]
    return found


class Context(NamedTuple):
    """What the conditions are asked about."""

    loop: Loop
    values: PartialValues
    facts: BlockFacts
    positions: frozenset[int]


def _require_deferrable(position: int, made_of: set[ir.Value], members: frozenset[ir.Value], context: Context) -> None:
    """Declines unless carried value `position`, made of the values `made_of`, may stay partial in the whole loop."""
    loop, values = context.loop, context.values
    reduction = values.reduction
    reduced = any(defining_op(value) is not None and not values.values[value].addends for value in made_of)
    require(reduced, "the accumulator is not a sum with the reduced value", loop.op)
    source = first_source(loop.next_values.operands[position], values)
    require(
        reduction.kind != REDUCE_SCATTER, "a reduce_scatter stays: its accumulator would have to be unscattered", source
    )
    element = ir.RankedTensorType(source.results[0].type).element_type
    has_neutral = neutral_number(reduction.combiner, element) is not None
    require(has_neutral, f"no neutral element is known for a {reduction.combiner} of {element}", source)
    require("sdy.sharding" not in loop.op.attributes, "the loop says how its values are sharded", loop.op)
    context.facts.require_uniform(loop.predicate, "the number of trips", loop.op, reduction)
    for use in loop.condition.arguments[position].uses:
        require(False, "the condition reads the accumulator", use.owner.operation)
    for value in made_of:
        for use in value.uses:
            _require_member(value, use, members, context)


def _require_member(value: ir.Value, use: ir.OpOperand, members: frozenset[ir.Value], context: Context) -> None:
    """Declines unless `use` of the partial `value` ends in an accumulator that is deferred too."""
    op = use.owner.operation
    if op == context.loop.next_values:
        ends = use.operand_number in context.positions
        require(ends, f"{_described(value)} is also carried to the next trip", op)
        return
    if context.values.is_addend(use):
        leads_on = op.results[0] in members
        require(leads_on, f"{_described(value)} also reaches a value that is not accumulated", op)
        return
    declined = context.values.stopped_at(use)
    because = f": {declined.reason}" if declined is not None else ""
    require(False, f"{_described(value)} is also read by {op.name}{because}", op)


def _described(value: ir.Value) -> str:
    op = defining_op(value)
    if op is None:
        return "the accumulator"
    return "the reduced value" if op.name in (ALL_REDUCE, GLOBAL_ALL_REDUCE) else "a sum of reduced values"


def _require_worth(loop: Loop, found: Deferral) -> None:
    trips = trip_count(loop)
    trips = 2 if trips is None else trips  # unknown: as few as can be worth it
    inside = [result for op in found.reductions for result in op.results if result in found.members]
    after = [loop.op.results[i] for i in found.positions]
    cheaper = (_bytes(after), len(after)) < (trips * _bytes(inside), trips * len(inside))
    require(cheaper, f"{_bytes(after)} bytes after the loop are no fewer than {trips} times {_bytes(inside)} in it")


def _bytes(values: Sequence[ir.Value]) -> int:
    return sum(bytes_of(ir.RankedTensorType(value.type)) for value in values)


def _made_of(value: ir.Value, values: PartialValues) -> set[ir.Value]:
    """The partial values that `value` is computed from, itself included; none when it is not partial."""
    found: set[ir.Value] = set()
    waiting = [value] if value in values.values else []
    while waiting:
        value = waiting.pop()
        if value in found:
            continue
        found.add(value)
        addends = values.values[value].addends
        waiting += [op_of(value).operands[i] for i in addends if op_of(value).operands[i] in values.values]
    return found


def _reason(op: ir.Operation, values: PartialValues, blame: dict[ir.Value, Declined], otherwise: Declined) -> Declined:
    """Why the reduction `op` stays in the loop."""
    for result in op.results:
        if result in blame:
            return blame[result]
        for use in result.uses:
            stopped = values.stopped_at(use)
            if stopped is not None:
                return stopped
    return otherwise


def _remarks(found: Deferral, loop: Loop) -> list[Remark]:
    trips = trip_count(loop)
    often = f"{trips} times" if trips is not None else "in every trip"
    remarks = []
    for op in found.reductions:
        moved = _bytes([result for result in op.results if result in found.members])
        remarks.append(applied(NAME, op, f"{moved} bytes per device, now reduced after the loop and not {often} in it"))
    return remarks


def _rewrite(loop: Loop, found: Deferral, facts: BlockFacts) -> Loop:
    values = found.values
    old = facts.in_order(found.members)
    starts = {i: loop.op.operands[i] for i in found.positions}
    combiner = values.reduction.combiner
    apart = [i for i in found.positions if not (combiner == ADD and is_zero(starts[i]))]
    kept_apart = {i: carry(loop, starts[i].type) for i in apart}
    sources: dict[ir.Value, Split] = {}
    for op in found.reductions:
        sources |= {result: Split(operand, None) for operand, result in zip(op.operands, op.results, strict=True)}
    sources |= {loop.body.arguments[i]: Split(loop.body.arguments[i], kept_apart.get(i)) for i in found.positions}
    splits = split_values(values, sources, [value for value in values.values if value in found.members])

    end = loop.next_values
    ends = {i: splits[end.operands[i]] for i in found.positions}
    like = {i: first_source(end.operands[i], values) for i in found.positions}
    nexts = [ends[i].partial if i in ends else value for i, value in enumerate(end.operands)]
    new_starts = list(loop.op.operands)
    for i in found.positions:
        new_starts[i] = _neutral_before(loop.op, starts[i].type, combiner)
    carried: dict[int, int] = {}
    for i, argument in kept_apart.items():
        position, rest = len(nexts), ends[i].rest
        if rest is not None and rest == argument and next(argument.uses, None) is None:
            uncarry(loop, position)  # the loop leaves it as it was: its start value will do
            continue
        carried[i] = position
        nexts.append(rest if rest is not None else _neutral_before(end, starts[i].type, combiner))
        new_starts.append(starts[i])

    new = rebuilt(loop, new_starts, nexts)
    at = ir.InsertionPoint(loop.op)
    for i, result in enumerate(loop.op.results):
        value = new.op.results[i]
        if i in ends:
            rest = new.op.results[carried[i]] if i in carried else starts[i] if i in kept_apart else None
            value = closed(Split(value, rest), like[i], combiner, at)
        result.replace_all_uses_with(value)
    loop.op.erase()
    erase_unused(old)
    return new


def _neutral_before(op: ir.Operation, type_: ir.Type, combiner: str) -> ir.Value:
    with ir.InsertionPoint(op), op.location:
        return neutral(type_, combiner)


def _in_branches(loop: Loop) -> list[Remark]:
    """A remark for each all_reduce in a region within the body that is no loop of its own."""
    reason = Declined("the reduction is not directly in the body of the loop", loop.op)
    found = ops_of(loop.op, ALL_REDUCE, GLOBAL_ALL_REDUCE)
    inner = [op for op in found if op.block != loop.body and loop_around(op.block) is None]
    return [missed(NAME, op, reason) for op in inner]
