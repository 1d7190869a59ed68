"""Takes a reduction out of a loop: the loop carries partial values, and one reduction follows it."""

from jaxlib.mlir import ir

from paropt.passes.analysis.collectives import DEFERRED
from paropt.passes.analysis.deferral import Deferral, carried_type, kept_apart
from paropt.passes.analysis.loops import Loop
from paropt.passes.analysis.partial import BlockFacts, first_source
from paropt.passes.core.loops import carry, rebuilt, uncarry
from paropt.passes.core.split import Split, closed, erase_unused, in_type, in_type_of, neutral, split_values


def deferred(loop: Loop, found: Deferral, facts: BlockFacts) -> Loop:
    """The loop that carries `found` partial, in place of `loop`."""
    values = found.values
    old = facts.in_order(found.order)
    starts = {i: loop.op.operands[i] for i in found.positions}
    combiner = values.reduction.combiner
    apart = kept_apart(found, loop)
    types = {i: carried_type(found, loop, i) for i in found.positions}
    rests = {i: carry(loop, starts[i].type) for i in apart}
    # Ops that are still to be split read carried values in the types that these had.
    retyped = {i: carry(loop, type_) for i, type_ in types.items() if type_ != starts[i].type}
    sources: dict[ir.Value, Split] = {}
    for op in found.reductions:
        sources |= {result: Split(operand, None) for operand, result in zip(op.operands, op.results, strict=True)}
    for i in found.positions:
        argument = loop.body.arguments[i]
        sources[argument] = Split(retyped.get(i, argument), rests.get(i))
    splits = split_values(values, sources, found.order)

    end = loop.next_values
    ends = {i: splits[end.operands[i]] for i in found.positions}
    like = {i: first_source(end.operands[i], values) for i in found.positions}
    with ir.InsertionPoint(end), end.location:
        partials = {i: in_type(ends[i].partial, types[i].element_type) for i in found.positions}
    nexts = [partials.get(i, value) for i, value in enumerate(end.operands)]
    new_starts = list(loop.op.operands)
    for i in found.positions:
        new_starts[i] = _neutral_before(loop.op, types[i], combiner)
    carried: dict[int, int] = {}
    for i, argument in rests.items():
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
            rest = new.op.results[carried[i]] if i in carried else starts[i] if i in rests else None
            value = closed(Split(value, rest), like[i], combiner, at, mark=DEFERRED)
            with at, like[i].location:
                value = in_type_of(value, result)
        result.replace_all_uses_with(value)
    loop.op.erase()
    erase_unused(old)
    for i, argument in retyped.items():
        _replace(new, i, argument)
    return new


def _replace(loop: Loop, position: int, argument: ir.Value) -> None:
    """Puts the last argument, `argument`, in the place of number `position`, which nothing reads any more."""
    for block in (loop.condition, loop.body):
        block.arguments[position].set_type(argument.type)
    argument.replace_all_uses_with(loop.body.arguments[position])
    uncarry(loop, ir.BlockArgument(argument).arg_number)


def _neutral_before(op: ir.Operation, type_: ir.Type, combiner: str) -> ir.Value:
    with ir.InsertionPoint(op), op.location:
        return neutral(type_, combiner)
