"""An upper bound on how often a loop takes a branch, for any init operand of its counter, as callers hand one in.

`step % 4 == 0` holds in 2 of 8 trips, whatever `step` is at first. That is found by trying enough numbers: a number is
only added to, compared with known ones, or divided for the remainder. So two starts take the same branches that differ
by a multiple of the divisors, and are on the same side of all that it is compared with, no closer than the largest
addend.
"""

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Literal

import numpy as np
from jaxlib.mlir import ir

from paropt.passes.dataflow.loop_eval import Evaluator, Known, evaluated_in, integer_type, is_computed
from paropt.passes.ir.branches import branch_around, chosen
from paropt.passes.ir.constraints import CONSTRAINT
from paropt.passes.ir.loops import Loop, start_of
from paropt.passes.support.remarks import Declined, require
from paropt.passes.support.traversal import defining_op, is_defined_in

_MOST_STARTS = 1 << 14  # that are tried

# The kinds of values: known in each trip; the start plus a number, or a number; one of a few, by side and remainder.
_Kind = Literal["known", "start", "part"]


def most_executions(op: ir.Operation, loop: Loop, trips: list[Known] | None) -> int | None:
    """How often `op`, in a branch in the body of `loop`, runs at most; None when that is not known.

    `trips` are `trips_of(loop)`.
    """
    found: list[int] = []
    while (branch := branch_around(op, loop.body)) is not None:
        most = most_trips(branch.operands[0], loop, trips, partial(_takes, branch, op.block))
        found += [] if most is None else [most]
        op = branch
    return min(found, default=None)


def _takes(branch: ir.Operation, block: ir.Block, number: int) -> bool:
    return bool(branch.regions[chosen(branch, number)].blocks[0] == block)


def most_trips(value: ir.Value, loop: Loop, trips: list[Known] | None, counts: Callable[[int], bool]) -> int | None:
    """In how many of `trips`, as `trips_of(loop)` has them, `counts` holds for the integer `value` at most.

    None when that is not known.
    """
    if not trips:
        return None
    slice_ = Slice(loop, trips)
    try:
        slice_.require_followed(value)
        starts = slice_.starts()
    except Declined:
        return None
    held, evaluator = np.zeros(len(starts), int), Evaluator(of_devices=True)
    for known in slice_.simulated(starts):
        numbers = evaluator(value, known)
        if numbers is None:
            return None
        distinct, where = np.unique(np.broadcast_to(numbers, held.shape), return_inverse=True)
        held += np.array([counts(int(number)) for number in distinct], int)[where]
    return int(held.max())


