"""The edit of a deferral: the loop carries partial values, and one reduction of each follows it.

What may leave a loop, and is worth it, `deferral/rewrite.py` says.

Tests: test/passes/defer-sync.mlir, test/passes/defer-sync-precision.mlir, test/passes/defer-sync-sharded-start.mlir.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jaxlib.mlir import ir

from paropt.passes.dataflow.engine import forward
from paropt.passes.dataflow.partial_values import BlockFacts, first_source
from paropt.passes.deferral.analysis import Deferral
from paropt.passes.deferral.branch_reads import BranchRead, branch_reads
from paropt.passes.deferral.deferral_cost import carried_type, kept_apart
from paropt.passes.ir.barriers import BARRIER
from paropt.passes.ir.loops import Loop
from paropt.passes.rewrite.loop_edits import carry, kept, rebuilt, uncarry
from paropt.passes.rewrite.residual_split import (
    Split,
    closed,
    erase_unused,
    in_type,
    in_type_of,
    neutral_before,
    split_values,
)
from paropt.passes.sharding.annotations import ALONE, noted_alone
from paropt.passes.sharding.collectives import DEFERRED, IN_BRANCH
from paropt.passes.support.traversal import defining_op, op_of


@dataclass
class CarriedValue:
    """A loop-carried value that becomes partial."""

    position: int
    start: ir.Value  # its init operand
    type: ir.RankedTensorType  # in which it is partial
    like: ir.Operation  # the reduction that the one after the loop is made like
    alone: ir.Attribute | None  # how XLA alone would shard what a trip makes of it, where that is noted
    residual: ir.Value | None = None  # the argument of the body that carries its residual, where it has one
    retyped: ir.Value | None = None  # the one that carries it as `type`, where it was carried in another
    residual_position: int | None = None  # None where the loop leaves the residual as it was


def deferred(loop: Loop, found: Deferral, facts: BlockFacts) -> Loop:
    """The loop that carries `found` partial, in place of `loop`."""
    old = facts.in_order((*found.order, *_unread(found)))
    carried = _carried(loop, found)
    new = _rebuilt(loop, carried, _splits(loop, found, carried), found.values.reduction.combiner)
    _reduce_after(loop, new, carried, found.values.reduction.combiner)
    loop.op.erase()
    erase_unused(old)
    for each in carried:
        if each.retyped is not None:
            _replace(new, each.position, each.retyped)
    return new


def _unread(found: Deferral) -> Iterator[ir.Value]:
    """What is made of the values of `found`, and unread: it would have them reduced in the loop."""
    values = found.values
    made = dict.fromkeys(values.made_by(use) for value in found.order for use in value.uses)
    first = [each for each in made if each is not None and each not in found.members and values.is_unread(each)]
    return forward(first, lambda use: use.owner.operation.results)


def _carried(loop: Loop, found: Deferral) -> list[CarriedValue]:
    """The values that `found` makes partial, with arguments of the loop for their residuals and new types."""
    carried: list[CarriedValue] = []
    apart = kept_apart(found, loop)
    for position in found.positions:
        like = first_source(loop.next_values.operands[position], found.values) or found.reductions[0]
        type_ = carried_type(found, loop, position)
        alone = _alone(loop.next_values.operands[position], found.values.reduction.combiner)
        carried.append(CarriedValue(position, loop.op.operands[position], type_, like, alone))
    for each in carried:  # first: `_rebuilt` counts on it that they follow the arguments of the loop as it is
        each.residual = carry(loop, each.start.type) if each.position in apart else None
    for each in carried:  # ops that are still to be split read it in the type that it had
        each.retyped = carry(loop, each.type) if each.type != each.start.type else None
    return carried


def _alone(value: ir.Value, combiner: str) -> ir.Attribute | None:
    """How XLA alone would shard a sum of a trip, where it is noted: only ops of noted kinds lose their notes again."""
    made = defining_op(value)
    return noted_alone(ir.OpResult(value)) if made is not None and made.name == combiner else None


def _splits(loop: Loop, found: Deferral, carried: Sequence[CarriedValue]) -> dict[ir.Value, Split]:
    """The values of `found` as partial values and residuals. Branches that read one reduced get a reduction."""
    values = found.values
    sources: dict[ir.Value, Split] = {}
    for op in found.reductions:
        pairs = zip(op.operands, op.results, strict=True)
        sources |= {result: Split(operand, None) for operand, result in pairs if result in found.members}
    for each in carried:
        argument = loop.body.arguments[each.position]
        sources[argument] = Split(argument if each.retyped is None else each.retyped, each.residual)
    held = [_held(read) for read in branch_reads(values, found.order, loop.body)]
    splits = split_values(values, sources, found.order)
    for op in held:
        like = first_source(op.operands[0], values) or found.reductions[0]
        _reduce_in_branch(op, splits[op.operands[0]], like, values.reduction.combiner)
    return splits


def _rebuilt(loop: Loop, carried: Sequence[CarriedValue], splits: dict[ir.Value, Split], combiner: str) -> Loop:
    """The loop that carries the partial values, and the residuals that change in it, in front of the old one."""
    end = loop.next_values
    starts, nexts = list(loop.op.operands), list(end.operands)
    ends = [splits[end.operands[each.position]] for each in carried]
    for each, split in zip(carried, ends, strict=True):
        with ir.InsertionPoint(end), end.location:
            nexts[each.position] = in_type(split.partial, each.type.element_type)
        starts[each.position] = neutral_before(loop.op, each.type, combiner)
    for each, split in zip(carried, ends, strict=True):
        if each.residual is None:
            continue
        rest = kept(split.rest, each.residual, loop)
        if rest is not None and rest == each.residual and next(each.residual.uses, None) is None:
            uncarry(loop, len(nexts))  # the loop leaves it as it was: its init operand will do
            continue
        each.residual_position = len(nexts)
        nexts.append(rest if rest is not None else neutral_before(end, each.start.type, combiner))
        starts.append(each.start)
    return rebuilt(loop, starts, nexts, [each.position for each in carried if each.residual_position is not None])


def _reduce_after(loop: Loop, new: Loop, carried: Sequence[CarriedValue], combiner: str) -> None:
    """Has what reads the results of `loop` read those of `new`, reduced where they are partial."""
    partial = {each.position: each for each in carried}
    for i, result in enumerate(loop.op.results):
        value = new.op.results[i]
        if i in partial and next(result.uses, None) is not None:
            value = _reduced(partial[i], loop, new, combiner)
        result.replace_all_uses_with(value)


def _reduced(each: CarriedValue, loop: Loop, new: Loop, combiner: str) -> ir.Value:
    """The result of `loop`, made of that of `new`: reduced once, and the residual added."""
    unchanged = each.start if each.residual is not None else None
    rest = unchanged if each.residual_position is None else new.op.results[each.residual_position]
    at = ir.InsertionPoint(loop.op)
    value = closed(Split(new.op.results[each.position], rest), each.like, combiner, at, mark=DEFERRED)
    if rest is not None and each.alone is not None:
        op_of(value).attributes[ALONE] = each.alone
    with at, each.like.location:
        return in_type_of(value, loop.op.results[each.position])


def _held(read: BranchRead) -> ir.Operation:
    """An op in the branch that stands for the reduced value, until the partial value there is known."""
    made = defining_op(read.value)
    behind = made is not None and made.block == read.block
    at = ir.InsertionPoint.after(made) if made is not None and behind else ir.InsertionPoint.at_block_begin(read.block)
    holder = read.block.owner.operation
    with at, made.location if made is not None else holder.location:
        held = ir.Operation.create(BARRIER, results=[read.value.type], operands=[read.value])
    for use in read.uses:
        use.owner.operation.operands[use.operand_number] = held.results[0]
    return held


def _reduce_in_branch(held: ir.Operation, split: Split, like: ir.Operation, combiner: str) -> None:
    """Puts the reduced value in the place of the op `held`."""
    at = ir.InsertionPoint(held)
    value = closed(split, like, combiner, at, mark=IN_BRANCH)
    with at, like.location:
        held.results[0].replace_all_uses_with(in_type_of(value, held.results[0]))
    held.erase()


def _replace(loop: Loop, position: int, argument: ir.Value) -> None:
    """Replaces the dead argument number `position` by the last one, `argument`."""
    for block in (loop.condition, loop.body):
        block.arguments[position].set_type(argument.type)
    argument.replace_all_uses_with(loop.body.arguments[position])
    uncarry(loop, ir.BlockArgument(argument).arg_number)
