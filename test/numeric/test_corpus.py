"""Every lit test is an equivalence test too: what lit checks as text, XLA runs here, before and after."""

import pytest
from numeric.corpus import LIT, Case, cases
from numeric.oracle import annotated, assert_same, only, optimized, unexposed
from numeric.structure import assert_no_costlier

CORPUS = [case for path in sorted(LIT.glob("*.mlir")) for case in cases(path)]
PIPELINES = "pipeline-layer-loop"  # sends activations on, which is what it is for: test_layer_pipeline counts them
SEEDS = range(3)  # so that a dynamic trip count is zero for some and several for others


@pytest.mark.parametrize("case", CORPUS, ids=str)
def test_same_results(case: Case) -> None:
    before = only(case.module, case.function)
    after, _ = optimized(before, case.passes)
    if not case.passes.startswith(PIPELINES):
        assert_no_costlier(before, after)
    if case.skip:
        pytest.skip(f"NUMERIC {case.path.name}:{case.line}: @{case.function} is not executed: {case.skip}")
    assert_same(unexposed(before), annotated(after), SEEDS)
