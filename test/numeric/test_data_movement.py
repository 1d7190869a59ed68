"""Data movement ops on unreduced values, along dimensions that another axis shards: the values are right.

XLA's partitioner has its own way for each op, and some of these add up, or exchange, what devices hold.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from numeric.user_steps import MICRO_BATCHES, Case, compared, integers, placed
from programs.program import mesh_of

import paropt

MESH = mesh_of(data=4, tensor=2)
ROWS, COLUMNS, EXAMPLES = 16, 32, 32
AT = np.array([0, 3, 13])

# What becomes of a gradient (16 x 32) before it is added up.
MOVES: dict[str, Callable[[jax.Array], jax.Array]] = {
    "reverse": lambda g: g[::-1, ::-1],
    "slice": lambda g: g[1:14, 3:20],
    "strided slice": lambda g: g[1::3, 1::3],
    "dynamic_slice": lambda g: lax.dynamic_slice(g, (3, 5), (5, 7)),
    "one row, one column": lambda g: g[13] + g[:, 17].sum(),
    "dynamic_update_slice": lambda g: lax.dynamic_update_slice(jnp.zeros((20, 40)), g, (1, 5)),
    "zeros over a part": lambda g: lax.dynamic_update_slice(g, jnp.zeros((4, 4)), (3, 9)),
    "rows": lambda g: g[AT],
    "columns": lambda g: g[:, AT],
    "elements": lambda g: g[AT, AT + 4],
    "of each row": lambda g: jnp.take_along_axis(g, AT[np.arange(ROWS) % 3][:, None], 1),
    "of each column": lambda g: jnp.take_along_axis(g, AT[np.arange(COLUMNS) % 3][None], 0),
    "rows added to rows": lambda g: jnp.zeros((20, COLUMNS)).at[np.arange(ROWS) + 2].add(g),
    "columns set": lambda g: jnp.zeros((ROWS, 40)).at[:, np.arange(COLUMNS) + 3].set(g, unique_indices=True),
    "columns cleared": lambda g: g.at[:, AT].set(0, unique_indices=True),
    "pad": lambda g: jnp.pad(g, ((2, 1), (3, 2))),
    "roll": lambda g: jnp.roll(g, (3, 5), (0, 1)),
    "concatenate": lambda g: jnp.concatenate([jnp.concatenate([g, 2 * g], 1)] * 2, 0),
    "stack of parts": lambda g: jnp.stack(jnp.split(g, 4, 1)),
    "tile": lambda g: jnp.tile(g, (2, 2)),
    "repeat": lambda g: jnp.repeat(jnp.repeat(g, 2, 1), 2, 0),
    "reshape to more": lambda g: g.reshape(4, 4, 4, 8).transpose(2, 0, 3, 1),
    "reshape to one": lambda g: g.reshape(-1),
    "transpose": lambda g: g.T,
    "cumsum": lambda g: jnp.cumsum(jnp.cumsum(g, 0), 1),
    "windows": lambda g: lax.reduce_window(g, 0.0, lax.add, (2, 4), (2, 4), "VALID"),
    "windows that overlap": lambda g: lax.reduce_window(g, 0.0, lax.add, (3, 3), (1, 1), "SAME"),
    "sums": lambda g: g.sum(1) + g.sum(),
    "less its mean": lambda g: g - g.sum(0, keepdims=True) / 16 - g.sum(1, keepdims=True) / 32,
    "diagonal": lambda g: jnp.diagonal(g[:, :ROWS]),
    "triangle": lambda g: jnp.tril(g),
    "product": lambda g: jnp.ones((8, ROWS)) @ g @ jnp.ones((COLUMNS, 8)),
    "convolution": lambda g: lax.conv(g[None, None], jnp.ones((1, 1, 3, 3)), (1, 1), "SAME")[0, 0],
}
# XLA gathers what these cut along a dimension that is split, or what they multiply by, and alone only what is reduced:
# fewer bytes, some of another kind.
GATHERED = ("dynamic_slice", "zeros over a part", "of a mask", "times what is split")
SPLITS = {"columns": (None, "tensor"), "rows": ("tensor",), "both": ("data", "tensor")}


def same_values(step: Callable[..., jax.Array], *args: jax.Array) -> None:
    want, got = (jit(step)(*args) for jit in (jax.jit, functools.partial(paropt.jit, strict=True)))
    for shard in got.addressable_shards:
        np.testing.assert_array_equal(shard.data, np.asarray(want)[shard.index])


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", MOVES)
def test_values_are_right(name: str, split: str) -> None:
    weight = placed(integers(ROWS, COLUMNS, seed=0), *SPLITS[split], mesh=MESH)
    examples = placed(integers(MICRO_BATCHES, EXAMPLES, ROWS, seed=1), None, "data", mesh=MESH)

    def step(w: jax.Array, batches: jax.Array) -> jax.Array:
        def added(x: jax.Array) -> jax.Array:
            return MOVES[name](jax.grad(lambda w: ((x @ w) ** 2).sum())(w))

        start = jnp.zeros(jax.eval_shape(added, batches[0]).shape)
        return lax.scan(lambda total, x: (total + added(x), None), start, batches)[0]

    if name in GATHERED:
        same_values(step, weight, examples)
        return
    compared(Case(step, (weight, examples)))


BY_INDICES: dict[str, Callable[[jax.Array, jax.Array], jax.Array]] = {
    "rows": lambda g, at: g[at],
    "columns": lambda g, at: g[:, at],
    "elements": lambda g, at: g[at, at + 1],
    "of each row": lambda g, at: jnp.take_along_axis(g, at[:, None], 1),
    "of each column": lambda g, at: jnp.take_along_axis(g[:, :ROWS], at[None], 0),
    "of a mask": lambda g, at: jnp.where(at[:, None] > 7, g, 0),
    "times what is split": lambda g, at: g * at[:, None],
}


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", BY_INDICES)
def test_what_is_also_read_is_split_over_the_same_axis(name: str, split: str) -> None:
    weight = placed(integers(ROWS, COLUMNS, seed=0), *SPLITS[split], mesh=MESH)
    examples = placed(integers(MICRO_BATCHES, EXAMPLES, ROWS, seed=1), None, "data", mesh=MESH)
    indices = placed(5 * np.arange(ROWS) % ROWS, "data", mesh=MESH)

    def step(w: jax.Array, batches: jax.Array, at: jax.Array) -> jax.Array:
        def added(x: jax.Array) -> jax.Array:
            return BY_INDICES[name](jax.grad(lambda w: ((x @ w) ** 2).sum())(w), at)

        start = jnp.zeros(jax.eval_shape(added, batches[0]).shape)
        return lax.scan(lambda total, x: (total + added(x), None), start, batches)[0]

    if name in GATHERED:
        same_values(step, weight, examples, indices)
        return
    compared(Case(step, (weight, examples, indices)))


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("dimension", [0, 1], ids=["rows", "columns"])
def test_what_is_carried_may_be_looked_up(dimension: int, split: str) -> None:
    """An accumulator that each trip puts in another order: how it is split is known of what the loop returns."""
    weight = placed(integers(ROWS, COLUMNS, seed=0), *SPLITS[split], mesh=MESH)
    examples = placed(integers(MICRO_BATCHES, EXAMPLES, ROWS, seed=1), None, "data", mesh=MESH)
    order = 5 * np.arange(weight.shape[dimension]) % weight.shape[dimension]

    def step(w: jax.Array, batches: jax.Array) -> jax.Array:
        def body(total: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
            gradient = jax.grad(lambda w: ((x @ w) ** 2).sum())(w)
            return jnp.take(total, order, dimension, unique_indices=True) + gradient, None

        return lax.scan(body, jnp.zeros_like(w), batches)[0]

    compared(Case(step, (weight, examples)))
