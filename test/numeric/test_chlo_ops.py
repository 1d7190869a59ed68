"""chlo ops in plain `jax.jit` steps: Shardy has no rules for these, and must not lose track of the examples there.

XLA has written them in other ops when it asks Shardy, so that it does not stop there either.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from unit.clusters import available

import paropt
from paropt.audit import Audit

MICRO_BATCHES, EXAMPLES, WIDTH = 4, 16, 8
F32 = 4

Results = tuple[jax.Array, ...]


def squares(w: jax.Array, x: jax.Array) -> Results:
    """A metric only: nothing of its gradient tells how its operand is split."""
    return (jnp.sum(jnp.square(x @ w)),)


def error_function(w: jax.Array, x: jax.Array) -> Results:
    """Of integers that are 0 or so large that it is exact."""
    return (jnp.sum(lax.erf(100 * (x @ w)), axis=0),)


def features(w: jax.Array, x: jax.Array) -> Results:
    """Products of what comes after it."""
    return (jnp.square(x).T @ jnp.square(x @ w),)


def largest(w: jax.Array, x: jax.Array) -> Results:
    """Both results, added up over the examples."""
    values, places = lax.top_k(x @ w, 2)
    return jnp.sum(values, axis=0), jnp.sum(places, axis=0)


CASES: dict[str, tuple[Callable[..., Results], int]] = {
    "square": (squares, F32),
    "erf": (error_function, WIDTH * F32),
    "square-dot": (features, WIDTH * WIDTH * F32),
    "top_k": (largest, 2 * 2 * F32),
}


def step(term: Callable[..., Results]) -> Callable[..., Results]:
    def accumulated(w: jax.Array, batches: jax.Array) -> Results:
        start = jax.tree.map(lambda like: jnp.zeros(like.shape, like.dtype), jax.eval_shape(term, w, batches[0]))
        total, _ = lax.scan(lambda total, x: (jax.tree.map(jnp.add, total, term(w, x)), None), start, batches)
        return total

    return accumulated


def arguments(*parameters: str) -> list[jax.Array]:
    """Small integers: sums are exact in any order. `parameters` tells how these are split."""
    mesh = Mesh(np.array(jax.devices()[:8]), ("data",), axis_types=(AxisType.Auto,))
    rng = np.random.default_rng(0)
    w, x = (rng.integers(-2, 3, shape) for shape in ((WIDTH, WIDTH), (MICRO_BATCHES, EXAMPLES, WIDTH)))
    specs = (PartitionSpec(*parameters), PartitionSpec(None, "data"))
    return [jax.device_put(v.astype(np.float32), NamedSharding(mesh, s)) for v, s in zip((w, x), specs, strict=True)]


def reductions(audit: Audit) -> list[tuple[int, int]]:
    """Loops around each reduction, and its bytes."""
    return [(c.depth, c.payload) for c in audit.collectives if c.kind in ("all-reduce", "reduce-scatter")]


def assert_once(found: list[tuple[int, int]], size: int) -> None:
    assert {depth for depth, _ in found} == {0}
    assert sum(bytes_ for _, bytes_ in found) == size


@pytest.mark.parametrize("name", CASES)
def test_reduced_once(name: str) -> None:
    term, size = CASES[name]
    args = arguments()
    alone, ours = jax.jit(step(term)), paropt.jit(step(term), strict=True)
    lowered = ours.lower(*args)
    moved = [remark for remark in paropt.remarks(lowered) if remark.applied and remark.pass_name == "defer-sync"]
    assert len(moved) == len(jax.eval_shape(term, args[0], args[1][0]))
    assert_once(reductions(paropt.audit(lowered)), size)
    for mine, whole in zip(ours(*args), alone(*args), strict=True):
        np.testing.assert_array_equal(np.asarray(mine), np.asarray(whole))


@pytest.mark.parametrize("target", ["tpu:v5e:2x4", "gpu:h100:1x1x8"])
@pytest.mark.parametrize("name", CASES)
def test_on_targets(name: str, target: str) -> None:
    available(target)
    term, size = CASES[name]
    report = paropt.audit(step(term), *arguments(), passes="grad-sync", targets=[target])
    assert not report.mismatches
    assert_once(reductions(report[target].after), size)


def test_norms_of_shards_are_expected() -> None:
    """A norm in each micro-batch, of a gradient that stays split: its sum is one that the module asks for."""
    split = PartitionSpec("data")

    def norms(w: jax.Array, batches: jax.Array) -> Any:
        def body(total: jax.Array, x: jax.Array) -> tuple[jax.Array, Results]:
            loss, gradient = jax.value_and_grad(lambda w: jnp.sum((x @ w) ** 2))(w)
            gradient = lax.with_sharding_constraint(gradient, NamedSharding(w_mesh, split))
            return total + gradient, (loss, jnp.sum(jnp.square(gradient)))

        return lax.scan(body, jnp.zeros_like(w), batches)

    args = arguments("data")
    sharding: Any = args[0].sharding
    w_mesh = sharding.mesh
    alone, ours = jax.jit(norms), paropt.jit(norms, strict=True)
    for mine, whole in zip(jax.tree.leaves(ours(*args)), jax.tree.leaves(alone(*args)), strict=True):
        np.testing.assert_array_equal(np.asarray(mine), np.asarray(whole))
