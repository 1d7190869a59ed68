"""A running maximum or minimum leaves the loop, whether the program reduces it or the partitioner does."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec
from numeric.user_steps import EXAMPLES, MESH, MICRO_BATCHES, WIDTH, Case, compared, integers, placed, reduced_once
from unit.clusters import available

import paropt
from paropt.clusters.targets import get
from paropt.hlo.census import census

# Features whose examples are all of one sign, with starts below them and above: what zero would change is among them.
START = np.resize(np.array([-100, 0, 100], np.float32), WIDTH)
BATCHES = placed(
    integers(MICRO_BATCHES, EXAMPLES, WIDTH, seed=0) + np.resize(np.array([-50, 50], np.float32), WIDTH), None, "data"
)


def running(join: Callable[..., jax.Array], of: Callable[[jax.Array], jax.Array]) -> Callable[[jax.Array], Any]:
    """What `join` makes of the start values and `of` each micro-batch."""
    return lambda batches: lax.scan(lambda m, x: (join(m, of(x)), None), jnp.asarray(START), batches)[0]


@pytest.mark.parametrize(
    ("join", "over_examples", "over_devices"),
    [(jnp.maximum, jnp.max, lax.pmax), (jnp.minimum, jnp.min, lax.pmin)],
    ids=["maximum", "minimum"],
)
def test_a_running_extreme_leaves_the_loop(
    join: Callable[..., jax.Array], over_examples: Callable[..., jax.Array], over_devices: Callable[..., jax.Array]
) -> None:
    explicit = jax.shard_map(
        running(join, lambda x: over_devices(over_examples(x, axis=0), "data")),
        mesh=MESH,
        in_specs=PartitionSpec(None, "data"),
        out_specs=PartitionSpec(),
        check_vma=False,
    )
    reduced_once(Case(explicit, (BATCHES,), after=4 * WIDTH))
    reduced_once(Case(running(join, lambda x: over_examples(x, axis=0)), (BATCHES,), after=4 * WIDTH))


def largest(m: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.maximum(m, jnp.max(x, axis=0))


def in_two_loops(batches: jax.Array) -> jax.Array:
    def body(m: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
        return lax.scan(lambda m, y: (largest(m, y), None), m, jnp.stack([x, -x]))[0], None

    return lax.scan(body, jnp.asarray(START), batches)[0]


def read_in_the_loop(batches: jax.Array) -> tuple[jax.Array, jax.Array]:
    """As by delayed scaling, whose scale follows the maximum in each trip."""
    return lax.scan(lambda m, x: (k := largest(m, x), k.sum()), jnp.asarray(START), batches)


def test_it_leaves_two_loops() -> None:
    before, after, _ = compared(Case(in_two_loops, (BATCHES,)))
    assert before.sync_in_loop == 2 * MICRO_BATCHES * 4 * WIDTH
    assert (after.sync_in_loop, after.sync_bytes) == (0, 4 * WIDTH)


def test_what_the_loop_reads_stays() -> None:
    before, after, missed = compared(Case(read_in_the_loop, (BATCHES,)))
    assert after.sync_in_loop == before.sync_in_loop > 0
    assert any("does more with a running maximum or minimum than keep it" in remark for remark in missed)


@pytest.mark.parametrize("target", ["tpu:v5e:2x4", "gpu:h100:1x1x8"])
def test_it_leaves_the_loop_on_targets(target: str) -> None:
    available(target)
    step = running(jnp.maximum, lambda x: jnp.max(x, axis=0))
    before = jax.jit(step).lower(BATCHES).as_text()
    after = paropt.optimize(before, passes="grad-sync")
    inside = [[c for c in census(get(target).compile(text).hlo) if c.loops] for text in (before, str(after.module))]
    assert inside[0] and not inside[1]
