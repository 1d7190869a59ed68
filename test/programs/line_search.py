"""A fit by `optax.lbfgs`: a line search, a loop in a loop, whose values are losses summed over micro-batches."""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import NamedSharding, PartitionSpec
from programs.program import data_mesh

WIDTH, MICRO_BATCHES, EXAMPLES, STEPS = 8, 4, 32, 4


def lowered_fit(arrays: int) -> Any:
    """The lowered program of `STEPS` steps on a net of so many weights; gradients are summed over `data`."""
    mesh = data_mesh()
    replicated, split = (NamedSharding(mesh, spec) for spec in (PartitionSpec(), PartitionSpec(None, "data")))
    weights = [jax.ShapeDtypeStruct((WIDTH, WIDTH), jnp.float32, sharding=replicated)] * arrays
    examples = jax.ShapeDtypeStruct((MICRO_BATCHES, EXAMPLES, WIDTH), jnp.float32, sharding=split)
    return jax.jit(_fit).lower(weights, examples, examples)


def _fit(weights: list[Any], inputs: Any, targets: Any) -> list[Any]:
    solver = optax.lbfgs(memory_size=3)

    def loss(weights: list[Any]) -> Any:
        def add(total: Any, batch: tuple[Any, Any]) -> tuple[Any, None]:
            x, y = batch
            for w in weights:
                x = jnp.tanh(x @ w)
            return total + jnp.mean((x - y) ** 2), None

        return jax.lax.scan(add, jnp.zeros(()), (inputs, targets))[0] / MICRO_BATCHES

    def step(carried: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        weights, state, number = carried
        value, gradient = optax.value_and_grad_from_state(loss)(weights, state=state)
        updates, state = solver.update(gradient, state, weights, value=value, grad=gradient, value_fn=loss)
        return optax.apply_updates(weights, updates), state, number + 1

    return jax.lax.while_loop(lambda carried: carried[2] < STEPS, step, (weights, solver.init(weights), 0))[0]
