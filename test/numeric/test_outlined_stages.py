"""Outlined stages, called in order as one program: the results of the step, to the last bit where no sum is split."""

import jax
import numpy as np
import pytest
from programs.layered_steps import program

import paropt


@pytest.mark.parametrize("weights", ["with", "apart"])
@pytest.mark.parametrize("stages", [2, 4])
@pytest.mark.parametrize("name", ["mlp", "transformer"])
def test_all_stages_called_in_order_are_the_step(name: str, stages: int, weights: str) -> None:
    made = program(name, microbatches=4)
    cut = f"cut-stages{{stages={stages}}},outline-stages{{weights={weights}}}"
    passes = f"inline-calls,canonicalize,cse,{cut}"
    want = jax.jit(made.step)(made.state, made.batch)
    got = paropt.jit(made.step, passes=passes, strict=True)(made.state, made.batch)
    for one, other, old in zip(*map(jax.tree.leaves, (want[0], got[0], made.state)), strict=True):
        if name == "mlp":
            np.testing.assert_array_equal(other, one)
        largest = np.abs(np.asarray(one) - old).max()
        np.testing.assert_allclose(other, one, rtol=0, atol=1e-6 * max(largest, 1.0))
    np.testing.assert_allclose(got[1], want[1], rtol=1e-6)
