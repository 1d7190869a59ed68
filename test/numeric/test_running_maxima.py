"""A running maximum or minimum leaves the loop where the program reduces it, and stays where the partitioner does."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec
from numeric.user_steps import EXAMPLES, MESH, MICRO_BATCHES, WIDTH, Case, compared, integers, placed, reduced_once

# Features whose examples are all of one sign, with starts below them and above: what zero would change is among them.
START = np.resize(np.float32([-100, 0, 100]), WIDTH)
BATCHES = placed(integers(MICRO_BATCHES, EXAMPLES, WIDTH) + np.resize(np.float32([-50, 50]), WIDTH), None, "data")


def running(join: Callable[..., jax.Array], of: Callable[[jax.Array], jax.Array]) -> Callable[[jax.Array], Any]:
    """What `join` makes of the start values and `of` each micro-batch."""
    return lambda batches: lax.scan(lambda m, x: (join(m, of(x)), None), jnp.asarray(START), batches)[0]


@pytest.mark.parametrize(
    ("join", "over_examples", "over_devices"),
    [(jnp.maximum, jnp.max, lax.pmax), (jnp.minimum, jnp.min, lax.pmin)],
    ids=["maximum", "minimum"],
)
def test_only_what_the_program_reduces_leaves_the_loop(
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
    plain = running(join, lambda x: over_examples(x, axis=0))
    before, after, missed = compared(Case(plain, (BATCHES,)))
    assert after.sync_in_loop == before.sync_in_loop == MICRO_BATCHES * 4 * WIDTH
    assert any("a reduce does more than add" in remark for remark in missed)
