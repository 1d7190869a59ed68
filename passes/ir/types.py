"""Tensor types: element kinds and sizes."""

from math import prod
from typing import Literal

from jaxlib.mlir import ir


def tensor_of(value: ir.Value) -> ir.RankedTensorType | None:
    """The type of `value` when it is a tensor of static shape."""
    kind = value.type
    return kind if isinstance(kind, ir.RankedTensorType) and kind.has_static_shape else None


# As options name them; `program` is whatever the program has.
FloatName = Literal["program", "bf16", "f16", "f32", "f64"]


def float_type(name: FloatName, context: ir.Context) -> ir.Type | None:
    """None for `program`."""
    return None if name == "program" else ir.Type.parse(name, context)


def is_float(element: ir.Type) -> bool:
    return isinstance(element, ir.FloatType)


def real_of(value: ir.Value) -> ir.Type | None:
    """The type of the parts of the complex numbers that `value` holds; None when it holds something else."""
    kind = value.type
    element = kind.element_type if isinstance(kind, ir.RankedTensorType) else None
    return element.element_type if isinstance(element, ir.ComplexType) else None


def in_element_type(tensor: ir.RankedTensorType, element: ir.Type) -> ir.RankedTensorType:
    """A tensor of that shape, of another element type."""
    return ir.RankedTensorType.get(tensor.shape, element, loc=ir.Location.unknown(element.context))


def is_number(element: ir.Type) -> bool:
    """Float, complex or integer; i1 is a truth value, for which `add` means `or`."""
    if isinstance(element, ir.IntegerType):
        return element.width > 1
    return is_inexact(element)


def is_inexact(element: ir.Type) -> bool:
    """Float or complex, whose sums are rounded."""
    return isinstance(element, ir.FloatType | ir.ComplexType)


def widens(source: ir.Type, target: ir.Type) -> bool:
    """Whether every value of the float type `source` is a value of `target`."""
    if source == target:
        return True
    if not (is_float(source) and is_float(target)):
        return False
    return str(source) in _SUBSETS.get(str(target), ())


# target -> the float types all of whose values it holds: exponent and mantissa are both at least as wide.
_SUBSETS = {
    "f32": ("bf16", "f16", "f8E4M3FN", "f8E5M2", "f8E4M3B11FNUZ", "f8E4M3FNUZ", "f8E5M2FNUZ"),
    "f64": ("f32", "bf16", "f16", "f8E4M3FN", "f8E5M2", "f8E4M3B11FNUZ", "f8E4M3FNUZ", "f8E5M2FNUZ"),
    "bf16": ("f8E4M3FN", "f8E5M2", "f8E4M3B11FNUZ", "f8E4M3FNUZ", "f8E5M2FNUZ"),
    "f16": ("f8E4M3FN", "f8E5M2", "f8E4M3B11FNUZ", "f8E4M3FNUZ", "f8E5M2FNUZ"),
}


def same_range(source: ir.Type, target: ir.Type) -> bool:
    """Whether a finite number of the float type `source` is rounded to one of `target`, but for the largest."""
    return (str(source), str(target)) == ("f32", "bf16")  # the exponents have 8 bits


def bytes_of(tensor: ir.RankedTensorType) -> int:
    """The size of `tensor` in bytes on one device; numbers narrower than a byte are packed, truth values are not."""
    return -(-prod(tensor.shape) * _bits(tensor.element_type) // 8)


def _bits(element: ir.Type) -> int:
    if isinstance(element, ir.ComplexType):
        return 2 * _bits(element.element_type)
    assert isinstance(element, ir.IntegerType | ir.FloatType), f"unsized element type {element}"
    return element.width if element.width > 1 else 8


def unsqueezes(broadcast: ir.Operation) -> bool:
    """Whether the broadcast_in_dim `broadcast` only adds dimensions of size 1, like a reshape."""
    return keeps_all(broadcast) and is_in_order(broadcast)


def keeps_all(broadcast: ir.Operation) -> bool:
    """Whether its result has as many elements as its operand."""
    source, target = (ir.RankedTensorType(v.type) for v in (broadcast.operands[0], broadcast.results[0]))
    return prod(source.shape) == prod(target.shape)


def is_in_order(broadcast: ir.Operation) -> bool:
    """Whether its result has the dimensions of its operand in the same order."""
    dimensions = list(ir.DenseI64ArrayAttr(broadcast.attributes["broadcast_dimensions"]))
    return dimensions == sorted(dimensions)
