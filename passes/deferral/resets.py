"""Iterations that set an accumulator to the identity element of its reduction: by which predicates, in which branches.

`optax.MultiSteps` and Keras start a new sum in the iteration that updates the parameters. Where that was the last one,
there is nothing left to reduce.
"""

from collections.abc import Sequence
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.dataflow.loop_eval import Known, evaluated
from paropt.passes.dataflow.scalar_masks import scalar_under
from paropt.passes.deferral.counter_selects import SELECT
from paropt.passes.ir.barriers import BARRIER
from paropt.passes.ir.branches import BRANCHES, IF
from paropt.passes.ir.constants import CONSTANT, is_zero, splat_of
from paropt.passes.ir.constraints import CONSTRAINT
from paropt.passes.ir.control_flow import predecessors
from paropt.passes.ir.loops import Loop
from paropt.passes.sharding.collectives import ADD, neutral_number
from paropt.passes.support.traversal import defining_op, is_defined_in

_DEEPEST = 6  # branches and selects in each other: each may double the ops to look at
_CONVERT = "stablehlo.convert"


class Chosen(NamedTuple):
    """A reset that depends on `by`: the index of a case, or a predicate, of which the first of `resets` is for true."""

    by: ir.Value
    is_index: bool
    resets: tuple["Reset", ...]

    def at(self, number: int) -> "Reset":
        """The reset where `by` is `number`."""
        if self.is_index:  # a case runs its last branch for any other index
            return self.resets[number if 0 <= number < len(self.resets) else -1]
        return self.resets[0 if number else 1]


Reset = bool | None | Chosen  # None: if the trip before has reset it, and this one leaves it as it is


def resets_of(loop: Loop, position: int, combiner: str) -> Reset:
    """When a trip ends with loop-carried value `position`, an accumulator of `combiner`, as its identity element.

    False where the loop does not start from it.
    """
    if not is_identity(loop.op.operands[position], combiner):
        return False
    return _reset(loop.next_values.operands[position], loop.body.arguments[position], loop, combiner)


def may_reset(reset: Reset) -> bool:
    """Whether some trip may end so."""
    return any(map(may_reset, reset.resets)) if isinstance(reset, Chosen) else reset is True


def is_reset_last(reset: Reset, trips: Sequence[Known] | None) -> bool | None:
    """Whether the loop ends with the identity element; None where that depends on an unknown value."""
    for known in reversed(trips or ()):
        ended = reset
        while isinstance(ended, Chosen):
            number = evaluated(ended.by, known)
            if number is None:
                return None
            ended = ended.at(int(number))
        if ended is not None:
            return ended
    return None if trips is None else True  # as it starts


def is_identity(value: ir.Value, combiner: str) -> bool:
    """Whether every element of `value` is known to be the identity element of `combiner`."""
    if combiner == ADD:
        return is_zero(value)
    op, element = defining_op(value), ir.RankedTensorType(value.type).element_type
    splat = splat_of(op) if op is not None and op.name == CONSTANT else None
    number = splat.value if isinstance(splat, ir.FloatAttr | ir.IntegerAttr) else None
    return number is not None and number == neutral_number(combiner, element)


def _reset(value: ir.Value, before: ir.Value, loop: Loop, combiner: str, depth: int = 0) -> Reset:
    """The trips in which `value`, computed from the accumulator `before`, is the identity element."""
    if value == before:
        return None
    if is_identity(value, combiner):
        return True
    op = defining_op(value)
    if op is None or depth == _DEEPEST:
        return False
    if op.name == CONSTRAINT or (op.name == _CONVERT and combiner == ADD):  # the least i8 is not the least i32
        return _reset(op.operands[0], before, loop, combiner, depth)
    made_of = [use.value for use in predecessors(value, back_edges=False) or ()]
    if op.name == BARRIER:
        return _reset(made_of[0], before, loop, combiner, depth)
    if op.name in BRANCHES:
        by, is_index, ends = op.operands[0], op.name != IF, made_of
    elif op.name == SELECT and (scalar := scalar_under(op.operands[0])) is not None:
        by, is_index, ends = scalar, False, list(op.operands)[1:]
    else:
        return False
    if not _is_known_in_body(by, loop):
        return False
    resets = tuple(_reset(end, before, loop, combiner, depth + 1) for end in ends)
    return Chosen(by, is_index, resets) if len(set(resets)) > 1 else resets[0]


def _is_known_in_body(value: ir.Value, loop: Loop) -> bool:
    """Whether the end of the body may read `value`."""
    owner = value.owner
    block = owner if isinstance(owner, ir.Block) else owner.operation.block
    return block == loop.body or not is_defined_in(value, loop.op)
