"""Stacks of rows of a parameter, as they are or converted: residuals that a scan over layers keeps for the backward
pass.

Where a layer is not computed again, trip i of the forward loop writes its copy of row i of a stacked parameter,
transposed or converted, to row i of another array. A row of that array is as well made of a row of the parameter.

Tests: test/passes/hoist-gathers-stacked.mlir, test/numeric/test_cast_parameters.py.
"""

from collections.abc import Iterator, Sequence

from jaxlib.mlir import ir

from paropt.passes.dataflow.engine import depth_first, exhaust
from paropt.passes.ir.control_flow import Use, carried, uses_of
from paropt.passes.ir.loops import WHILE, Loop, loop_around, start_of
from paropt.passes.ir.row_index import row_index, takes_row, writes_row
from paropt.passes.ir.types import tensor_of
from paropt.passes.support.traversal import is_read_once


def is_pass_through(loop: Loop, position: int) -> bool:
    """Whether loop-carried value `position` is a pass-through."""
    return start_of(loop.op.results[position]) is not None


def is_handed_on(use: Use) -> bool:
    """Whether a loop takes a pass-through value to the next trip there."""
    loop = loop_around(use.op.block)
    return loop is not None and use.op == loop.next_values and is_pass_through(loop, use.position)


def row_copies(written: Use, copies: Sequence[Use]) -> list[Use]:
    """Those of `copies`, one of the other, that make the value written at `written` from a row of an array from outside
    of the loop; none unless it writes a stack of copies of all rows of such an array.
    """
    op = written.op
    loop = loop_around(op.block)
    if loop is None or written.position != 1 or not writes_row(op):
        return []
    inside = [use for use in copies if use.op.block == op.block]
    index = row_index(loop)
    if index is None or not inside or inside != list(copies)[-len(inside) :]:
        return []
    first, array = inside[0].op, inside[0].op.operands[0]
    if not takes_row(first, array) or any(len(use.op.operands) > 1 for use in inside[1:]):
        return []
    way = index.way(op.operands[2])
    is_whole = [_rows(value) for value in (array, op.operands[0])] == [index.trips] * 2
    if not way or way != index.way(first.operands[1]) or not is_whole or _carry(op, loop) is None:
        return []
    return inside


def rows_read(written: ir.Operation) -> list[ir.Operation] | None:
    """The ops that take a row of the stack to which `written` writes, behind its loop; None where others read it."""
    loop = loop_around(written.block)
    position = _carry(written, loop) if loop is not None else None
    if loop is None or position is None:
        return None
    rows, others = list[ir.Operation](), list[Use]()

    def passed(value: ir.Value) -> Iterator[ir.Value]:
        for use in uses_of(value):
            if use.op.name == WHILE and is_pass_through(Loop(use.op), use.position):
                yield from carried(use.op, use.position)
            elif use.position == 0 and takes_row(use.op, value):
                rows.append(use.op)
            elif not is_handed_on(use):
                others.append(use)

    exhaust(depth_first([loop.op.results[position]], passed))
    return rows if not others else None


def _carry(written: ir.Operation, loop: Loop) -> int | None:
    """Which loop-carried value of `loop` the stack is; None where another op of the loop writes to it or reads it."""
    array, result = written.operands[0], written.results[0]
    if array not in list(loop.body.arguments) or not is_read_once(array) or not is_read_once(result):
        return None
    position = ir.BlockArgument(array).arg_number
    is_next = loop.next_values.operands[position] == result
    return position if is_next and not list(loop.condition.arguments[position].uses) else None


def _rows(value: ir.Value) -> int:
    tensor = tensor_of(value)
    return tensor.shape[0] if tensor is not None and tensor.rank else 0
