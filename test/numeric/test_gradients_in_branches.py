"""Gradients computed in branches of plain `jax.jit` programs: XLA follows unreduced values out of them."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec
from numeric.oracle import assert_same, optimized
from programs.program import data_mesh
from unit.clusters import available

import paropt
from paropt.audit import Audit

MICRO_BATCHES = 4
BYTES = 8 * 8 * 4
Gradient = Callable[[], jax.Array]
Trip = Callable[[Gradient, jax.Array, jax.Array, jax.Array], jax.Array]


def skipped(g: Gradient, total: jax.Array, x: jax.Array, i: jax.Array) -> jax.Array:
    return total + lax.cond(i != 2, g, lambda: jnp.zeros_like(total))


def skipped_by_data(g: Gradient, total: jax.Array, x: jax.Array, i: jax.Array) -> jax.Array:
    return lax.cond(x.sum() > 0, lambda: total + g(), lambda: total)


def switched(g: Gradient, total: jax.Array, x: jax.Array, i: jax.Array) -> jax.Array:
    return total + lax.switch(i % 3, [g, lambda: 2 * g(), lambda: jnp.ones_like(total)])


def nested(g: Gradient, total: jax.Array, x: jax.Array, i: jax.Array) -> jax.Array:
    inner = lambda: lax.cond(i > 0, lambda: g() * 3, lambda: -g())  # noqa: E731
    return total + lax.cond(i != 2, inner, lambda: jnp.zeros_like(total))


def step_of(trip: Trip) -> Callable[[jax.Array, jax.Array], jax.Array]:
    def loss(w: jax.Array, x: jax.Array) -> jax.Array:
        return jnp.sum((x @ w) ** 2)

    def step(w: jax.Array, batches: jax.Array) -> jax.Array:
        def body(total: jax.Array, batch: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
            x, i = batch
            return trip(lambda: jax.grad(loss)(w, x), total, x, i), None

        start = jnp.ones_like(w)
        return w - lax.scan(body, start, (batches, jnp.arange(MICRO_BATCHES)))[0]

    return step


def arguments() -> tuple[jax.Array, jax.Array]:
    """Small integers: sums are exact in any order."""
    rng = np.random.default_rng(0)
    whole, split = (NamedSharding(data_mesh(), PartitionSpec(*axes)) for axes in ((), (None, "data")))
    batches = rng.integers(-3, 4, (MICRO_BATCHES, 16, 8)).astype(np.float32)
    return jax.device_put(jnp.ones((8, 8)), whole), jax.device_put(batches, split)


def of_gradients(audit: Audit) -> list[tuple[int, int]]:
    """Loops around each reduction of an array, and its bytes."""
    return [(c.depth, c.payload) for c in audit.collectives if c.payload >= BYTES]


@pytest.mark.parametrize("trip", [skipped, skipped_by_data, switched, nested], ids=lambda trip: trip.__name__)
def test_a_gradient_in_a_branch_is_reduced_once(trip: Trip) -> None:
    step, args = step_of(trip), arguments()
    ours = paropt.jit(step, strict=True)
    assert all(depth for depth, _ in of_gradients(paropt.audit(jax.jit(step).lower(*args))))
    assert of_gradients(paropt.audit(ours.lower(*args))) == [(0, BYTES)]
    np.testing.assert_array_equal(np.asarray(ours(*args)), np.asarray(jax.jit(step)(*args)))


def unrolled(w: jax.Array, batches: jax.Array) -> jax.Array:
    """Python knows which branch is taken, and JAX lowers both; the gradient of one micro-batch is left out."""
    total = jnp.zeros_like(w)
    for i, batch in enumerate(batches):
        gradient = batch.T @ (batch @ w)
        total = lax.cond(i == 2, lambda t, g: t, lambda t, g: t / 2 + g, total, gradient)
    return total


def test_branches_that_python_chooses() -> None:
    """XLA drops the reduction of what only a branch reads that is not taken: none is missed."""
    w, batches = arguments()
    alone = jax.jit(unrolled).lower(w, batches).compile()
    ours = paropt.jit(unrolled, strict=True).lower(w, batches).compile()
    np.testing.assert_array_equal(np.asarray(ours(w, batches)), np.asarray(alone(w, batches)))
    assert paropt.audit(alone).sync_bytes == (MICRO_BATCHES - 1) * BYTES
    assert of_gradients(paropt.audit(ours)) == [(0, BYTES)]


def counting(w: jax.Array, batches: jax.Array) -> jax.Array:
    """Its branches also count, so some of their results are reduced and others not."""

    def loss(w: jax.Array, x: jax.Array) -> jax.Array:
        return jnp.sum((x @ w) ** 2)

    def body(carry: tuple[jax.Array, jax.Array], batch: tuple[jax.Array, jax.Array]) -> tuple[Any, None]:
        (total, count), (x, i) = carry, batch
        used = lambda: (total + jax.grad(loss)(w, x), count + 1)  # noqa: E731
        return lax.cond(i != 2, used, lambda: (total, count)), None

    start = (jnp.zeros_like(w), jnp.zeros(8))
    total, count = lax.scan(body, start, (batches, jnp.arange(MICRO_BATCHES)))[0]
    return w - total * count


# What XLA gets from JAX is a case; other frontends write an if.
IF = """
sdy.mesh @mesh = <["data"=8]>
func.func public @main(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %yes: tensor<i1>,
                       %g: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<8x8xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %zeros) : tensor<i32>, tensor<8x8xf32> cond {
    %c = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0]
        : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %sum = stablehlo.add %p, %g : tensor<8x8xf32>
    %b = "stablehlo.if"(%yes) ({
      %n = stablehlo.add %acc, %sum : tensor<8x8xf32>
      stablehlo.return %n : tensor<8x8xf32>
    }, {
      stablehlo.return %acc : tensor<8x8xf32>
    }) : (tensor<i1>) -> tensor<8x8xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %b : tensor<i32>, tensor<8x8xf32>
  }
  return %w#1 : tensor<8x8xf32>
}
"""


def test_a_branch_may_return_more_than_the_gradient() -> None:
    args = arguments()
    ours = paropt.jit(counting, strict=True)
    assert of_gradients(paropt.audit(ours.lower(*args))) == [(0, BYTES)]
    np.testing.assert_array_equal(np.asarray(ours(*args)), np.asarray(jax.jit(counting)(*args)))


def test_an_if_that_gets_a_second_result_keeps_its_values() -> None:
    after, remarks = optimized(IF, "grad-sync")
    assert "stablehlo.if" not in after
    assert any(remark.applied and remark.pass_name == "defer-sync" for remark in remarks)
    assert_same(IF, after, range(4))


def both(w: jax.Array, batches: jax.Array) -> Any:
    """Two gradients at once, of one loss or the other."""

    def body(totals: Any, batch: tuple[jax.Array, jax.Array]) -> tuple[Any, None]:
        x, i = batch
        losses = [lambda a, b: jnp.sum((x @ a @ b) ** 2), lambda a, b: jnp.sum(x @ a @ b)]
        gradients = lax.cond(i != 2, *(lambda loss=loss: jax.grad(loss, (0, 1))(w, -w) for loss in losses))
        return jax.tree.map(jnp.add, totals, gradients), None

    return lax.scan(body, (jnp.zeros_like(w),) * 2, (batches, jnp.arange(MICRO_BATCHES)))[0]


def test_two_gradients_of_a_branch() -> None:
    alone, ours = (made(both).lower(*arguments()).compile() for made in (jax.jit, paropt.jit))
    assert sum(depth for depth, _ in of_gradients(paropt.audit(alone)))
    assert not any(depth for depth, _ in of_gradients(paropt.audit(ours)))
    for want, got in zip(alone(*arguments()), ours(*arguments()), strict=True):
        np.testing.assert_array_equal(want, got)


@pytest.mark.parametrize("target", ["tpu:v5e:2x4", "gpu:h100:1x1x8"])
def test_on_targets(target: str) -> None:
    available(target)
    for step in (step_of(skipped), counting):
        report = paropt.audit(step, *arguments(), passes="grad-sync", targets=[target])
        assert not report.mismatches
        assert of_gradients(report[target].before) == [(1, BYTES)]
        assert of_gradients(report[target].after) == [(0, BYTES)]
    report = paropt.audit(both, *arguments(), passes="grad-sync", targets=[target])
    assert not report.mismatches
    assert not any(depth for depth, _ in of_gradients(report[target].after))
