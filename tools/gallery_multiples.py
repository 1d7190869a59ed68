"""How often an executable gathers the parameters and reduces the gradients of a program, in multiples of all of them.

Arrays are counted by elements: a compiler may gather them in another type than that of the parameters.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import jax
from jax.sharding import Mesh

from paropt.hlo.census import SYNC_KINDS, Collective, sent_per_byte


@dataclass(frozen=True)
class Multiples:
    """1.00: each once per update. What is gathered or reduced of activations over the same axes is counted, too."""

    gathered: float | None  # None: no axis of the batch shards a parameter
    reduced: float | None  # None: no axis splits the batch


def multiples(runs: Iterable[tuple[int, Collective]], parameters: Any, batch: Sequence[str], mesh: Mesh) -> Multiples:
    """Of the collectives, with how often each runs per update. `batch`: axes of the mesh that split the batch."""
    leaves = [leaf for leaf in jax.tree.leaves(parameters) if jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating)]
    gathered = reduced = 0.0
    for count, each in runs:
        axes = {axis.partition(":")[0] for axis in each.axes}
        sizes = [array.elements for array in each.arrays]
        if not axes <= {*batch} or all(size == 1 for size in sizes):
            continue
        sent = count * sum(sizes) * sent_per_byte(each.kind, each.group)
        gathered += sent if each.kind == "all-gather" else 0
        reduced += sent if each.kind in SYNC_KINDS else 0
    once = [_once(leaf, batch, dict(mesh.shape)) for leaf in leaves]
    gather, reduction = (sum(column) for column in zip(*once, strict=True))
    return Multiples(gathered / gather if gather else None, reduced / reduction if reduction else None)


def _once(leaf: Any, batch: Sequence[str], mesh: dict[str, int]) -> tuple[float, float]:
    """Elements that one all-gather of a parameter sends per device, and one reduction of its gradient: scattered over
    the axes that shard the parameter, and of the shard an all-reduce over the batch's other axes."""
    axes = [axis for entry in leaf.sharding.spec for axis in (entry if isinstance(entry, tuple) else (entry,)) if axis]
    shards = prod(mesh[axis] for axis in axes if axis in batch)
    size = leaf.size / prod(mesh[axis] for axis in axes if axis not in batch)
    others = prod(mesh[axis] for axis in batch) // shards
    gather = size * sent_per_byte("all-gather", shards)
    return gather, gather + size / shards * sent_per_byte("all-reduce", others)
