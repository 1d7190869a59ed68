"""Fully sharded parameters (FSDP): their gradients are reduce-scattered per micro-batch, wherever these come from."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec
from numeric.user_steps import MICRO_BATCHES, SCATTERS_WRITTEN, Case, accumulated, compared, integers, placed
from unit.clusters import available

import paropt
from paropt.audit import Audit

WIDTH, EXAMPLES = 64, 32
ROWS = 512  # of a table, of which a micro-batch reads at most EXAMPLES
BYTES = 4 * WIDTH * WIDTH

W = placed(integers(WIDTH, WIDTH, seed=0), "data")
OTHER = placed(integers(WIDTH, WIDTH, seed=1), "data")
BATCHES = placed(integers(MICRO_BATCHES, EXAMPLES, WIDTH, seed=2), None, "data")
CHUNKS = 4
LONG = placed(integers(MICRO_BATCHES, EXAMPLES, CHUNKS * WIDTH, seed=3), None, "data")
TABLE = placed(integers(ROWS, WIDTH, seed=4), "data")
IDS = placed(np.arange(MICRO_BATCHES * EXAMPLES, dtype=np.int32).reshape(MICRO_BATCHES, EXAMPLES) * 7, None, "data")

WHOLE = NamedSharding(W.sharding.mesh, PartitionSpec())

Gradient = Callable[[jax.Array, jax.Array], jax.Array]


def products(w: jax.Array, x: jax.Array) -> jax.Array:
    return jax.grad(lambda w: ((x @ w) ** 2).sum() / 2)(w)


def lookups(table: jax.Array, ids: jax.Array) -> jax.Array:
    return jax.grad(lambda table: (table[ids] ** 2).sum() / 2)(table)


def total(gradient: Gradient, w: jax.Array, batches: jax.Array) -> jax.Array:
    return accumulated(gradient, w, batches)


def plain(gradient: Gradient, w: jax.Array, other: jax.Array, batches: jax.Array) -> jax.Array:
    return w - total(gradient, w, batches)


def nested(gradient: Gradient, w: jax.Array, other: jax.Array, batches: jax.Array) -> jax.Array:
    """A loop over optimizer steps, with two micro-batches each."""
    steps = batches.reshape(2, MICRO_BATCHES // 2, *batches.shape[1:])
    return lax.scan(lambda w, batches: (w - total(gradient, w, batches), None), w, steps)[0]


def averaged(gradient: Gradient, w: jax.Array, other: jax.Array, batches: jax.Array) -> jax.Array:
    return w - total(gradient, (w + other) * 2, batches)


def masked(gradient: Gradient, w: jax.Array, other: jax.Array, batches: jax.Array) -> jax.Array:
    return w - total(gradient, jnp.where(other > 0, w, 0), batches)


def behind_a_barrier(gradient: Gradient, w: jax.Array, other: jax.Array, batches: jax.Array) -> jax.Array:
    return w - total(gradient, lax.optimization_barrier((w, other))[0], batches)


def after_a_step(gradient: Gradient, w: jax.Array, other: jax.Array, batches: jax.Array) -> jax.Array:
    return nested(gradient, w - total(gradient, w, batches), other, batches)


def chosen(gradient: Gradient, w: jax.Array, other: jax.Array, batches: jax.Array) -> jax.Array:
    start = lax.cond(other.sum() > 0, lambda: (w * 2, w), lambda: (w, w * 3))
    return w - total(gradient, start[0] + start[1], batches)


def gathered_in_the_loss(gradient: Gradient, w: jax.Array, other: jax.Array, batches: jax.Array) -> jax.Array:
    """A constraint gathers the weights; its transpose asks for the whole of each gradient."""

    def of_whole(w: jax.Array, batch: jax.Array) -> jax.Array:
        whole, back = jax.vjp(lambda w: lax.with_sharding_constraint(w, WHOLE), w)
        return back(gradient(whole, batch))[0]

    return w - total(of_whole, w, batches)


STEPS = {
    step.__name__.replace("_", " "): step
    for step in (plain, nested, averaged, masked, behind_a_barrier, after_a_step, chosen, gathered_in_the_loss)
}
TIMES = {"after a step": 2}  # others: once


def of(gradient: Gradient, step: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    return lambda *args: step(gradient, *args)


@pytest.mark.parametrize("name", STEPS)
def test_gradients_are_scattered_in_each_micro_batch(name: str) -> None:
    before, after, _ = compared(
        Case(of(products, STEPS[name]), (W, OTHER, BATCHES), tolerance=1e-5, passes=SCATTERS_WRITTEN)
    )
    micro_batches = TIMES.get(name, 1) * MICRO_BATCHES
    assert before.total("all-reduce").bytes >= micro_batches * BYTES
    assert after.total("reduce-scatter").bytes == micro_batches * BYTES
    assert after.total("all-reduce").bytes == before.total("all-reduce").bytes - micro_batches * BYTES
    assert after.peak_memory is not None and before.peak_memory is not None
    assert after.peak_memory <= 1.02 * before.peak_memory


@pytest.mark.parametrize("name", STEPS)
def test_rows_of_a_table_are_gathered_in_each_micro_batch(name: str) -> None:
    before, after, _ = compared(Case(of(lookups, STEPS[name]), (TABLE, TABLE, IDS), tolerance=1e-5))
    assert sent(after) <= sent(before)
    assert after.sync_bytes <= before.sync_bytes


def sent(audit: Audit) -> float:
    """Bytes on the wire, per device and step."""
    return sum(c.wire_bytes * (c.executions or 1) for c in audit.collectives)


def stacked(w: jax.Array, batches: jax.Array) -> Any:
    """All gradients are kept, for their mean and their variance."""
    _, gradients = lax.scan(lambda carry, x: (carry, products(w, x)), None, batches)
    return w - gradients.mean(0), gradients.var(0)


@pytest.mark.parametrize("target", ["cpu:8", "tpu:v5e:2x4", "gpu:h100:1x1x8"])
def test_stacked_gradients_are_scattered_one_by_one(target: str) -> None:
    available(target)
    if target == "cpu:8":
        compared(Case(stacked, (W, BATCHES), tolerance=1e-5))
    report = paropt.audit(stacked, W, BATCHES, passes="grad-sync", targets=[target])
    before, after = report[target].before, report[target].after
    assert not report.mismatches
    assert after.sync_bytes == before.sync_bytes == MICRO_BATCHES * BYTES
    assert after.total("all-gather").bytes <= before.total("all-gather").bytes
    if not target.startswith("gpu"):  # XLA:GPU takes a trip out of the loop, to overlap it with the next
        assert after.peak_memory <= 1.02 * before.peak_memory


def in_chunks(parts: int, w: jax.Array, batches: jax.Array) -> jax.Array:
    """The loss of a micro-batch is added up over chunks, as a large head needs it; both weights are one."""

    def loss(w: jax.Array, chunks: jax.Array) -> jax.Array:
        whole = lax.with_sharding_constraint(w, WHOLE)
        term = jax.checkpoint(lambda total, x: (total + (((x @ whole) @ whole.T) ** 2).sum() / 64, None))
        start: Any = 0.0
        return lax.scan(term, start, chunks)[0]

    chunks = batches.reshape(MICRO_BATCHES, EXAMPLES, parts, -1).swapaxes(1, 2)
    return w - total(jax.grad(loss), w, chunks)


@pytest.mark.parametrize("target", ["cpu:8", "tpu:v5e:2x4", "gpu:h100:1x1x8"])
def test_chunks_of_a_loss_are_scattered_once_in_each_micro_batch(target: str) -> None:
    """A constraint asks for the whole of what the loop over chunks adds up, so that this holds it anyway."""
    available(target)
    step = functools.partial(in_chunks, CHUNKS)
    if target == "cpu:8":
        compared(Case(step, (W, LONG), tolerance=1e-5))
    report = paropt.audit(step, W, LONG, passes="grad-sync", targets=[target])
    before, after = report[target].before, report[target].after
    assert after.sync_bytes <= MICRO_BATCHES * BYTES  # XLA:TPU takes what is left out of the other loop
    fewer = 1 if target.startswith("gpu") else CHUNKS  # XLA:GPU takes what reduces out of the inner loop itself
    assert sent(after) <= sent(before) / fewer
    assert after.total("all-gather").bytes <= before.total("all-gather").bytes
    assert after.peak_memory <= 1.02 * before.peak_memory
