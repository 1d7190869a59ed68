"""The loop that replaces M copies.

Tests: test/passes/roll-accumulation.mlir, test/numeric/test_loop_rolling.py.
"""

from collections.abc import Sequence
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.dataflow.op_comparison import SLICE, attributes_of
from paropt.passes.dataflow.unreduced import said_unreduced
from paropt.passes.ir.constants import CONSTANT, splat_of
from paropt.passes.ir.induction_variable import Counter, constant, create, has_table, ops_to_count, table
from paropt.passes.ir.types import is_float
from paropt.passes.rewrite.counted_loop import Carry, counted_loop, counter_carry
from paropt.passes.rewrite.peel import recapture
from paropt.passes.rewrite.residual_split import neutral
from paropt.passes.sharding.collectives import ADD, neutral_number
from paropt.passes.sharding.explicit_ops import constrained
from paropt.passes.support.traversal import captured, is_used, op_of
from paropt.passes.unrolled.live_outs import Exit, Order, following
from paropt.passes.unrolled.packs import Carried, Copies, Each, Group, Inner, Shared, Values
from paropt.passes.unrolled.reduction_chains import Accumulation


class Rolling(NamedTuple):
    """M copies, and the fate of their values. Holds live values: use it at once."""

    copies: Copies
    order: Order
    sums: tuple[Accumulation, ...]  # without a start, whose terms the copies compute
    exits: tuple[Exit, ...]

    @property
    def replaced(self) -> list[ir.Operation]:
        """The ops outside of the copies that the loop replaces as well."""
        joined = [each.joined for each in self.exits if each.joined is not None]
        return [*(op for sum_ in self.sums for op in sum_.ops), *joined]

    def is_kept(self, exit_: Exit) -> bool:
        """Whether the loop has to keep the value of each copy, and not only the last one."""
        return exit_.joined is not None or exit_.apart != (self.copies.count - 1,)


def first_number(sum_: Accumulation) -> ir.Attribute | None:
    """The number that the first term of a sum without a start is added to; None when none is known."""
    if sum_.initial is not None:
        return sum_.initial
    return first_sum(sum_.combiner, ir.RankedTensorType(sum_.terms[0].type).element_type)


def first_sum(combiner: str, element: ir.Type) -> ir.Attribute | None:
    """The number to which a first term can be added without any change; None when none is known.

    For a sum of floats that is -0.0: 0.0 + -0.0 is 0.0.
    """
    number = neutral_number(combiner, element)
    if number is None or isinstance(element, ir.ComplexType):
        return None
    if is_float(element):
        unknown = ir.Location.unknown(element.context)
        return ir.FloatAttr.get(element, -0.0 if combiner == ADD else number, loc=unknown)
    return ir.IntegerAttr.get(element, int(number))


def roll(rolling: Rolling) -> ir.Operation:
    """Replaces the copies by a loop, which it returns."""
    order, groups = rolling.order, rolling.copies.groups
    by_position = sorted(range(len(groups)), key=lambda i: order.position(groups[i].first))
    end = 1 + max(order.position(op) for group in groups for op in group.present)
    replaced = {op.results[0] for op in rolling.replaced}
    late = [op for op in following(rolling.copies, order, end) if not len(op.results) or op.results[0] not in replaced]
    behind = order.ops[end]  # there is one: a block ends with a terminator
    location = groups[by_position[-1]].first.location
    with ir.InsertionPoint(behind), location:
        body = _Body(rolling, behind)
        carries = body.carries(by_position)
        loop = counted_loop(carries, rolling.copies.count, lambda block, loop: body.fill(block, loop, by_position))
    for op in late:
        op.move_before(behind)
    gone = [op for group in groups for op in group.present] + rolling.replaced
    for op in sorted(gone, key=order.position, reverse=True):
        assert not is_used(op), op.name
        op.erase()
    return loop


