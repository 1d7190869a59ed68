"""Where a sequence is cut: against all cuts there are."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paropt.passes.pipelining.cut_points import Costs, cut_points
from paropt.passes.pipelining.layer_names import layer_starts

numbers = st.integers(0, 20)


@st.composite
def problems(draw: st.DrawFn) -> tuple[Costs, int, list[int]]:
    count = draw(st.integers(1, 8))
    work, memory = (draw(st.lists(numbers, min_size=count, max_size=count)) for _ in range(2))
    crossing = [0, *draw(st.lists(numbers, min_size=count - 1, max_size=count - 1)), 0]
    most = draw(st.one_of(st.just(float("inf")), st.integers(10, 80)))
    least = draw(st.one_of(st.just(0), st.integers(1, 20)))
    candidates = draw(st.lists(st.integers(0, count), unique=True))
    return Costs(work, crossing, memory, most, least), draw(st.integers(1, 4)), candidates


@given(problems())
@settings(max_examples=200, deadline=None)
def test_cuts_are_the_best_of_all(problem: tuple[Costs, int, list[int]]) -> None:
    costs, stages, candidates = problem
    found = cut_points(costs, stages, candidates)
    inner = sorted({c for c in candidates if 0 < c < len(costs)})
    best = min((quality(costs, cut) for cut in combinations(inner, stages - 1)), default=(float("inf"),))
    if found is None:
        assert best[0] == float("inf")
        return
    assert len(found) == stages - 1 and found == sorted(found) and set(found) <= set(inner)
    assert quality(costs, tuple(found)) == pytest.approx(best)


def quality(costs: Costs, cut: tuple[int, ...]) -> tuple[float, float]:
    """The cost of the most expensive stage, and the sum of squares."""
    spans = [costs.stage(a, b) for a, b in pairwise((0, *cut, len(costs)))]
    return max(spans), sum(span**2 for span in spans)


def test_many_ops_are_cut_in_no_time() -> None:
    rng = np.random.default_rng(0)
    work, crossing = rng.integers(1, 100, 2000).tolist(), rng.integers(0, 5, 2001).tolist()
    found = cut_points(Costs(work, crossing, work), 8, range(2000))
    assert found is not None and len(found) == 7


@pytest.mark.parametrize(
    ("scopes", "stages", "starts"),
    [
        (["layer0/dot", "layer0/add", "layer1/dot", "layer2/dot", "loss/sub"], 2, [2, 3]),
        (["jit(f)/jvp(layer0)/dot", "jit(f)/jvp(layer1)/dot"], 2, [1]),
        (["Model/Block_0/Dense_0/dot", "Model/Block_0/Dense_1/dot", "Model/Block_1/Dense_0/dot"], 2, [2]),
        (["layers.0/dot", "layers.1/dot"], 2, [1]),
        (["embed/gather", "layer0/dot", "layer1/dot"], 3, []),
        (["layer1/dot", "layer0/dot", "layer2/dot"], 2, [2]),
        (["f/dot1", "f/dot2"], 2, []),
        (["", ""], 2, []),
    ],
)
def test_layers_are_known_by_their_names(scopes: list[str], stages: int, starts: list[int]) -> None:
    assert layer_starts(scopes, stages) == starts
