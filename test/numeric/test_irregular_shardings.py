"""Irregular shardings: sums over windows, of uneven shards, and over one mesh axis after another."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec
from numeric.user_steps import (
    EXAMPLES,
    MICRO_BATCHES,
    WIDTH,
    Case,
    accumulated,
    compared,
    integers,
    placed,
    reduced_once,
)
from programs.program import Tree, mesh_of

MESH = mesh_of(data=4, model=2)
SEQUENCE, KERNEL = 8, 3
ODD = 7  # which `model` does not divide


def constrained(value: jax.Array, *spec: Any) -> jax.Array:
    return lax.with_sharding_constraint(value, NamedSharding(MESH, PartitionSpec(*spec)))


def on_mesh(tree: Tree, *spec: Any) -> Tree:
    return placed(tree, *spec, mesh=MESH)


def step(loss: Any) -> Any:
    return lambda w, batches: jax.tree.map(jnp.subtract, w, accumulated(jax.grad(loss), w, batches))


def convolved(w: Any, x: jax.Array) -> jax.Array:
    """Along the positions, which `model` splits."""
    y = lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"))
    return (y**2).sum() / 2


def odd_features(w: Any, x: jax.Array) -> jax.Array:
    return (constrained(x @ w, "data", "model") ** 2).sum() / 2


BATCHES = on_mesh(integers(MICRO_BATCHES, EXAMPLES, WIDTH, seed=0), None, "data")
SEQUENCES = on_mesh(integers(MICRO_BATCHES, EXAMPLES, SEQUENCE, WIDTH, seed=1), None, "data", "model")
IMAGES = on_mesh(integers(MICRO_BATCHES, EXAMPLES, SEQUENCE, WIDTH, seed=2), None, "data")

LEFT_TO_XLA = {
    "a split window": (
        convolved,
        on_mesh(integers(KERNEL, WIDTH, WIDTH, seed=3)),
        SEQUENCES,
        "a convolution with a sharded window",
    ),
    "unequal parts": (odd_features, on_mesh(integers(WIDTH, ODD, seed=4)), BATCHES, "sharded into unequal parts"),
}


@pytest.mark.parametrize("name", LEFT_TO_XLA)
def test_what_xla_cannot_leave_for_later_stays(name: str) -> None:
    """XLA reduces over the devices of a window itself, and aborts at unequal parts that are not reduced."""
    loss, w, batches, reason = LEFT_TO_XLA[name]
    before, after, missed = compared(Case(step(loss), (w, batches)))
    assert any(reason in remark for remark in missed)
    assert after.sync_bytes == before.sync_bytes > 0


def parallel(w: Any, h: jax.Array) -> jax.Array:
    return jax.nn.relu(h @ w["a"]) @ w["b"]


def with_bias(w: Any, x: jax.Array) -> jax.Array:
    """The gradient of the bias is summed over the examples, of what is summed over `model`."""
    h = x + w["c"]
    return ((h + parallel(w, h)) ** 2).sum() / 2


def with_token(w: Any, x: jax.Array) -> jax.Array:
    """A class token, repeated for each example."""
    token = jnp.broadcast_to(w["c"], (x.shape[0], 1, WIDTH))
    h = jnp.concatenate([token, x], 1)
    return (parallel(w, h)[:, 0] ** 2).sum() / 2


def with_loss(w: Any, batches: jax.Array) -> Any:
    """The loss sums logarithms of sums over the vocabulary, which `model` splits."""

    def body(total: Any, x: jax.Array) -> tuple[Any, None]:
        def loss(w: Any) -> jax.Array:
            return jax.nn.logsumexp(constrained(x @ w["a"], "data", "model"), axis=-1).sum()

        return jax.tree.map(jnp.add, total, jax.value_and_grad(loss)(w)), None

    return lax.scan(body, (jnp.zeros(()), jax.tree.map(jnp.zeros_like, w)), batches)[0]


PAIR = {
    "a": on_mesh(integers(WIDTH, WIDTH, seed=5), None, "model"),
    "b": on_mesh(integers(WIDTH, WIDTH, seed=6), "model"),
    "c": on_mesh(integers(WIDTH, seed=7)),
}
WEIGHTS = 4 * WIDTH * WIDTH  # of both, split over `model`

ONE_AXIS_AFTER_ANOTHER = {
    "a bias": Case(step(with_bias), (PAIR, BATCHES), WEIGHTS + 4 * WIDTH),
    "a token": Case(step(with_token), (PAIR, IMAGES), WEIGHTS + 4 * WIDTH, tolerance=1e-6),
    "a loss": Case(with_loss, ({"a": PAIR["a"]}, BATCHES), WEIGHTS // 2, tolerance=1e-6),
}


@pytest.mark.parametrize("name", ONE_AXIS_AFTER_ANOTHER)
def test_sums_over_one_axis_after_another_are_reduced_once(name: str) -> None:
    reduced_once(ONE_AXIS_AFTER_ANOTHER[name])
