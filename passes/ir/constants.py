"""Values that are known at compile time, or made of one scalar."""

from typing import Any

from jaxlib.mlir import ir

from paropt.passes.ir.barriers import BARRIER
from paropt.passes.ir.constraints import CONSTRAINT
from paropt.passes.ir.loops import loop_around
from paropt.passes.ir.op_table import is_exposed, keeps_elements, may_squeeze
from paropt.passes.support.memoize import Remembered
from paropt.passes.support.traversal import defining_op

CONSTANT = "stablehlo.constant"
_BROADCAST = "stablehlo.broadcast_in_dim"
_COMPLEX_ZERO = " dense<(0.000000e+00,0.000000e+00)> "


def is_constant(value: ir.Value) -> bool:
    """Whether `value` is a constant, or a copy, reshape or conversion of one."""
    return _constant_of(value) is not None


def is_zero(value: ir.Value) -> bool:
    """Whether every element of `value` is known to be zero."""
    if isinstance(value.owner, ir.Block):
        argument: ir.BlockArgument = ir.BlockArgument(value)
        loop, number = loop_around(argument.owner), argument.arg_number
        return loop is not None and is_zero(loop.op.operands[number]) and loop.next_values.operands[number] == value
    constant = _constant_of(value)
    if constant is not None:
        return _splat(constant) == 0
    op = defining_op(value)
    return op is not None and op.name == "stablehlo.complex" and all(is_zero(part) for part in op.operands)


def scalar_of(value: ir.Value) -> ir.Value | None:
    """The rank-0 value of which `value` is a broadcast, or the splat constant that it is; None for neither."""
    while (op := defining_op(value)) is not None:
        if op.name == CONSTANT:
            return value if _splat(op) is not None else None
        if not ir.RankedTensorType(value.type).shape:
            return value
        if not may_squeeze(op) and op.name != CONSTRAINT:
            return None
        value = op.operands[0]
    return value if not ir.RankedTensorType(value.type).shape else None


def splat_of(op: ir.Operation) -> ir.Attribute | None:
    """The one number that the constant `op` holds; None for several, or where jaxlib cannot read it."""
    if not _IS_READABLE(op.results[0].type, op.context):
        return None
    return _SPLAT(op.attributes["value"], op.context)


def _is_readable(tensor: ir.Type) -> bool:
    element = ir.RankedTensorType(tensor).element_type
    wide = isinstance(element, ir.IntegerType) and element.is_unsigned and element.width > 32
    return not wide and isinstance(element, ir.IntegerType | ir.FloatType)


def _read_splat(attribute: ir.Attribute) -> ir.Attribute | None:
    return attribute.get_splat_value() if isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat else None


_IS_READABLE, _SPLAT = Remembered(_is_readable), Remembered(_read_splat)


def _constant_of(value: ir.Value) -> ir.Operation | None:
    """The constant that `value` is a copy of."""
    op = defining_op(value)
    while op is not None and (_is_copy(op) or (op.name == BARRIER and len(op.operands) == 1)):
        op = defining_op(op.operands[0])
    return op if op is not None and op.name == CONSTANT else None


def _is_copy(op: ir.Operation) -> bool:
    """Whether `op` makes a splat of a splat, and a constant of a constant. Globally an exposed sum is its operand."""
    return keeps_elements(op) or op.name == _BROADCAST or op.name == CONSTRAINT or is_exposed(op)


def _splat(constant: ir.Operation) -> int | float | None:
    """The scalar that all elements of the constant equal; None for several, or where it cannot be read."""
    element = ir.RankedTensorType(constant.results[0].type).element_type
    if isinstance(element, ir.ComplexType):  # jaxlib cannot read these
        return 0 if _COMPLEX_ZERO in str(constant.get_asm(large_elements_limit=1)) else None
    if not isinstance(element, ir.IntegerType | ir.FloatType):
        return None
    attribute = constant.attributes["value"]
    if not isinstance(attribute, ir.DenseElementsAttr) or not attribute.is_splat:
        return None
    number: Any = attribute.get_splat_value()
    return number.value
