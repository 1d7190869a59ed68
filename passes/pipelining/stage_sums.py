"""One accumulator per stage for a sum whose terms are made in several stages, as of a tied embedding's gradient.

A stage is one more axis of a partial sum: each stage adds its own terms up, and the sums are added behind the loop.

Tests: test/passes/cut-stages.mlir, test/numeric/test_outlined_stages.py.
"""

from collections.abc import Sequence
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.ir.induction_variable import constant, create
from paropt.passes.ir.loops import Loop
from paropt.passes.pipelining.parts import Part, write_part
from paropt.passes.pipelining.step_loop import StepLoop, Sum
from paropt.passes.rewrite.loop_edits import carry, rebuilt
from paropt.passes.sharding.collectives import ADD
from paropt.passes.support.traversal import is_read_once, op_of


class Share(NamedTuple):
    """The terms that one part adds to a sum."""

    part: Part
    terms: list[ir.Value]


def split_sums(step: StepLoop, shares: Sequence[tuple[Sum, Sequence[Share]]]) -> Loop:
    """Gives each sum one accumulator for each of its shares, of which the first starts from the sum's init operand."""
    loop = step.loop
    if not shares:
        return loop
    starts, nexts = list(loop.op.operands), list(loop.next_values.operands)
    added: list[tuple[int, Part, int]] = []
    adds = [[step.body.ops[n] for n in each.adds] for each, _ in shares]
    for each, (first, *others) in shares:
        nexts[each.position] = _added(loop, loop.body.arguments[each.position], first)
        for share in others:
            with loop.op.location:
                type_ = loop.op.operands[each.position].type
                argument = carry(loop, type_)
                starts.append(_zero(loop, type_))
                nexts.append(_added(loop, argument, share))
            added.append((each.position, share.part, len(nexts) - 1))
    new = rebuilt(loop, starts, nexts)
    for old, result in zip(loop.op.results, list(new.op.results)[: len(loop.op.results)], strict=True):
        old.replace_all_uses_with(result)
    for op in (op for ops in adds for op in reversed(ops)):
        op.erase()
    loop.op.erase()
    _total(new, added)
    return new


def shares_of(step: StepLoop) -> list[tuple[int, int]]:
    """The sums that are only added to another one behind the loop, each with that: by position, in program order."""
    totals = {step.result_of(each): each.position for each in step.sums}
    found = []
    for op in step.around.ops[step.number + 1 :]:
        match [totals.get(value) for value in op.operands] if op.name == ADD else []:
            case [int(one), int(other)] if one != other and all(is_read_once(value) for value in op.operands):
                found.append((other, one))
                totals[op.results[0]] = one
    return found


def _added(loop: Loop, value: ir.Value, share: Share) -> ir.Value:
    """The terms of `share` added to `value`, at the end of the body."""
    for term in share.terms:
        with ir.InsertionPoint(loop.next_values), op_location(term, loop):
            value = create(ADD, value.type, value, term)
        write_part(op_of(value), share.part)
    return value


def op_location(value: ir.Value, loop: Loop) -> ir.Location:
    owner = value.owner
    return loop.op.location if isinstance(owner, ir.Block) else owner.operation.location


def _zero(loop: Loop, type_: ir.Type) -> ir.Value:
    tensor = ir.RankedTensorType(type_)
    element = tensor.element_type
    number = ir.IntegerAttr.get(element, 0) if isinstance(element, ir.IntegerType) else ir.FloatAttr.get(element, 0.0)
    with ir.InsertionPoint(loop.op):
        return constant(tensor, number)


def _total(loop: Loop, added: Sequence[tuple[int, Part, int]]) -> None:
    """Adds up the results of the loop that belong to one sum."""
    at = ir.InsertionPoint.after(loop.op)
    latest: dict[int, ir.Value] = {}
    for position, _, extra in added:
        before = latest.get(position, loop.op.results[position])
        with at, loop.op.location:
            total = create(ADD, before.type, before, loop.op.results[extra])
        before.replace_all_uses_except(total, op_of(total))
        latest[position] = total
