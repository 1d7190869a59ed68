"""The loop that runs each iteration of a loop right after an iteration of another.

Tests: test/passes/fuse-loops-reads.mlir, test/property/test_loop_pairs.py.
"""

from jaxlib.mlir import ir

from paropt.passes.ir.induction_variable import constant, create
from paropt.passes.ir.loops import Loop
from paropt.passes.ir.metadata import add_hints, hints_of
from paropt.passes.ir.types import unsqueezes
from paropt.passes.microbatch.loop_pairs import Pair, Read, is_unchanged
from paropt.passes.rewrite.erase import erase_unread
from paropt.passes.rewrite.loop_edits import carry, rebuilt, uncarry
from paropt.passes.support.traversal import defining_op, is_used, op_of

RESHAPE, BROADCAST = "stablehlo.reshape", "stablehlo.broadcast_in_dim"


def fuse(pair: Pair) -> Loop:
    """Replaces both loops by one, which it returns."""
    first, second = pair.first, pair.second
    _bring_together(pair)
    for i, result in enumerate(first.op.results):
        if is_unchanged(first, i):
            result.replace_all_uses_with(first.op.operands[i])
    kept = [i for i in range(len(first.op.results)) if i not in pair.gone]
    updates = [op_of(first.next_values.operands[i]) for i in pair.gone]
    written = [value for op in updates for value in list(op.operands)[1:]]
    zeros = [first.op.operands[i] for i in pair.gone]
    starts = [first.op.operands[i] for i in kept] + [second.op.operands[i] for i in pair.carried]
    added = _join_bodies(pair)
    new = rebuilt(first, starts, [*(first.next_values.operands[i] for i in kept), *added])
    add_hints([new.op], hints_of(second.op))
    results = list(new.op.results)
    olds = [first.op.results[i] for i in kept] + [second.op.results[i] for i in pair.carried]
    for old, result in zip(olds, results, strict=True):
        old.replace_all_uses_with(result)
    second.op.results[pair.counters[1]].replace_all_uses_with(results[kept.index(pair.counters[0])])
    second.op.erase()
    first.op.erase()
    for op in updates:
        op.erase()
    for i in sorted(pair.gone, reverse=True):
        uncarry(new, i)
    erase_unread([*written, *zeros])
    return new


def _bring_together(pair: Pair) -> None:
    """Puts the first loop right before the second one, and the ops that depend on it behind both."""
    for op in reversed(pair.late):
        op.move_after(pair.second.op)
    pair.first.op.move_before(pair.second.op)


def _join_bodies(pair: Pair) -> list[ir.Value]:
    """Moves the body of the second loop behind that of the first; returns the next values of its carried ones."""
    first, second = pair.first, pair.second
    trip, counter = first.body.arguments[pair.counters[0]], second.body.arguments[pair.counters[1]]
    for index in pair.indices:
        index.replace_all_uses_with(trip)
    for read in pair.reads:
        _hand_over(read)
    for i, argument in enumerate(second.body.arguments):
        if i in pair.carried:
            argument.replace_all_uses_with(carry(first, argument.type))
        elif argument != counter:
            start = second.op.operands[i]
            argument.replace_all_uses_with(start)
            second.op.results[i].replace_all_uses_with(start)
    end = second.next_values
    for i in range(len(end.operands)):
        if i not in pair.carried:
            end.operands[i] = trip  # so that nothing is computed to be handed on
    ops = [op for op in reversed([view.operation for view in second.body.operations][:-1]) if not _erased(op)]
    if next(counter.uses, None) is not None:
        counter.replace_all_uses_with(_counted(pair, trip) if pair.is_reversed else trip)
    nexts = [end.operands[i] for i in pair.carried]
    end.erase()
    for op in reversed(ops):
        op.move_before(first.next_values)
    return nexts


def _counted(pair: Pair, trip: ir.Value) -> ir.Value:
    """The number of the second loop's trip in the trip of the first that is number `trip`."""
    tensor = ir.RankedTensorType(trip.type)
    last = ir.IntegerAttr.get(tensor.element_type, pair.trips - 1)
    with ir.InsertionPoint(pair.first.next_values), pair.second.op.location:
        return create("stablehlo.subtract", tensor, constant(tensor, last), trip)


def _erased(op: ir.Operation) -> bool:
    """Erases `op` if nothing reads it."""
    if is_used(op):
        return False
    op.erase()
    return True


def _hand_over(read: Read) -> None:
    """Replaces a slice by the value written there; where a reshape undoes a reshape, by the operand of the latter."""
    part = read.slice.results[0]
    row = _reshaped(read.part)
    for op in [use.owner.operation for use in part.uses] if row is not None else ():
        if row is not None and op.name == RESHAPE and op.results[0].type == row.type:
            op.results[0].replace_all_uses_with(row)
    part.replace_all_uses_with(read.part)


def _reshaped(value: ir.Value) -> ir.Value | None:
    """The value that `value` is a reshape of."""
    op = defining_op(value)
    if op is None or not (op.name == RESHAPE or (op.name == BROADCAST and unsqueezes(op))):
        return None
    return op.operands[0]