class _Body:
    """The body of the loop, and its loop-carried values."""

    def __init__(self, rolling: Rolling, behind: ir.Operation) -> None:
        self._rolling = rolling
        self._copies = rolling.copies
        self._behind = behind
        self._slots: dict[Carried, int] = {}  # which loop-carried value it is
        self._made: dict[tuple[int, int], ir.Value] = {}

    def carries(self, groups: Sequence[int]) -> list[Carry]:
        """The counter, values that copies hand on, other live-outs, and sums without a start. Values that copies hand
        on are in the order in which the ops of `groups` stand.
        """
        rolling = self._rolling
        found = [counter_carry()]
        carried = [source for source in self._copies.sources.values() if isinstance(source, Carried)]
        rank = {group: place for place, group in enumerate(groups)}
        handed_on: set[tuple[int, int]] = set()
        for source in dict.fromkeys(sorted(carried, key=lambda source: rank[source.group])):
            self._slots[source] = len(found)
            found.append(self._last(source.group, source.result, source.start))
            handed_on.add((source.group, source.result))
        for each in rolling.exits:
            if rolling.is_kept(each):
                found.append(self._kept(each))
            elif (each.group, each.result) not in handed_on:
                start = neutral(self._value(each.group, each.result).type)
                found.append(self._last(each.group, each.result, start))
        return found + [self._sum(sum_) for sum_ in rolling.sums]

    def _value(self, group: int, result: int) -> ir.Value:
        return self._copies.groups[group].first.results[result]

    def _last(self, group: int, result: int, start: ir.Value) -> Carry:
        """A result of a group; of the last copy, outside."""
        op = self._copies.groups[group].ops[-1]
        inner = self._value(group, result)
        sharding = op_of(inner).attributes["sharding"] if said_unreduced(inner) else None  # of a constraint
        if sharding is not None and not said_unreduced(start):
            start = constrained(start, sharding)

        def finish(value: ir.Value) -> None:
            if op is not None:
                said = constrained(value, sharding) if sharding is not None else value
                op.results[result].replace_all_uses_with(said)

        return Carry(start, lambda _: self._made[group, result], finish)

    def _kept(self, exit_: Exit) -> Carry:
        """The values of all copies, side by side."""
        tensor = ir.RankedTensorType(self._value(exit_.group, exit_.result).type)
        shape = list(tensor.shape) if exit_.joined is not None else [1, *tensor.shape]
        dimension = ir.IntegerAttr(exit_.joined.attributes["dimension"]).value if exit_.joined is not None else 0
        step = shape[dimension]
        part = ir.RankedTensorType.get(shape, tensor.element_type)
        whole = [size * self._copies.count if i == dimension else size for i, size in enumerate(shape)]

        def put(buffer: ir.Value) -> ir.Value:
            value = _reshaped(self._made[exit_.group, exit_.result], part)
            starts = self._counter.starts(len(shape), dimension, step)
            return create("stablehlo.dynamic_update_slice", buffer.type, buffer, value, *starts)

        def finish(buffer: ir.Value) -> None:
            if exit_.joined is not None:
                exit_.joined.results[0].replace_all_uses_with(buffer)
            for i in exit_.apart:
                op = self._copies.groups[exit_.group].ops[i]
                assert op is not None
                op.results[exit_.result].replace_all_uses_with(_cut(buffer, part, dimension, i * step, tensor))

        return Carry(neutral(ir.RankedTensorType.get(whole, tensor.element_type)), put, finish)

    def _sum(self, sum_: Accumulation) -> Carry:
        tensor = ir.RankedTensorType(sum_.ops[-1].results[0].type)
        number = first_number(sum_)
        assert number is not None, "the pass asks first"

        def add(total: ir.Value) -> ir.Value:
            with sum_.ops[-1].location:
                term = self._resolve(sum_.terms)
                wide = term if term.type == tensor else create("stablehlo.convert", tensor, term)
                return create(sum_.combiner, tensor, total, wide)

        return Carry(constant(tensor, number), add, sum_.ops[-1].results[0].replace_all_uses_with)

    def fill(self, block: ir.Block, loop: ir.Operation, groups: Sequence[int]) -> None:
        """Writes the ops of the groups into `block`, in this order."""
        self._arguments = list(block.arguments)
        self._loop = loop
        self._counter = Counter(self._arguments[0], self._copies.count, block, ir.InsertionPoint(loop))
        for number in groups:
            group = self._copies.groups[number]
            with ir.InsertionPoint(block), group.first.location:
                for result, value in enumerate(self._copy(group)):
                    self._made[number, result] = value

    def _copy(self, group: Group) -> list[ir.Value]:
        op = group.first
        reads = [self._resolve(values) for values in group.operands]
        if op.name == CONSTANT and _differs(group, "value"):
            return [self._constant(group)]
        if op.name == SLICE and _differs(group, "start_indices"):
            return [self._slice(group, reads[0])]
        new = op.clone()
        for i in range(len(op.operands)):
            new.operands[i] = reads[i]
        if len(op.regions):
            recapture(new, dict(zip(captured(op), reads[len(op.operands) :], strict=True)))
        return list(new.results)

    def _resolve(self, values: Values) -> ir.Value:
        match self._copies.sources[values]:
            case Shared(value):
                return value
            case Inner(group, result):
                return self._made[group, result]
            case Carried() as source:
                return self._arguments[self._slots[source]]
            case Each(each):
                return self._counter.one_of(each)

    def _constant(self, group: Group) -> ir.Value:
        """The constant of this trip."""
        numbers = [splat_of(op) for op in group.present]
        known = [number for number in numbers if number is not None]
        tensor = ir.RankedTensorType(group.first.results[0].type)
        if len(known) < len(numbers):
            return self._counter.row_of(self._table(group)) if has_table(group.present) else self._stack(group)
        # A last copy that lacks the op may have any number.
        number = self._counter.number(_continued(known, self._copies.count))
        if not tensor.shape:
            return number
        return create("stablehlo.broadcast_in_dim", tensor, number, broadcast_dimensions=ir.DenseI64ArrayAttr.get([]))

    def _table(self, group: Group) -> ir.Value:
        """One constant with those of all copies."""
        values = [op.attributes["value"] for op in group.present]
        return table(values + values[-1:] * (self._copies.count - len(values)))

    def _stack(self, group: Group) -> ir.Value:
        """The constants of all copies, concatenated by ops: jaxlib can not read the elements."""
        with ir.InsertionPoint(self._loop):
            values = [op.clone().results[0] for op in group.present]
        return self._counter.one_of(values + values[-1:] * (self._copies.count - len(values)))

    def _slice(self, group: Group, operand: ir.Value) -> ir.Value:
        """The slice of this trip: as large as the slice with its gaps, then without them."""
        strides = list(ir.DenseI64ArrayAttr(group.first.attributes["strides"]))
        result = ir.RankedTensorType(group.first.results[0].type)
        sizes = [(size - 1) * stride + 1 for size, stride in zip(result.shape, strides, strict=True)]
        starts = [self._counter.index(numbers) for numbers in _starts(group, self._copies.count)]
        window = self._counter.cut(operand, starts, sizes)
        if sizes == list(result.shape):
            return window
        return _sliced(window, result, [0] * len(sizes), sizes, strides)


