"""Optimization barriers (`jax.lax.optimization_barrier`) hold values together; unreduced ones leave the loop."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import PartitionSpec
from numeric.user_steps import CLASSES, EXAMPLES, MESH, MICRO_BATCHES, WIDTH, Case, integers, placed, reduced_once

held = lax.optimization_barrier
Gradient = Callable[[jax.Array, jax.Array], jax.Array]
Body = Callable[[Gradient, jax.Array, jax.Array, jax.Array], jax.Array]

W = placed(integers(WIDTH, CLASSES, seed=0))
BATCHES = placed(integers(MICRO_BATCHES, EXAMPLES, WIDTH, seed=1), None, "data")


def gradient(w: jax.Array, x: jax.Array) -> jax.Array:
    """What is differentiated through a barrier passes another one on its way back."""
    return jax.grad(lambda w: jnp.sum((x @ held((w, x))[0]) ** 2))(w)


def reduced_gradient(w: jax.Array, x: jax.Array) -> jax.Array:
    return lax.psum(gradient(w, x), "data")


def parameters(gradient: Gradient, w: jax.Array, total: jax.Array, x: jax.Array) -> jax.Array:
    return total + gradient(w, x)


def with_activations(gradient: Gradient, w: jax.Array, total: jax.Array, x: jax.Array) -> jax.Array:
    g, total, _ = held((gradient(w, x), total, jnp.tanh(x)))
    return total + g


def decayed(gradient: Gradient, w: jax.Array, total: jax.Array, x: jax.Array) -> jax.Array:
    """The start value decays by itself."""
    return held(held(total / 2) + gradient(w, x))


def in_a_branch(gradient: Gradient, w: jax.Array, total: jax.Array, x: jax.Array) -> jax.Array:
    g = gradient(w, x)
    return lax.cond(w[0, 0] > -3, lambda: held((total + g, w))[0], lambda: held(total))


def in_an_inner_loop(gradient: Gradient, w: jax.Array, total: jax.Array, x: jax.Array) -> jax.Array:
    return lax.scan(lambda total, _: (held(total / 2), None), total + gradient(w, x), length=2)[0]


BODIES: list[Body] = [parameters, with_activations, decayed, in_a_branch, in_an_inner_loop]


def accumulated(body: Body, gradient: Gradient, w: jax.Array, batches: jax.Array) -> jax.Array:
    return lax.scan(lambda total, x: (body(gradient, w, total, x), None), jnp.ones_like(w), batches)[0]


@pytest.mark.parametrize("body", BODIES)
def test_plain(body: Body) -> None:
    reduced_once(Case(partial(accumulated, body, gradient), (W, BATCHES)))


@pytest.mark.parametrize("body", BODIES)
def test_manual(body: Body) -> None:
    step = jax.shard_map(
        partial(accumulated, body, reduced_gradient),
        mesh=MESH,
        in_specs=(PartitionSpec(), PartitionSpec(None, "data")),
        out_specs=PartitionSpec(),
        check_vma=False,
    )
    reduced_once(Case(step, (W, BATCHES)))
