"""Loops under `jax.shard_map` in which sums take other ways than into their own accumulator."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from numeric.user_steps import integers

import paropt

Step = Callable[[jax.Array, jax.Array], Any]  # (micro-batches of one device, weights) -> what is accumulated
TRIPS, WIDTH = 4, 8
BYTES = 4 * WIDTH * WIDTH  # of a gradient
DATA, PODS = {"data": 8}, {"pod": 2, "data": 4}
ZERO = jnp.zeros((WIDTH, WIDTH))


def gradient(w: jax.Array, x: jax.Array) -> jax.Array:
    return x.T @ (x @ w)


def accumulated(body: Callable[..., Any], *starts: jax.Array) -> Step:
    """`body` gets the carried values, a micro-batch and the weights, and returns the next carried values."""
    return lambda x, w: lax.scan(lambda carried, each: (body(*carried, each, w), None), starts, x)[0]


def one_trip_later(total: jax.Array, last: jax.Array, x: jax.Array, w: jax.Array) -> Any:
    """So that the reduction may overlap with the next backward pass."""
    return total + last, lax.psum(gradient(w, x), "data")


def momentum(v: jax.Array, m: jax.Array, x: jax.Array, w: jax.Array) -> Any:
    return v - 2 * m, 3 * m + lax.psum(gradient(w, x), "data")


def swapped(one: jax.Array, other: jax.Array, x: jax.Array, w: jax.Array) -> Any:
    return other + lax.psum(gradient(w, x), "data"), one


def rows_of_one_sum(x: jax.Array, w: jax.Array) -> jax.Array:
    def body(rows: jax.Array, i: jax.Array) -> tuple[jax.Array, None]:
        return rows.at[i].set(lax.psum(gradient(w, x[0]), "data")), None

    return lax.scan(body, jnp.zeros((TRIPS, WIDTH, WIDTH)), jnp.arange(TRIPS))[0]


def two_of_one_sum(one: jax.Array, other: jax.Array, x: jax.Array, w: jax.Array) -> Any:
    same = lax.psum(w * w, "data")
    return one + 2 * same, 2 * other + same


def layers_and_pods(x: jax.Array, w: jax.Array) -> jax.Array:
    """Each layer's sum in bf16, where it is computed; the sum of all over pods in f32, after them."""

    def micro(total: jax.Array, each: jax.Array) -> tuple[jax.Array, None]:
        def layer(carried: int, i: jax.Array) -> tuple[int, jax.Array]:
            g = (each[:WIDTH] * (i + 1)).astype(jnp.bfloat16)
            return carried, lax.psum(g, "data").astype(jnp.float32)

        return total + lax.psum(lax.scan(layer, 0, jnp.arange(3))[1], "pod"), None

    return lax.scan(micro, jnp.zeros((3, WIDTH, WIDTH)), x)[0]


def a_branch_without_results(total: jax.Array, x: jax.Array, w: jax.Array) -> Any:
    """As `jax.debug.print` in a branch leaves it."""
    lax.cond(w.sum() > 0, lambda: jax.debug.callback(lambda _: None, lax.psum(x.sum(), "data")), lambda: None)
    return (total + lax.psum(gradient(w, x), "data"),)


def reduced_again(total: jax.Array, x: jax.Array, w: jax.Array) -> Any:
    """As `pmean` of a gradient that automatic differentiation has summed under `check_vma`."""
    return (total + lax.pmean(lax.psum(gradient(w, x), "data"), "data"),)


def limited_and_reduced_again(total: jax.Array, x: jax.Array, w: jax.Array) -> Any:
    summed = lax.psum(gradient(w, x), "data")
    limited = jnp.where(jnp.abs(summed).max() > 100, 0.25, 0.5) * summed
    return (total + lax.pmean(limited, "data"),)


def mean_carried_on(total: jax.Array, x: jax.Array, w: jax.Array) -> Any:
    return (lax.pmean(total + gradient(w, x), "data"),)


def mean_step_carried_on(total: jax.Array, x: jax.Array, w: jax.Array) -> Any:
    return (lax.psum((total - gradient(w, x)) / 8, "data"),)


def mean_of_a_sum_carried_on(total: jax.Array, x: jax.Array, w: jax.Array) -> Any:
    """What automatic differentiation has summed under `check_vma` is a uniform term, too."""
    return (lax.pmean(lax.psum(gradient(w, x), "data") + total, "data"),)


def maximum_carried_on(total: jax.Array, x: jax.Array, w: jax.Array) -> Any:
    return (lax.pmax(jnp.maximum(total, gradient(w, x)), "data"),)


def means_carried_on_in_turn(x: jax.Array, w: jax.Array) -> jax.Array:
    total = jnp.zeros_like(w)
    for each in x:
        total = lax.pmean(total + gradient(w, each), "data")
    return total


