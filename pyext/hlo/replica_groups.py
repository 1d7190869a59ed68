"""Replica groups of optimized HLO, in the notations that XLA prints."""

import re
from math import prod

import numpy as np

from paropt.hlo.mesh_axes import Groups, Pairs, Part, groups_along
from paropt.passes.sharding.meshes import Mesh

_GROUP = re.compile(r"\{([\d,\s]*)\}")
_PAIR = re.compile(r"\{(\d+)(?:,|->)(\d+)\}")
_ORDER = r"\[([\d,]+)\](?:T\(([\d,]+)\))?"  # `[4,2]T(1,0)`: 0 to 7 in 4 rows, transposed
_IOTA = re.compile(rf"\[(\d+),(\d+)\]<={_ORDER}")
_MESH = re.compile(rf"mesh\[([^\]]*)\](?:, device_ids=\((?:{_ORDER}|([\d,]+))\))? ?\{{([^{{}}]*)\}}")
_MESH_SIZE = re.compile(r"'([^']*)'=(\d+)")
_MESH_AXIS = re.compile(r"'([^']*)'(?::\((\d+)\)(\d+))?")  # 'data', or the part of it written 'data':(2)4
_SLICES = re.compile(r'"\{([\d,:]+)\}x\{([\d,:]+)\}"')

# libtpu numbers the devices of the slices of one program like this, slices from 1.
_IDS_PER_SLICE = 100_000

_MOST_DEVICES = 1 << 24  # more would be a mistake in the text, and take the memory of this process


def read_groups(text: str) -> Groups:
    """The groups of `replica_groups`; empty for `{}`, which means all in one group. Raises ValueError.

    Reads literal lists `{{0,1},{2,3}}`, iota lists `[2,4]<=[4,2]T(1,0)` (2 groups of 4) and
    `mesh['data'=4,'model'=2] {'data'}` (a group per position along the axes not named).
    """
    text = text.strip()
    if iota := _IOTA.fullmatch(text):
        ids = _in_order(iota[3], iota[4])
        if len(ids) != int(iota[1]) * int(iota[2]):
            raise ValueError(f"replica groups `{text}` do not hold as many ids as they list")
        return _rows(np.array(ids).reshape(int(iota[1]), int(iota[2])))
    if mesh := _MESH.fullmatch(text):
        return _mesh_groups(mesh)
    if not text.startswith("{") or not text.endswith("}") or _GROUP.sub("", text[1:-1]).strip(", "):
        raise ValueError(f"cannot read replica groups `{text}`")
    return tuple(_numbers(ids) for ids in _GROUP.findall(text[1:-1]) if ids.strip())


def read_pairs(text: str) -> Pairs:
    """The pairs of a list that has some, `{{0,1},{1,2}}` or, with ids of devices, `{{100000->200000}}`."""
    return tuple((int(source), int(target)) for source, target in _PAIR.findall(text))


def read_slice_groups(text: str) -> Groups:
    """The groups, of ids of devices, between which slices of TPUs exchange data. Raises ValueError.

    Reads `"{1,2}x{0:3}"` (devices 0 to 3 of slice 1, each with its counterpart in slice 2) and lists of ids.
    """
    if product := _SLICES.fullmatch(text):
        slices, devices = _ranges(product[1]), _ranges(product[2])
        return tuple(tuple(s * _IDS_PER_SLICE + device for s in slices) for device in devices)
    return read_groups(text)


def _ranges(text: str) -> list[int]:
    """`0,4:6` is 0, 4, 5, 6."""
    ends = [[int(number) for number in item.split(":")] for item in text.split(",")]
    return [number for low, *high in ends for number in range(low, (high or [low])[0] + 1)]


def _mesh_groups(found: re.Match[str]) -> Groups:
    axes, dims, permutation, listed, chosen = found.groups()
    sizes = tuple((name, int(size)) for name, size in _MESH_SIZE.findall(axes))
    count = prod(size for _, size in sizes)
    if count > _MOST_DEVICES:
        raise ValueError(f"replica groups list {count} devices")
    ids = _numbers(listed) if listed else _in_order(dims, permutation) if dims else tuple(range(count))
    known = dict(sizes)
    named = _MESH_AXIS.findall(chosen)
    if any(name not in known for name, _, _ in named):
        raise ValueError(f"replica groups name an axis that is not in mesh[{axes}]: {{{chosen}}}")
    parts = [Part(name, int(before or 1), int(size or known[name])) for name, before, size in named]
    groups = groups_along(Mesh(sizes, ids), parts)
    if groups is None:
        raise ValueError(f"cannot read replica groups `{found[0]}`")
    return groups


def _in_order(dims: str, permutation: str | None) -> tuple[int, ...]:
    shape = _numbers(dims)
    if prod(shape) > _MOST_DEVICES:
        raise ValueError(f"replica groups list {prod(shape)} devices")
    ids = np.arange(prod(shape)).reshape(shape)
    return tuple(ids.transpose(_numbers(permutation) if permutation else range(len(shape))).flatten().tolist())


def _rows(ids: np.ndarray) -> Groups:
    return tuple(tuple(row) for row in ids.tolist())


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(",") if number.strip())
