"""Per-device values as global arrays with a first dimension that counts devices.

    %p = op(...) unreduced={"data"}                     a sum that is not taken yet: tensor<4xf32> on each device
    %a = sdy.manual_computation(%p) (%x: tensor<4xf32>) {
      %r = reshape %x                                   tensor<1x4xf32>
      return %r
    }                                                   tensor<8x4xf32>, split over "data" in its first dimension

Globally `%a` is an array like any other: it may be an argument or a result of a program of its own, and it takes as
many bytes on each device as before.

Tests: test/passes/outline-accumulation.mlir, test/passes/separate-reductions-maxima.mlir.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from paropt.passes.sharding.axes import spelled, whole_axes
from paropt.passes.sharding.meshes import Mesh
from paropt.passes.sharding.shardings import MANUAL


class Placed(NamedTuple):
    """A value of all devices, and how a manual computation takes or returns it."""

    value: ir.Value
    sharding: ir.Attribute
    is_packed: bool  # its first dimension counts devices


def packed_type(local: ir.Type, devices: int) -> ir.RankedTensorType:
    tensor = ir.RankedTensorType(local)
    return ir.RankedTensorType.get([devices, *tensor.shape], tensor.element_type)


def reshaped(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    """`value` in another shape, at the insertion point."""
    type_ = ir.RankedTensorType.get(list(shape), ir.RankedTensorType(value.type).element_type)
    return ir.Operation.create("stablehlo.reshape", results=[type_], operands=[value]).results[0]


def packed(value: ir.Value) -> ir.Value:
    """A value of one device with the first dimension, at the insertion point."""
    return reshaped(value, [1, *ir.RankedTensorType(value.type).shape])


def unpacked(value: ir.Value) -> ir.Value:
    return reshaped(value, ir.RankedTensorType(value.type).shape[1:])


class Result(NamedTuple):
    """A result of a manual computation."""

    type: ir.Type  # of all devices
    sharding: ir.Attribute


def all_axes(mesh: Mesh) -> ir.Attribute:
    """For a manual computation that leaves no axis of `mesh` to the partitioner."""
    return ir.Attribute.parse(f"#sdy<manual_axes{spelled(whole_axes(mesh.names))}>")


def computed(
    operands: Sequence[Placed],
    locals_: Sequence[ir.Type],
    results: Sequence[Result],
    axes: ir.Attribute,
    make: Callable[[list[ir.Value]], Sequence[ir.Value]],
) -> list[ir.Value]:
    """A manual computation at the insertion point: `make` makes its body of its arguments, of types `locals_`."""
    op = ir.Operation.create(
        MANUAL,
        results=[result.type for result in results],
        operands=[operand.value for operand in operands],
        attributes={
            "in_shardings": sdy.TensorShardingPerValueAttr.get([operand.sharding for operand in operands]),
            "out_shardings": sdy.TensorShardingPerValueAttr.get([result.sharding for result in results]),
            "manual_axes": axes,
        },
        regions=1,
    )
    block = op.regions[0].blocks.append(*locals_)
    with ir.InsertionPoint(block):
        ir.Operation.create("sdy.return", operands=list(make(list(block.arguments))))
    return list(op.results)
