"""Values computed from the induction variable of a counted loop: scalars, and rows of stacked arrays.

Tests: test/passes/roll-accumulation.mlir, test/numeric/test_loop_rolling.py.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir

_INDEX = 32  # bits of the counter


class Counter:
    """Counts the trips of a loop from 0. Makes ops at the end of the body, and stacks before the loop."""

    def __init__(self, value: ir.Value, count: int, body: ir.Block, before: ir.InsertionPoint) -> None:
        self.value = value
        self.count = count
        self._body = body
        self._before = before
        self._numbers: dict[tuple[ir.Attribute, ...], ir.Value] = {}
        self._stacks: dict[tuple[ir.Value, ...], ir.Value] = {}

    def number(self, elements: Sequence[ir.Attribute]) -> ir.Value:
        """A rank-0 value: in trip i, the number `elements[i]`."""
        key = tuple(elements)
        if key not in self._numbers:
            with ir.InsertionPoint(self._body):
                self._numbers[key] = self._number(list(elements))
        return self._numbers[key]

    def index(self, indices: Sequence[int]) -> ir.Value:
        """In trip i, the i32 number `indices[i]`."""
        index = ir.IntegerType.get_signless(_INDEX)
        return self.number([ir.IntegerAttr.get(index, each) for each in indices])

    def _number(self, elements: list[ir.Attribute]) -> ir.Value:
        element = _type_of(elements[0])
        tensor = ir.RankedTensorType.get([], element)
        if all(each == elements[0] for each in elements):
            return constant(tensor, elements[0])
        step = _step(elements)
        if step is None or self.count > 1 << ir.IntegerType(element).width - 1:
            table = ir.RankedTensorType.get([len(elements)], element)
            return self.row_of(create("stablehlo.constant", table, value=ir.DenseElementsAttr.get(elements, table)))
        value = self.value if self.value.type == tensor else create("stablehlo.convert", tensor, self.value)
        if step != 1:
            value = create("stablehlo.multiply", tensor, value, constant(tensor, ir.IntegerAttr.get(element, step)))
        start = elements[0]
        if ir.IntegerAttr(start).value == 0:
            return value
        return create("stablehlo.add", tensor, value, constant(tensor, start))

    def cut(self, value: ir.Value, starts: Sequence[ir.Value], sizes: Sequence[int]) -> ir.Value:
        """The part of `value` of these sizes that begins at `starts`."""
        tensor = ir.RankedTensorType(value.type)
        sized = ir.RankedTensorType.get(list(sizes), tensor.element_type)
        if list(sizes) == list(tensor.shape):
            return value
        return create(
            "stablehlo.dynamic_slice", sized, value, *starts, slice_sizes=ir.DenseI64ArrayAttr.get(list(sizes))
        )

    def starts(self, rank: int, dimension: int, step: int = 1) -> list[ir.Value]:
        """Where part number i begins, of parts of size `step` in this dimension."""
        return [self.index([i * step if d == dimension else 0 for i in range(self.count)]) for d in range(rank)]

    def row_of(self, stack: ir.Value) -> ir.Value:
        """Row i of `stack`, of one dimension less."""
        tensor = ir.RankedTensorType(stack.type)
        shape = list(tensor.shape)[1:]
        row = self.cut(stack, self.starts(len(shape) + 1, 0), [1, *shape])
        return create("stablehlo.reshape", ir.RankedTensorType.get(shape, tensor.element_type), row)

    def one_of(self, values: Sequence[ir.Value]) -> ir.Value:
        """In trip i, `values[i]`, which are stacked before the loop."""
        key = tuple(values)
        if key not in self._stacks:
            with self._before:
                self._stacks[key] = stacked(values)
        with ir.InsertionPoint(self._body):
            return self.row_of(self._stacks[key])


def stacked(values: Sequence[ir.Value]) -> ir.Value:
    """The values along a new first dimension, made at the insertion point."""
    tensor = ir.RankedTensorType(values[0].type)
    row = ir.RankedTensorType.get([1, *tensor.shape], tensor.element_type)
    whole = ir.RankedTensorType.get([len(values), *tensor.shape], tensor.element_type)
    rows = [create("stablehlo.reshape", row, value) for value in values]
    dimension = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)
    return create("stablehlo.concatenate", whole, *rows, dimension=dimension)


def create(name: str, type_: ir.Type, *operands: ir.Value, **attributes: ir.Attribute) -> ir.Value:
    """The result of a new op, made at the insertion point."""
    return ir.Operation.create(name, results=[type_], operands=list(operands), attributes=attributes).results[0]


def constant(tensor: ir.RankedTensorType, number: ir.Attribute) -> ir.Value:
    """A tensor of `number`s, made at the insertion point."""
    return create("stablehlo.constant", tensor, value=ir.DenseElementsAttr.get_splat(tensor, number))


def has_table(ops: Sequence[ir.Operation]) -> bool:
    """Whether numpy can read the constants `ops`, so that they can be put into a `table`."""
    element = ir.RankedTensorType(ops[0].results[0].type).element_type
    known = isinstance(element, ir.F32Type | ir.F64Type) or (
        isinstance(element, ir.IntegerType) and element.width in (8, 16, 32, 64)
    )
    return known and all(isinstance(op.attributes["value"], ir.DenseElementsAttr) for op in ops)


def ops_to_count(numbers: Sequence[int]) -> int:
    """How many ops `Counter.index` makes of `numbers`."""
    start, step = numbers[0], numbers[1] - numbers[0]
    if list(numbers) != [start + i * step for i in range(len(numbers))]:
        return _TABLE
    return 1 if step == 0 else 2 * (step != 1) + 2 * (start != 0)


_TABLE = 3  # the table, the cut and a reshape


def table(values: Sequence[ir.Attribute]) -> ir.Value:
    """The constants along a new first dimension, made at the insertion point."""
    tensor = ir.RankedTensorType(ir.DenseElementsAttr(values[0]).type)
    whole = ir.RankedTensorType.get([len(values), *tensor.shape], tensor.element_type)
    rows: Any = np.stack([np.array(value) for value in values])
    return create("stablehlo.constant", whole, value=ir.DenseElementsAttr.get(rows, type=whole))


def _type_of(number: ir.Attribute) -> ir.Type:
    return ir.FloatAttr(number).type if isinstance(number, ir.FloatAttr) else ir.IntegerAttr(number).type


def _step(numbers: Sequence[ir.Attribute]) -> int | None:
    """By how much each of the integers is more than the one before; None when that differs, or for floats."""
    if isinstance(numbers[0], ir.FloatAttr):
        return None
    values = [ir.IntegerAttr(number).value for number in numbers]
    step = values[1] - values[0]
    return step if values == [values[0] + i * step for i in range(len(values))] else None
