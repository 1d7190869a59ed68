"""Context parallelism: of contractions with one replicated operand whose dimension shards the other, that is sliced.

Keys and values of context parallelism are such operands: a constraint gathers them along the sequence, and so the
transpose of that has their gradients whole along it. A constraint of the program has Shardy leave them so.
"""

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from numeric.user_steps import (
    BYTES,
    CLASSES,
    MICRO_BATCHES,
    WIDTH,
    Case,
    accumulated,
    compared,
    integers,
    placed,
    reduced_once,
)
from programs.program import Tree

from paropt.audit import Audit
from paropt.hlo.census import KINDS

EXAMPLES, POSITIONS = 4, 8
MESH = jax.make_mesh((2, 4), ("data", "ctx"), axis_types=(jax.sharding.AxisType.Auto,) * 2)


def _case(*whole: Any, spec: tuple[Any, ...] = ("data", "ctx"), width: int = WIDTH, classes: int = CLASSES) -> Case:
    def gradient(_: Tree, x: Any) -> Any:
        at = jax.NamedSharding(MESH, jax.P(*whole))
        y = lax.with_sharding_constraint(jnp.square(x[..., :classes]), at)
        return jnp.einsum("btf,btc->fc", x, y)

    w = placed(integers(width, classes, seed=0), mesh=MESH)
    xs = placed(integers(MICRO_BATCHES, EXAMPLES, POSITIONS, width, seed=1), None, *spec, mesh=MESH)
    return Case(lambda w, xs: w - accumulated(gradient, w, xs), (w, xs), 4 * width * classes)


def _sent(audit: Audit) -> float:
    return sum(audit.total(kind).wire for kind in KINDS)


@pytest.mark.parametrize("whole", [("data",), ()], ids=["positions", "examples and positions"])
def test_whole_operand_is_cut(whole: tuple[Any, ...]) -> None:
    before, after = reduced_once(_case(*whole))
    assert after.sync_bytes == BYTES
    assert _sent(after) < _sent(before)


def test_operand_that_is_sharded_otherwise_stays() -> None:
    """XLA exchanges parts of it."""
    before, after, _ = compared(_case("data", None, "ctx"))
    assert _sent(after) <= _sent(before)


def test_large_sum_stays() -> None:
    """XLA all-gathers the operand that is sharded, which is smaller than the sum."""
    before, after, remarks = compared(_case("data", width=64, classes=64))
    assert any("sharded in different ways" in remark for remark in remarks)
    assert _sent(after) <= _sent(before)


def test_keys_and_values_that_are_whole() -> None:
    def loss(p: Tree, x: Any) -> Any:
        q, k, v = x @ p["q"], x @ p["k"], x @ p["v"]
        k, v = (lax.with_sharding_constraint(a, jax.NamedSharding(MESH, jax.P("data", None))) for a in (k, v))
        return jnp.mean(jnp.einsum("bts,bsd->btd", jnp.einsum("btd,bsd->bts", q, k), v) @ p["o"])

    size = 8
    parameters = {name: placed(integers(size, size, seed=name), mesh=MESH) for name in "qkvo"}
    xs = placed(integers(MICRO_BATCHES, EXAMPLES, POSITIONS, size, seed=1), None, "data", "ctx", mesh=MESH)

    def step(p: Tree, xs: Any) -> Tree:
        return jax.tree.map(jnp.subtract, p, accumulated(jax.grad(loss), p, xs))

    activations = 2 * MICRO_BATCHES * 4 * EXAMPLES // 2 * POSITIONS * size  # gradients of keys and values, over "ctx"
    _, after = reduced_once(Case(step, (parameters, xs), 4 * 4 * size * size, activations, 1e-5))
    assert after.sync_in_loop == activations
