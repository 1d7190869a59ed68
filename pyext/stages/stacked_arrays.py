"""Arrays of which each stage has some of the rows: ordinary arrays, sharded over the axis of the stages.

So a stacked state can be saved, and read into another number of stages, like any other; no row is copied for a step.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

Index: TypeAlias = tuple[slice, ...]


def stacked_sharding(mesh: Mesh, axis: str, spec: PartitionSpec) -> NamedSharding:
    """Rows over the stages; what else the spec of a stage says, of the other dimensions."""
    return NamedSharding(mesh, PartitionSpec(axis, *list(spec)[1:]))


def rows_of(leaf: Any, start: int, end: int, sharding: NamedSharding) -> jax.Array:
    """Rows of an array on the devices of a stage: without a copy, if it has these already."""
    shape = (end - start, *leaf.shape[1:])
    if isinstance(leaf, jax.Array):
        shards = {shard.device: shard for shard in leaf.addressable_shards}
        wanted = sharding.devices_indices_map(shape)
        if all(_is_there(shards.get(device), index, start, shape, leaf.shape) for device, index in wanted.items()):
            parts = [shards[device].data for device in wanted]
            return jax.make_array_from_single_device_arrays(shape, sharding, parts)
    return jax.device_put(leaf[start:end], sharding)


def _is_there(shard: Any, index: Index, start: int, shape: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    """Whether `shard` holds what `index` takes of the rows that begin with `start`."""
    return shard is not None and _span(shard.index, whole, 0) == _span(index, shape, start)


def _span(index: Index, shape: tuple[int, ...], start: int) -> list[tuple[int, ...]]:
    """From where to where `index` takes of an array of `shape` that is rows from `start` on of another."""
    (first, end), *others = [part.indices(size)[:2] for part, size in zip(index, shape, strict=True)]
    return [(first + start, end + start), *others]


def joined(pieces: Sequence[jax.Array], sharding: NamedSharding, home: NamedSharding) -> jax.Array:
    """The array of these rows, one piece after the other: sharded over the stages where `sharding` has each piece where
    it is, else on the devices of `home`.
    """
    shape = (sum(piece.shape[0] for piece in pieces), *pieces[0].shape[1:])
    parts: dict[Any, jax.Array] = {}
    spans: dict[Any, list[tuple[int, ...]]] = {}
    start = 0
    for piece in pieces:
        for shard in piece.addressable_shards:
            parts[shard.device], spans[shard.device] = shard.data, _span(shard.index, piece.shape, start)
        start += piece.shape[0]
    fits = shape[0] % sharding.mesh.shape[sharding.spec[0]] == 0
    wanted = sharding.devices_indices_map(shape) if fits else {}
    if wanted and spans == {device: _span(index, shape, 0) for device, index in wanted.items()}:
        return jax.make_array_from_single_device_arrays(shape, sharding, [parts[device] for device in wanted])
    return jnp.concatenate([jax.device_put(piece, home) for piece in pieces])
