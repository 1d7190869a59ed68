"""Transfers between processes: small programs that the processes of both places run, in the same order.

`jax.device_put` sends nothing between processes of CPU devices; a collective-permute does on all backends. The argument
of such a program is different on each place: an array whose sharding says nothing of the first axis, that of the
places, and that only a `shard_map` reads.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from paropt.stages.step_plan import StageError


def transfer(
    meshes: tuple[Mesh, Mesh], axis: str, shape: jax.ShapeDtypeStruct, spec: PartitionSpec
) -> Callable[[Any], tuple[jax.Array]]:
    """From the devices of the first mesh to those of the second, as a call in the processes of both.

    It takes None in a process that does not have the array; its result in one that does not get the array says only
    when that is sent. Sharded as `spec` says, on both. `axis` is a name that the meshes have not.
    """
    source, home = (NamedSharding(mesh, spec) for mesh in meshes)
    both = Mesh(np.stack([mesh.devices for mesh in meshes]), (axis, *meshes[0].axis_names))
    joined = NamedSharding(both, spec)

    def permuted(array: jax.Array) -> jax.Array:
        return jax.lax.ppermute(array, axis, [(0, 1)])

    program = _per_device(permuted, joined, spec, shape)
    sends, gets = (bool(each.addressable_devices) for each in (source, home))

    def called(array: Any) -> tuple[jax.Array]:
        parts = [*_parts(jax.device_put(array, source))] if sends else []
        parts += _parts(_zeros(shape.shape, shape.dtype, home)) if gets else []
        made = program(jax.make_array_from_single_device_arrays(shape.shape, joined, parts, dtype=shape.dtype))
        return (_within(made, home) if gets else made,)

    return called


class Scalars:
    """Scalars that are replicated on each device of the mesh, from the places that have them: one program for all."""

    def __init__(self, mesh: Mesh, axis: str, scalars: Sequence[tuple[int, jax.ShapeDtypeStruct]]) -> None:
        """`scalars` are the place and the shape of each."""
        self._scalars, self._sharding = scalars, NamedSharding(mesh, PartitionSpec())

        def gathered(*rows: jax.Array) -> list[jax.Array]:
            named = zip(rows, scalars, strict=True)
            return [jax.lax.all_gather(row, axis)[place] for row, (place, _) in named]

        self._program = _per_device(gathered, self._sharding, PartitionSpec(), *[shape for _, shape in scalars])

    def __call__(self, arrays: Sequence[jax.Array | None]) -> list[jax.Array]:
        """`arrays` are those of this process, and None for others."""
        named = zip(arrays, self._scalars, strict=True)
        made: list[jax.Array] = self._program(*[self._spread(array, shape) for array, (_, shape) in named])
        return made

    def _spread(self, array: jax.Array | None, shape: jax.ShapeDtypeStruct) -> jax.Array:
        found = {shard.device: shard.data for shard in array.addressable_shards} if array is not None else {}
        devices = self._sharding.addressable_devices
        parts = [found[each] if each in found else _zero(shape.dtype, each) for each in devices]
        return jax.make_array_from_single_device_arrays((), self._sharding, parts)


def _per_device(function: Any, sharding: NamedSharding, spec: PartitionSpec, *shapes: jax.ShapeDtypeStruct) -> Any:
    """`function` of the parts on each device, compiled."""
    mapped = jax.shard_map(function, mesh=sharding.mesh, in_specs=spec, out_specs=spec, check_vma=False)
    given = [jax.ShapeDtypeStruct(each.shape, each.dtype, sharding=sharding) for each in shapes]
    return jax.jit(mapped).lower(*given).compile()


@cache
def _zeros(shape: tuple[int, ...], dtype: Any, sharding: NamedSharding) -> jax.Array:
    """The argument of a place that gets an array: one for all transfers of its shape."""
    made: jax.Array = jax.jit(lambda: jnp.zeros(shape, dtype), out_shardings=sharding)()
    return made


@cache
def _zero(dtype: Any, device: jax.Device) -> jax.Array:
    return jax.device_put(np.zeros((), dtype), device)


def _parts(array: jax.Array) -> list[jax.Array]:
    return [shard.data for shard in array.addressable_shards]


def _within(array: jax.Array, sharding: NamedSharding) -> jax.Array:
    """The parts of `array` on the devices of `sharding`."""
    found = [shard.data for shard in array.addressable_shards if shard.device in sharding.device_set]
    return jax.make_array_from_single_device_arrays(array.shape, sharding, found, dtype=array.dtype)


def absent(shape: jax.ShapeDtypeStruct, sharding: NamedSharding) -> jax.Array:
    """An array that is on devices of other processes only."""
    return jax.make_array_from_single_device_arrays(shape.shape, sharding, [], dtype=shape.dtype)


def put(leaf: Any, sharding: Any, argument: int) -> jax.Array:
    """Argument `argument` of the step on the devices of a place: of other processes, too, if it is on none of theirs.

    Raises StageError for an array that this process cannot read.
    """
    if isinstance(leaf, jax.Array) and leaf.sharding == sharding:
        return leaf
    if sharding is None or (sharding.is_fully_addressable and getattr(leaf, "is_fully_addressable", True)):
        return jax.device_put(leaf, sharding)
    there = _same_parts(leaf, sharding) if isinstance(leaf, jax.Array) else None
    if there is not None:
        return there
    value = readable(leaf, argument)
    return jax.make_array_from_callback(value.shape, sharding, lambda index: value[index], dtype=value.dtype)


def _same_parts(leaf: jax.Array, sharding: Any) -> jax.Array | None:
    """The array without a copy, if each device has its part already."""
    has = {shard.device: shard for shard in leaf.addressable_shards}
    wanted = sharding.addressable_devices_indices_map(leaf.shape)
    if not all(device in has and has[device].index == index for device, index in wanted.items()):
        return None
    parts = [has[device].data for device in wanted]
    return jax.make_array_from_single_device_arrays(leaf.shape, sharding, parts, dtype=leaf.dtype)


def readable(leaf: Any, argument: int) -> np.ndarray[Any, Any]:
    """The elements of an argument in this process."""
    if not isinstance(leaf, jax.Array) or leaf.is_fully_addressable:
        return np.asarray(leaf)
    if leaf.is_fully_replicated and leaf.addressable_shards:
        return np.asarray(leaf.addressable_data(0))
    where = f"process {jax.process_index()} has not all of its elements"
    wanted = "give each process the whole of it, or, of the state, what this pipeline has returned"
    raise StageError(f"array {argument} of the step's arguments: {where}; {wanted}")
