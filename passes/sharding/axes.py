"""Axes of meshes, and parts of them: read and written in this file alone.

Tests: test/unit/passes/sharding/test_axes.py.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from jaxlib.mlir import ir

_AXIS = re.compile(r'"([^"]+)"(?::\((\d+)\)(\d+))?')


class Axis(NamedTuple):
    """An axis of a mesh, or a part of one: in `"data":(2)4`, sizes of product 2 before it, and its own size 4."""

    name: str
    before: int = 1
    part: int = 0  # 0: the whole axis

    @property
    def label(self) -> str:
        """The name for people: without quotes."""
        return f"{self.name}:({self.before}){self.part}" if self.part else self.name

    def __str__(self) -> str:
        """As Shardy spells it."""
        return f'"{self.name}":({self.before}){self.part}' if self.part else f'"{self.name}"'

    def size(self, sizes: Mapping[str, int]) -> int:
        """Into how many parts it cuts, where `sizes` are those of the mesh's axes."""
        return self.part or sizes[self.name]

    def sized(self, sizes: Mapping[str, int]) -> "Axis":
        """The same with its size, that of a whole axis too."""
        return self._replace(part=self.size(sizes))


Axes = tuple[Axis, ...]


def whole_axes(names: Iterable[str]) -> Axes:
    """The axes of these names."""
    return tuple(map(Axis, names))


def axes_in(attribute: ir.Attribute) -> Axes:
    """The axes that `attribute`, a list of axes or of lists of them, names; in order."""
    return tuple(Axis(name, int(before or 1), int(part or 0)) for name, before, part in _AXIS.findall(str(attribute)))


def spelled(axes: Iterable[Axis | str]) -> str:
    """Between braces, as Shardy spells a list of axes; `?` leaves it open."""
    return f"{{{', '.join(map(str, axes))}}}"


def names_of(axes: Iterable[Axis]) -> frozenset[str]:
    """The mesh axes that `axes` are, or are parts of."""
    return frozenset(axis.name for axis in axes)


def are_allowed(axes: Iterable[Axis], allowed: frozenset[str]) -> bool:
    """Whether a reduction over `axes` may move, where `allowed` names those that it may: none, for all axes."""
    return not allowed or names_of(axes) <= allowed


def has_part(axes: Iterable[Axis]) -> bool:
    """Whether one of `axes` is a part of an axis of the mesh."""
    return any(axis.part for axis in axes)


def joined_parts(axes: Iterable[Axis], sizes: Mapping[str, int]) -> Axes:
    """`axes` in the order of `sizes`; parts of one from major to minor, joined where they meet."""
    order = list(sizes)
    parts: list[Axis] = []
    for axis in sorted((axis.sized(sizes) for axis in axes), key=lambda axis: (order.index(axis.name), axis.before)):
        last = parts[-1] if parts else None
        if last is not None and last.name == axis.name and last.before * last.part == axis.before:
            parts[-1] = last._replace(part=last.part * axis.part)
        else:
            parts.append(axis)
    return tuple(Axis(axis.name) if axis.part == sizes[axis.name] else axis for axis in parts)


def units(axes: Iterable[Axis], sizes: Mapping[str, int]) -> Axes:
    """`axes` as parts of prime size, major first."""
    found: list[Axis] = []
    for name, before, size in (axis.sized(sizes) for axis in axes):
        while size > 1:
            prime = next(n for n in range(2, size + 1) if size % n == 0)
            found.append(Axis(name, before, prime))
            before, size = before * prime, size // prime
    return tuple(found)
