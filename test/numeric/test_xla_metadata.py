"""XLA metadata around parts of training steps: what only hints costs no reduction."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.experimental.scheduling_groups import scheduling_group
from jax.experimental.xla_metadata import set_xla_metadata
from jax.sharding import PartitionSpec as P
from numeric.user_steps import (
    CLASSES,
    EXAMPLES,
    MESH,
    MICRO_BATCHES,
    WIDTH,
    Case,
    accumulated,
    compared,
    integers,
    placed,
    reduced_once,
)

W = placed(integers(WIDTH, CLASSES, seed=0))
BATCHES = placed(integers(MICRO_BATCHES, EXAMPLES, WIDTH, seed=1), None, "data")


@jax.jit
def layer(w: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.maximum(x @ w, 0)


def squares(w: jax.Array, x: jax.Array) -> jax.Array:
    return (layer(w, x) ** 2).sum() / 2


def around_the_loss(w: jax.Array, batches: jax.Array) -> jax.Array:
    def loss(w: jax.Array, x: jax.Array) -> jax.Array:
        with set_xla_metadata(_xla_loop_unroll_strategy="double-buffer"):
            return squares(w, x)

    return accumulated(jax.grad(loss), w, batches)


def around_everything(w: jax.Array, batches: jax.Array) -> jax.Array:
    with set_xla_metadata(stage="gradients", number=3):
        return accumulated(jax.grad(squares), w, batches)


def on_the_value_of_a_call(w: jax.Array, batches: jax.Array) -> jax.Array:
    def loss(w: jax.Array, x: jax.Array) -> jax.Array:
        return (set_xla_metadata(layer(w, x), tag="activations") ** 2).sum() / 2

    return accumulated(jax.grad(loss), w, batches)


def on_the_gradient(w: jax.Array, batches: jax.Array) -> jax.Array:
    return accumulated(lambda w, x: set_xla_metadata(jax.grad(squares)(w, x), tag="gradient"), w, batches)


def manual(step: Callable[..., Any]) -> Callable[..., Any]:
    return jax.shard_map(step, mesh=MESH, in_specs=(P(), P(None, "data")), out_specs=P(), check_vma=False)


@manual
def one_for_each_micro_batch(w: jax.Array, batches: jax.Array) -> jax.Array:
    """Python unrolls the loop, and the metadata of each reduction is another."""
    total = jnp.zeros_like(w)
    for i in range(MICRO_BATCHES):
        with set_xla_metadata(micro_batch=i):
            total += lax.psum(jax.grad(squares)(w, batches[i]), "data")
    return total


@manual
def in_shard_map(w: jax.Array, batches: jax.Array) -> jax.Array:
    with set_xla_metadata(stage="gradients"):
        return accumulated(lambda w, x: lax.psum(jax.grad(squares)(w, x), "data"), w, batches)


STEPS = [around_the_loss, around_everything, on_the_value_of_a_call, on_the_gradient, in_shard_map]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_hints_cost_nothing(step: Callable[..., Any]) -> None:
    reduced_once(Case(step, (W, BATCHES)))


def test_reductions_with_other_hints_become_one() -> None:
    _, after, _ = compared(Case(one_for_each_micro_batch, (W, BATCHES)))
    assert [(c.kind, len(c.arrays), c.executions) for c in after.collectives] == [("all-reduce", 1, 1)]


def test_a_unit_stays_and_the_remark_names_it() -> None:
    def loss(w: jax.Array, x: jax.Array) -> jax.Array:
        return scheduling_group("late")(lambda: squares(w, x))()

    def step(w: jax.Array, batches: jax.Array) -> jax.Array:
        return accumulated(jax.grad(loss), w, batches)

    _, _, missed = compared(Case(step, (W, BATCHES)))
    assert any('the call is a unit by its metadata: scheduling_group = "late"' in line for line in missed)
