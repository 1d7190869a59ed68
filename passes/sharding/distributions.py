"""Shardings with their mesh as plain values, to be compared: which devices hold which elements."""

from math import prod
from typing import Any, NamedTuple

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from paropt.passes.sharding.meshes import Mesh, is_maximal, mesh_of


class Axis(NamedTuple):
    """An axis of a mesh, or a part of one."""

    name: str
    part: str  # as written: `(2)4` has size 4, and parts of product 2 before it; "" for a whole axis
    size: int

    def __str__(self) -> str:
        return f"{self.name}:{self.part}" if self.part else self.name


class Distribution(NamedTuple):
    """Where on a mesh the elements of a tensor are. Equal ones put the same elements on the same devices.

    Axes of size 1 are left out, and so are axes listed as replicated: both say nothing about where an element is.
    """

    mesh: Mesh
    dimensions: tuple[tuple[Axis, ...], ...]
    unreduced: str  # the axes over which a sum is still to be taken, and the sum, as written
    is_closed: bool  # no dimension may be split further

    @property
    def shards(self) -> int:
        """Into how many parts the tensor is cut."""
        return prod(axis.size for axes in self.dimensions for axis in axes)

    @property
    def is_whole(self) -> bool:
        """Whether each device has all of the tensor, whatever the mesh."""
        return self.shards == 1 and not self.unreduced

    def __str__(self) -> str:
        cuts = ", ".join("{" + ", ".join(map(str, axes)) + "}" for axes in self.dimensions)
        return f"[{cuts}]" + (f" unreduced {self.unreduced}" if self.unreduced else "")


def distribution_of(attribute: ir.Attribute, meshes: dict[str, Mesh]) -> Distribution | None:
    """The distribution of the `sdy.sharding` in `attribute`; None when its mesh is missing, or is one device.

    On a mesh without axes, as JAX gives to scalars, every device has the whole.
    """
    written = sdy.TensorShardingAttr(attribute)
    mesh = _mesh(written.mesh_or_ref, meshes)
    if mesh is None:
        return None
    sizes = dict(mesh.axes)
    dimensions = [sdy.DimensionShardingAttr(dimension) for dimension in written.dimension_shardings]
    return Distribution(
        mesh,
        tuple(tuple(a for a in (_axis(axis, sizes) for axis in d.axes) if a.size > 1) for d in dimensions),
        _unreduced(written, sizes),
        all(dimension.is_closed for dimension in dimensions),
    )


def _mesh(attribute: ir.Attribute, meshes: dict[str, Mesh]) -> Mesh | None:
    if isinstance(attribute, ir.FlatSymbolRefAttr):
        return meshes.get(attribute.value)
    return None if is_maximal(attribute) else mesh_of(attribute)


def _axis(attribute: ir.Attribute, sizes: dict[str, int]) -> Axis:
    axis = sdy.AxisRefAttr(attribute)
    if axis.sub_axis_info is None:
        return Axis(axis.name, "", sizes[axis.name])
    part = sdy.SubAxisInfoAttr(axis.sub_axis_info)
    return Axis(axis.name, f"({part.pre_size}){part.size}", part.size)


def _unreduced(sharding: Any, sizes: dict[str, int]) -> str:
    axes = ", ".join(str(_axis(axis, sizes)) for axis in sharding.unreduced_axes)
    kind = getattr(sharding, "reduction_op", None)  # jaxlib 0.12
    return f"{kind}{{{axes}}}" if kind is not None and axes else axes