class Slice:
    """A scalar in the body of a loop, as a function of one unknown init operand."""

    def __init__(self, loop: Loop, trips: list[Known]) -> None:
        self._loop = loop
        self._trips = trips
        self._start: ir.Value | None = None  # the unknown one: loop-carried, or from outside of the loop
        self._counter: int | None = None  # the number of the loop-carried value that it is, if it is one
        self._kinds: dict[ir.Value, _Kind] = {}
        self._known: dict[ir.Value, list[np.ndarray]] = {}  # known operands of the others, by trip
        self._borders: set[int] = set()
        self._added = 0  # in one trip
        self._divisor = 1

    def require_followed(self, value: ir.Value) -> _Kind:
        """The value of `value`. Declines where it may depend on the init operand in another way."""
        if value not in self._kinds:
            self._kinds[value] = kind = self._kind(value)
            return kind
        return self._kinds[value]

    def _kind(self, value: ir.Value) -> _Kind:
        numbers = evaluated_in(self._trips, value)
        found = [number for number in numbers if number is not None]
        if len(found) == len(numbers):
            self._known[value] = found
            return "known"
        require(integer_type(value) is not None, "it is no integer")
        if (outside := start_of(value)) is not None:
            return self.require_followed(outside)
        op = defining_op(value)
        if op is None or not is_computed(op, of_devices=True):
            return self._starts_from(value)
        kinds = [self.require_followed(operand) for operand in op.operands]
        if "start" not in kinds:
            return "part"
        rule = _RULES.get(op.name)
        require(rule is not None, f"{op.name} is not followed", op)
        assert rule is not None
        return rule(self, op, kinds)

    def _starts_from(self, value: ir.Value) -> _Kind:
        require(self._start is None, "several starts are unknown")
        self._start, self._kinds[value] = value, "start"
        if value not in list(self._loop.body.arguments):
            require(not is_defined_in(value, self._loop.op), "it is not known in each trip")
            return "start"
        self._counter = ir.BlockArgument(value).arg_number
        require(value not in self._trips[0], "it is known at first")
        self.require_followed(self._loop.next_values.operands[self._counter])
        return "start"

    def _numbers(self, value: ir.Value) -> list[int]:
        require(value in self._known, "it is compared with, or divided by, what is not known")
        return [int(number) for number in self._known[value]]

    def moved(self, op: ir.Operation, kinds: list[_Kind]) -> _Kind:
        """A sum, or difference, of the init operand and a known value."""
        by = 1 - kinds.index("start")
        require(kinds.count("start") == 1 and (by == 1 or op.name == _ADD), "a start is not added to", op)
        self._added += max(map(abs, self._numbers(op.operands[by])))
        return "start"

    def compared(self, op: ir.Operation, kinds: list[_Kind]) -> _Kind:
        """The side of a known value on which it is."""
        require(kinds.count("start") == 1, "two starts are compared", op)
        self._borders.update(self._numbers(op.operands[1 - kinds.index("start")]))
        return "part"

    def limited(self, op: ir.Operation, kinds: list[_Kind]) -> _Kind:
        self.compared(op, kinds)
        return "start"

    def divided(self, op: ir.Operation, kinds: list[_Kind]) -> _Kind:
        """The remainder, which also tells its sign."""
        require(kinds[0] == "start", "a start is a divisor", op)
        divisors = self._numbers(op.operands[1])
        require(min(divisors) > 0, "a divisor is not positive", op)
        self._divisor = math.lcm(self._divisor, *divisors)
        self._borders.add(0)
        return "part"

    def chosen(self, op: ir.Operation, kinds: list[_Kind]) -> _Kind:
        require(kinds[0] != "start", "a start is a predicate", op)
        return "start"

    def alike(self, op: ir.Operation, _: list[_Kind]) -> _Kind:
        require(op.operands[0].type == op.results[0].type, "its type changes", op)
        return "start"

    def starts(self) -> np.ndarray:
        """Representatives of all values that the init operand may have."""
        type_ = integer_type(self._start) if self._start is not None else None
        if type_ is None:
            return np.zeros(1, int)
        require(type_ != np.dtype(bool), "it is no number")
        least, most = int(np.iinfo(type_).min), int(np.iinfo(type_).max)
        around = (len(self._trips) + 1) * self._added + self._divisor
        borders = {least, most, *self._borders}
        require(around * len(borders) < _MOST_STARTS, "too many starts differ")
        near = (range(max(least, b - around), min(most, b + around) + 1) for b in borders)
        return np.array(sorted({number for numbers in near for number in numbers}), type_)

    def simulated(self, starts: np.ndarray) -> Iterable[Known]:
        """The known values of each trip, for all representatives at once."""
        now: np.ndarray | None = starts
        evaluator = Evaluator(of_devices=True)
        for trip in range(len(self._trips)):
            known: Known = {value: numbers[trip] for value, numbers in self._known.items()}
            if self._start is not None and now is not None:
                known[self._start] = now
            yield known
            if self._counter is not None:
                now = evaluator(self._loop.next_values.operands[self._counter], known)


_ADD = "stablehlo.add"
_RULES: dict[str, Callable[[Slice, ir.Operation, list[_Kind]], _Kind]] = {
    _ADD: Slice.moved,
    "stablehlo.subtract": Slice.moved,
    "stablehlo.compare": Slice.compared,
    "stablehlo.maximum": Slice.limited,
    "stablehlo.minimum": Slice.limited,
    "stablehlo.remainder": Slice.divided,
    "stablehlo.select": Slice.chosen,
    "stablehlo.convert": Slice.alike,
    "stablehlo.reshape": Slice.alike,
    CONSTRAINT: Slice.alike,
}
