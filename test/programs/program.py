"""What a training program of the tests is: a step to jit, its arguments, and what becomes of its gradient sums."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.backend import backends
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

Tree = Any
Devices = Sequence[jax.Device] | None  # None: jax.devices()


@dataclass(frozen=True)
class Sizes:
    """How large a program is. `examples` are those of one micro-batch, over all devices."""

    width: int = 16
    layers: int = 3
    micro_batches: int = 4
    examples: int = 16
    vocabulary: int = 32
    sequence: int = 8  # tokens per example, of a transformer and of the mixture of experts
    heads: int = 2
    dtype: Any = jnp.float32  # in which the model computes; parameters and gradient sums are f32


DEFAULT = Sizes()


@dataclass(frozen=True)
class Program:
    """A data-parallel training step that accumulates gradients over micro-batches.

    On devices that are not of this process, such as those of a target without hardware, `args` are shapes with
    shardings: enough to lower and compile, not to run.
    """

    step: Callable[..., Any]  # to be jitted; its first argument may be donated
    args: tuple[Any, ...]
    mesh: Mesh
    expected: str  # in words: what a pipeline that defers gradient sums makes of it
    gradient_bytes: int  # of one device's gradients: what one reduction per step combines
    is_deferrable: bool  # False: today's passes leave reductions of gradients in the loop, or find none
    tolerance: float  # relative, between sums taken in different order; 0.0: bit-equal
    ideal_bytes: int  # reduced per device and step when everything leaves the loop that may
    sync_groups: frozenset[int]  # how many devices a reduction of gradients spans; the others reduce activations
    reference: Callable[..., Any]  # the same on one device, from the definition: no loop, no mesh; not to be jitted


def mesh_of(devices: Devices = None, **axes: int) -> Mesh:
    """A mesh of all the devices; the size of one axis may be -1: what is left.

    Raises ValueError when the other sizes do not divide the number of devices.
    """
    chosen = np.array(jax.devices() if devices is None else list(devices))
    return Mesh(chosen.reshape(tuple(axes.values())), tuple(axes), axis_types=(AxisType.Auto,) * len(axes))


def data_mesh(devices: int = 8) -> Mesh:
    """A mesh of the first devices of this process with the one axis `data`."""
    return mesh_of(jax.devices()[:devices], data=devices)


def tree_bytes(tree: Tree) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def replicated(tree: Tree) -> Tree:
    """The specs of a tree whose leaves are whole on each device."""
    return jax.tree.map(lambda leaf: PartitionSpec(), tree)


def split(tree: Tree, axis: str | tuple[str, ...], size: int) -> Tree:
    """Specs that split each leaf over the axis, or axes: in the first dimension that `size` divides, else not at all."""
    return jax.tree.map(lambda leaf: _split(leaf.shape, axis, size), tree)


def _split(shape: tuple[int, ...], axis: str | tuple[str, ...], size: int) -> PartitionSpec:
    for dimension, length in enumerate(shape):
        if length % size == 0:
            return PartitionSpec(*[None] * dimension, axis)
    return PartitionSpec()


def split_dimension(spec: PartitionSpec) -> int | None:
    """The dimension that the spec splits; None when it splits none."""
    return next((dimension for dimension, axis in enumerate(spec) if axis is not None), None)


def shardings(specs: Tree, mesh: Mesh) -> Tree:
    return jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs)


def shard_bytes(tree: Tree, specs: Tree, mesh: Mesh) -> int:
    """Bytes per device of a tree that is split as `specs` say."""
    shards = jax.tree.map(lambda leaf, s: jax.ShapeDtypeStruct(s.shard_shape(leaf.shape), leaf.dtype), tree,
                          shardings(specs, mesh))  # fmt: skip
    return tree_bytes(shards)


def constrained(tree: Tree, specs: Tree, mesh: Mesh) -> Tree:
    return jax.tree.map(jax.lax.with_sharding_constraint, tree, shardings(specs, mesh))


def placed(tree: Tree, specs: Tree, mesh: Mesh) -> Tree:
    """The tree on the devices of the mesh, or its shapes with shardings when none of these is of this process."""
    here = {device for client in backends().values() for device in client.local_devices()}
    if here.issuperset(mesh.devices.flat):
        return jax.device_put(tree, shardings(specs, mesh))
    if not here.isdisjoint(mesh.devices.flat):  # the others are of processes that make the same tree
        return jax.tree.map(_part_here, tree, shardings(specs, mesh))
    return jax.tree.map(lambda leaf, s: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=s), tree,
                        shardings(specs, mesh))  # fmt: skip


def _part_here(leaf: Any, sharding: NamedSharding) -> jax.Array:
    """The shards of this process of an array that each process has."""
    values = np.asarray(leaf)
    return jax.make_array_from_callback(values.shape, sharding, lambda index: values[index])
