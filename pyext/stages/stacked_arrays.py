"""Arrays of which each stage has some of the rows: ordinary arrays, sharded over the axis of the stages.

So a stacked state can be saved, and read into another number of stages, like any other; no row is copied for a step.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from paropt.stages.transfers import put, readable

Index: TypeAlias = tuple[slice, ...]


def stacked_sharding(mesh: Mesh, axis: str, spec: PartitionSpec) -> NamedSharding:
    """Rows over the stages; the other dimensions as in the spec of a stage."""
    return NamedSharding(mesh, PartitionSpec(axis, *list(spec)[1:]))


def rows_of(leaf: Any, start: int, end: int, sharding: NamedSharding, argument: int) -> jax.Array:
    """Rows of argument `argument` on the devices of a stage: without a copy, if it has these already."""
    shape = (end - start, *leaf.shape[1:])
    if isinstance(leaf, jax.Array):
        shards = {shard.device: shard for shard in leaf.addressable_shards}
        wanted: Any = sharding.addressable_devices_indices_map(shape)
        if all(_is_there(shards.get(device), index, start, shape, leaf.shape) for device, index in wanted.items()):
            parts = [shards[device].data for device in wanted]
            return jax.make_array_from_single_device_arrays(shape, sharding, parts, dtype=leaf.dtype)
    whole = leaf if getattr(leaf, "is_fully_addressable", True) else readable(leaf, argument)
    return put(whole[start:end], sharding, argument)


def _is_there(shard: Any, index: Index, start: int, shape: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    """Whether `shard` holds the elements that `index` takes of the rows that begin with `start`."""
    return shard is not None and _span(shard.index, whole, 0) == _span(index, shape, start)


def _span(index: Index, shape: tuple[int, ...], start: int) -> list[tuple[int, ...]]:
    """From where to where `index` takes of an array of `shape` that is rows from `start` on of another."""
    (first, end), *others = [part.indices(size)[:2] for part, size in zip(index, shape, strict=True)]
    return [(first + start, end + start), *others]


def are_spread(pieces: Sequence[Any], sharding: NamedSharding) -> bool:
    """Whether `sharding` has each of the pieces, arrays or shapes of rows one after the other, where it is."""
    shape = _stacked(pieces)
    spans: dict[Any, list[tuple[int, ...]]] = {}
    start = 0
    for piece in pieces:
        indices = piece.sharding.devices_indices_map(piece.shape)
        spans |= {device: _span(index, piece.shape, start) for device, index in indices.items()}
        start += piece.shape[0]
    if shape[0] % sharding.mesh.shape[sharding.spec[0]]:
        return False
    wanted = sharding.devices_indices_map(shape)
    return spans == {device: _span(index, shape, 0) for device, index in wanted.items()}


def _stacked(pieces: Sequence[Any]) -> tuple[int, ...]:
    return (sum(piece.shape[0] for piece in pieces), *pieces[0].shape[1:])


def joined(pieces: Sequence[jax.Array], sharding: NamedSharding, home: NamedSharding) -> jax.Array:
    """The array of these rows, one piece after the other: sharded over the stages where `sharding` has each piece where
    it is, else on the devices of `home`.
    """
    if are_spread(pieces, sharding):
        parts = {shard.device: shard.data for piece in pieces for shard in piece.addressable_shards}
        here = [parts[device] for device in sharding.addressable_devices_indices_map(_stacked(pieces))]
        dtype = pieces[0].dtype
        return jax.make_array_from_single_device_arrays(_stacked(pieces), sharding, here, dtype=dtype)
    return jnp.concatenate([jax.device_put(piece, home) for piece in pieces])
