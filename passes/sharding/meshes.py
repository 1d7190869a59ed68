"""Device meshes: which devices share the coordinates of which axes."""

import difflib
import re
from collections.abc import Sequence
from math import prod
from typing import Annotated, NamedTuple, TypeAlias

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from paropt.passes.support.axis_numbers import axis_numbers
from paropt.passes.support.memoize import Remembered
from paropt.passes.support.registry import AxisNames, AxisNumbers, Check

_MESH = "sdy.mesh"


class Mesh(NamedTuple):
    """A mesh of devices: named axes, row-major, and the ids of the devices in that order."""

    axes: tuple[tuple[str, int], ...]  # name and size
    device_ids: tuple[int, ...]

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.axes]

    @property
    def is_in_order(self) -> bool:
        """Whether the devices are in the order of their ids."""
        return self.device_ids == tuple(range(len(self.device_ids)))

    def groups(self, axes: Sequence[str]) -> tuple[tuple[int, ...], ...] | None:
        """The devices that differ only in `axes`, in the order of `axes`; None for an axis the mesh lacks."""
        if not set(axes) <= set(self.names):
            return None
        ids = np.array(self.device_ids).reshape([size for _, size in self.axes])
        inner = [self.names.index(name) for name in axes]
        outer = [i for i in range(len(self.axes)) if i not in inner]
        size = prod(self.axes[i][1] for i in inner)
        return tuple(tuple(row) for row in ids.transpose(outer + inner).reshape(-1, size).tolist())

    def coordinates(self, device: int, axes: Sequence[str]) -> tuple[int, ...] | None:
        """Where `device` stands along `axes`; None when the mesh lacks the device or an axis."""
        if device not in self.device_ids or not set(axes) <= set(self.names):
            return None
        place = np.unravel_index(self.device_ids.index(device), [size for _, size in self.axes])
        return tuple(int(place[self.names.index(name)]) for name in axes)


def has_mesh(module: ir.Operation) -> bool:
    """Whether the program is written for a mesh that Shardy knows."""
    return any(op.operation.name == _MESH for op in module.regions[0].blocks[0].operations)


def has_several_devices(module: ir.Operation) -> bool:
    """Whether some mesh that Shardy knows has several devices."""
    return any(len(mesh.device_ids) > 1 for mesh in meshes_of(module).values())


def meshes_of(module: ir.Operation) -> dict[str, Mesh]:
    """The meshes of `module` by name, without those that are one device (`maximal`)."""
    ops = (op.operation for op in module.regions[0].blocks[0].operations)
    return {
        ir.StringAttr(op.attributes["sym_name"]).value: mesh_of(op.attributes["mesh"])
        for op in ops
        if op.name == _MESH and not is_maximal(op.attributes["mesh"])
    }


def axes_named(text: str) -> tuple[str, ...]:
    """The axes in the value of an option, as in `data,replica`."""
    return tuple(name for name in (part.strip() for part in text.split(",")) if name)


def unknown_axis(axes: Sequence[str], module: ir.Operation) -> str | None:
    """The complaint about the first of `axes` that no mesh of `module` has, with the names that there are; or None.

    Nothing is wrong where nobody has named an axis: JAX calls those of a sharding without a mesh `_axis_0` and so on.
    """
    known = list(dict.fromkeys(name for mesh in meshes_of(module).values() for name in mesh.names))
    unknown = next((axis for axis in axes if axis not in known), None)
    if unknown is None or all(map(_NAMED_BY_JAX.fullmatch, known)):
        return None
    near = difflib.get_close_matches(unknown, known, n=1)
    hint = f"did you mean `{near[0]}`? The" if near else "the"
    return f"no mesh of the module has an axis `{unknown}`; {hint} axes are {', '.join(known)}"


_NAMED_BY_JAX = re.compile(r"_axis_\d+")

MeshAxes: TypeAlias = Annotated[str, AxisNames, Check(lambda text, module: unknown_axis(axes_named(text), module))]
LinkCosts: TypeAlias = Annotated[
    str, AxisNumbers, Check(lambda text, module: unknown_axis(list(axis_numbers(text)), module))
]


def mesh_named(module: ir.Operation, name: str) -> Mesh | None:
    """The `sdy.mesh` of `module` called `name`."""
    for view in module.regions[0].blocks[0].operations:
        op = view.operation
        if op.name == _MESH and ir.StringAttr(op.attributes["sym_name"]).value == name:
            return mesh_of(op.attributes["mesh"])
    return None


def mesh_of(attribute: ir.Attribute) -> Mesh:
    return _READ(attribute, attribute.context)


def _read(attribute: ir.Attribute) -> Mesh:
    mesh = sdy.MeshAttr(attribute)
    axes = tuple((sdy.MeshAxisAttr(axis).name, sdy.MeshAxisAttr(axis).size) for axis in mesh.axes)
    ids = tuple(mesh.device_ids) or tuple(range(prod(size for _, size in axes)))
    return Mesh(axes, ids)


_READ = Remembered(_read)


def is_maximal(mesh: ir.Attribute) -> bool:
    """Whether the mesh is no mesh but one device."""
    return not sdy.MeshAttr(mesh).axes and bool(sdy.MeshAttr(mesh).device_ids)
