"""Partially manual `shard_map`: sums with axes that are left to the partitioner; each device keeps its own.

Shardy refuses unreduced values there, on all targets: "Only one of unreduced and manual axes can be present".
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from numeric.user_steps import MICRO_BATCHES, Case, integers, placed, reduced_once
from unit.clusters import available

import paropt

STAGES, EXAMPLES, WIDTH = 4, 8, 8
BYTES = 4 * WIDTH * WIDTH  # of the gradient of a stage
MESH = jax.make_mesh((2, STAGES), ("data", "stage"), axis_types=(jax.sharding.AxisType.Auto,) * 2)

W = placed(integers(STAGES, WIDTH, WIDTH, seed=0), "stage", mesh=MESH)
BATCHES = placed(integers(MICRO_BATCHES, EXAMPLES, WIDTH, seed=1), None, "data", mesh=MESH)
TICKS = placed(integers(MICRO_BATCHES, 3, EXAMPLES, WIDTH, seed=2), None, None, "data", mesh=MESH)


def block(of: Callable[..., Any], out: Any) -> Callable[..., Any]:
    specs = {"in_specs": (jax.P("stage"), jax.P()), "out_specs": out, "axis_names": {"stage"}}
    return jax.shard_map(of, mesh=MESH, **specs)


def varying(x: jax.Array) -> jax.Array:
    return lax.pcast(x, "stage", to="varying")


def loss(w: jax.Array, x: jax.Array) -> jax.Array:
    return ((x @ w) ** 2).sum() / 2


def loop_in_the_block(w: jax.Array, batches: jax.Array) -> jax.Array:
    def of(w: jax.Array, batches: jax.Array) -> jax.Array:
        def body(total: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
            return total + jax.grad(loss)(w[0], varying(x)), None

        return (w[0] - lax.scan(body, jnp.zeros_like(w[0]), batches)[0])[None]

    return block(of, jax.P("stage"))(w, batches)


def block_in_the_loop(w: jax.Array, batches: jax.Array) -> jax.Array:
    gradient = block(lambda w, x: jax.grad(loss)(w[0], varying(x))[None], jax.P("stage"))
    return w - lax.scan(lambda total, x: (total + gradient(w, x), None), jnp.zeros_like(w), batches)[0]


def scaled_block_in_the_loop(w: jax.Array, batches: jax.Array) -> jax.Array:
    """As of a mean, whose division comes last in the block."""
    gradient = block(lambda w, x: -(jax.grad(loss)(w[0], varying(x)) / 4)[None], jax.P("stage"))
    return w + lax.scan(lambda total, x: (total + gradient(w, x), None), jnp.zeros_like(w), batches)[0]


def loops_in_loops(w: jax.Array, batches: jax.Array) -> jax.Array:
    """The block adds up over parts of a micro-batch, scaled, and transposed."""

    def of(w: jax.Array, x: jax.Array) -> jax.Array:
        def body(total: jax.Array, part: jax.Array) -> tuple[jax.Array, None]:
            return total + 3 * jax.grad(loss)(w[0], varying(part)).T, None

        return lax.scan(body, jnp.zeros_like(w[0]), jnp.stack([x, 2 * x]))[0].T[None]

    gradient = block(of, jax.P("stage"))
    return w - lax.scan(lambda total, x: (total + gradient(w, x), None), jnp.zeros_like(w), batches)[0]


@pytest.mark.parametrize("step", [loop_in_the_block, block_in_the_loop, scaled_block_in_the_loop, loops_in_loops])
def test_gradients_of_a_stage_are_reduced_once(step: Callable[..., Any]) -> None:
    _, after = reduced_once(Case(step, (W, BATCHES), BYTES))
    assert after.sync_in_loop == 0


def ticks(w: jax.Array, xs: jax.Array) -> jax.Array:
    """A pipeline: its transpose adds up gradients over the ticks."""

    def of(w: jax.Array, x: jax.Array) -> jax.Array:
        stage, x = lax.axis_index("stage"), varying(x)

        def tick(buffer: jax.Array, t: jax.Array) -> tuple[jax.Array, jax.Array]:
            mine = lax.dynamic_index_in_dim(x, jnp.clip(t, 0, x.shape[0] - 1), 0, False)
            y = jnp.where(stage == 0, mine, buffer) @ w[0]
            sent = lax.ppermute(y, "stage", [(i, (i + 1) % STAGES) for i in range(STAGES)])
            return sent, jnp.where((stage == STAGES - 1) & (t >= STAGES - 1), y.sum(), 0.0)

        count = jnp.arange(x.shape[0] + STAGES - 1)
        return lax.psum(lax.scan(tick, jnp.zeros_like(x[0]), count)[1].sum(), "stage")

    gradient = jax.grad(block(of, jax.P()))
    return w - lax.scan(lambda total, x: (total + gradient(w, x), None), jnp.zeros_like(w), xs)[0]


def test_gradients_of_pipeline_ticks_are_reduced_once() -> None:
    _, after = reduced_once(Case(ticks, (W, TICKS), BYTES, tolerance=1e-6))
    assert after.sync_in_loop == 0


@pytest.mark.parametrize("target", ["tpu:v5e:2x4", "gpu:h100:1x1x8"])
@pytest.mark.parametrize("step", [loop_in_the_block, ticks])
def test_other_targets(step: Callable[..., Any], target: str) -> None:
    available(target)
    xs = TICKS if step is ticks else BATCHES
    report = paropt.audit(step, W, xs, passes="grad-sync", targets=[target])
    before, after = report[target].before, report[target].after
    assert not report.mismatches
    assert after.sync_bytes == BYTES
    assert after.total("collective-permute").bytes <= before.total("collective-permute").bytes
    assert after.peak_memory <= 1.02 * before.peak_memory