def mean_carried_on_from_each_device(x: jax.Array, w: jax.Array) -> jax.Array:
    """The first trip takes the mean of the start values, too."""
    body = accumulated(mean_carried_on, w * lax.axis_index("data"))
    return body(x, w)


def axes_in_turn(total: jax.Array, x: jax.Array, w: jax.Array) -> Any:
    return (total + lax.psum(lax.pmean(gradient(w, x), "data"), "pod"),)


def summed(total: jax.Array, x: jax.Array, w: jax.Array) -> Any:
    return (total + lax.psum(gradient(w, x), "data"),)


def pods_after_the_loop(x: jax.Array, w: jax.Array) -> Any:
    return lax.psum(accumulated(summed, jnp.zeros_like(w))(x, w)[0], "pod")


def own_slices_in_turn(x: jax.Array, w: jax.Array) -> jax.Array:
    """State that is split by hand, as by ZeRO."""
    mine = [lax.dynamic_slice_in_dim(lax.pmean(gradient(w, each), "data"), lax.axis_index("data"), 1) for each in x]
    return sum(mine, start=jnp.zeros((1, WIDTH)))


def transposed_shards_in_turn(x: jax.Array, w: jax.Array) -> jax.Array:
    shards = [lax.psum_scatter(gradient(w, each), "data", tiled=True).T / 2 for each in x]
    return sum(shards, start=jnp.zeros((WIDTH, 1)))


class Served(NamedTuple):
    """Bytes that are reduced: in loops, and in all; a number in a branch of which nobody knows how often it runs apart."""

    step: Step
    sums: int
    mesh: dict[str, int] = DATA
    staying: int = 0


LOOPS = {
    "added one trip later": Served(accumulated(one_trip_later, ZERO, ZERO), 2 * BYTES),
    "momentum of the trip before": Served(accumulated(momentum, ZERO, ZERO), 2 * BYTES),
    "swapped": Served(accumulated(swapped, ZERO, ZERO), 2 * BYTES),
    "rows of one sum": Served(rows_of_one_sum, BYTES),
    "two of one sum": Served(accumulated(two_of_one_sum, ZERO, ZERO), BYTES),
    "layers and pods": Served(layers_and_pods, 2 * 3 * BYTES, PODS),
    "reduced again": Served(accumulated(reduced_again, ZERO), BYTES),
    "limited and reduced again": Served(accumulated(limited_and_reduced_again, ZERO), 0, staying=TRIPS * BYTES),
    "mean carried on": Served(accumulated(mean_carried_on, ZERO), BYTES),
    "mean step carried on": Served(accumulated(mean_step_carried_on, ZERO + 1), BYTES),
    "mean of a sum carried on": Served(accumulated(mean_of_a_sum_carried_on, ZERO), BYTES),
    "maximum carried on": Served(accumulated(maximum_carried_on, ZERO), BYTES),
    "means carried on in turn": Served(means_carried_on_in_turn, BYTES),
    "mean carried on from each device": Served(mean_carried_on_from_each_device, 0, staying=TRIPS * BYTES),
    "own slices in turn": Served(own_slices_in_turn, BYTES),
    "transposed shards in turn": Served(transposed_shards_in_turn, BYTES),
    "axes in turn": Served(accumulated(axes_in_turn, ZERO), BYTES, PODS),
    "pods after the loop": Served(pods_after_the_loop, BYTES, PODS),
    "a branch without results": Served(accumulated(a_branch_without_results, ZERO), BYTES, staying=4 * TRIPS),
}


@pytest.mark.parametrize("name", LOOPS)
def test_each_sum_is_taken_once(name: str) -> None:
    served = LOOPS[name]
    axes = tuple(served.mesh)
    mesh = Mesh(np.array(jax.devices()).reshape(tuple(served.mesh.values())), axes)
    step = jax.shard_map(
        lambda x, w: jax.tree.map(lambda value: value[None], served.step(x[0], w)),
        mesh=mesh,
        in_specs=(P(axes), P()),
        out_specs=P(axes),
        check_vma=False,
    )
    args = integers(8, TRIPS, 2 * WIDTH, WIDTH, seed=0), integers(WIDTH, WIDTH, seed=1)
    lowered = paropt.jit(step, strict=True).lower(*args)
    for want, got in zip(*(jax.tree.leaves(each(*args)) for each in (jax.jit(step), lowered.compile())), strict=True):
        np.testing.assert_array_equal(want, got)
    before, after = paropt.audit(jax.jit(step).lower(*args)), paropt.audit(lowered)
    assert after.sync_bytes - served.staying <= served.sums
    assert after.sync_in_loop <= served.staying
    assert after.sync_bytes <= before.sync_bytes
