"""Pairs of loops, forward and backward passes, of which the second reads the arrays of the first part by part.

Tests: test/passes/fuse-loops.mlir, test/numeric/test_loop_fusion.py.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.dataflow.loop_eval import Known, evaluated, evaluated_in, trips_of
from paropt.passes.dataflow.side_effects import require_repeatable
from paropt.passes.ir.constants import CONSTANT, is_zero
from paropt.passes.ir.loops import WHILE, Loop, counter_of
from paropt.passes.ir.metadata import others_than_hints
from paropt.passes.ir.types import bytes_of, tensor_of
from paropt.passes.sharding.collectives import ADD, combiner_of
from paropt.passes.support.remarks import require
from paropt.passes.support.traversal import captured, defining_op
from paropt.passes.unrolled.live_outs import Order

UPDATE, SLICE = "stablehlo.dynamic_update_slice", "stablehlo.dynamic_slice"

Trips = list[Known]
Part = tuple[int, ...]  # where a part of an array begins


class Read(NamedTuple):
    """A part of an array that the second loop reads, and the value that the first loop writes there."""

    slice: ir.Operation
    part: ir.Value


class Pair(NamedTuple):
    """Loops of which each trip of the second may follow one trip of the first. Holds live values: use it at once."""

    first: Loop
    second: Loop
    trips: int
    counters: tuple[int, int]  # the positions of their counters
    is_reversed: bool  # the second loop begins with the last trip of the first
    reads: tuple[Read, ...]
    indices: tuple[ir.Value, ...]  # in the second loop: the number of the first loop's trip
    gone: tuple[int, ...]  # loop-carried values of the first loop that nothing else reads
    carried: tuple[int, ...]  # loop-carried values of the second loop, but for its counter and pass-through ones
    late: tuple[ir.Operation, ...]  # the ops between the loops that depend on the first one

    @property
    def saved(self) -> int:
        """Bytes of the arrays that are no longer kept."""
        return sum(bytes_of(ir.RankedTensorType(self.first.op.results[i].type)) for i in self.gone)


def firsts_of(second: Loop) -> list[Loop]:
    """The loops before `second`, in its block, that return an array of parts which it reads."""
    found: dict[ir.Value, Loop] = {}
    for value in _reads(second):
        op = defining_op(value)
        if op is None or op.name != WHILE or op.block != second.op.block:
            continue
        first = found.get(op.results[0], Loop(op))
        last = defining_op(first.next_values.operands[ir.OpResult(value).result_number])
        if last is not None and last.name == UPDATE:
            found[op.results[0]] = first
    return list(found.values())


def pair_of(first: Loop, second: Loop) -> Pair:
    """Raises Declined when a trip of the second loop may not follow each trip of the first."""
    for loop in (first, second):
        others = others_than_hints(loop.op)
        require(not others, f"a loop has attributes of its own: {others}", loop.op)
    counters = _counters(first, second)
    trips = trips_of(first), trips_of(second)
    require(trips[0] is not None and trips[1] is not None, "the loops make too many trips")
    assert trips[0] is not None and trips[1] is not None
    arrays = _arrays(first, second)
    reads, order = _matched(first, arrays, (trips[0], trips[1]))
    forwards = list(range(len(order)))
    require(order in (forwards, forwards[::-1]), "the second loop reads the trips of the first in another order")
    carried = [i for i in range(len(second.op.results)) if not is_unchanged(second, i) and i != counters[1]]
    for i in carried if order != forwards else ():
        _require_unordered(second, i, trips[1])
    late = _late(first, second)
    for op in (first.op, second.op, *late):
        require_repeatable(op)
    return Pair(
        first,
        second,
        len(order),
        counters,
        order != forwards,
        tuple(reads),
        tuple(_indices(second, counters[1], trips[1], order)),
        tuple(i for i in arrays if not _is_read_elsewhere(first.op.results[i], second)),
        tuple(carried),
        tuple(late),
    )


def _counters(first: Loop, second: Loop) -> tuple[int, int]:
    """The positions of the counters."""
    counting = first.counting
    alike = counting is not None and (counting.start, counting.step) == (0, 1) and counting == second.counting
    require(alike, "the loops do not both count from 0 by 1 to the same constant")
    found = counter_of(first), counter_of(second)
    assert found[0] is not None and found[1] is not None, "the loops count"
    same = first.op.results[found[0]].type == second.op.results[found[1]].type
    require(same, "the loops count in different types")
    return found[0], found[1]


def is_unchanged(loop: Loop, position: int) -> bool:
    """Whether loop-carried value `position` is a pass-through; a zero may change its sign."""
    value = loop.next_values.operands[position]
    op = defining_op(value)
    while op is not None and _is_copy(op):
        value = op.operands[0]
        op = defining_op(value)
    return bool(value == loop.body.arguments[position])


def _is_copy(op: ir.Operation) -> bool:
    """Whether the result of `op` is its first operand: so JAX writes the gradient of a running loss."""
    if op.name == "stablehlo.convert":
        return bool(op.results[0].type == op.operands[0].type)
    if op.name != "stablehlo.reduce" or len(op.operands) != 2 or combiner_of(op) != ADD:
        return False
    return not len(ir.DenseI64ArrayAttr(op.attributes["dimensions"])) and is_zero(op.operands[1])


def _reads(loop: Loop) -> list[ir.Value]:
    return list(dict.fromkeys([*loop.op.operands, *captured(loop.op)]))


def _update(loop: Loop, position: int) -> ir.Operation | None:
    """The op that writes a part of loop-carried value `position`, which nothing else in the loop reads."""
    op = defining_op(loop.next_values.operands[position])
    argument = loop.body.arguments[position]
    if op is None or op.name != UPDATE or op.operands[0] != argument or len(list(argument.uses)) != 1:
        return None
    read_again = len(list(op.results[0].uses)) != 1 or next(loop.condition.arguments[position].uses, None) is not None
    return None if read_again else op


def _arrays(first: Loop, second: Loop) -> dict[int, list[ir.Operation]]:
    """The arrays that the second loop takes from the first: their positions, and the slices that read parts of them."""
    found: dict[int, list[ir.Operation]] = {}
    for value in _reads(second):
        if not isinstance(value, ir.OpResult) or value.owner.operation != first.op:
            continue
        position = ir.OpResult(value).result_number
        if is_unchanged(first, position):
            continue
        written = _update(first, position) is not None
        require(written, f"the second loop needs result {position} of the first, which the whole first loop computes")
        found[position] = list(_slices(value, second))
    return found


def _slices(value: ir.Value, loop: Loop) -> Iterator[ir.Operation]:
    """The ops in `loop` that read `value`: slices of it."""
    held = "the second loop reads an array of the first in another way than part by part"
    for use in value.uses:
        op = use.owner.operation
        if op == loop.op:
            require(is_unchanged(loop, use.operand_number), "the second loop changes an array of the first")
            yield from _slices(loop.body.arguments[use.operand_number], loop)
        elif op == loop.next_values:
            handed_on = isinstance(value, ir.BlockArgument) and value.arg_number == use.operand_number
            require(handed_on, held, op)
        elif _is_in(op, loop.op):
            require(op.name == SLICE and use.operand_number == 0 and op.block == loop.body, held, op)
            yield op


def _is_in(op: ir.Operation, holder: ir.Operation) -> bool:
    while op.parent is not None:
        op = op.parent.operation
        if op == holder:
            return True
    return False


def _matched(
    first: Loop, arrays: dict[int, list[ir.Operation]], trips: tuple[Trips, Trips]
) -> tuple[list[Read], list[int]]:
    """The reads, and for each trip of the second loop, the trip of the first that wrote the part that it reads."""
    reads: list[Read] = []
    orders: list[list[int]] = []
    for position, slices in arrays.items():
        update = _update(first, position)
        assert update is not None, "an array of parts"
        written = _parts(update, update.operands[1], list(update.operands)[2:], trips[0])
        require(written is not None, "a trip of the first loop does not write a part of its own", update)
        assert written is not None
        for op in slices:
            places = _parts(op, op.results[0], list(op.operands)[1:], trips[1])
            same = op.results[0].type == update.operands[1].type and places is not None and set(places) <= set(written)
            require(same, "a trip of the second loop reads other parts than a trip of the first wrote", op)
            assert places is not None
            orders.append([written.index(part) for part in places])
            reads.append(Read(op, update.operands[1]))
    require(bool(orders), "the second loop does not read the array")
    for read, order in zip(reads, orders, strict=True):
        require(order == orders[0], "a trip of the second loop reads parts of different trips of the first", read.slice)
    return reads, orders[0]


def _parts(op: ir.Operation, part: ir.Value, starts: Sequence[ir.Value], trips: Trips) -> list[Part] | None:
    """Where the part begins in each trip; None unless each trip has a part of its own, within the array."""
    if tensor_of(part) is None:
        return None
    sizes = ir.RankedTensorType(part.type).shape
    shape = ir.RankedTensorType(op.operands[0].type).shape
    found: list[Part] = []
    for known in trips:
        numbers = [evaluated(start, known) for start in starts]
        if any(number is None for number in numbers):
            return None
        found.append(tuple(int(number) for number in numbers if number is not None))
    inside = all(0 <= at <= n - size for begin in found for at, n, size in zip(begin, shape, sizes, strict=True))
    return found if inside and any(_apart(found, d, size) for d, size in enumerate(sizes)) else None


def _apart(parts: Sequence[Part], dimension: int, size: int) -> bool:
    """Whether parts of this size do not overlap in this dimension."""
    return all(b - a >= size for a, b in pairwise(sorted(part[dimension] for part in parts)))


def _require_unordered(loop: Loop, position: int, trips: Trips) -> None:
    """Declines unless the result of loop-carried value `position` is the same in whatever order trips are made."""
    update = _update(loop, position)
    parts = _parts(update, update.operands[1], list(update.operands)[2:], trips) if update is not None else None
    unordered = parts is not None or _is_sum(loop, position)
    why = f"the second loop begins with the last trip of the first, and its loop-carried value {position} is neither"
    require(unordered, f"{why} a sum nor an array of parts: its trips depend on each other", _next(loop, position))


def _next(loop: Loop, position: int) -> ir.Operation | None:
    return defining_op(loop.next_values.operands[position])


def _is_sum(loop: Loop, position: int) -> bool:
    """Whether a trip only adds to the loop-carried value."""
    value = loop.body.arguments[position]
    while True:
        uses = list(value.uses)
        if len(uses) != 1:
            return False
        op = uses[0].owner.operation
        if op == loop.next_values:
            return uses[0].operand_number == position and value != loop.body.arguments[position]
        if op.name != ADD or op.block != loop.body:
            return False
        value = op.results[0]


def _late(first: Loop, second: Loop) -> list[ir.Operation]:
    """The ops between the loops that depend on the first one; the second may not depend on them."""
    order = Order(first.op.block)
    results = [result for i, result in enumerate(first.op.results) if not is_unchanged(first, i)]
    late: set[ir.Value] = set(results)
    found: list[ir.Operation] = []
    for op in order.ops[order.position(first.op) + 1 : order.position(second.op)]:
        if any(value in late for value in (*op.operands, *captured(op))):
            found.append(op)
            late.update(op.results)
    late.difference_update(results)
    for value in _reads(second):
        needed = "the second loop needs a value computed from results of the first"
        require(value not in late, needed, defining_op(value))
    return found


def _indices(loop: Loop, counter: int, trips: Trips, order: Sequence[int]) -> Iterator[ir.Value]:
    """The values in the body that are, in each trip, the number in `order`."""
    for op in (view.operation for view in loop.body.operations):
        if len(op.results) != 1 or op.results[0].type != loop.op.results[counter].type or op.name == CONSTANT:
            continue
        numbers = evaluated_in(trips, op.results[0])
        if all(number is not None and int(number) == want for number, want in zip(numbers, order, strict=True)):
            yield op.results[0]


def _is_read_elsewhere(value: ir.Value, second: Loop) -> bool:
    """Whether anything but the body of the second loop reads `value`."""
    for use in value.uses:
        op = use.owner.operation
        if op == second.op:
            if next(second.op.results[use.operand_number].uses, None) is not None:
                return True
        elif not _is_in(op, second.op):
            return True
    return False
