"""Random whole-batch steps: split into micro-batches they compute the same, or they stay as they are."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec
from programs.program import Tree, data_mesh
from property.test_programs import REPEATABLE

import paropt

EXAMPLES, WIDTH, ROWS = 32, 4, 5
COUNT = 2
PASSES = f"inline-calls,split-microbatches{{count={COUNT}}}"

Layer = Callable[[Tree, jax.Array], jax.Array]  # (parameters, (examples, width)) -> the same shape


def scanned(parameters: Tree, x: jax.Array) -> jax.Array:
    def layer(h: jax.Array, weight: jax.Array) -> tuple[jax.Array, jax.Array]:
        h = bounded(h @ weight)
        return h, jnp.sum(h, axis=1)

    h, sums = lax.scan(layer, x, jnp.stack([parameters["a"], parameters["b"]]))
    return h + sums[0][:, None]


def looked_up(parameters: Tree, x: jax.Array) -> jax.Array:
    return parameters["rows"][jnp.abs(x[:, 0].astype(jnp.int32)) % ROWS] + x


def picked(parameters: Tree, x: jax.Array) -> jax.Array:
    chosen = jnp.argmax(x @ parameters["a"], axis=1)[:, None]
    return jnp.take_along_axis(x, chosen, axis=1) + x


def updated_columns(parameters: Tree, x: jax.Array) -> jax.Array:
    return x.at[:, 1:3].add(parameters["b"][0, 1:3]).at[:, 0].set(x[:, 3])


# Each example on its own.
APART: dict[str, Layer] = {
    "dense": lambda p, x: x @ p["a"],
    "tied": lambda p, x: x @ p["b"] @ p["b"].T,
    "bias": lambda p, x: x + p["a"][0],
    "rectified": lambda p, x: jnp.maximum(x, 0),
    "squared": lambda p, x: x * x,
    "concatenated": lambda p, x: jnp.concatenate([x[:, 2:], x[:, :2]], axis=1),
    "padded": lambda p, x: jnp.pad(x[:, 1:], ((0, 0), (0, 1))),
    "reversed": lambda p, x: x[:, ::-1],
    "sorted": lambda p, x: jnp.sort(x, axis=1),
    "cumulative": lambda p, x: jnp.cumsum(x, axis=1),
    "two_rows": lambda p, x: (x.reshape(EXAMPLES * 2, 2) @ p["a"][:2, :2]).reshape(x.shape),
    "outer": lambda p, x: jnp.einsum("bi,bj,ij->bj", x, x, p["a"]),
    "sum_of_row": lambda p, x: x + jnp.sum(x, axis=1, keepdims=True),
    "largest_of_row": lambda p, x: x - lax.stop_gradient(jnp.max(x, axis=1, keepdims=True)),
    "numbered": lambda p, x: x * (jnp.arange(EXAMPLES) % 3)[:, None],
    "table": lambda p, x: x + np.arange(EXAMPLES * WIDTH).reshape(EXAMPLES, WIDTH) % 3,
    "transposed": lambda p, x: (p["a"] @ x.T).T,
    "chosen": lambda p, x: jnp.where(x > 0, x, p["b"][1]),
    "scanned": scanned,
    "looked_up": looked_up,
    "picked": picked,
    "updated_columns": updated_columns,
    "remat": lambda p, x: jax.checkpoint(lambda w, h: jnp.maximum(h @ w, 0))(p["a"], x),
    "dropped": lambda p, x: x * jax.random.bernoulli(jax.random.key(1), 0.5, x.shape),
}
# The examples together.
TOGETHER: dict[str, Layer] = {
    "normalised": lambda p, x: x - jnp.sum(x, axis=0),
    "compared": lambda p, x: (x @ x.T) @ x,
    "ordered": lambda p, x: jnp.sort(x, axis=0),
    "shifted": lambda p, x: jnp.roll(x, 1, axis=0),
    "turned": lambda p, x: x[::-1],
    "added_up": lambda p, x: jnp.cumsum(x, axis=0),
    "weighted_by_all": lambda p, x: x * jnp.max(x),
    "first": lambda p, x: x + x[0],
    "in_groups": lambda p, x: x.reshape(4, -1, WIDTH).sum(axis=0).repeat(4, axis=0),
    "first_replaced": lambda p, x: x.at[0].set(p["a"][0]),
    "permuted": lambda p, x: x[jnp.arange(EXAMPLES) ^ 1],
    "moments": lambda p, x: x @ (x.T @ x),
}


def bounded(x: jax.Array) -> jax.Array:
    """Values so small that f32 holds all sums of their products."""
    return jnp.clip(x, -2, 2)


def step_of(names: list[str]) -> Callable[..., Any]:
    def loss(parameters: Tree, x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        for name in names:
            x = bounded((APART | TOGETHER)[name](parameters, x))
        losses = jnp.sum((x - y) * x, axis=1)
        return jnp.sum(losses), losses

    def step(parameters: Tree, x: jax.Array, y: jax.Array) -> Any:
        (value, losses), gradients = jax.value_and_grad(loss, has_aux=True)(parameters, x, y)
        return jax.tree.map(lambda p, g: p - g / 4, parameters, gradients), value, losses

    return step


def arguments(seed: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)

    def integers(*shape: int) -> np.ndarray:
        return rng.integers(-1, 2, shape).astype(np.float32)

    parameters = {"a": integers(WIDTH, WIDTH), "b": integers(WIDTH, WIDTH), "rows": integers(ROWS, WIDTH)}
    mesh = data_mesh()
    examples = [integers(EXAMPLES, WIDTH), integers(EXAMPLES, WIDTH)]
    split = jax.device_put(examples, NamedSharding(mesh, PartitionSpec("data")))
    return jax.device_put(parameters, NamedSharding(mesh, PartitionSpec())), *split


def results_and_remark(names: list[str], seed: int) -> Any:
    """The results of the step before and after the pass, bit for bit the same, and what the pass says."""
    args = arguments(seed)
    before, after = jax.jit(step_of(names)), paropt.jit(step_of(names), passes=PASSES, strict=True)
    for want, got in zip(jax.tree.leaves(before(*args)), jax.tree.leaves(after(*args)), strict=True):
        np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
    lowered = after.lower(*args)
    (remark,) = [r for r in paropt.remarks(lowered) if r.pass_name == "split-microbatches"]
    return remark


@settings(REPEATABLE, max_examples=10)
@given(st.lists(st.sampled_from(sorted(APART)), min_size=1, max_size=4), st.integers(0, 9))
def test_examples_apart_are_split(names: list[str], seed: int) -> None:
    remark = results_and_remark(names, seed)
    assert remark.applied, remark.text


@settings(REPEATABLE, max_examples=10)
@given(st.sampled_from(sorted(TOGETHER)), st.lists(st.sampled_from(sorted(APART)), max_size=2), st.integers(0, 9))
def test_examples_together_stay(together: str, after: list[str], seed: int) -> None:
    remark = results_and_remark(["dense", together, *after], seed)
    assert not remark.applied, "nothing that needs a product is known before the loop"
