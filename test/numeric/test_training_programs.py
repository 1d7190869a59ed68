"""Every training program: the same results, and gradients that are synchronised once per step, as XLA compiles them."""

from typing import Any

import jax
import numpy as np
import pytest
from programs.catalog import PROGRAMS

import paropt

LOSS_BYTES = 4 * 4  # f32, one per micro-batch


def assert_close(want: Any, got: Any, tolerance: float) -> None:
    """Leaf by leaf, relative to the largest element of the leaf; 0.0 means bit for bit."""
    for w, g in zip(jax.tree.leaves(want), jax.tree.leaves(got), strict=True):
        assert (w.shape, w.dtype) == (g.shape, g.dtype)
        w, g = np.asarray(w, np.float64), np.asarray(g, np.float64)
        np.testing.assert_allclose(g, w, rtol=0, atol=tolerance * np.abs(w).max(initial=0.0))


@pytest.mark.parametrize("name", PROGRAMS)
def test_sync_once_per_step(name: str) -> None:
    program = PROGRAMS[name]()
    plain, ours = jax.jit(program.step), paropt.jit(program.step, strict=True)
    lowered = ours.lower(*program.args)
    before, after = paropt.audit(plain.lower(*program.args)), paropt.audit(lowered)
    if program.is_deferrable:
        assert after.sync_in_loop == 0, "a gradient is still synchronised in the loop"
        # The losses of the micro-batches leave the loop too, stacked.
        assert after.sync_bytes - program.gradient_bytes in (0, LOSS_BYTES), "each gradient is reduced once"
    else:
        assert after.sync_bytes == before.sync_bytes
        assert [r for r in paropt.remarks(lowered) if r.pass_name == "defer-sync" and not r.applied], "no reason given"
    assert_close(plain(*program.args), ours(*program.args), program.tolerance)
