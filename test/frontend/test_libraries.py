"""Plain `jax.jit` training steps as users of flax, equinox and optax write them: each gradient is reduced once."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import NamedSharding, PartitionSpec
from programs.program import data_mesh, tree_bytes

import paropt

MICRO_BATCHES, EXAMPLES, LENGTH, WIDTH, CLASSES = 4, 16, 6, 32, 10
LOSS_BYTES = 4 * MICRO_BATCHES
Loss = Callable[..., jax.Array]


class Block(nn.Module):
    """Normalisation, attention, dropout and a convolution: their gradients come from products, sums and scatters."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        h = nn.LayerNorm()(x)
        h = nn.gelu(nn.Dense(WIDTH)(h))
        h = nn.Dropout(0.1, deterministic=False)(h)
        x = x + nn.MultiHeadDotProductAttention(num_heads=2)(h)
        x = nn.Conv(WIDTH, (3,))(x)
        return nn.Dense(CLASSES)(x.mean(1))


def flax_model() -> tuple[Any, Loss]:
    block = Block()
    keys = {"params": jax.random.key(0), "dropout": jax.random.key(1)}
    parameters = block.init(keys, jnp.zeros((1, LENGTH, WIDTH)))

    def loss(parameters: Any, x: jax.Array, y: jax.Array, key: jax.Array) -> jax.Array:
        logits = block.apply(parameters, x, rngs={"dropout": key})
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    return parameters, loss


def equinox_model() -> tuple[Any, Loss]:
    model = equinox.nn.MLP(LENGTH * WIDTH, CLASSES, WIDTH, 2, key=jax.random.key(0))
    parameters, static = equinox.partition(model, equinox.is_array)

    def loss(parameters: Any, x: jax.Array, y: jax.Array, _: jax.Array) -> jax.Array:
        network = equinox.combine(parameters, static)
        logits = jax.vmap(network)(x.reshape(x.shape[0], -1))
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    return parameters, loss


def training_step(loss: Loss, optimizer: optax.GradientTransformation) -> Callable[..., Any]:
    def step(parameters: Any, state: Any, x: jax.Array, y: jax.Array, key: jax.Array) -> Any:
        def accumulate(total: Any, micro_batch: Any) -> Any:
            value, gradients = jax.value_and_grad(loss)(parameters, *micro_batch)
            return jax.tree.map(jnp.add, total, gradients), value

        zeros = jax.tree.map(jnp.zeros_like, parameters)
        total, losses = jax.lax.scan(accumulate, zeros, (x, y, jax.random.split(key, MICRO_BATCHES)))
        mean = jax.tree.map(lambda leaf: leaf / MICRO_BATCHES, total)
        updates, state = optimizer.update(mean, state, parameters)
        return optax.apply_updates(parameters, updates), state, losses.mean()

    return step


@pytest.mark.parametrize("model", [flax_model, equinox_model])
def test_each_gradient_is_reduced_once(model: Callable[[], tuple[Any, Loss]]) -> None:
    parameters, loss = model()
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(optax.cosine_decay_schedule(1e-2, 100)))
    mesh = data_mesh()
    whole, split = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in ((), (None, "data")))
    rng = np.random.default_rng(0)
    x = rng.standard_normal((MICRO_BATCHES, EXAMPLES, LENGTH, WIDTH)).astype(np.float32)
    y = rng.integers(0, CLASSES, (MICRO_BATCHES, EXAMPLES))
    state = jax.device_put((parameters, optimizer.init(parameters)), whole)
    args = (*state, *jax.device_put((x, y), split), jax.random.key(2))

    step = training_step(loss, optimizer)
    alone, ours = jax.jit(step), paropt.jit(step, strict=True)
    before, after = paropt.audit(alone.lower(*args)), paropt.audit(ours.lower(*args))
    assert before.sync_in_loop >= MICRO_BATCHES * tree_bytes(parameters)
    assert after.sync_in_loop == 0
    assert after.sync_bytes - tree_bytes(parameters) in (0, LOSS_BYTES)
    for want, got in zip(jax.tree.leaves(alone(*args)), jax.tree.leaves(ours(*args)), strict=True):
        scale = float(np.abs(np.asarray(want)).max())
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=0, atol=1e-3 * scale)


@pytest.mark.parametrize(
    "model, path, count",
    [(flax_model, "params/Dense_*/kernel", 2), (equinox_model, "layers/*/weight", 3)],
    ids=["flax", "equinox"],
)
def test_names_of_models_reach_the_rules(
    model: Callable[[], tuple[Any, Loss]], path: str, count: int, tmp_path: Path
) -> None:
    """Of parameters, and of the optimizer's state, which has the same names: first and second moments."""
    parameters, loss = model()
    optimizer = optax.adamw(1e-3)
    state = jax.tree.map(np.asarray, (parameters, optimizer.init(parameters)))
    split = NamedSharding(data_mesh(), PartitionSpec(None, "data"))
    x = jax.device_put(np.ones((MICRO_BATCHES, EXAMPLES, LENGTH, WIDTH), np.float32), split)
    y = jax.device_put(np.zeros((MICRO_BATCHES, EXAMPLES), np.int32), split)
    rules = tmp_path / "rules.toml"
    rules.write_text(f'[[rule]]\npath = "{path}"\nlargest = "data"\n')
    passes = f"inline-calls,annotate-shardings{{rules={rules}}}"
    lowered = paropt.jit(training_step(loss, optimizer), passes=passes).lower(*state, x, y, jax.random.key(2))
    decided = [r for r in paropt.remarks(lowered) if r.pass_name == "annotate-shardings"]
    assert [r.applied for r in decided] == [True] * 3 * count
    placed = jax.tree_util.tree_leaves_with_path(lowered.compile().input_shardings[0])
    ours = [leaf for name, leaf in placed if re.search(r"Dense_.*kernel|weight", jax.tree_util.keystr(name))]
    assert ["data" in sharding.spec for sharding in ours] == [True] * 3 * count


def test_depthwise_convolutions_stay_and_the_others_move() -> None:
    """XLA reduces the gradient of a convolution in groups itself: one warning less, and the rest is deferred."""
    mesh = data_mesh()

    def loss(w: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        kwargs: dict[str, Any] = {"dimension_numbers": ("NWC", "WIO", "NWC"), "feature_group_count": 4}
        deep = jax.lax.conv_general_dilated(x, w["depthwise"], (1,), "SAME", **kwargs)
        return jnp.sum((deep @ w["dense"]) ** 2)

    def step(w: dict[str, jax.Array], xs: jax.Array) -> Any:
        def body(total: Any, x: jax.Array) -> Any:
            return jax.tree.map(jnp.add, total, jax.grad(loss)(w, x)), None

        return jax.lax.scan(body, jax.tree.map(jnp.zeros_like, w), xs)[0]

    rng = np.random.default_rng(0)
    whole, split = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in ((), (None, "data")))
    x = jax.device_put(rng.integers(-2, 3, (MICRO_BATCHES, 16, 10, 4)).astype(np.float32), split)
    w = jax.device_put({"depthwise": np.ones((3, 1, 4), np.float32), "dense": np.ones((4, 4), np.float32)}, whole)
    ours = paropt.jit(step, strict=True)
    found = {(c.depth, c.payload) for c in paropt.audit(ours.lower(w, x)).collectives}
    assert found == {(1, 3 * 4 * 4), (0, 4 * 4 * 4)}
    for got, want in zip(jax.tree.leaves(ours(w, x)), jax.tree.leaves(jax.jit(step)(w, x)), strict=True):
        np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
