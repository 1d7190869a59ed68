"""The cost of duplicated ops, of which one works on partial sums and the other on residuals."""

from math import prod

from jaxlib.mlir import ir

from paropt.passes.dataflow.xla_tracking import contracted, convolved
from paropt.passes.ir.constants import is_zero
from paropt.passes.ir.constraints import CONSTRAINT
from paropt.passes.sharding.annotations import noted_sharding, parts_of, shard_bytes
from paropt.passes.sharding.axes import names_of
from paropt.passes.sharding.collectives import ADD
from paropt.passes.support.traversal import defining_op

# Multiplications in the time that it takes to send a byte. By its data sheet an H100 makes 495e12 in a second, of
# bfloat16, and sends 450e9 bytes over NVLink. Not measured; less is multiplied than that, and sent, in a program.
PER_BYTE = 1000


def adds_nothing(value: ir.Value, combiner: str) -> bool:
    """Whether `value`, which is not partial, is the zero of a sum."""
    return combiner == ADD and is_zero(value)


def joined(value: ir.Value) -> int:
    """The bytes that a device holds of `value` if XLA all-gathers it, or moves parts to put it together; else 0."""
    op, lies = defining_op(value), noted_sharding(value)
    if op is None or lies is None:
        return 0
    if op.name in (ADD, CONSTRAINT):
        before = (noted_sharding(operand) for operand in op.operands)
        gathered = any(own is not None and names_of(own.axes) - names_of(lies.axes) for own in before)
        return shard_bytes(value, lies) if gathered else 0
    if op.name != "stablehlo.concatenate":
        return 0
    along = ir.IntegerAttr(op.attributes["dimension"]).value
    return shard_bytes(value, lies) if lies.dimensions[along] else 0


def multiplications(value: ir.Value) -> int:
    """How many a device makes for `value`, if it is a product."""
    op = defining_op(value)
    added_up = _ADDED_UP.get(op.name) if op is not None else None
    if op is None or added_up is None:
        return 0
    *_, kernel = (ir.RankedTensorType(operand.type).shape for operand in op.operands)
    *_, dimensions = added_up(op)
    each = prod(kernel[dimension] for dimension in dimensions)
    return each * prod(ir.RankedTensorType(value.type).shape) // parts_of(value, noted_sharding(value))


_ADDED_UP = {"stablehlo.convolution": convolved, "stablehlo.dot_general": contracted}
