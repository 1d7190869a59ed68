"""The mesh axes that a group of devices spans, and devices that share the coordinates of parts of axes.

As in Shardy, a part of an axis is written `data:(2)4`: of the axis `data`, seen as three axes, the one in the middle;
2 positions are left of it, and it has 4.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import NamedTuple

import numpy as np

from paropt.passes.sharding.meshes import Mesh

Groups = tuple[tuple[int, ...], ...]
Pairs = tuple[tuple[int, int], ...]


class Part(NamedTuple):
    """A part of an axis, or all of it (`before` is 1, `size` is that of the axis)."""

    name: str
    before: int  # how many positions the part to the left of it has
    size: int


def groups_along(mesh: Mesh, parts: Sequence[Part]) -> Groups | None:
    """The devices that differ only in `parts`; None when the mesh cannot be cut into these."""
    if any(part.before < 1 or part.size < 1 for part in parts):
        return None
    cut = []
    for name, size in mesh.axes:
        ends = {end for part in parts if part.name == name for end in (part.before, part.before * part.size)}
        cut += [(f"{name}:{low}", high // low) for low, high in pairwise(sorted({1, size, *ends}))]
    wanted = [(f"{part.name}:{part.before}", part.size) for part in parts if part.size > 1]
    if not set(wanted) <= set(cut) or prod(size for _, size in cut) != len(mesh.device_ids):
        return None
    return Mesh(tuple(cut), mesh.device_ids).groups([name for name, _ in wanted])


def axes_of_groups(groups: Groups, meshes: Iterable[Mesh]) -> tuple[str, ...]:
    """The axes along which the devices of each group differ, as text, for the first mesh where that describes them.

    Axes go before parts of axes. Empty when no mesh has axes, or one part of an axis each, that make these groups.
    """
    in_parts: tuple[str, ...] = ()
    for mesh in meshes:
        parts = _parts(groups, mesh)
        if parts and all(size == dict(mesh.axes)[name] for name, _, size in parts):
            return tuple(part.name for part in parts)
        in_parts = in_parts or tuple(_text(part, mesh) for part in parts)
    return in_parts


def axes_of_pairs(pairs: Pairs, meshes: Iterable[Mesh]) -> tuple[str, ...]:
    """The axes in which source and target differ, in any of the pairs, of the first mesh that has these devices."""
    devices = {device for pair in pairs for device in pair}
    for mesh in meshes:
        if devices <= set(mesh.device_ids):
            moves = [(mesh.coordinates(a, mesh.names), mesh.coordinates(b, mesh.names)) for a, b in pairs]
            return tuple(name for i, name in enumerate(mesh.names) if any(a[i] != b[i] for a, b in moves if a and b))
    return ()


@lru_cache(maxsize=256)  # most collectives of a program have the same few groups
def _parts(groups: Groups, mesh: Mesh) -> list[Part]:
    """The parts of axes along which the groups lie, at most one per axis; empty when there are no such parts."""
    first = next((group for group in groups if mesh.device_ids[0] in group), ())
    if not first or not set(first) <= set(mesh.device_ids):
        return []
    sizes = [size for _, size in mesh.axes]
    places = np.unravel_index([mesh.device_ids.index(device) for device in first], sizes)
    parts = []
    for (name, size), along in zip(mesh.axes, places, strict=True):
        positions = sorted(set(along.tolist()))  # the first device of the mesh has position 0
        if len(positions) > 1:
            parts.append(Part(name, max(1, size // (len(positions) * positions[1])), len(positions)))
    described = groups_along(mesh, parts)
    same = described is not None and _unordered(described) == _unordered(groups)
    return parts if same else []


def _unordered(groups: Groups) -> set[frozenset[int]]:
    return set(map(frozenset, groups))


def _text(part: Part, mesh: Mesh) -> str:
    whole = part.size == dict(mesh.axes)[part.name]
    return part.name if whole else f"{part.name}:({part.before}){part.size}"
