"""The training programs before anyone accumulates: one loss of the whole batch, one backward pass."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec
from programs.models import Model
from programs.program import Sizes, Tree, data_mesh, replicated, shardings, tree_bytes
from programs.steps import updated


@dataclass(frozen=True)
class WholeBatch:
    """A step to jit, and its arguments: parameters, and examples split over `data`."""

    step: Callable[..., Any]
    args: tuple[Any, ...]
    gradient_bytes: int
    tolerance: float


def whole_batch(build: Callable[..., Model], sizes: Sizes, *, is_explicit: bool = False, **options: bool) -> WholeBatch:
    """The step that trains the model on all of its micro-batches at once; `is_explicit` writes it with shard_map."""
    model, mesh = build(sizes, **options), data_mesh()
    batches = [batch.reshape(-1, *batch.shape[2:]) for batch in model.batches]

    def step(parameters: Tree, *batch: jax.Array) -> tuple[Tree, jax.Array]:
        loss, gradients = jax.value_and_grad(model.loss)(parameters, *batch)
        if is_explicit:
            loss, gradients = lax.psum((loss, gradients), "data")
        return updated(parameters, gradients), loss

    if is_explicit:
        specs = (PartitionSpec(), *[PartitionSpec("data")] * len(batches))
        step = jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=PartitionSpec(), check_vma=False)
    parameters = jax.device_put(model.parameters, shardings(replicated(model.parameters), mesh))
    examples = jax.device_put(batches, NamedSharding(mesh, PartitionSpec("data")))
    return WholeBatch(step, (parameters, *examples), tree_bytes(model.parameters), model.tolerance)
