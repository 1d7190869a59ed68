"""Loops over layers: which arrays they read and write row by row, and the same in several loops one after the other.

Tests: test/passes/split-layer-loop.mlir.
"""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.ir.induction_variable import constant, create
from paropt.passes.ir.loops import Loop, counter_of
from paropt.passes.ir.row_index import RowIndex, row_index, takes_row, writes_row
from paropt.passes.outline.stages import DYNAMIC_SLICE
from paropt.passes.pipelining.row_pieces import Pieces, RowRange
from paropt.passes.rewrite.counted_loop import Carry, counted_loop, counter_carry
from paropt.passes.rewrite.peel import recapture
from paropt.passes.sharding.device_dimension import reshaped
from paropt.passes.support.remarks import require
from paropt.passes.support.sources import source_of
from paropt.passes.support.traversal import captured, defining_op, is_read_once, op_of, reads

SPLIT_ROWS = "paropt.rows"  # on a loop that was split: its rows, so that it is not split again
_UPDATE = "stablehlo.dynamic_update_slice"
_SUBTRACT = "stablehlo.subtract"


class LayerLoop(NamedTuple):
    """A loop whose trip i reads and writes row i of arrays, or row L - 1 - i of them. It has no pass-through values."""

    loop: Loop
    counter: int
    trips: int
    backward: bool  # the last row first
    slices: list[ir.Operation]  # that take a row of an array from outside
    updates: dict[int, ir.Operation]  # that write a row of a carried array, by its position

    def ranges(self, count: int) -> list[tuple[range, RowRange]]:
        """The trips of each of `count` loops, and the rows that these are, in the order of the trips."""
        cuts = [self.trips * i // count for i in range(count + 1)]
        rows = [RowRange(start, end) for start, end in pairwise(cuts)]
        if not self.backward:
            return [(range(each.start, each.end), each) for each in rows]
        return [(range(self.trips - each.end, self.trips - each.start), each) for each in reversed(rows)]


def layer_loop(loop: Loop) -> LayerLoop | None:
    """The facts of a loop over layers; None for one that goes over no rows. Raises Declined for one that cannot be
    split."""
    index, counter = row_index(loop), counter_of(loop)
    if index is None or counter is None:
        return None
    slices, updates = _slices(loop, index), _updates(loop, index)
    if not slices and not updates:
        return None
    ways = {index.way(op.operands[1]) for op in slices} | {index.way(op.operands[2]) for op in updates.values()}
    require(len(ways) == 1, "the loop goes over rows of one array forward, and over those of another backward", loop.op)
    element = ir.RankedTensorType(loop.body.arguments[counter].type).element_type
    require(str(element) == "i32", "the loop counts in another type than i32", loop.op)
    return LayerLoop(loop, counter, index.trips, ways.pop() == "backward", slices, updates)


def _slices(loop: Loop, index: RowIndex) -> list[ir.Operation]:
    """The ops that take a row of an array from outside, of which the loop reads nothing else."""
    found: list[ir.Operation] = []
    for value in captured(loop.op):
        readers = [use.owner.operation for use in value.uses if _is_inside(use.owner.operation, loop)]
        if all(op.block == loop.body and takes_row(op, value) and index.way(op.operands[1]) for op in readers):
            found += readers
    return found


def _is_inside(op: ir.Operation | None, loop: Loop) -> bool:
    while op is not None and op.name != "func.func":
        if op == loop.op:
            return False
        parent = op.parent.operation if op.parent is not None else None
        if parent == loop.op:
            return True
        op = parent
    return False


def _updates(loop: Loop, index: RowIndex) -> dict[int, ir.Operation]:
    """The ops that write a row of a carried array, which nothing in the loop reads."""
    found: dict[int, ir.Operation] = {}
    for i, (last, following) in enumerate(zip(loop.body.arguments, loop.next_values.operands, strict=True)):
        op = defining_op(following)
        if op is None or not writes_row(op) or op.operands[0] != last or not is_read_once(last):
            continue
        if index.way(op.operands[2]) and is_read_once(following):
            found[i] = op
    return found


def split_loop(layers: LayerLoop, count: int, pieces: Pieces) -> None:
    """Makes `count` loops in front of the loop, which is dead then; the arrays that it wrote row by row are in
    pieces."""
    loop = layers.loop
    current = {i: loop.op.operands[i] for i in range(len(loop.op.operands)) if i not in layers.updates}
    written: dict[int, dict[RowRange, ir.Value]] = {i: {} for i in layers.updates}
    ranges = layers.ranges(count)
    names = {rows: number for number, rows in enumerate(sorted(rows for _, rows in ranges))}
    for trips, rows in ranges:
        with ir.InsertionPoint(loop.op), _named(loop.op, names[rows]):
            stacks = {op.operands[0]: pieces.rows_of(op.operands[0], rows) for op in layers.slices}
            positions = [i for i in range(len(loop.op.operands)) if i != layers.counter]
            starts = {
                i: pieces.rows_of(loop.op.operands[i], rows) if i in layers.updates else current[i] for i in positions
            }
            part = PartialLoop(layers, len(trips), partial(plus, number=trips.start), stacks, starts, {})
        part.op.attributes[SPLIT_ROWS] = ir.DenseI64ArrayAttr.get(list(rows), loop.op.context)
        for position, result in part.results.items():
            if position in written:
                written[position][rows] = result
            else:
                current[position] = result
    for position, result in enumerate(loop.op.results):
        if position in written:
            pieces.set(result, written[position])
        elif position != layers.counter:
            result.replace_all_uses_with(current[position])


def _named(op: ir.Operation, number: int) -> ir.Location:
    """The location of a part of the loop `op`: its name tells which layers these are, as those of modules do."""
    scope = source_of(op.location).scope.rpartition("/")[0]
    return ir.Location.name(f"{scope}/layers{number}/while", op.location, op.context)


class RowPlace(NamedTuple):
    """Where rows of layers begin in an array; None where there is one micro-batch, or at the first layer."""

    micro_batch: ir.Value | None
    first: ir.Value | None


class PartialLoop:
    """Some of the trips of a loop over layers, as a loop at the insertion point, with the rows that these have.

    `number` makes the number of a trip in the whole loop of that in this one. `stacks` are the rows of each array that
    the loop takes rows of, `starts` the init operands by position, `values` its replacements for values from outside.
    `places` tell where the rows are in arrays that have more: in stacks, and by its result in that an update writes to.
    """

    def __init__(
        self,
        layers: LayerLoop,
        trips: int,
        number: Callable[[ir.Value], ir.Value],
        stacks: Mapping[ir.Value, ir.Value],
        starts: Mapping[int, ir.Value],
        values: Mapping[ir.Value, ir.Value],
        places: Mapping[ir.Value, RowPlace] | None = None,
    ) -> None:
        self._layers, self._trips, self._number = layers, trips, number
        self._stacks, self._values, self._places = stacks, values, places or {}
        self._positions = list(starts)
        self._nexts: list[ir.Value] = []
        self.results: dict[int, ir.Value] = {}
        carries = [counter_carry(), *(self._carry(n, start) for n, start in enumerate(starts.values()))]
        self.op = counted_loop(carries, trips, self._fill)

    def _carry(self, number: int, start: ir.Value) -> Carry:
        def finish(result: ir.Value) -> None:
            self.results[self._positions[number]] = result

        return Carry(start, lambda _: self._nexts[number], finish)

    def _fill(self, body: ir.Block, _: ir.Operation) -> None:
        loop, layers = self._layers.loop, self._layers
        count, *carried = body.arguments
        values = dict(self._values)
        values.update(zip((loop.body.arguments[i] for i in self._positions), carried, strict=True))
        rows = {op.results[0] for op in layers.slices} | {op.results[0] for op in layers.updates.values()}
        with ir.InsertionPoint(body):
            values[loop.body.arguments[layers.counter]] = self._number(count)
            index = minus(self._trips - 1, count) if layers.backward else count
            for op in _needed(layers, rows):
                new = self._row_op(op, values, index) if op.results[0] in rows else copied(op, values)
                values.update(zip(op.results, new.results, strict=True))
        nexts = loop.next_values.operands
        self._nexts = [values.get(nexts[i], nexts[i]) for i in self._positions]

    def _row_op(self, op: ir.Operation, values: dict[ir.Value, ir.Value], index: ir.Value) -> ir.Operation:
        """Takes or writes a row of the rows that this loop has."""
        at = 1 if op.name == DYNAMIC_SLICE else 2
        stack = self._stacks[op.operands[0]] if op.name == DYNAMIC_SLICE else values[op.operands[0]]
        place = self._places.get(op.operands[0] if op.name == DYNAMIC_SLICE else op.results[0])
        if place is not None and place.first is not None:
            index = create("stablehlo.add", index.type, place.first, index)
        starts = [index, *(values.get(value, value) for value in list(op.operands)[at + 1 :])]
        row = [] if op.name == DYNAMIC_SLICE else [values.get(op.operands[1], op.operands[1])]
        if place is not None and place.micro_batch is not None:
            return _row_of_micro_batch(op, stack, row, [place.micro_batch, *starts])
        new = op.clone()
        for i, operand in enumerate([stack, *row, *starts]):
            new.operands[i] = operand
        if op.name == _UPDATE:
            new.results[0].set_type(stack.type)
        return new


def _row_of_micro_batch(op: ir.Operation, stack: ir.Value, row: list[ir.Value], starts: list[ir.Value]) -> ir.Operation:
    """`op` on an array of layers, done on one that has such an array for each micro-batch."""
    tensor = ir.RankedTensorType((row[0] if row else op.results[0]).type)
    shape = [1, *tensor.shape]
    if row:
        return op_of(create(_UPDATE, stack.type, stack, reshaped(row[0], shape), *starts))
    kind = ir.RankedTensorType.get(shape, tensor.element_type)
    sizes = ir.DenseI64ArrayAttr.get(shape)
    return op_of(reshaped(create(DYNAMIC_SLICE, kind, stack, *starts, slice_sizes=sizes), tensor.shape))


def _needed(layers: LayerLoop, rows: set[ir.Value]) -> list[ir.Operation]:
    """The ops of the body that its results need, without those that only count rows."""
    loop = layers.loop
    nexts = [v for i, v in enumerate(loop.next_values.operands) if i != layers.counter]
    wanted, found = set(nexts), list[ir.Operation]()
    for op in reversed([op.operation for op in loop.body.operations][:-1]):
        if not any(result in wanted for result in op.results):
            continue
        found.append(op)
        wanted.update(_besides_row(op) if len(op.results) and op.results[0] in rows else reads(op))
    return found[::-1]


def _besides_row(op: ir.Operation) -> list[ir.Value]:
    """The operands of an op that takes or writes a row, but for the array and the number of the row."""
    operands = list(op.operands)
    return operands[2:] if op.name == DYNAMIC_SLICE else [operands[1], *operands[3:]]


def copied(op: ir.Operation, values: Mapping[ir.Value, ir.Value]) -> ir.Operation:
    """A copy of `op` at the insertion point that reads these values for others."""
    new = op.clone()
    for i, operand in enumerate(op.operands):
        new.operands[i] = values.get(operand, operand)
    recapture(new, values)
    return new


def plus(value: ir.Value, number: int) -> ir.Value:
    return create("stablehlo.add", value.type, value, _number(value, number)) if number else value


def minus(number: int, value: ir.Value) -> ir.Value:
    return create(_SUBTRACT, value.type, _number(value, number), value)


def _number(like: ir.Value, number: int) -> ir.Value:
    tensor = ir.RankedTensorType(like.type)
    return constant(tensor, ir.IntegerAttr.get(tensor.element_type, number))
