"""Transformers of flax's layers: `flax.linen` with its scan over layers and its TrainState, and `flax.nnx`."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import nnx
from flax.training.train_state import TrainState
from jax.sharding import NamedSharding, PartitionSpec

from gallery_programs.program import (
    HEADS,
    LAYERS,
    MICRO_BATCHES,
    SEQUENCE,
    VOCABULARY,
    WIDTH,
    Program,
    cross_entropy,
    data_mesh,
    put,
    tokens,
)


class LinenBlock(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array, _: None) -> tuple[jax.Array, None]:
        mask = nn.make_causal_mask(x[..., 0])
        x = x + nn.MultiHeadDotProductAttention(HEADS)(nn.LayerNorm()(x), mask=mask)
        h = nn.gelu(nn.Dense(4 * WIDTH)(nn.LayerNorm()(x)))
        return x + nn.Dropout(0.1, deterministic=False)(nn.Dense(WIDTH)(h)), None


class LinenTransformer(nn.Module):
    @nn.compact
    def __call__(self, ids: jax.Array) -> jax.Array:
        embed = nn.Embed(VOCABULARY, WIDTH)
        position = self.param("position", nn.initializers.normal(0.02), (SEQUENCE, WIDTH))
        layers = nn.scan(
            nn.remat(LinenBlock),
            variable_axes={"params": 0},
            split_rngs={"params": True, "dropout": True},
            length=LAYERS,
        )
        x, _ = layers()(embed(ids) + position, None)
        return embed.attend(nn.LayerNorm()(x))


def linen() -> Program:
    """Gradients of a scan over micro-batches, `TrainState.apply_gradients` once."""
    mesh, model = data_mesh(), LinenTransformer()
    ids = tokens(MICRO_BATCHES)
    keys = {"params": jax.random.key(0), "dropout": jax.random.key(1)}
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))
    parameters = model.init(keys, ids[0])["params"]
    state = put(mesh, TrainState.create(apply_fn=model.apply, params=parameters, tx=optimizer))

    def loss(parameters: Any, apply: Any, ids: jax.Array, key: jax.Array) -> jax.Array:
        logits = apply({"params": parameters}, ids, rngs={"dropout": key})
        return cross_entropy(logits[:, :-1], ids[:, 1:])

    def step(state: TrainState, ids: jax.Array, key: jax.Array) -> Any:
        def accumulate(total: Any, micro_batch: Any) -> Any:
            value, gradients = jax.value_and_grad(loss)(state.params, state.apply_fn, *micro_batch)
            return jax.tree.map(jnp.add, total, gradients), value

        zeros = jax.tree.map(jnp.zeros_like, state.params)
        total, losses = jax.lax.scan(accumulate, zeros, (ids, jax.random.split(key, MICRO_BATCHES)))
        return state.apply_gradients(grads=jax.tree.map(lambda leaf: leaf / MICRO_BATCHES, total)), losses.mean()

    return Program(step, (state, put(mesh, ids, None, "data"), put(mesh, jax.random.key(2))), state.params)


class Block(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.attention = nnx.MultiHeadAttention(HEADS, WIDTH, decode=False, rngs=rngs)
        self.norm, self.second_norm = nnx.LayerNorm(WIDTH, rngs=rngs), nnx.LayerNorm(WIDTH, rngs=rngs)
        self.up, self.down = nnx.Linear(WIDTH, 4 * WIDTH, rngs=rngs), nnx.Linear(4 * WIDTH, WIDTH, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = x + self.attention(self.norm(x), mask=nnx.make_causal_mask(x[..., 0]))
        return x + self.dropout(self.down(nnx.gelu(self.up(self.second_norm(x)))))


class Transformer(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.embed = nnx.Embed(VOCABULARY, WIDTH, rngs=rngs)
        self.blocks = nnx.List([Block(rngs) for _ in range(LAYERS)])
        self.norm = nnx.LayerNorm(WIDTH, rngs=rngs)
        self.head = nnx.Linear(WIDTH, VOCABULARY, rngs=rngs)

    def __call__(self, ids: jax.Array) -> jax.Array:
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def nnx_step(*, sharded: bool = False) -> Program:
    """`nnx.value_and_grad` in a scan over micro-batches and `nnx.Optimizer`, in `nnx.jit`.

    `sharded`: each array of model and optimizer is split over its first dimension that the devices divide.
    """
    mesh = data_mesh()
    model = Transformer(nnx.Rngs(params=0, dropout=1))
    optimizer = nnx.Optimizer(model, optax.adamw(1e-3), wrt=nnx.Param)
    graph, state = nnx.split((model, optimizer))

    def loss(model: Transformer, ids: jax.Array) -> jax.Array:
        return cross_entropy(model(ids)[:, :-1], ids[:, 1:])

    @nnx.jit
    def train_step(model: Transformer, optimizer: nnx.Optimizer, batch: jax.Array) -> jax.Array:
        @nnx.scan(in_axes=(nnx.Carry, None, 0), out_axes=(nnx.Carry, 0))
        def accumulate(total: Any, model: Transformer, ids: jax.Array) -> Any:
            value, gradients = nnx.value_and_grad(loss)(model, ids)
            return jax.tree.map(jnp.add, total, gradients), value

        zeros = jax.tree.map(jnp.zeros_like, nnx.state(model, nnx.Param))
        total, losses = accumulate(zeros, model, batch)
        optimizer.update(model, jax.tree.map(lambda leaf: leaf / MICRO_BATCHES, total))
        return losses.mean()

    def step(state: Any, batch: jax.Array) -> Any:
        model, optimizer = nnx.merge(graph, state)
        value = train_step(model, optimizer, batch)
        return nnx.state((model, optimizer)), value

    def place(leaf: jax.Array) -> jax.Array:
        size = mesh.shape["data"]
        first = next((d for d, n in enumerate(leaf.shape) if sharded and n % size == 0), None)
        spec = () if first is None else (*(None for _ in range(first)), "data")
        return jax.device_put(leaf, NamedSharding(mesh, PartitionSpec(*spec)))

    state = jax.tree.map(place, state)
    gradients = None if sharded else nnx.state(model, nnx.Param)
    return Program(step, (state, put(mesh, tokens(MICRO_BATCHES), None, "data")), gradients)
