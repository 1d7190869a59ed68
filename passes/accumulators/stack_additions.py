"""The additions of a stack to accumulators, behind the loop that makes it, and the ops that it goes through before.

Tests: test/passes/accumulate-in-place-sums.mlir, test/numeric/test_in_place_sums.py.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.accumulators.row_stack import RowStack, require_rows, row_stack
from paropt.passes.dataflow.engine import depth_first, post_order
from paropt.passes.ir.constants import scalar_of
from paropt.passes.ir.constraints import CONSTRAINT
from paropt.passes.ir.loops import WHILE, Loop, loop_around
from paropt.passes.ir.op_table import is_cheap, is_cloned, is_elementwise
from paropt.passes.ir.row_index import DYNAMIC_SLICE, keeps_order
from paropt.passes.ir.types import tensor_of
from paropt.passes.sharding.collectives import ADD
from paropt.passes.support.remarks import Declined, require
from paropt.passes.support.traversal import defining_op, is_read_once, reads

SLICE, SUBTRACT, TRANSPOSE = "stablehlo.slice", "stablehlo.subtract", "stablehlo.transpose"


class Way(NamedTuple):
    """A value computed from a stack, or a part of it."""

    value: ir.Value
    steps: tuple[ir.Operation, ...] = ()  # the ops that have been done on each row of it
    dimensions: tuple[int, ...] = ()  # those of the stack, in the order of the rows' ones
    is_reshaped: bool = False  # after all steps, or between those that work element by element


class Addition(NamedTuple):
    """An op that adds a stack to an accumulator, or subtracts it."""

    op: ir.Operation
    operand: int  # which one the stack is
    way: Way
    before: tuple[ir.Operation, ...]  # ops behind the loop, in program order, that have to be done before it

    @property
    def accumulator(self) -> ir.Value:
        return self.op.operands[1 - self.operand]


def additions_of(stack: RowStack) -> list[Addition] | None:
    """The additions that are all that the stack is read for; None where it is read for no addition to an accumulator.

    Raises Declined where it is read for something else, too.
    """
    found: list[Addition] = []
    reasons: list[Declined] = []
    ends: list[ir.Operation] = []  # behind ops that are not done row by row

    def followed(way: Way) -> Iterator[Way]:
        for use in way.value.uses:
            op = use.owner.operation
            try:
                if op.block == stack.loop.op.block and _is_added(op, use.operand_number):
                    found.append(Addition(op, use.operand_number, way, ()))
                else:
                    require(op.block == stack.loop.op.block, f"the stack is also read by {op.name}", op)
                    yield _step(way, op, use.operand_number, stack)
            except Declined as declined:
                reasons.append(declined)
                ends.extend(_additions_behind(op))

    rank = len(ir.RankedTensorType(stack.result.type).shape)
    ways = list(depth_first([Way(stack.result, (), tuple(range(rank)))], followed))
    if not found and not ends:
        return None
    for declined in reasons:
        raise declined
    require(all(list(way.value.uses) for way in ways), "a part of the stack is not read", stack.loop.op)
    return [_checked(addition, stack) for addition in found]


def is_added_in_place(result: ir.Value) -> bool:
    """Whether that result of a loop is a stack of which `accumulate-in-place` adds the rows in the loop."""
    op = defining_op(result)
    if op is None or op.name != WHILE:
        return False
    stack = row_stack(Loop(op), ir.OpResult(result).result_number)
    try:
        if stack is not None:
            require_rows(stack)
        return stack is not None and bool(additions_of(stack))
    except Declined:
        return False


def _additions_behind(op: ir.Operation) -> list[ir.Operation]:
    """The ops that add the result of `op` to an accumulator."""
    uses = list(op.results[0].uses) if len(op.results) == 1 else []
    return [use.owner.operation for use in uses if _is_added(use.owner.operation, use.operand_number)]


def _is_added(op: ir.Operation, operand: int) -> bool:
    """Whether `op` adds that operand to an accumulator."""
    if op.name != ADD and (op.name != SUBTRACT or operand != 1):
        return False
    return _is_accumulator(op.operands[1 - operand], op.block)


def _is_accumulator(value: ir.Value, body: ir.Block) -> bool:
    """Whether a loop carries `value` to the op in its `body`, or it is a row of such a value."""
    made = defining_op(value)
    if made is not None and made.name == DYNAMIC_SLICE and made.block == body:
        value = made.operands[0]
    return isinstance(value.owner, ir.Block) and value.owner == body and loop_around(body) is not None


def _checked(addition: Addition, stack: RowStack) -> Addition:
    """The addition, with the ops that have to be done before the loop."""
    accumulator, op = addition.accumulator, addition.op
    require(is_read_once(accumulator), "the accumulator is also read elsewhere: it would be copied", op)
    require(stack.read is None or _adds_as_is(addition), "rows that are sums are changed before they are added", op)
    factors = [scalar for step in addition.way.steps for scalar in _scalars(step)]
    return addition._replace(before=_done_before([accumulator, *factors], stack))


def _adds_as_is(addition: Addition) -> bool:
    return not addition.way.steps and addition.op.name == ADD


def _scalars(step: ir.Operation) -> list[ir.Value]:
    """The scalars, apart from constants, that `step` needs for each row."""
    scalars = [scalar_of(operand) for operand in step.operands] if is_elementwise(step) else []
    return [each for each in scalars if each is not None and not ir.RankedTensorType(each.type).shape]


def _step(way: Way, op: ir.Operation, operand: int, stack: RowStack) -> Way:
    """The result of `op` on the value `way` of the stack; Declined where it can't be done row by row."""
    blamed = f"the stack goes through {op.name}, which is not done row by row"
    require(len(op.results) == 1 and tensor_of(op.results[0]) is not None, blamed, op)
    result = op.results[0]
    if op.name == CONSTRAINT:
        return way._replace(value=result)
    if keeps_order(op):
        return way._replace(value=result, is_reshaped=True)
    if is_elementwise(op):
        others = [other for i, other in enumerate(op.operands) if i != operand]
        require(all(scalar_of(other) is not None for other in others), blamed + ": a factor is an array", op)
        return way._replace(value=result, steps=(*way.steps, op))
    require(not way.is_reshaped, blamed + ": it is reshaped before", op)
    if op.name == TRANSPOSE:
        order = ir.DenseI64ArrayAttr(op.attributes["permutation"])
        return Way(result, (*way.steps, op), tuple(way.dimensions[i] for i in order))
    require(op.name == SLICE and _takes_all_rows(op, way.dimensions.index(stack.row)), blamed, op)
    return way._replace(value=result, steps=(*way.steps, op))


def _takes_all_rows(op: ir.Operation, row: int) -> bool:
    before, after = (ir.RankedTensorType(value.type).shape for value in (op.operands[0], op.results[0]))
    return bool(before[row] == after[row])


def _done_before(values: Sequence[ir.Value], stack: RowStack) -> tuple[ir.Operation, ...]:
    """The ops behind the loop that make `values`. Declines where they depend on it, or are much work."""
    loop = stack.loop.op
    found: dict[ir.Value, ir.Operation] = {}

    def made_of(value: ir.Value) -> list[ir.Value]:
        op = defining_op(value)
        if op is None or op.block != loop.block or op.is_before_in_block(loop):
            return []
        require(op != loop, "what it is multiplied by, or added to, depends on the loop", op)
        cheap = is_cheap(op) or is_cloned(op) or op.name == DYNAMIC_SLICE
        require(cheap and not len(op.regions), "what it is multiplied by, or added to, is made behind the loop", op)
        found[op.results[0]] = op
        return reads(op)

    made = [value for value in post_order(values, made_of) if value in found]
    return tuple(found[value] for value in made)
