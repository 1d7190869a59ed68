"""The stages of a training step: prologue, body of the accumulation loop, epilogue.

Constants belong to no stage: each has its own copies.

Tests: test/passes/outline-accumulation.mlir, test/numeric/test_accumulate.py.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.ir.constants import is_constant
from paropt.passes.ir.constraints import CONSTRAINT
from paropt.passes.ir.loops import Loop
from paropt.passes.ir.op_table import is_deterministic, may_have_effect
from paropt.passes.ir.types import tensor_of
from paropt.passes.sharding.axes import Axes
from paropt.passes.sharding.collectives import REDUCTIONS
from paropt.passes.sharding.shardings import read_sharding
from paropt.passes.support.traversal import captured, defining_op, op_of, ops_of, terminator_of

DYNAMIC_SLICE, RESHAPE = "stablehlo.dynamic_slice", "stablehlo.reshape"


class Stages(NamedTuple):
    """The ops around a loop, in program order."""

    start: list[ir.Operation]  # that the loop needs, and unreduced sums
    closing: list[ir.Operation]  # reductions of the loop's results, and the ops between
    update: list[ir.Operation]  # all others that the results need, those before the loop that it does not need included


class Body(NamedTuple):
    """The ops of a loop's body, in program order, without its terminator."""

    slices: list[ir.Operation]  # that take the rows of this trip from arrays, with the numbers that they need
    taken: list[ir.Value]  # these rows
    trip: list[ir.Operation]  # all others, but those that only count


def reads_of(op: ir.Operation) -> list[ir.Value]:
    """The values that `op` reads, in its regions too."""
    return [*op.operands, *captured(op)] if len(op.regions) else list(op.operands)


def inputs_of(ops: Iterable[ir.Operation], wanted: Iterable[ir.Value] = ()) -> list[ir.Value]:
    """The values from elsewhere that `ops` read, or that are `wanted` as they are; no constants."""
    ops = list(ops)
    made = {result for op in ops for result in op.results}
    read = [*(value for op in ops for value in reads_of(op)), *wanted]
    return [value for value in dict.fromkeys(read) if value not in made and not is_constant(value)]


def stages_of(loop: Loop, *, with_closing: bool) -> Stages:
    """The stages of the block of `loop`. Without closing, its ops belong to the update."""
    ops = [op.operation for op in loop.op.block.operations][:-1]
    at = next(i for i, op in enumerate(ops) if op == loop.op)
    start = _start(ops[:at], loop)
    closing = _closing(ops[at + 1 :], loop) if with_closing else []
    apart = {op.results[0] for op in (*start, *closing, loop.op) if len(op.results)}
    effects = [op for op in ops if not len(op.results) or may_have_effect(op)]
    read = [value for op in effects for value in (*op.results, *reads_of(op))]
    used = {
        op.results[0] for op in needed(ops, [*terminator_of(loop.op.block).operands, *read]) if len(op.results)
    } - apart
    update = [op for op in ops if not len(op.results) or op.results[0] in used]
    return Stages(start, closing, update)


def needed(ops: Sequence[ir.Operation], values: Iterable[ir.Value]) -> list[ir.Operation]:
    """Those of `ops` that `values` are computed from; no constants."""
    wanted = {value for value in values if not is_constant(value)}
    found: list[ir.Operation] = []
    for op in reversed(ops):
        if any(result in wanted for result in op.results):
            found.append(op)
            wanted.update(value for value in reads_of(op) if not is_constant(value))
    return found[::-1]


def _start(ops: Sequence[ir.Operation], loop: Loop) -> list[ir.Operation]:
    """Those of `ops`, which precede `loop`, that it needs, and all sums: an unreduced value can't leave a function."""
    sums = [op.results[0] for op in ops if op.name == CONSTRAINT and _reduces(op)]
    return needed(ops, [*reads_of(loop.op), *sums])


def _closing(ops: Sequence[ir.Operation], loop: Loop) -> list[ir.Operation]:
    """Those of `ops`, which follow `loop`, that reduce its results, and that these need."""
    summed: set[ir.Value] = set(loop.op.results)
    reduced: set[ir.Value] = set()  # a reduction in two steps reads these
    for op in ops:
        read = [value for value in reads_of(op) if not is_constant(value)]
        reduces = _reduces(op)
        known = (summed, reduced) if reduces else (summed,)
        if read and all(any(value in each for each in known) for value in read):
            (reduced if reduces else summed).update(op.results)
    return needed(ops, reduced)


def _reduces(op: ir.Operation) -> bool:
    if op.name == CONSTRAINT:
        return bool(_unreduced(op.operands[0])) and not read_sharding(op.attributes["sharding"]).unreduced
    return op.name in REDUCTIONS or bool(len(op.regions) and ops_of(op, *REDUCTIONS))


def _unreduced(value: ir.Value) -> Axes:
    op = defining_op(value)
    return read_sharding(op.attributes["sharding"]).unreduced if op is not None and op.name == CONSTRAINT else ()


def body_of(loop: Loop, counter: int, row_of: Callable[[ir.Operation], ir.Value | None]) -> Body:
    """The parts of the body of `loop`, whose loop-carried value number `counter` counts the trips.

    `row_of` gives the value that a slice at the counter takes of an array; None if the slice is part of the trip.
    """
    counting = _Counting(loop.body.arguments[counter])
    ops = [op.operation for op in loop.body.operations][:-1]
    inside: set[ir.Value] = {*loop.body.arguments, *(result for op in ops for result in op.results)}
    rows = [row_of(op) for op in ops if op.name == DYNAMIC_SLICE and _takes_rows(op, counting, inside)]
    taken = [value for value in rows if value is not None]
    slices = needed(ops, taken)
    apart = {op.results[0] for op in slices if not counting.counts(op.results[0])}
    trip = {op.results[0] for op in ops if len(op.results) and not counting.counts(op.results[0])} - apart
    nexts = [value for i, value in enumerate(loop.next_values.operands) if i != counter]
    read = [value for op in ops if not len(op.results) or op.results[0] in trip for value in reads_of(op)]
    trip |= {op.results[0] for op in needed(ops, [*read, *nexts]) if counting.counts(op.results[0])}
    return Body(slices, taken, [op for op in ops if not len(op.results) or op.results[0] in trip])


def _takes_rows(op: ir.Operation, counting: "_Counting", inside: set[ir.Value]) -> bool:
    source, *starts = op.operands
    outer = source not in inside and not is_constant(source)
    known = all(counting.counts(start) for start in starts)
    return outer and known and any(not is_constant(start) for start in starts)


def row(slice_: ir.Operation) -> ir.Value:
    """The result of `slice_`, or JAX's reshape of it to an array of one dimension less."""
    result = slice_.results[0]
    use, *others = result.uses
    reader = use.owner.operation
    return reader.results[0] if not others and reader.name == RESHAPE and reader.block == slice_.block else result


class _Counting:
    """Which values of a body are numbers that only depend on the counter."""

    def __init__(self, counter: ir.Value) -> None:
        self._known: dict[ir.Value, bool] = {counter: True}

    def counts(self, value: ir.Value) -> bool:
        if is_constant(value):
            return True
        if value not in self._known:
            op, tensor = defining_op(value), tensor_of(value)
            arithmetic = op is not None and is_deterministic(op) and not len(op.regions)  # no callback, no index
            scalar = arithmetic and tensor is not None and not tensor.shape
            self._known[value] = scalar and all(self.counts(operand) for operand in op_of(value).operands)
        return self._known[value]
