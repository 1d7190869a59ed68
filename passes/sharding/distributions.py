"""Which devices hold which elements of a tensor: to be compared between arrays, whatever the sharding is written like.

A `Distribution` beside `Sharding` (`shardings.py`) on purpose. A `Sharding` is the content of an attribute of the
module: equal ones are written alike, with the name of a mesh, and passes write others from it. Equal distributions put
the same elements on the same devices, in meshes of any name, and with axes of size 1 or without; it is never written.

Tests: test/property/test_meshes.py, test/unit/passes/test_annotate_contract.py, test/unit/pyext/hook/test_donation.py.
"""

from math import prod
from typing import Any, NamedTuple

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from paropt.passes.sharding.axes import Axes, axes_in
from paropt.passes.sharding.meshes import Mesh, is_maximal, mesh_of


class Distribution(NamedTuple):
    """Where on a mesh the elements of a tensor are. Equal ones put the same elements on the same devices.

    Axes of size 1 are left out, and so are axes listed as replicated: both say nothing about where an element is.
    """

    mesh: Mesh
    dimensions: tuple[Axes, ...]
    unreduced: str  # the axes over which a sum is still to be taken, and the sum, as written
    is_closed: bool  # no dimension may be split further

    @property
    def shards(self) -> int:
        """Into how many parts the tensor is cut."""
        sizes = dict(self.mesh.axes)
        return prod(axis.size(sizes) for axes in self.dimensions for axis in axes)

    @property
    def is_whole(self) -> bool:
        """Whether each device has all of the tensor, whatever the mesh."""
        return self.shards == 1 and not self.unreduced

    def __str__(self) -> str:
        cuts = ", ".join("{" + ", ".join(axis.label for axis in axes) + "}" for axes in self.dimensions)
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
    split = map(axes_in, written.dimension_shardings)
    dimensions = [sdy.DimensionShardingAttr(dimension) for dimension in written.dimension_shardings]
    return Distribution(
        mesh,
        tuple(tuple(axis for axis in axes if axis.size(sizes) > 1) for axes in split),
        _unreduced(written),
        all(dimension.is_closed for dimension in dimensions),
    )


def _mesh(attribute: ir.Attribute, meshes: dict[str, Mesh]) -> Mesh | None:
    if isinstance(attribute, ir.FlatSymbolRefAttr):
        return meshes.get(attribute.value)
    return None if is_maximal(attribute) else mesh_of(attribute)


def _unreduced(sharding: Any) -> str:
    axes = ", ".join(axis.label for attribute in sharding.unreduced_axes for axis in axes_in(attribute))
    kind = getattr(sharding, "reduction_op", None)  # jaxlib 0.12
    return f"{kind}{{{axes}}}" if kind is not None and axes else axes
