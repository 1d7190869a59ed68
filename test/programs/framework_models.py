"""Transformers of flax and equinox with tied embeddings and dropout, in training steps with optax's AdamW and clipping."""

from typing import Any

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen
from programs.layered_steps import Loss, Program

WIDTH, TOKENS, VOCABULARY, HEADS = 16, 8, 24, 2


class FlaxBlock(linen.Module):
    dtype: Any
    heads: int = HEADS

    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        dtype, width = self.dtype, x.shape[-1]
        mask = linen.make_causal_mask(jnp.zeros(x.shape[:2]))
        mixed = linen.MultiHeadDotProductAttention(self.heads, dtype=dtype)(linen.LayerNorm(dtype=dtype)(x), mask=mask)
        x = x + linen.Dropout(0.1, deterministic=False)(mixed)
        y = linen.gelu(linen.Dense(2 * width, dtype=dtype)(linen.LayerNorm(dtype=dtype)(x)))
        return x + linen.Dropout(0.1, deterministic=False)(linen.Dense(width, dtype=dtype)(y))


class FlaxModel(linen.Module):
    layers: int
    dtype: Any
    width: int = WIDTH
    heads: int = HEADS
    vocabulary: int = VOCABULARY

    @linen.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        embed = linen.Embed(self.vocabulary, self.width, dtype=self.dtype)
        x = embed(tokens)
        for _ in range(self.layers):
            x = FlaxBlock(self.dtype, self.heads)(x)
        return embed.attend(linen.LayerNorm(dtype=self.dtype)(x))


class EquinoxBlock(equinox.Module):
    norms: list[equinox.nn.LayerNorm]
    attention: equinox.nn.MultiheadAttention
    up: equinox.nn.Linear
    down: equinox.nn.Linear
    dropout: equinox.nn.Dropout

    def __init__(self, key: jax.Array) -> None:
        keys = jax.random.split(key, 3)
        self.norms = [equinox.nn.LayerNorm(WIDTH) for _ in range(2)]
        self.attention = equinox.nn.MultiheadAttention(HEADS, WIDTH, key=keys[0])
        self.up = equinox.nn.Linear(WIDTH, 2 * WIDTH, key=keys[1])
        self.down = equinox.nn.Linear(2 * WIDTH, WIDTH, key=keys[2])
        self.dropout = equinox.nn.Dropout(0.1)

    def __call__(self, x: jax.Array, key: jax.Array) -> jax.Array:
        one, other = jax.random.split(key)
        y = jax.vmap(self.norms[0])(x)
        x = x + self.dropout(self.attention(y, y, y, mask=jnp.tril(jnp.ones((TOKENS, TOKENS), bool))), key=one)
        y = jax.vmap(self.down)(jax.nn.gelu(jax.vmap(self.up)(jax.vmap(self.norms[1])(x))))
        return x + self.dropout(y, key=other)


class EquinoxModel(equinox.Module):
    embed: equinox.nn.Embedding
    blocks: list[EquinoxBlock]

    def __init__(self, layers: int, key: jax.Array) -> None:
        first, *others = jax.random.split(key, layers + 1)
        self.embed = equinox.nn.Embedding(VOCABULARY, WIDTH, key=first)
        self.blocks = [EquinoxBlock(each) for each in others]

    def __call__(self, tokens: jax.Array, key: jax.Array) -> jax.Array:
        x = jax.vmap(self.embed)(tokens)
        for number, (block, each) in enumerate(zip(self.blocks, jax.random.split(key, len(self.blocks)), strict=True)):
            with jax.named_scope(f"block{number}"):
                x = block(x, each)
        return x @ self.embed.weight.T


def framework_program(library: str, *, microbatches: int, layers: int = 4, dtype: Any = jnp.float32) -> Program:
    """`flax` or `equinox`. Each micro-batch has its key: the step's, with the number of the micro-batch folded in."""
    rng = np.random.default_rng(1)
    tokens = tuple(rng.integers(0, VOCABULARY, (32, TOKENS)).astype(np.int32) for _ in range(2))
    parameters, loss = _flax(layers, dtype) if library == "flax" else _equinox(layers, dtype)
    optimizer = optax.chain(optax.clip_by_global_norm(0.5), optax.adamw(optax.linear_schedule(1e-2, 1e-3, 10)))

    def step(state: Any, batch: Any) -> Any:
        parameters, moments, key = state
        parts = jax.tree.map(lambda leaf: leaf.reshape(microbatches, -1, *leaf.shape[1:]), batch)

        def trip(carry: Any, part: Any) -> Any:
            number, examples = part
            own = jax.random.fold_in(jax.random.wrap_key_data(key), number)
            value, gradient = jax.value_and_grad(loss)(parameters, (examples, own))
            return (jax.tree.map(jnp.add, carry[0], gradient), carry[1] + value), None

        start = (jax.tree.map(jnp.zeros_like, parameters), jnp.float32(0))
        (total, value), _ = jax.lax.scan(trip, start, (jnp.arange(microbatches), parts))
        total = jax.tree.map(lambda leaf: leaf / microbatches, total)
        updates, moments = optimizer.update(total, moments, parameters)
        return (optax.apply_updates(parameters, updates), moments, key + jnp.uint32(1)), value / microbatches

    state = (parameters, optimizer.init(parameters), jax.random.key_data(jax.random.key(2)))
    return Program(step, state, tokens)


def _flax(layers: int, dtype: Any) -> tuple[Any, Loss]:
    model = FlaxModel(layers, dtype)
    keys = {"params": jax.random.key(0), "dropout": jax.random.key(1)}

    def loss(parameters: Any, part: Any) -> jax.Array:
        (tokens, targets), key = part
        logits: Any = model.apply(parameters, tokens, rngs={"dropout": key})
        return _cross_entropy(logits, targets)

    return model.init(keys, jnp.zeros((1, TOKENS), jnp.int32)), loss


def _equinox(layers: int, dtype: Any) -> tuple[Any, Loss]:
    parameters, static = equinox.partition(EquinoxModel(layers, jax.random.key(0)), equinox.is_inexact_array)

    def loss(parameters: Any, part: Any) -> jax.Array:
        (tokens, targets), key = part
        model = equinox.combine(jax.tree.map(lambda leaf: leaf.astype(dtype), parameters), static)
        keys = jax.random.split(key, tokens.shape[0])
        return _cross_entropy(jax.vmap(model)(tokens, keys), targets)

    return parameters, loss


def _cross_entropy(logits: jax.Array, targets: jax.Array) -> jax.Array:
    return optax.softmax_cross_entropy_with_integer_labels(logits.astype(jnp.float32), targets).mean()
