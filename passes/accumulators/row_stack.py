"""Arrays that a loop carries and writes row by row: a stack of gradients of layers, or sums of them.

Tests: test/passes/accumulate-in-place.mlir, test/numeric/test_in_place_sums.py.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.dataflow.engine import backward
from paropt.passes.dataflow.loop_eval import Known, evaluated_in, trips_of
from paropt.passes.ir.constants import is_zero
from paropt.passes.ir.constraints import CONSTRAINT
from paropt.passes.ir.loops import Loop
from paropt.passes.ir.op_table import is_linear
from paropt.passes.ir.row_index import DYNAMIC_SLICE, UPDATE, as_copied
from paropt.passes.ir.types import tensor_of
from paropt.passes.sharding.collectives import ADD, REDUCTIONS, reduction_of
from paropt.passes.support.remarks import require
from paropt.passes.support.traversal import defining_op, is_read_once, only_user_of


class RowStack(NamedTuple):
    """Loop-carried value `position` of `loop`, in which each trip writes a row."""

    loop: Loop
    position: int
    write: ir.Operation  # the dynamic_update_slice
    row: int  # the dimension of which a trip writes a part
    read: ir.Operation | None  # the dynamic_slice of the row that the trip adds to; None where it writes over it

    @property
    def argument(self) -> ir.Value:
        return self.loop.body.arguments[self.position]

    @property
    def result(self) -> ir.Value:
        return self.loop.op.results[self.position]


def row_stack(loop: Loop, position: int) -> RowStack | None:
    """None where that loop-carried value is no such stack, whatever its indices are."""
    argument = loop.body.arguments[position]
    users = [use.owner.operation for use in argument.uses]
    writes = [op for op in users if op.name == UPDATE and op.operands[0] == argument]
    if len(writes) != 1 or len(users) > 2 or tensor_of(argument) is None:
        return None
    write = writes[0]
    if write.block != loop.body or write.operands[1] == argument or _written(write) != loop.next_values:
        return None
    row = _row_of(write)
    reads = [op for op in users if op != write]
    if row is None or (reads and not _adds_to(reads[0], write)):
        return None
    return RowStack(loop, position, write, row, reads[0] if reads else None)


def require_rows(stack: RowStack) -> None:
    """Declines unless each row is written once, in one trip, and the loop does nothing else with the stack."""
    loop, write = stack.loop, stack.write
    for use in loop.condition.arguments[stack.position].uses:
        require(False, "the condition of the loop reads the stack", use.owner.operation)
    trips = trips_of(loop)
    require(trips is not None, "the trip count of the loop is not known")
    assert trips is not None
    starts = _starts(write, stack.row, trips)
    require(starts is not None, "it is not known which row each trip writes", write)
    assert starts is not None
    size, rows = _shape(write.operands[1])[stack.row], _shape(write.operands[0])[stack.row]
    ordered = sorted(starts)
    apart = all(after - before >= size for before, after in itertools.pairwise(ordered))
    require(apart, "a row is written in several trips", write)
    within = all(0 <= start <= rows - size for start in starts)
    require(within, "a trip writes beyond the last row, which is moved to that", write)
    if stack.read is None:
        require(len(starts) * size == rows, "some rows are not written", write)
    else:
        same = _starts(stack.read, stack.row, trips) == starts
        require(same, "a trip reads another row than it writes", stack.read)
        require(is_zero(loop.op.operands[stack.position]), "the loop adds to an array that does not begin at zeros")


def require_unreduced(stack: RowStack) -> None:
    """Declines a stack of rows that are reduced, and not scattered, in each trip: XLA:TPU, and XLA:GPU, move that
    reduction behind the loop, for which they have it begin at zeros again.
    """

    def made_of(value: ir.Value) -> list[ir.Value]:
        op = defining_op(value)
        if op is None or op.block != stack.loop.body or op.name in REDUCTIONS:
            return []
        return list(op.operands) if is_linear(op) or op.name == ADD else []

    for value in backward([stack.write.operands[1]], made_of):
        op = defining_op(value)
        if op is not None and op.name in REDUCTIONS:
            require(not reduction_of(op).is_whole, "its rows are reduced in the loop", op)


def _written(write: ir.Operation) -> ir.Operation | None:
    """The only user of the result of `write`, behind constraints."""
    user = only_user_of(write.results[0])
    while user is not None and user.name == CONSTRAINT:
        user = only_user_of(user.results[0])
    return user


def _row_of(write: ir.Operation) -> int | None:
    """The only dimension of which `write` leaves a part as it was; None where there are several."""
    sizes = list(zip(_shape(write.operands[0]), _shape(write.operands[1]), strict=True))
    parts = [i for i, (whole, part) in enumerate(sizes) if part != whole]
    if not parts:
        return 0 if sizes else None
    return parts[0] if len(parts) == 1 else None


def _adds_to(read: ir.Operation, write: ir.Operation) -> bool:
    """Whether `write` writes the sum of the row that `read` takes and of something else, which nothing else reads."""
    if read.name != DYNAMIC_SLICE or read.block != write.block or _shape(read.results[0]) != _shape(write.operands[1]):
        return False
    add = defining_op(as_copied(write.operands[1]))
    if add is None or add.name != ADD or not is_read_once(add.results[0]) or not is_read_once(read.results[0]):
        return False
    return [as_copied(operand) == read.results[0] for operand in add.operands].count(True) == 1


def _starts(op: ir.Operation, dimension: int, trips: Sequence[Known]) -> list[int] | None:
    """Where the part begins in each trip that `op` takes or writes; None where that is not known."""
    first = 1 if op.name == DYNAMIC_SLICE else 2
    index = op.operands[first + dimension]
    found = evaluated_in(trips, index)
    return None if any(number is None for number in found) else [int(number) for number in found if number is not None]


def _shape(value: ir.Value) -> list[int]:
    return ir.RankedTensorType(value.type).shape
