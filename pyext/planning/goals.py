"""The goal of a plan: what is minimised, under which memory.

Tests: test/unit/pyext/planning/test_ranking.py, test/unit/pyext/planning/test_shortlist.py.
"""

from typing import Literal, NamedTuple, cast, get_args

Objective = Literal["seconds", "bytes"]

TOLERANCE = 0.02  # of the least: what is that near counts as no more


class Goal(NamedTuple):
    """What is wanted of a plan: the shortest estimated step, or the fewest bytes sent, that fit the memory."""

    memory: int | None = None  # bytes per device
    objective: Objective = "seconds"

    def figures(self, seconds: float, sent: float) -> tuple[float, float]:
        """The figure that is minimised of a step, and the one that decides between those that are about as good."""
        return (seconds, sent) if self.objective == "seconds" else (sent, seconds)


def about(figure: float, least: float) -> bool:
    """Whether `figure` is no more than `least`, by the tolerance."""
    return figure <= least * (1 + TOLERANCE)


def read_objective(given: object) -> Objective:
    """Raises ValueError, one line, for anything else than an objective."""
    match given:
        case str() if given in get_args(Objective):
            return cast(Objective, given)
    raise ValueError(f"objective: expected {' or '.join(get_args(Objective))}, got {given!r}")
