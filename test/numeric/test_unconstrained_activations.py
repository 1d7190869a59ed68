"""Fully sharded steps without constraints on activations: by default they send no more than by XLA alone."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from unit.clusters import available

import paropt
from paropt.clusters.targets import get
from paropt.hlo.census import census
from paropt.hlo.traffic import traffic

WIDTH, LAYERS, TOKENS, TRIPS = 128, 2, 16, 4
LITTLE = 1.001  # times XLA alone


def loss(p: Any, tokens: jax.Array) -> jax.Array:
    x = p["embedding"][tokens]
    for i in range(LAYERS):
        h = x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * p[f"scale{i}"]
        x = x + jax.nn.gelu(h @ p[f"up{i}"]) @ p[f"down{i}"]
    logits = x @ p["embedding"].T
    return optax.softmax_cross_entropy_with_integer_labels(logits, jnp.roll(tokens, -1, 1)).mean()


def updated(p: Any, batches: jax.Array) -> Any:
    """A step per micro-batch, and the loss of each."""

    def one(p: Any, tokens: jax.Array) -> Any:
        value, gradients = jax.value_and_grad(loss)(p, tokens)
        return jax.tree.map(lambda p, g: p - 0.1 * g, p, gradients), value

    return jax.lax.scan(one, p, batches)


def accumulated(p: Any, batches: jax.Array) -> Any:
    def one(total: Any, tokens: jax.Array) -> Any:
        return jax.tree.map(jnp.add, total, jax.value_and_grad(loss)(p, tokens)), None

    (value, gradients), _ = jax.lax.scan(one, (jnp.zeros(()), jax.tree.map(jnp.zeros_like, p)), batches)
    return jax.tree.map(lambda p, g: p - 0.1 * g, p, gradients), value


@pytest.mark.parametrize("target", ["cpu:8", "tpu:v5e:2x4", "gpu:h100:1x1x8"])
@pytest.mark.parametrize("step", [updated, accumulated])
def test_they_send_no_more(step: Any, target: str) -> None:
    """The largest dimension of each parameter is sharded, and of the embedding its features, as Kauldron does it."""
    available(target)
    mesh = Mesh(np.array(get(target).devices or jax.devices()), ("data",))

    def shaped(shape: tuple[int, ...], *spec: str | None, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, P(*spec)))

    p = {"embedding": shaped((WIDTH, WIDTH), None, "data")}
    for i in range(LAYERS):
        p |= {f"up{i}": shaped((WIDTH, 4 * WIDTH), None, "data"), f"down{i}": shaped((4 * WIDTH, WIDTH), "data")}
        p |= {f"scale{i}": shaped((WIDTH,), "data")}
    shardings = (jax.tree.map(lambda leaf: leaf.sharding, p), NamedSharding(mesh, P()))
    tokens = shaped((TRIPS, 32, TOKENS), None, "data", dtype=jnp.int32)

    def sent(jit: Any) -> float:
        compiled = jit(step, out_shardings=shardings).lower(p, tokens).compile()
        return traffic(census(compiled.as_text())).known

    assert sent(paropt.jit) <= LITTLE * sent(jax.jit)
