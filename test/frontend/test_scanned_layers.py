"""Layers that libraries scan, as a pipeline in one program: `flax.linen.scan` with recomputation, dropout and optax."""

from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import paropt
from paropt.audit import audit

LAYERS, MICROBATCHES, WIDTH, WORDS = 8, 4, 16, 24
PASSES = "pipeline-layer-loop,grad-sync"


class Block(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array, _: None) -> tuple[jax.Array, None]:
        h = nn.LayerNorm()(x)
        x = x + nn.MultiHeadDotProductAttention(num_heads=2, dropout_rate=0.1, deterministic=False)(h, h)
        return x + nn.Dense(WIDTH)(nn.gelu(nn.Dense(2 * WIDTH)(nn.LayerNorm()(x)))), None


class Model(nn.Module):
    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        embedding = nn.Embed(WORDS, WIDTH)
        rngs: dict[Any, bool] = {"params": True, "dropout": True}
        scanned = nn.scan(nn.remat(Block), variable_axes={"params": 0}, split_rngs=rngs, length=LAYERS)
        x, _ = scanned(name="layers")(embedding(tokens), None)
        return embedding.attend(nn.LayerNorm()(x))


class Training(NamedTuple):
    step: Any
    state: Any
    batch: Any


def training() -> Training:
    """A step of AdamW, with what it takes. Small gradients are small updates: rounding does not show in them."""
    model, optimizer = Model(), optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-1, eps=1e-2))
    rng = np.random.default_rng(0)
    batch = tuple(rng.integers(0, WORDS, (MICROBATCHES, 4, 8)).astype(np.int32) for _ in range(2))
    params = model.init({"params": jax.random.key(0), "dropout": jax.random.key(1)}, batch[0][0])

    def loss(params: Any, part: Any, key: jax.Array) -> jax.Array:
        tokens, targets = part
        logits = model.apply(params, tokens, rngs={"dropout": key})
        return optax.softmax_cross_entropy_with_integer_labels(logits, targets).mean()

    def step(state: Any, batch: Any) -> Any:
        params, moments, key = state

        def trip(carry: Any, part: Any) -> Any:
            rows, number = part
            value, gradient = jax.value_and_grad(loss)(params, rows, jax.random.fold_in(key, number))
            return (jax.tree.map(jnp.add, carry[0], gradient), carry[1] + value), None

        start = jax.tree.map(jnp.zeros_like, params), jnp.float32(0)
        (total, value), _ = jax.lax.scan(trip, start, (batch, jnp.arange(MICROBATCHES)))
        updates, moments = optimizer.update(total, moments, params)
        return (optax.apply_updates(params, updates), moments, jax.random.fold_in(key, 1)), value

    return Training(step, (params, optimizer.init(params), jax.random.key(2)), batch)


def test_flax_layers_are_a_pipeline() -> None:
    made = training()
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("stage", "data"))

    def sharding(path: Any, _: Any) -> NamedSharding:
        return NamedSharding(mesh, PartitionSpec("stage") if "layers" in str(path) else PartitionSpec())

    state = jax.tree_util.tree_map_with_path(sharding, made.state)
    examples = NamedSharding(mesh, PartitionSpec(None, "data"))
    options: dict[str, Any] = {"in_shardings": (state, (examples, examples)), "out_shardings": (state, None)}
    plain, piped = jax.jit(made.step, **options), paropt.jit(made.step, passes=PASSES, **options)

    decided = paropt.remarks(piped.lower(made.state, made.batch))
    assert [each.applied for each in decided if each.pass_name == "pipeline-layer-loop"] == [True]

    old, want, got = (jax.tree.leaves(tree[0]) for tree in (made.state, *(f(*made[1:])[0] for f in (plain, piped))))
    largest = max(np.abs(np.asarray(a) - np.asarray(b)).max() for a, b in zip(want, old, strict=True))
    assert largest > 1e-3
    for one, other in zip(want, got, strict=True):
        np.testing.assert_allclose(other, one, rtol=0, atol=1e-5 * largest)

    after = audit(plain, made.state, made.batch, passes=PASSES).after.collectives
    assert not [each for each in after if each.kind == "all-gather"]
    sent = [each for each in after if each.kind == "collective-permute"]
    assert [each.executions for each in sent] == [MICROBATCHES + 3] * 2
    assert not [each for each in after if each.kind == "all-reduce" and "stage" in each.axes and each.loops]
