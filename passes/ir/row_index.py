"""Rows of stacked arrays, as loops over layers read and write them: row i, or row L - 1 - i, in trip i of L.

Tests: test/passes/split-layer-loop.mlir, test/passes/hoist-gathers-stacked.mlir.
"""

from jaxlib.mlir import ir

from paropt.passes.ir.constraints import CONSTRAINT
from paropt.passes.ir.loops import Loop, counter_of, integer_of
from paropt.passes.ir.op_table import may_squeeze
from paropt.passes.ir.types import tensor_of, unsqueezes
from paropt.passes.support.traversal import defining_op, is_read_once

DYNAMIC_SLICE, UPDATE = "stablehlo.dynamic_slice", "stablehlo.dynamic_update_slice"
RESHAPE = "stablehlo.reshape"
_SUBTRACT = "stablehlo.subtract"


class RowIndex:
    """Which values are the number of a row: that of the trip, or counted from the last."""

    def __init__(self, counter: ir.Value, trips: int) -> None:
        self.trips = trips
        self._counter = counter

    def way(self, value: ir.Value) -> str:
        """`forward`, `backward`, or nothing."""
        if value == self._counter:
            return "forward"
        return "backward" if self._from_end(value, self.trips - 1) else ""

    def _from_end(self, value: ir.Value, start: int) -> bool:
        """Whether `value` is `start` less the number of the trip."""
        op = defining_op(value)
        if op is None or op.name != _SUBTRACT:
            return False
        first, second = op.operands
        if second == self._counter:
            return integer_of(first) == start
        number = integer_of(second)
        return number is not None and self._from_end(first, start + number)


def row_index(loop: Loop) -> RowIndex | None:
    """That of a loop which counts from 0 by 1 to a constant."""
    counting, counter = loop.counting, counter_of(loop)
    if counting is None or counter is None or counting.start != 0 or counting.step != 1:
        return None
    return RowIndex(loop.body.arguments[counter], counting.trips)


def takes_row(op: ir.Operation, value: ir.Value) -> bool:
    """Whether `op` takes a row of `value`, whichever, and nothing else: all of its other dimensions."""
    if op.name != DYNAMIC_SLICE or op.operands[0] != value or tensor_of(value) is None:
        return False
    shape = list(ir.RankedTensorType(value.type).shape)
    return _is_row(list(ir.DenseI64ArrayAttr(op.attributes["slice_sizes"])), shape, list(op.operands)[2:])


def writes_row(op: ir.Operation) -> bool:
    """Whether `op` writes a row of an array, whichever, and nothing else: all of its other dimensions."""
    if op.name != UPDATE or tensor_of(op.operands[0]) is None:
        return False
    array, row, _, *others = op.operands
    return _is_row(list(ir.RankedTensorType(row.type).shape), list(ir.RankedTensorType(array.type).shape), others)


def as_copied(value: ir.Value) -> ir.Value:
    """The value that reshapes and constraints, its only users, make `value` of."""
    op = defining_op(value)
    while op is not None and is_read_once(value) and keeps_order(op):
        value = op.operands[0]
        op = defining_op(value)
    return value


def keeps_order(op: ir.Operation) -> bool:
    """Whether the result of `op` has the elements of its operand in the same order, in another shape perhaps."""
    return op.name == CONSTRAINT or (may_squeeze(op) and (op.name == RESHAPE or unsqueezes(op)))


def _is_row(sizes: list[int], shape: list[int], starts: list[ir.Value]) -> bool:
    return sizes == [1, *shape[1:]] and all(integer_of(start) == 0 for start in starts)
