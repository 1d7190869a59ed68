"""A running maximum for each device in a loop, and the maximum of these after it.

    %m = maximum %acc, (reduce %x)           the partitioner reduces over devices in each trip

becomes

    %y = reshape %x                          with a dimension for the devices over which %x is split
    %m = maximum %accs, (reduce %y)          on each device by itself

Shardy has no word for a device's part of a maximum, as `unreduced` is for sums: so the array has a dimension for it. A
maximum is idempotent, so that every device may start from the same value.

Tests: test/passes/separate-reductions-maxima.mlir, test/numeric/test_running_maxima.py.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.ir.induction_variable import create
from paropt.passes.ir.loops import loop_around, trip_count
from paropt.passes.rewrite.erase import erase_unread
from paropt.passes.rewrite.loop_edits import rebuilt
from paropt.passes.rewrite.residual_split import neutral
from paropt.passes.sharding.annotations import shard_bytes
from paropt.passes.sharding.axes import Axes, are_allowed, has_part, names_of
from paropt.passes.sharding.collectives import combiner_of, neutral_number
from paropt.passes.sharding.explicit_ops import constrained
from paropt.passes.sharding.propagation import propagated_or_none
from paropt.passes.sharding.shardings import SHARDING, Sharding, is_even, open_sharding, parts_in
from paropt.passes.spmd.kept_extremes import REDUCE, as_carried, combined
from paropt.passes.support.remarks import Declined, Remark, Saved, applied, missed, require
from paropt.passes.support.traversal import is_read_once, module_of, op_of, ops_of


class Running(NamedTuple):
    """The running maximum, or minimum, of the results of the op `reduce` in the trips of a loop."""

    reduce: ir.Operation
    combine: ir.Operation  # with the loop-carried value
    lies: Sharding  # of the operand of `reduce`

    @property
    def position(self) -> int:
        """Of the loop-carried value."""
        return ir.BlockArgument(as_carried(self.carried)).arg_number

    @property
    def carried(self) -> ir.Value:
        """The loop-carried value, as `combine` reads it."""
        return next(each for each in self.combine.operands if isinstance(as_carried(each).owner, ir.Block))

    @property
    def cut(self) -> dict[int, Axes]:
        """The dimensions that it reduces over devices, and over which."""
        dimensions = list(ir.DenseI64ArrayAttr(self.reduce.attributes["dimensions"]))
        return {dimension: axes for dimension in dimensions if (axes := self.lies.dimensions[dimension])}


def extremes_by_device(module: ir.Operation, pass_name: str, allowed: frozenset[str]) -> list[Remark]:
    """Rewrites loops, inner ones first.

    `allowed` names the axes over which that may be after a loop: none, for all axes.
    """
    remarks: list[Remark] = []
    moved: list[tuple[ir.Operation, int]] = []  # the op after the last loop, and which remark counts its saving
    while any(_shapes(module)):
        found, stays = _running(module, allowed)
        for running in found:
            before = next((i for op, i in moved if op == running.reduce), None)
            saved = _saved(running, remarks[before].saved if before is not None else None)
            text = (
                f"each device keeps its own in the loop: {saved.bytes} bytes are reduced after it, and not in each trip"
            )
            moved = [(op, i) for op, i in moved if i != before]
            if before is not None:
                remarks[before] = replace(remarks[before], saved=None)
            remarks.append(applied(pass_name, running.reduce, text, saved=saved))
            moved.append((keep_by_device(running), len(remarks) - 1))
        if not found:
            return [*remarks, *(missed(pass_name, reason.op, reason) for reason in stays if reason.op is not None)]
    return remarks


def _saved(running: Running, inside: Saved | None) -> Saved:
    """The saving by leaving this loop and, where it has left one in there, both."""
    loop = loop_around(running.reduce.block)
    assert loop is not None, "it is asked first"
    reduced = set(ir.DenseI64ArrayAttr(running.reduce.attributes["dimensions"]))
    left = tuple(axes for i, axes in enumerate(running.lies.dimensions) if i not in reduced)
    size = shard_bytes(running.reduce.results[0], running.lies._replace(dimensions=left))
    trips = trip_count(loop)
    if inside is None:
        return Saved(1, size, trips, 1, size)
    both = None if trips is None or inside.trips is None else trips * inside.trips
    return inside._replace(trips=both)


def _running(module: ir.Operation, allowed: frozenset[str]) -> tuple[list[Running], list[Declined]]:
    """The maxima and minima that loops may keep for each device, and why others may not."""
    found: list[Running] = []
    declined: list[Declined] = []
    propagated = propagated_or_none(module)
    if propagated is None:
        return found, declined
    for op, combine in list(_shapes(module)):
        lies = propagated.operand_shardings(op)
        if not lies or lies[0] is None or not Running(op, combine, lies[0]).cut:
            continue
        running = Running(op, combine, lies[0])
        try:
            _require_by_device(running, allowed)
        except Declined as reason:
            declined.append(reason)
            continue
        found.append(running)
    return found, declined


def _shapes(module: ir.Operation) -> Iterator[tuple[ir.Operation, ir.Operation]]:
    """Each maximum or minimum of an array that a loop combines with a carried value, and the op that combines them."""
    for op in ops_of(module, REDUCE):
        combine = combined(op)
        if combine is not None:
            yield op, combine


def _require_by_device(running: Running, allowed: frozenset[str]) -> None:
    op, combine = running.reduce, running.combine
    loop = loop_around(op.block)
    assert loop is not None, "it is asked first"
    value, lies = op.operands[0], running.lies
    element = ir.RankedTensorType(value.type).element_type
    known = neutral_number(combine.name, element) is not None
    require(known, f"no identity element is known for a {combine.name} of {element}", op)
    require(SHARDING not in loop.op.attributes, "the loop says how its values are sharded", op)
    argument = loop.body.arguments[running.position]
    unread = next(loop.condition.arguments[running.position].uses, None) is None
    read = (op.results[0], argument, running.carried, combine.results[0])
    alone = all(map(is_read_once, read)) and unread
    kept = loop.next_values.operands[running.position] == combine.results[0]
    require(alone and kept, "the loop does more with a running maximum or minimum than keep it", op)
    even = is_even(value, lies, module_of(op)) and not has_part([axis for axes in lies.dimensions for axis in axes])
    require(even, "it is sharded into unequal parts, or over a part of an axis", op)
    over = [axis for axes in running.cut.values() for axis in axes]
    asked = ", ".join(f"`{name}`" for name in sorted(names_of(over)))
    require(are_allowed(over, allowed), f"it is over {asked}, which option axes does not allow", op)
    require(trip_count(loop) not in (0, 1), "in one trip it is taken over devices once, as after it", op)


def keep_by_device(running: Running) -> ir.Operation:
    """Rewrites the loop. Returns the op after it that takes the maximum over devices."""
    op, combine, position, carried = running.reduce, running.combine, running.position, running.carried
    loop = loop_around(op.block)
    assert loop is not None, "it is asked first"
    parts = _Parts(running)
    with op.context:
        with ir.InsertionPoint(combine), op.location:
            part = parts.reduced()
        for block in (loop.condition, loop.body):
            block.arguments[position].set_type(part.type)
        with ir.InsertionPoint(combine), combine.location:
            made = create(combine.name, part.type, loop.body.arguments[position], part)
            nexts, starts = list(loop.next_values.operands), list(loop.op.operands)
            nexts[position] = constrained(made, parts.sharding)
        with ir.InsertionPoint(loop.op), op.location:
            starts[position] = constrained(neutral(part.type, combine.name), parts.sharding)
        new = rebuilt(loop, starts, nexts)
        with ir.InsertionPoint(loop.op), op.location:
            whole = parts.joined(constrained(new.op.results[position], parts.sharding))
            joined = op_of(whole)
            whole = create(combine.name, whole.type, loop.op.operands[position], whole)
    for i, old in enumerate(loop.op.results):
        old.replace_all_uses_with(whole if i == position else new.op.results[i])
    for each in (loop.op, combine, op):
        each.erase()
    erase_unread([carried])
    return joined


class _Parts:
    """The array that has the maximum of each device: each dimension that is cut becomes one for the devices.

    Where it is to be read in a loop, made at the insertion point.
    """

    def __init__(self, running: Running) -> None:
        op = self._op = running.reduce
        self._mesh = running.lies.mesh
        shape = ir.RankedTensorType(op.operands[0].type).shape
        reduced = set(ir.DenseI64ArrayAttr(op.attributes["dimensions"]))
        self._shape: list[int] = []  # of the operand, with the dimensions for devices before those that they cut
        self._split: list[Axes] = []
        self._closed: list[int] = []  # the dimensions of it that are not split any further
        self._own: list[int] = []  # those that each device reduces by itself
        self._devices: list[int] = []  # the dimensions for devices, of the result
        for dimension, (size, axes) in enumerate(zip(shape, running.lies.dimensions, strict=True)):
            count = parts_in(module_of(op), Sharding(self._mesh, (axes,))) if dimension in running.cut else 1
            if dimension in running.cut:
                self._devices.append(len(self._shape) - len(self._own))
                self._closed.append(len(self._shape))
                self._add(count, axes)
            if dimension in reduced:
                self._own.append(len(self._shape))
                self._closed.append(len(self._shape))
            self._add(size // count, () if dimension in running.cut else axes)
        left = [axes for i, axes in enumerate(self._split) if i not in self._own]
        with op.context:
            self.sharding = open_sharding(self._mesh, left, closed=self._devices)

    def _add(self, size: int, axes: Axes) -> None:
        self._shape.append(size)
        self._split.append(axes)

    def reduced(self) -> ir.Value:
        """The maximum of each device."""
        value = self._op.operands[0]
        tensor = ir.RankedTensorType.get(self._shape, ir.RankedTensorType(value.type).element_type)
        cut = constrained(
            create("stablehlo.reshape", tensor, value), open_sharding(self._mesh, self._split, closed=self._closed)
        )
        left = [size for i, size in enumerate(self._shape) if i not in self._own]
        return self._like(cut, self._op.operands[1], self._own, left)

    def joined(self, value: ir.Value) -> ir.Value:
        """The maximum over devices."""
        element = ir.RankedTensorType(value.type).element_type
        combiner = combiner_of(self._op)
        assert combiner is not None
        start = neutral(ir.RankedTensorType.get([], element), combiner)
        return self._like(value, start, self._devices, ir.RankedTensorType(self._op.results[0].type).shape)

    def _like(self, value: ir.Value, start: ir.Value, dimensions: list[int], shape: list[int]) -> ir.Value:
        """`value` reduced along `dimensions` by the same op."""
        new = self._op.clone()
        for name in list(new.attributes.keys()):
            if name.startswith("paropt."):
                del new.attributes[name]
        new.operands[0], new.operands[1] = value, start
        new.attributes["dimensions"] = ir.DenseI64ArrayAttr.get(dimensions)
        element = ir.RankedTensorType(value.type).element_type
        new.results[0].set_type(ir.RankedTensorType.get(shape, element, loc=self._op.location))
        return new.results[0]
