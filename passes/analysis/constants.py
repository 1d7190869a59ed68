"""Values that are known at compile time, or made of one scalar."""

from jaxlib.mlir import ir

# Ops that only copy or reshape what they read: a splat stays a splat, a constant a constant.
_COPIES = ("stablehlo.broadcast_in_dim", "stablehlo.reshape", "stablehlo.convert", "stablehlo.transpose")


def is_constant(value: ir.Value) -> bool:
    """Whether `value` is a constant, or a copy, reshape or conversion of one."""
    return _origin(value).owner.operation.name == "stablehlo.constant" if _has_op(_origin(value)) else False


def is_zero(value: ir.Value) -> bool:
    """Whether every element of `value` is known to be zero."""
    origin = _origin(value)
    if not _has_op(origin) or origin.owner.operation.name != "stablehlo.constant":
        return False
    return _splat(origin) == 0


def scalar_of(value: ir.Value) -> ir.Value | None:
    """The rank-0 value of which `value` is a broadcast, or the splat constant that it is; None for neither."""
    while _has_op(value):
        op = value.owner.operation
        if op.name == "stablehlo.constant":
            return value if _splat(value) is not None else None
        if not ir.RankedTensorType(value.type).shape:
            return value
        if op.name not in ("stablehlo.broadcast_in_dim", "stablehlo.reshape"):
            return None
        value = op.operands[0]
    return value if not ir.RankedTensorType(value.type).shape else None


def _origin(value: ir.Value) -> ir.Value:
    while _has_op(value) and value.owner.operation.name in _COPIES:
        value = value.owner.operation.operands[0]
    return value


def _has_op(value: ir.Value) -> bool:
    return isinstance(value, ir.OpResult)


def _splat(constant: ir.Value) -> int | float | None:
    """The one number that the constant holds, None when it holds several or cannot be read."""
    element = ir.RankedTensorType(constant.type).element_type
    if not isinstance(element, ir.IntegerType | ir.FloatType):
        return None  # jaxlib cannot read complex elements
    attribute = constant.owner.operation.attributes["value"]
    if not isinstance(attribute, ir.DenseElementsAttr) or not attribute.is_splat:
        return None
    return attribute.get_splat_value().value
