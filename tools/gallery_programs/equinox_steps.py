"""A transformer of equinox's layers, `equinox.filter_jit`, `filter_value_and_grad` and optax."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from gallery_programs.program import (
    CLASSES,
    HEADS,
    LAYERS,
    MICRO_BATCHES,
    WIDTH,
    Program,
    cross_entropy,
    data_mesh,
    examples,
    put,
)


class Block(eqx.Module):
    attention: eqx.nn.MultiheadAttention
    norm: eqx.nn.LayerNorm
    dropout: eqx.nn.Dropout
    mlp: eqx.nn.MLP

    def __init__(self, key: jax.Array) -> None:
        keys = jax.random.split(key)
        self.attention = eqx.nn.MultiheadAttention(HEADS, WIDTH, key=keys[0])
        self.norm = eqx.nn.LayerNorm(WIDTH)
        self.dropout = eqx.nn.Dropout(0.1)
        self.mlp = eqx.nn.MLP(WIDTH, WIDTH, 4 * WIDTH, 1, jax.nn.gelu, key=keys[1])

    def __call__(self, x: jax.Array, key: jax.Array) -> jax.Array:
        h = jax.vmap(self.norm)(x)
        x = x + self.attention(h, h, h)
        return x + self.dropout(jax.vmap(self.mlp)(x), key=key)


class Classifier(eqx.Module):
    blocks: Block  # stacked: one per layer
    head: eqx.nn.Linear

    def __init__(self, key: jax.Array) -> None:
        self.blocks = eqx.filter_vmap(Block)(jax.random.split(key, LAYERS))
        self.head = eqx.nn.Linear(WIDTH, CLASSES, key=key)

    def __call__(self, x: jax.Array, key: jax.Array) -> jax.Array:
        arrays, static = eqx.partition(self.blocks, eqx.is_array)

        def layer(x: jax.Array, arrays_and_key: Any) -> tuple[jax.Array, None]:
            arrays, key = arrays_and_key
            return eqx.combine(arrays, static)(x, key), None

        x, _ = jax.lax.scan(layer, x, (arrays, jax.random.split(key, LAYERS)))
        return self.head(x.mean(0))


def classifier() -> Program:
    """The layers are stacked and scanned, as equinox's documentation does it; so are the micro-batches."""
    mesh, optimizer = data_mesh(), optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))
    model = Classifier(jax.random.key(0))
    arrays, static = eqx.partition(model, eqx.is_array)

    def loss(model: Classifier, x: jax.Array, y: jax.Array, key: jax.Array) -> jax.Array:
        return cross_entropy(jax.vmap(model)(x, jax.random.split(key, len(x))), y)

    @eqx.filter_jit
    def train_step(model: Classifier, state: Any, batch: Any, key: jax.Array) -> Any:
        def accumulate(total: Any, micro_batch: Any) -> Any:
            value, gradients = eqx.filter_value_and_grad(loss)(model, *micro_batch)
            return jax.tree.map(jnp.add, total, gradients), value

        zeros = jax.tree.map(jnp.zeros_like, eqx.filter(model, eqx.is_array))
        total, losses = jax.lax.scan(accumulate, zeros, (*batch, jax.random.split(key, MICRO_BATCHES)))
        mean = jax.tree.map(lambda leaf: leaf / MICRO_BATCHES, total)
        updates, state = optimizer.update(mean, state, eqx.filter(model, eqx.is_array))
        return eqx.apply_updates(model, updates), state, losses.mean()

    def step(arrays_and_state: Any, batch: Any, key: jax.Array) -> Any:
        arrays, state = arrays_and_state
        model, state, value = train_step(eqx.combine(arrays, static), state, batch, key)
        return (eqx.filter(model, eqx.is_array), state), value

    state = put(mesh, (arrays, optimizer.init(arrays)))
    batch = put(mesh, examples(MICRO_BATCHES), None, "data")
    return Program(step, (state, batch, put(mesh, jax.random.key(1))), arrays)