def ops_of_counts(copies: Copies) -> int:
    """About how many ops the loop has only to compute values that differ from copy to copy."""
    ops = 0
    for group in copies.groups:
        if group.first.name == SLICE and _differs(group, "start_indices"):
            ops += sum(ops_to_count(numbers) for numbers in _starts(group, copies.count) if len(set(numbers)) > 1)
        elif group.first.name == CONSTANT and _differs(group, "value"):
            ops += _PER_CONSTANT if has_table(group.present) else 2 * copies.count
    return ops


_PER_CONSTANT = 5  # a conversion, a product, a sum and their constants


def _starts(group: Group, count: int) -> list[list[int]]:
    """Of each dimension, where the slices of the copies start. A last copy that lacks the op may start anywhere."""
    starts = [list(ir.DenseI64ArrayAttr(op.attributes["start_indices"])) for op in group.present]
    starts += starts[-1:] * (count - len(starts))
    return [list(of_dimension) for of_dimension in zip(*starts, strict=True)]


def _differs(group: Group, attribute: str) -> bool:
    first = attributes_of(group.first)[attribute]
    return any(attributes_of(op)[attribute] != first for op in group.present)


def _reshaped(value: ir.Value, tensor: ir.RankedTensorType) -> ir.Value:
    return value if value.type == tensor else create("stablehlo.reshape", tensor, value)


def _cut(
    buffer: ir.Value, part: ir.RankedTensorType, dimension: int, start: int, tensor: ir.RankedTensorType
) -> ir.Value:
    """The part of `buffer` that begins at `start`, as a `tensor`."""
    starts = [start if i == dimension else 0 for i in range(part.rank)]
    limits = [begin + size for begin, size in zip(starts, part.shape, strict=True)]
    return _reshaped(_sliced(buffer, part, starts, limits, [1] * part.rank), tensor)


def _sliced(
    value: ir.Value, result: ir.RankedTensorType, starts: list[int], limits: list[int], strides: list[int]
) -> ir.Value:
    array = ir.DenseI64ArrayAttr.get
    return create(
        SLICE, result, value, start_indices=array(starts), limit_indices=array(limits), strides=array(strides)
    )


def _continued(numbers: list[ir.Attribute], count: int) -> list[ir.Attribute]:
    """`numbers`, and numbers that may follow them up to `count`: the same step again, where there is one."""
    if len(numbers) == count:
        return numbers
    if isinstance(numbers[0], ir.IntegerAttr) and len(numbers) > 1:
        before, last = (ir.IntegerAttr(number) for number in numbers[-2:])
        return [*numbers, ir.IntegerAttr.get(last.type, 2 * last.value - before.value)]
    return [*numbers, numbers[-1]]
