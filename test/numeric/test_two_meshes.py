"""Programs that name two meshes over the same devices: results, and no internal error, wherever the second one is named."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from numeric.user_steps import integers

import paropt
from paropt.hlo.census import census
from paropt.hlo.traffic import traffic

ONE = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
TWO = jax.make_mesh((2, 4), ("r", "c"), axis_types=(AxisType.Auto,) * 2)
Step = Callable[[jax.Array, jax.Array], jax.Array]


def gradient(w: jax.Array, x: jax.Array) -> jax.Array:
    return jax.grad(lambda w: jnp.sum((x @ w) ** 2))(w)


def constrained(x: jax.Array, mesh: Mesh, *spec: str | None) -> jax.Array:
    return lax.with_sharding_constraint(x, NamedSharding(mesh, PartitionSpec(*spec)))


def update(w: jax.Array, xs: jax.Array) -> jax.Array:
    total = lax.scan(lambda a, x: (a + gradient(w, x), None), jnp.zeros_like(w), xs)[0]
    return constrained(w - total, TWO, "r", "c")


def accumulator(w: jax.Array, xs: jax.Array) -> jax.Array:
    def body(total: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
        return constrained(total + gradient(w, x), TWO, "r"), None

    return constrained(w - lax.scan(body, jnp.zeros_like(w), xs)[0], TWO, "r", "c")


def gradients(w: jax.Array, xs: jax.Array) -> jax.Array:
    def body(total: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
        return total + 2 * constrained(gradient(w, x), TWO, None, "c"), None

    return constrained(w - lax.scan(body, jnp.zeros_like(w), xs)[0], TWO, "r", "c")


def parameters(w: jax.Array, xs: jax.Array) -> jax.Array:
    w = constrained(w, TWO, "r", "c")
    total = lax.scan(lambda a, x: (a + gradient(w, x), None), jnp.zeros_like(w), xs)[0]
    return constrained(w - total, TWO, "r", "c")


@pytest.mark.parametrize("policy", ["keep-shards", "defer", "once"])
@pytest.mark.parametrize("step", [update, accumulator, gradients, parameters])
def test_values_and_bytes(step: Step, policy: str) -> None:
    w = jax.device_put(integers(16, 16, seed=0), NamedSharding(ONE, PartitionSpec()))
    xs = jax.device_put(integers(4, 32, 16, seed=1), NamedSharding(ONE, PartitionSpec(None, "data")))
    ours = paropt.jit(step, passes=f"grad-sync{{policy={policy}}}", strict=True).lower(w, xs)
    alone, after = jax.jit(step).lower(w, xs).compile(), ours.compile()
    np.testing.assert_array_equal(after(w, xs), alone(w, xs))
    before, sent = (traffic(census(compiled.as_text())) for compiled in (alone, after))
    assert sent <= before


def test_the_update_may_name_another_mesh() -> None:
    w = jax.device_put(integers(16, 16, seed=0), NamedSharding(ONE, PartitionSpec()))
    xs = jax.device_put(integers(4, 32, 16, seed=1), NamedSharding(ONE, PartitionSpec(None, "data")))
    found = paropt.audit(paropt.jit(update, strict=True).lower(w, xs))
    assert found.sync_in_loop == 0 and found.total("all-reduce").executions == 1
