"""The loop-carried values of a `stablehlo.while`, and its trip count."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxlib.mlir import ir

from paropt.passes.ir.barriers import BARRIER
from paropt.passes.ir.constraints import CONSTRAINT, unconstrained
from paropt.passes.support.traversal import defining_op, op_of, terminator_of

WHILE = "stablehlo.while"
_WRITE_ROW = "stablehlo.dynamic_update_slice"


@dataclass(frozen=True)
class Loop:
    """A `stablehlo.while`. Carried value number i is operand i, argument i of both blocks, and result i.

    The terminators are found once, because MLIR walks over the block to find them: not to be kept across a rewrite.
    """

    op: ir.Operation

    @property
    def condition(self) -> ir.Block:
        return self.op.regions[0].blocks[0]

    @property
    def body(self) -> ir.Block:
        return self.op.regions[1].blocks[0]

    @cached_property
    def predicate(self) -> ir.Value:
        """Whether another trip is made."""
        return terminator_of(self.condition).operands[0]

    @cached_property
    def next_values(self) -> ir.Operation:
        """The terminator of the body: its operand i is loop-carried value i of the next trip."""
        return terminator_of(self.body)

    @cached_property
    def counting(self) -> "Counting | None":
        """How the loop counts, when it does from a constant by a constant to a constant."""
        return _counting(self)


def loop_around(block: ir.Block) -> Loop | None:
    """The loop whose body `block` is."""
    op = block.owner.operation
    return Loop(op) if op.name == WHILE and Loop(op).body == block else None


def start_of(value: ir.Value) -> ir.Value | None:
    """The init operand of the loop that passes `value` through, in its regions or as its result."""
    owner = value.owner
    is_argument = isinstance(owner, ir.Block)
    op = owner.owner.operation if isinstance(owner, ir.Block) else owner.operation
    if op.name != WHILE:
        return None
    position = ir.BlockArgument(value).arg_number if is_argument else ir.OpResult(value).result_number
    return op.operands[position] if _hands_on(Loop(op), position) else None


def row_written_in(value: ir.Value) -> ir.Value | None:
    """The array that a loop carries in which `value` writes a row, as a scan stacks its results; None of others."""
    op = defining_op(value)
    if op is None or op.name != _WRITE_ROW or not isinstance(op.operands[0].owner, ir.Block):
        return None
    return op.operands[0]


def _hands_on(loop: Loop, position: int) -> bool:
    """Whether loop-carried value `position` is a pass-through, be it through loops in the body."""
    argument, value = loop.body.arguments[position], _as_made(loop.next_values.operands[position])
    while value != argument and defining_op(value) is not None and (start := start_of(value)) is not None:
        value = _as_made(start)
    return bool(value == argument)


def _as_made(value: ir.Value) -> ir.Value:
    """The value that constraints and barriers pass on as `value`."""
    while (op := defining_op(value := unconstrained(value))) is not None and op.name == BARRIER:
        value = op.operands[ir.OpResult(value).result_number]
    return value


def _settled(value: ir.Value) -> ir.Value:
    """The same value outside of the loops that pass it through."""
    while (start := start_of(value := _as_made(value))) is not None:
        value = start
    return value


class Counting(NamedTuple):
    """A loop that runs while `start`, which grows by `step` in each trip, is less than `bound`."""

    start: int
    bound: int
    step: int  # positive

    @property
    def trips(self) -> int:
        return max(0, -((self.start - self.bound) // self.step))


def trip_count(loop: Loop) -> int | None:
    """How often the body runs, when the loop counts from a constant by a constant to a constant."""
    return loop.counting.trips if loop.counting is not None else None


def _counting(loop: Loop) -> Counting | None:
    """How the loop counts, when it does from a constant by a constant to a constant."""
    position = counter_of(loop)
    if position is None:
        return None
    _, bound = op_of(loop.predicate).operands
    numbers = [integer_of(loop.op.operands[position]), integer_of(bound), _step(loop, position)]
    if any(number is None for number in numbers):
        return None
    start, end, step = numbers
    assert start is not None and end is not None and step is not None
    if step <= 0:
        return None
    counting = Counting(start, end, step)
    fits = start + counting.trips * step <= _largest(loop.op.operands[position])
    return counting if fits else None  # else the counter begins again below the bound


def counter_of(loop: Loop) -> int | None:
    """The loop-carried value that another trip depends on, when it is made while that is less than something."""
    test = defining_op(loop.predicate)
    if test is None or test.name != "stablehlo.compare" or "LT" not in str(test.attributes["comparison_direction"]):
        return None
    counter = _as_made(test.operands[0])
    known = counter in list(loop.condition.arguments)
    return ir.BlockArgument(counter).arg_number if known else None


def _step(loop: Loop, position: int) -> int | None:
    """The increment of loop-carried value `position` per trip."""
    add = defining_op(_as_made(loop.next_values.operands[position]))
    if add is None or add.name != "stablehlo.add":
        return None
    lhs, rhs = map(_as_made, add.operands)
    if rhs == loop.body.arguments[position]:
        lhs, rhs = rhs, lhs
    return integer_of(rhs) if lhs == loop.body.arguments[position] else None


def _largest(integer: ir.Value) -> int:
    """The largest value of the type of `integer`."""
    kind = ir.IntegerType(ir.RankedTensorType(integer.type).element_type)
    return 2 ** (kind.width if kind.is_unsigned else kind.width - 1) - 1


def integer_of(value: ir.Value) -> int | None:
    """The integer that `value` is: a constant of rank 0, which loops may carry."""
    constant = defining_op(_settled(value))
    if constant is None or constant.name != "stablehlo.constant":
        return None
    tensor = ir.RankedTensorType(value.type)
    if tensor.shape or not isinstance(tensor.element_type, ir.IntegerType):
        return None
    return int(np.array(constant.attributes["value"]).item())


def is_carried_on(op: ir.Operation, rest: ir.Value) -> bool:
    """Whether `op` constrains a loop-carried value: in JAX's explicit mode constraints are behind all ops."""
    return op.name == CONSTRAINT and isinstance(rest.owner, ir.Block) and loop_around(rest.owner) is not None
