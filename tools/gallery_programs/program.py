"""What a file of this folder makes: one training step, on arrays that eight CPU devices hold."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import optax
from gallery_catalog import WIDTH as WIDTH
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

MICRO_BATCHES = 4
BATCH = 32  # examples of a micro-batch
SEQUENCE, VOCABULARY, CLASSES = 16, 128, 10
HEADS, LAYERS = 4, 2


@dataclass(frozen=True)
class Driven:
    """The same update by what `paropt.accumulate` returns, in place of one call of the step per micro-batch."""

    train: Any
    args: tuple[Any, Any]  # a state, and all micro-batches, stacked
    # With `calls(step, state, micro_batches)`, and with what `train` returns: the arrays that have to be equal.
    by_calls: Callable[[Callable[..., Any], Any, list[Any]], Any]
    by_train: Callable[[Any], Any]


@dataclass(frozen=True)
class Program:
    """A step, the arrays that it is called with, and what one reduction of its gradients takes."""

    step: Callable[..., Any]
    args: tuple[Any, ...]
    gradients: Any = None  # a tree of arrays that are reduced whole, once per update; None: they stay sharded
    parameters: Any = None  # that are counted how often they are gathered; None: none
    batch_axes: tuple[str, ...] = ()  # of the mesh, that split the batch
    calls: int = 1  # of the step, per update
    donated: tuple[int, ...] = (0,)  # positions of arguments that the package's own jit donates
    driven: Driven | None = None  # None: par-opt rewrites the step
    within: Callable[[Mesh], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext  # while it is traced

    @property
    def mesh(self) -> Mesh:
        """Of the arguments."""
        shardings = [leaf.sharding for leaf in jax.tree.leaves(self.args) if hasattr(leaf, "sharding")]
        meshes = (sharding.mesh for sharding in shardings if isinstance(sharding, NamedSharding))
        return next(mesh for mesh in meshes if isinstance(mesh, Mesh))


def counted(parameters: Any, batch_axes: tuple[str, ...], layout: str) -> dict[str, Any]:
    """For a Program, what is counted: of a data-parallel one reductions of whole gradients, too."""
    gradients = parameters if layout == "dp" else None
    return {"gradients": gradients, "parameters": parameters, "batch_axes": batch_axes}


def data_mesh() -> Mesh:
    return jax.make_mesh((jax.device_count(),), ("data",), axis_types=(AxisType.Auto,))


def put(mesh: Mesh, tree: Any, *spec: Any) -> Any:
    """The arrays of `tree`, sharded over `mesh`; replicated without a spec."""
    return jax.device_put(tree, NamedSharding(mesh, PartitionSpec(*spec)))


def tokens(*leading: int) -> np.ndarray:
    """Token ids, the same each time."""
    shape = (*leading, BATCH, SEQUENCE)
    return np.random.default_rng(0).integers(0, VOCABULARY, shape).astype(np.int32)


def examples(*leading: int) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of some sequences, and a class for each sequence."""
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((*leading, BATCH, SEQUENCE, WIDTH)).astype(np.float32)
    return vectors, rng.integers(0, CLASSES, (*leading, BATCH)).astype(np.int32)


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
