"""Comparison of two ops: whether they compute the same from the same operands."""

from collections.abc import Mapping, Sequence

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from paropt.passes.ir.constants import CONSTANT
from paropt.passes.ir.metadata import METADATA, bindings_of

SLICE = "stablehlo.slice"


# Attributes that a loop can make of its counter. A slice with the same strides and result has other limits as well.
_COUNTED = {CONSTANT: ("value",), SLICE: ("start_indices", "limit_indices")}


def is_same(first: ir.Operation, op: ir.Operation) -> bool:
    """Whether both make the same of the same values."""
    return not difference(first, op, counted={})


def difference(first: ir.Operation, op: ir.Operation, counted: Mapping[str, tuple[str, ...]] = _COUNTED) -> str:
    """How `op` differs from `first`, in words, but for values that a loop can count or look up; "" if none."""
    if op.name != first.name:
        return f"{op.name}, which is {first.name} in the first"
    types = [result.type for result in op.results], [result.type for result in first.results]
    if types[0] != types[1] or len(op.operands) != len(first.operands):
        return f"{op.name} has other types than in the first"
    attributes, expected = attributes_of(op), attributes_of(first)
    for name in sorted(attributes.keys() | expected.keys()):
        if name not in counted.get(op.name, ()) and not _is_equal(name, attributes, expected):
            return f"attribute {name} of {op.name} is another than in the first"
    if len(op.regions) and _Regions(op).lines != _Regions(first).lines:
        return f"the region of {op.name} is another than in the first"
    return ""


def _is_equal(name: str, one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    """Whether both have the attribute: jaxlib's cannot be compared with None."""
    return name in one and name in other and one[name] == other[name]


def attributes_of(op: ir.Operation) -> dict[str, object]:
    """The attributes of `op`, as far as they define it: the number of a channel only tells ops apart.

    Metadata for XLA that only hints is no part of it, as in XLA's own `HloCSE`.
    """
    if op.name == CONSTANT and not is_readable(op):
        # jaxlib cannot make such attributes; a copy, because printing an op in its block numbers the whole function.
        return {"value": op.clone(ip=False).get_asm(print_generic_op_form=True, assume_verified=True)}
    said = {name: _comparable(name, op.attributes[name]) for name in op.attributes if name != METADATA}
    return said | {METADATA: bindings} if (bindings := bindings_of(op)) else said


def is_readable(constant: ir.Operation) -> bool:
    """Whether jaxlib can give the elements of `constant` as an attribute."""
    element = ir.RankedTensorType(constant.results[0].type).element_type
    return isinstance(element, ir.IntegerType | ir.FloatType)


def _comparable(name: str, attribute: ir.Attribute) -> object:
    if name != "channel_handle":
        return attribute
    return stablehlo.ChannelHandle(attribute).type


class _Regions:
    """The regions of an op without names of values, to be compared."""

    def __init__(self, op: ir.Operation) -> None:
        self.captured: dict[ir.Value, int] = {}  # numbered as they are met
        self.lines: list[object] = []
        self._inner: dict[ir.Value, int] = {}
        self._visit(op)

    def _visit(self, op: ir.Operation) -> None:
        for region in op.regions:
            for block in region:
                self.lines.append([argument.type for argument in block.arguments])
                self._define(block.arguments)
                for each in block.operations:
                    self._line(each.operation)

    def _line(self, op: ir.Operation) -> None:
        operands = [self._reference(operand) for operand in op.operands]
        self.lines.append((op.name, operands, [result.type for result in op.results], attributes_of(op)))
        self._define(op.results)
        self._visit(op)

    def _define(self, values: Sequence[ir.Value]) -> None:
        for value in values:
            self._inner[value] = len(self._inner)

    def _reference(self, value: ir.Value) -> tuple[str, int]:
        if value in self._inner:
            return ("inner", self._inner[value])
        return ("captured", self.captured.setdefault(value, len(self.captured)))
