"""The end of an unreduced sum in a global-view program: a constraint or a reduce_scatter makes one value of it.

A sharding constraint without `unreduced` axes asks for that. XLA:CPU and XLA:TPU make it an all_reduce even where each
device keeps a shard only. A reduce_scatter has to be written, and only manual computations contain it:

    %r = sdy.manual_computation(%u) in_shardings=[<@mesh, [{}], unreduced={"data"}>] out_shardings=[<@mesh, [{"data"}]>]
             manual_axes={"data"} (%a) {
      %s = reduce_scatter(%a)
      sdy.return %s
    }
"""

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from paropt.passes.rewrite.residual_split import reduction
from paropt.passes.sharding.axes import Axes, has_part, names_of
from paropt.passes.sharding.channels import NewChannels
from paropt.passes.sharding.collectives import ADD, ALL_REDUCE, REDUCE_SCATTER
from paropt.passes.sharding.device_dimension import Placed, Result, all_axes, computed
from paropt.passes.sharding.meshes import Mesh
from paropt.passes.sharding.shardings import Sharding, closed_sharding, mesh_behind
from paropt.passes.spmd.xla_quirks.swaps import is_swap
from paropt.passes.support.traversal import module_of, op_of

_PERMUTE = "stablehlo.collective_permute"


class Scatter(NamedTuple):
    """One reduce_scatter: each device of a group over `axes` keeps a part of `dimension`.

    Or, where `swapped` splits `dimension` already: devices take the sum, and exchange the parts that they have.
    """

    dimension: int
    axes: Axes
    swapped: Axes = ()


def scatter_steps(module: ir.Operation, shape: Sequence[int], start: Sharding, end: Sharding) -> list[Scatter]:
    """The reduce_scatters from sharding `start` to `end`, of a value of `shape`.

    Empty where there is nothing to scatter, or no reduce_scatter does it: the parts are unequal, or of parts of axes.
    """
    mesh = mesh_behind(module, start.mesh)
    if mesh is None or has_part((*start.axes, *end.axes, *start.unreduced)):
        return []
    found: list[Scatter] = []
    for dimension, (before, after) in enumerate(zip(start.dimensions, end.dimensions, strict=True)):
        if is_swap(mesh, shape, start, end, dimension):
            found.append(Scatter(dimension, after, before))
            continue
        added = after[len(before) :]
        if after[: len(before)] != before or not set(added) <= set(start.unreduced) - set(end.unreduced):
            return []
        if shape[dimension] % _count(mesh, after):
            return []
        found += [Scatter(dimension, added)] if added else []
    return found


def scattered(
    value: ir.Value, start: Sharding, end: Sharding, steps: Sequence[Scatter], channels: NewChannels, devices: int
) -> ir.Value:
    """The sum of the devices' addends of `value`, from sharding `start` to `end`. Made at the insertion point.

    A reduce_scatter over all devices of the mesh, if these are more than `devices`, is two: see `in_turns`.
    """
    module = module_of(op_of(value))
    mesh = mesh_behind(module, start.mesh)
    assert mesh is not None
    whole = ir.RankedTensorType(value.type)
    inside, outside = (closed_sharding(s.mesh, s.dimensions, s.unreduced) for s in (start, end))

    def body(arguments: list[ir.Value]) -> list[ir.Value]:
        (part,) = arguments
        done = {axis for step in steps for axis in step.axes}
        left = tuple(axis for axis in start.unreduced if axis not in done and axis not in end.unreduced)
        for step in steps:
            if step.swapped:
                part = _swapped(_all_reduce(part, mesh, (*step.axes, *left), channels), mesh, step, channels)
                left = ()
            else:
                part = _cut(part, mesh, step, channels, devices)
        if left:
            part = _all_reduce(part, mesh, left, channels)
        return [part]

    given, made = Placed(value, inside, False), Result(whole, outside)
    return computed([given], [_local(whole, mesh, start.dimensions)], [made], all_axes(mesh), body)[0]


def summed(part: ir.Value, mesh: Mesh, axes: Axes) -> ir.Value:
    """The sum of the devices' addends of `part`, in a manual computation over `mesh`. Made at the insertion point."""
    return _all_reduce(part, mesh, axes, NewChannels(module_of(op_of(part))))


