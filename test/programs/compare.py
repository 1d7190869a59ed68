"""How far the results of two training steps are apart."""

import jax
import numpy as np
from programs.program import Program, Tree

CLOSE = 2e-4  # sums of some thousand terms in different order
CLOSE_IN_BF16 = 2.0**-4  # each device rounds its part of a sum to 2^-8


def tolerance_of(name: str) -> float:
    """What `difference` may be for the program of that name, between two ways to compute it."""
    return CLOSE_IN_BF16 if "_p4" in name or "bf16" in name else CLOSE


def difference(want: Tree, got: Tree, start: Tree) -> float:
    """The largest over the leaves: of the difference, relative to the largest change that the step makes to the leaf.

    `start` is what the first leaves, those of the state, are before the step: parameters move by little, and a
    difference that is small beside them may be all of the step. Not a number where a result is none.
    """
    before = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(start)]
    worst = 0.0
    for i, (w, g) in enumerate(zip(jax.tree.leaves(want), jax.tree.leaves(got), strict=True)):
        assert (w.shape, w.dtype) == (g.shape, g.dtype)
        w, g = np.asarray(w, np.float64), np.asarray(g, np.float64)
        change = np.abs(w - before[i]) if i < len(before) else np.abs(w)
        apart = np.abs(g - w).max(initial=0.0)
        worst = np.maximum(worst, apart / change.max(initial=0.0) if apart else 0.0)
    return float(worst)


def difference_from_definition(program: Program, got: Tree) -> float:
    args = jax.device_get(program.args)
    return difference(jax.device_get(program.reference(*args)), jax.device_get(got), args[0])
