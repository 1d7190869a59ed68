"""Where a sequence of ops is cut into stages, so that the most expensive stage is as cheap as can be.

A dynamic program over positions. It knows nothing of ops: costs are arrays of numbers.

Tests: test/unit/passes/pipelining/test_cut_points.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np


@dataclass(frozen=True)
class Costs:
    """Of n ops one after the other: n numbers for the ops, n + 1 for the positions before, between and behind them."""

    work: Sequence[float]  # of each op
    crossing: Sequence[float]  # of a cut at each position, to each of the two stages there
    memory: Sequence[float]  # of each op
    most_memory: float = float("inf")  # of a stage
    least_memory: float = 0.0  # of a stage

    def __len__(self) -> int:
        return len(self.work)

    def stage(self, start: int, end: int) -> float:
        """The cost of a stage of ops `start` to `end`; infinite where it needs too much memory, or too little.

        It sends to the next stage while it receives from the one before.
        """
        if not self.least_memory <= sum(self.memory[start:end]) <= self.most_memory:
            return float("inf")
        return sum(self.work[start:end]) + max(self.crossing[start], self.crossing[end])


def cut_points(costs: Costs, stages: int, candidates: Sequence[int]) -> list[int] | None:
    """The `stages - 1` positions among `candidates`, ascending; None where there are none that are good enough.

    Of all cuts, those whose most expensive stage is cheapest; of these, those with the least sum of squares, which
    makes the others alike; then the first.
    """
    positions = np.array(sorted({0, *candidates, len(costs)}))
    work, memory = (np.concatenate([[0.0], np.cumsum(each)])[positions] for each in (costs.work, costs.memory))
    crossing = np.asarray(costs.crossing, float)[positions]
    spans = work[None, :] - work[:, None] + np.maximum(crossing[None, :], crossing[:, None])
    needed = memory[None, :] - memory[:, None]
    impossible = (needed > costs.most_memory) | (needed < costs.least_memory)
    spans[np.tri(len(positions), dtype=bool) | impossible] = np.inf
    worst = _path(spans, stages, np.maximum)
    if worst is None:
        return None
    limit = max(spans[a, b] for a, b in pairwise(worst))
    squares = np.where(spans <= limit * (1 + 1e-9), spans, np.inf) ** 2
    path = _path(squares, stages, np.add)
    assert path is not None, "the path with the least maximum is one"
    return [int(position) for position in positions[path[1:-1]]]


def _path(spans: np.ndarray, stages: int, join: np.ufunc) -> list[int] | None:
    """The cheapest path of `stages` spans from the first position to the last one, whose spans are joined by `join`."""
    count = len(spans)
    best = np.full(count, np.inf)
    best[0] = 0.0
    before: list[np.ndarray] = []
    for _ in range(stages):
        ways = join(best[:, None], spans)
        before.append(ways.argmin(axis=0))
        best = ways.min(axis=0)
    if not np.isfinite(best[-1]):
        return None
    path = [count - 1]
    for step in reversed(before):
        path.append(int(step[path[-1]]))
    return path[::-1]