def _all_reduce(part: ir.Value, mesh: Mesh, axes: Axes, channels: NewChannels) -> ir.Value:
    return reduction(ALL_REDUCE, part, part.type, _attributes(_groups(mesh, axes), channels), ADD)


def _swapped(part: ir.Value, mesh: Mesh, step: Scatter, channels: NewChannels) -> ir.Value:
    """The shard of `part` on the device that takes this one's place when the two axes of `step` are exchanged."""
    first, second = (mesh.names.index(name) for axes in (step.swapped, step.axes) for name in names_of(axes))
    ids = np.array(mesh.device_ids).reshape([size for _, size in mesh.axes])
    pairs: Any = np.stack([ids, ids.swapaxes(first, second)], -1).reshape(-1, 2).astype(np.int64)
    attributes = {
        "source_target_pairs": ir.DenseIntElementsAttr.get(pairs),
        "channel_handle": stablehlo.ChannelHandle.get(channels.next(), 1),
    }
    return ir.Operation.create(_PERMUTE, results=[part.type], operands=[part], attributes=attributes).results[0]


# XLA:TPU makes an all_reduce of a reduce_scatter along a dimension in front of a shorter one than this, of which tiles
# have as many rows: twice the bytes. With jax 0.12 it refuses some of these.
ROWS = 8


def _cut(part: ir.Value, mesh: Mesh, step: Scatter, channels: NewChannels, devices: int) -> ir.Value:
    """The part along `step.dimension` that each device keeps.

    Where a short dimension is behind it, devices get a dimension of their own, in front of the two that tiles are of.
    """
    shape = list(ir.RankedTensorType(part.type).shape)
    before, size, behind = shape[: step.dimension], shape[step.dimension], shape[step.dimension + 1 :]
    count = _count(mesh, step.axes)
    if len(behind) > 1 and behind[0] < ROWS:
        part = _reshaped(part, [*before, count, size // count, prod(behind)])
    for groups in in_turns(_groups(mesh, step.axes), devices):
        tensor = ir.RankedTensorType(part.type)
        left = list(tensor.shape)
        left[step.dimension] //= groups.shape[1]
        position = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), step.dimension)
        attributes = {**_attributes(groups, channels), "scatter_dimension": position}
        part = reduction(REDUCE_SCATTER, part, ir.RankedTensorType.get(left, tensor.element_type), attributes, ADD)
    return _reshaped(part, [*before, size // count, *behind])


def _reshaped(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    tensor = ir.RankedTensorType(value.type)
    if list(tensor.shape) == list(shape):
        return value
    type_ = ir.RankedTensorType.get(shape, tensor.element_type)
    return ir.Operation.create("stablehlo.reshape", [type_], [value]).results[0]


def in_turns(groups: Any, most: int) -> list[Any]:
    """Groups by which two reduce_scatters do what one does over all devices, the first over `most` of them at most.

    Arrays of ids, a row for each group. There is one turn where `groups` has several rows, or few devices; with `most`
    0; and where no factor of their number is so small.
    """
    number, count = groups.shape
    factors = [size for size in range(2, most + 1) if count % size == 0]
    if number > 1 or count <= most or not factors:
        return [groups]
    parts = groups.reshape(factors[-1], -1)  # the first turn cuts into the largest parts
    return [parts.T, parts]


def _groups(mesh: Mesh, axes: Axes) -> Any:
    return np.array(mesh.groups([axis.name for axis in axes]), np.int64)


def _attributes(groups: Any, channels: NewChannels) -> dict[str, ir.Attribute]:
    rows: Any = np.ascontiguousarray(groups)
    return {
        "replica_groups": ir.DenseIntElementsAttr.get(rows),
        "channel_handle": stablehlo.ChannelHandle.get(channels.next(), 1),
        "use_global_device_ids": ir.UnitAttr.get(),
    }


def _local(whole: ir.RankedTensorType, mesh: Mesh, dimensions: Sequence[Axes]) -> ir.RankedTensorType:
    """The type of one device's shard of `whole`."""
    shape = [size // _count(mesh, axes) for size, axes in zip(whole.shape, dimensions, strict=True)]
    return ir.RankedTensorType.get(shape, whole.element_type)


def _count(mesh: Mesh, axes: Axes) -> int:
    sizes = dict(mesh.axes)
    return prod(sizes[name] for name in names_of(axes))
