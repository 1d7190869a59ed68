"""Identity ops hide nothing, and leave nothing half annotated, wherever they are in a training step."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numeric.identity_ops import NEUTRAL_OPS, Neutral
from numeric.user_steps import MICRO_BATCHES, integers, placed

import paropt

WIDTH, HIDDEN, EXAMPLES = 16, 32, 32
W = {
    "up": placed(integers(WIDTH, HIDDEN, seed=0) / 8, "data"),
    "down": placed(integers(HIDDEN, WIDTH, seed=1) / 8, None, "data"),
}
BATCHES = placed(integers(MICRO_BATCHES, EXAMPLES, WIDTH, seed=2) / 4, None, "data")
PIPELINES = ("grad-sync", "grad-sync{policy=defer}")


def step_with(neutral: Neutral, *places: str) -> Callable[[Any, jax.Array], Any]:
    """A step with sharded weights in which `neutral` is applied to what `places` say."""
    to = {name: neutral if name in places else lambda v: v for name in PLACES}

    def loss(w: Any, x: jax.Array) -> jax.Array:
        up, down = (to["weights"](w[name]) for name in ("up", "down"))
        return (to["activations"](jnp.tanh(to["examples"](x) @ up)) @ down).sum() ** 2

    def trip(total: Any, x: jax.Array, w: Any) -> tuple[Any, None]:
        gradients = jax.tree.map(to["gradients"], jax.grad(loss)(w, x))
        return jax.tree.map(lambda t, g: to["sums"](to["accumulators"](t) + g), total, gradients), None

    def step(w: Any, batches: jax.Array) -> Any:
        total = jax.lax.scan(lambda t, x: trip(t, x, w), jax.tree.map(jnp.zeros_like, w), batches)[0]
        return jax.tree.map(lambda w, t: w - to["totals"](t), w, total)

    return step


PLACES = ("weights", "examples", "activations", "gradients", "accumulators", "sums", "totals")
SINGLE = ("product with one", "transposes", "choice")


@functools.cache
def alone() -> Any:
    return jax.jit(step_with(lambda v: v))(W, BATCHES)


@functools.cache
def wanted(passes: str) -> dict[str, tuple[int, float]]:
    return totals(paropt.jit(step_with(lambda v: v), passes=passes, strict=True).lower(W, BATCHES).compile())


def totals(compiled: Any) -> dict[str, tuple[int, float]]:
    audit = paropt.audit(compiled)
    found = {kind: audit.total(kind) for kind in ("all-reduce", "reduce-scatter", "all-gather", "all-to-all")}
    return {kind: (total.executions, total.bytes) for kind, total in found.items()}


CASES = [(name, PLACES) for name in NEUTRAL_OPS] + [(name, (where,)) for name in SINGLE for where in PLACES]


@pytest.mark.parametrize("passes", PIPELINES)
@pytest.mark.parametrize("name, places", CASES)
def test_they_change_nothing(name: str, places: tuple[str, ...], passes: str) -> None:
    ours = paropt.jit(step_with(NEUTRAL_OPS[name], *places), passes=passes, strict=True).lower(W, BATCHES).compile()
    for want, got in zip(*map(jax.tree.leaves, (alone(), ours(W, BATCHES))), strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * float(np.abs(want).max()))
    assert totals(ours) == wanted(passes)
