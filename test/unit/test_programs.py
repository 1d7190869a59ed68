"""Every program of the matrix computes on 8 devices what its definition says, as it is and with par-opt."""

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest
from programs import explicit, models
from programs.catalog import MATRIX, PLAIN, PROGRAMS
from programs.models import same
from programs.patterns import ADDED
from programs.program import Program, Sizes

import paropt
from paropt.audit import SYNC_KINDS, Audit

CLOSE = 2e-4  # sums of some thousand terms in different order
CLOSE_IN_BF16 = 2.0**-5  # each device rounds its part of a sum to 2^-8


def result(run: Any, program: Program) -> Any:
    return jax.device_get(run(*jax.device_get(program.args)))


def assert_same_step(want: Any, got: Any, start: Any, tolerance: float) -> None:
    """Leaf by leaf, relative to the largest change that the step makes: parameters move by little."""
    before = jax.tree.leaves(start)
    for i, (w, g) in enumerate(zip(jax.tree.leaves(want), jax.tree.leaves(got), strict=True)):
        assert (w.shape, w.dtype) == (g.shape, g.dtype)
        change = np.abs(w - before[i]) if i < len(before) else np.abs(w)
        np.testing.assert_allclose(g, w, rtol=0, atol=tolerance * change.max(initial=0.0))


def assert_as_defined(program: Program, got: Any, tolerance: float) -> None:
    want = result(jax.jit(program.reference), program)
    assert_same_step(want, got, jax.device_get(program.args[0]), tolerance)


def tolerance_of(name: str) -> float:
    return CLOSE_IN_BF16 if name.endswith("_p4") or "bf16" in name else CLOSE


def gradient_sync(audit: Audit, program: Program) -> tuple[int, int]:
    """Bytes per step of reductions over the groups of the program's gradients: all of them, and those in loops."""
    rows = [c for c in audit.collectives if c.kind in SYNC_KINDS and c.group in program.sync_groups]
    sizes = [(c.executions or 0) * sum(a.bytes for a in c.arrays if a.elements > 1) for c in rows]
    return sum(sizes), sum(size for c, size in zip(rows, sizes, strict=True) if c.loops)


@pytest.mark.parametrize("name", MATRIX)
def test_program_is_as_defined_and_as_declared(name: str) -> None:
    program = MATRIX[name]()
    plain, ours = jax.jit(program.step), paropt.jit(program.step, strict=True)
    before, after = plain.lower(*program.args).compile(), ours.lower(*program.args).compile()
    tolerance = tolerance_of(name)
    assert_as_defined(program, jax.device_get(before(*program.args)), tolerance)
    assert_as_defined(program, jax.device_get(after(*program.args)), tolerance)

    (was, _), (now, in_loop) = (gradient_sync(paropt.audit(c), program) for c in (before, after))
    if program.is_deferrable:
        losses = 4 * Sizes.micro_batches
        assert in_loop == 0, "a gradient is still synchronised in the loop"
        assert now - program.ideal_bytes in (0, losses), "each gradient is reduced once"
    else:
        assert now <= was
