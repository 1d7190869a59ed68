"""Linear gradient ops in plain `jax.jit` steps: a gradient is multiplied by a matrix, scattered, or sliced.

What is not reduced passes through that, so it is reduced once, after the loop; where XLA would have to exchange more
for it, it stays.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from unit.clusters import available

import paropt
from paropt.audit import Audit

MICRO_BATCHES, ROWS, COLUMNS, RANK, EXAMPLES = 4, 8, 6, 2, 16
F32 = 4


class Case(NamedTuple):
    """A step, the shapes of its arguments but the last one (the examples), and how these are split."""

    step: Callable[..., jax.Array]
    shapes: tuple[tuple[int, ...], ...]
    splits: tuple[tuple[str | None, ...], ...]
    reduced: int  # bytes per device, once
    dtype: type = np.float32
    examples: tuple[int, ...] = (EXAMPLES, ROWS)


def loss(w: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.sum((x @ w) ** 2) / 2


def accumulated(term: Callable[[jax.Array], jax.Array], batches: jax.Array) -> jax.Array:
    like = jax.eval_shape(term, batches[0])
    total, _ = lax.scan(lambda total, x: (total + term(x), None), jnp.zeros(like.shape, like.dtype), batches)
    return total


def galore(w: jax.Array, p: jax.Array, batches: jax.Array) -> jax.Array:
    """The gradient is projected in the loop: what is accumulated, and reduced, is small."""
    return w - p @ accumulated(lambda x: p.T @ jax.grad(loss)(w, x), batches)


def projected_back(w: jax.Array, p: jax.Array, batches: jax.Array) -> jax.Array:
    return w - accumulated(lambda x: p @ (p.T @ jax.grad(loss)(w, x)), batches)


def preconditioned(w: jax.Array, left: jax.Array, right: jax.Array, batches: jax.Array) -> jax.Array:
    """As Shampoo and Muon do, but in each micro-batch."""
    return w - accumulated(lambda x: left @ jax.grad(loss)(w, x) @ right, batches)


def low_rank(a: jax.Array, b: jax.Array, batches: jax.Array) -> jax.Array:
    """An adapter a @ b whose product is a weight: both gradients are products with that of the weight."""

    def gradients(x: jax.Array) -> jax.Array:
        da, db = jax.grad(lambda a, b: loss(a @ b, x), argnums=(0, 1))(a, b)
        return jnp.concatenate([da.T, db], axis=1)

    return accumulated(gradients, batches)


def rows_of_a_table(table: jax.Array, batches: jax.Array) -> jax.Array:
    """The same rows for all examples: their gradient is scattered into that of the table."""
    rows = jnp.array([1, 3, 3, 0])
    return table - accumulated(lambda x: jax.grad(lambda t: loss(t[rows].T, x[:, :COLUMNS]))(table), batches)


def composed_kernel(k: jax.Array, fixed: jax.Array, batches: jax.Array) -> jax.Array:
    """A kernel that is itself the result of a convolution."""
    numbers = ("NHWC", "HWIO", "NHWC")

    def squares(k: jax.Array, x: jax.Array) -> jax.Array:
        kernel = lax.conv_general_dilated(k, fixed, (1, 1), "SAME", dimension_numbers=numbers).transpose(1, 2, 3, 0)
        return jnp.sum(lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=numbers) ** 2) / 2

    return k - accumulated(lambda x: jax.grad(squares)(k, x), batches)


def complex_weight(w: jax.Array, batches: jax.Array) -> jax.Array:
    """The parts of the weight are used apart; their gradients are the parts of its gradient."""
    return w - accumulated(lambda x: jax.grad(lambda w: loss(w.real, x) + loss(w.imag, 2 * x))(w), batches)


def squared(z: jax.Array) -> jax.Array:
    return jnp.sum(z.real**2 + z.imag**2) / 2


def complex_products(w: jax.Array, batches: jax.Array) -> jax.Array:
    return w - accumulated(lambda x: jax.grad(lambda w: squared((x + 2j * x) @ w))(w), batches)


def spectral(w: jax.Array, batches: jax.Array) -> jax.Array:
    """Real parameters that are the parts of a complex weight."""
    return w - accumulated(lambda x: jax.grad(lambda w: squared((x + 2j * x) @ (w[0] + 1j * w[1])))(w), batches)


SPLIT_ON_DATA = "another operand of the dot_general is sharded over the same axes"
CASES = {
    "galore": Case(galore, ((ROWS, COLUMNS), (ROWS, RANK)), ((), ()), RANK * COLUMNS * F32),
    "galore-columns": Case(
        galore, ((ROWS, COLUMNS), (ROWS, RANK)), ((None, "model"), ()), RANK * COLUMNS * F32 // 2
    ),
    "galore-sharded-weight": Case(galore, ((ROWS, COLUMNS), (ROWS, RANK)), (("data",), ()), RANK * COLUMNS * F32),
    "projected-back": Case(projected_back, ((ROWS, COLUMNS), (ROWS, RANK)), ((), ()), ROWS * COLUMNS * F32),
    "preconditioned": Case(
        preconditioned, ((ROWS, COLUMNS), (ROWS, ROWS), (COLUMNS, COLUMNS)), ((), (), ()), ROWS * COLUMNS * F32
    ),
    "low-rank": Case(low_rank, ((ROWS, RANK), (RANK, COLUMNS)), ((), ()), (ROWS + COLUMNS) * RANK * F32),
    "rows": Case(rows_of_a_table, ((10, COLUMNS),), ((),), 10 * COLUMNS * F32),
    "kernel": Case(
        composed_kernel, ((2, 3, 3, 2), (3, 3, 2, 2)), ((), ()), 36 * F32, examples=(EXAMPLES, 5, 5, 2)
    ),
    "complex-products": Case(
        complex_products, ((ROWS, COLUMNS),), ((),), 2 * ROWS * COLUMNS * F32, np.complex64
    ),
    "spectral": Case(spectral, ((2, ROWS, COLUMNS),), ((),), 2 * ROWS * COLUMNS * F32),
    "complex": Case(complex_weight, ((ROWS, COLUMNS),), ((),), 2 * ROWS * COLUMNS * F32, np.complex64),
}  # fmt: skip


def arguments(case: Case) -> list[jax.Array]:
    """Small integers: sums are exact in any order."""
    two = any("model" in split for split in case.splits)
    shape, names = ((4, 2), ("data", "model")) if two else ((8,), ("data",))
    mesh = Mesh(np.array(jax.devices()[:8]).reshape(shape), names, axis_types=(AxisType.Auto,) * len(names))
    rng = np.random.default_rng(0)
    specs = [*case.splits, (None, "data")]
    kinds = [*[case.dtype] * len(case.shapes), np.float32]
    data = [rng.integers(-2, 3, shape) for shape in (*case.shapes, (MICRO_BATCHES, *case.examples))]
    return [
        jax.device_put(x.astype(kind), NamedSharding(mesh, PartitionSpec(*spec)))
        for x, kind, spec in zip(data, kinds, specs, strict=True)
    ]


def reductions(audit: Audit) -> list[tuple[int, int]]:
    """Loops around each reduction, and its bytes."""
    return [(c.depth, c.payload) for c in audit.collectives if c.kind in ("all-reduce", "reduce-scatter")]


def others(audit: Audit) -> int:
    """Bytes per step of what is no reduction."""
    moved = [c for c in audit.collectives if c.kind not in ("all-reduce", "reduce-scatter")]
    return sum((c.executions or 1) * c.payload for c in moved)


@pytest.mark.parametrize("name", CASES)
def test_reduced_once(name: str) -> None:
    case = CASES[name]
    args = arguments(case)
    alone, ours = jax.jit(case.step), paropt.jit(case.step, strict=True)
    before, after = paropt.audit(alone.lower(*args)), paropt.audit(ours.lower(*args))
    assert any(depth for depth, _ in reductions(before))
    assert reductions(after) == [(0, case.reduced)]
    assert others(after) <= others(before)
    np.testing.assert_array_equal(np.asarray(ours(*args)), np.asarray(alone(*args)))


@pytest.mark.parametrize("target", ["tpu:v5e:2x4", "gpu:h100:1x1x8"])
@pytest.mark.parametrize("name", ["galore", "rows", "complex", "spectral"])
def test_on_targets(name: str, target: str) -> None:
    available(target)
    case = CASES[name]
    report = paropt.audit(case.step, *arguments(case), passes="grad-sync", targets=[target])
    assert not report.mismatches
    assert reductions(report[target].after) == [(0, case.reduced)]
    assert others(report[target].after) <= others(report[target].before)


# What stays: the projection is split like the examples, or like what it is multiplied by.
@pytest.mark.parametrize(
    "case, reason",
    [
        (Case(galore, ((ROWS, COLUMNS), (ROWS, RANK)), ((), ("data",)), 0), SPLIT_ON_DATA),
        (Case(galore, ((ROWS, COLUMNS), (ROWS, RANK)), (("model",), ("model",)), 0), "contracts, or looks up along, a sharded dimension"),
    ],
    ids=["split-projection", "split-rows"],
)  # fmt: skip
def test_stays(case: Case, reason: str) -> None:
    args = arguments(case)
    alone, ours = jax.jit(case.step), paropt.jit(case.step, strict=True)
    lowered = ours.lower(*args)
    assert any(reason in str(remark) for remark in paropt.remarks(lowered))
    before, after = paropt.audit(alone.lower(*args)), paropt.audit(lowered)
    assert others(after) <= others(before)
    assert max(size for depth, size in reductions(after) if depth) == max(
        size for depth, size in reductions(before) if depth
    )
    np.testing.assert_array_equal(np.asarray(ours(*args)), np.asarray(alone(*args)))
