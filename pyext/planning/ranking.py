"""The ranking of judged candidates, as a table: the best first, and of each other one why it lost.

Bytes and memory are those of the executable, and times are estimated: a difference of TOLERANCE means nothing. So of
the candidates whose figure (time, or bytes) is that near the least, the one with less of the other is the best, then
the one that takes least.
"""

from collections.abc import Sequence
from typing import NamedTuple

from paropt.base.wording import seconds_text, size_text
from paropt.hlo.traffic import traffic
from paropt.planning.goals import Goal, about
from paropt.planning.search import Judged


def ranked(found: Sequence[Judged], goal: Goal) -> list[Judged]:
    """Those that fit and are about as good as the best one by the other figure, memory, templates before proposals; the
    others that fit by the figure that `goal` minimises; those that do not fit by memory; those without an executable.
    """
    least = _least(found, goal)

    def key(judged: Judged) -> tuple[float, ...]:
        if judged.audit is None:
            return (3,)
        if not fits(judged, goal.memory):
            return 2, judged.peak_memory, judged.seconds
        figure, other = _figures(judged, goal)
        if not about(figure, least):
            return 1, figure, other, judged.peak_memory, judged.candidate.is_proposed
        return 0, other, judged.peak_memory, judged.candidate.is_proposed, figure

    return sorted(found, key=key)


def _figures(judged: Judged, goal: Goal) -> tuple[float, float]:
    return goal.figures(judged.seconds, sent(judged))


def _least(found: Sequence[Judged], goal: Goal) -> float:
    """Of those that fit."""
    return min((_figures(judged, goal)[0] for judged in found if fits(judged, goal.memory)), default=0.0)


def sent(judged: Judged) -> float:
    """Bytes on the wire per device and step, of an executable."""
    assert judged.audit is not None
    return traffic(judged.audit.collectives).known


def fits(judged: Judged, budget: int | None) -> bool:
    return judged.audit is not None and (budget is None or judged.peak_memory <= budget)


def rows_of(found: Sequence[Judged], goal: Goal) -> list[tuple[str, ...]]:
    """The texts of the titles, and of each candidate of the ranking `found`. Those with pipeline stages have columns of
    their own: the schedule and its micro-batches, and the waits of the busiest stage.
    """
    titles = ("template", "mesh", "policy", "sent", "peak memory", "compute", "communication", "hidden", "step", "")
    verdict = _Verdicts.of(found, goal)
    rows = [titles, *(_row(judged, verdict) for judged in found)]
    if all(judged.candidate.stages is None for judged in found):
        return rows
    more = [("schedule", "waits"), *map(_of_stages, found)]
    return [(*row[:3], schedule, *row[3:8], waits, *row[8:]) for row, (schedule, waits) in zip(rows, more, strict=True)]


def _of_stages(judged: Judged) -> tuple[str, str]:
    if judged.candidate.stages is None:
        return "-", "-"
    waits = judged.audit.estimate.waiting if judged.audit is not None and judged.audit.estimate is not None else None
    return str(judged.candidate.stages), "-" if waits is None else seconds_text(waits)


def table(found: Sequence[Judged], goal: Goal) -> str:
    """A line for each candidate of the ranking `found`."""
    return aligned(rows_of(found, goal))


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """The lines of a table, its columns side by side."""
    titles = rows[0]
    widths = [max(len(row[i]) for row in rows) for i in range(len(titles))]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines)


def _row(judged: Judged, verdicts: "_Verdicts") -> tuple[str, ...]:
    candidate = judged.candidate
    head = (candidate.name, str(candidate.mesh), candidate.policy or "XLA alone")
    if judged.audit is None or judged.audit.estimate is None:
        return (*head, *["-"] * 6, judged.problem)
    time = judged.audit.estimate
    cells = [size_text(sent(judged)), size_text(judged.peak_memory)]
    cells += [seconds_text(seconds) for seconds in (time.compute, time.communication, time.hidden)]
    return (*head, *cells, time.bound + seconds_text(time.seconds), verdicts.text(judged))


class _Verdicts(NamedTuple):
    """What candidates are compared with."""

    goal: Goal
    best: Judged
    fastest: Judged | None  # of those that fit
    leanest: float  # bytes sent, of those that fit

    @classmethod
    def of(cls, found: Sequence[Judged], goal: Goal) -> "_Verdicts":
        fitting = [judged for judged in found if fits(judged, goal.memory)]
        fastest = min(fitting, key=lambda judged: judged.seconds, default=None)
        return cls(goal, found[0], fastest, min(map(sent, fitting), default=0.0))

    def text(self, judged: Judged) -> str:
        """Why a candidate lost."""
        budget = self.goal.memory
        if budget is not None and not fits(judged, budget):
            return f"{size_text(judged.peak_memory - budget)} over the memory budget"
        if judged is self.best:
            return "<- best"
        assert self.fastest is not None
        return self._by_time(judged, self.fastest) if self.goal.objective == "seconds" else self._by_bytes(judged)

    def _by_time(self, judged: Judged, fastest: Judged) -> str:
        if not about(judged.seconds, fastest.seconds):
            return _slower(judged, fastest)
        if sent(judged) > sent(self.best):
            return f"about as fast, sends {size_text(sent(judged) - sent(self.best))} more"
        return f"about as fast, {self._by_memory(judged)}"

    def _by_bytes(self, judged: Judged) -> str:
        if not about(sent(judged), self.leanest):
            return f"sends {size_text(sent(judged) - sent(self.best))} more"
        if not about(judged.seconds, self.best.seconds):
            return f"sends about as much, {_slower(judged, self.best)}"
        return f"about as fast, {self._by_memory(judged)}"

    def _by_memory(self, judged: Judged) -> str:
        """Of one that sends no more, or about as much."""
        if judged.peak_memory > self.best.peak_memory:
            return f"takes {size_text(judged.peak_memory - self.best.peak_memory)} more"
        return "sends and takes the same" if sent(judged) == sent(self.best) else "sends about as much"


def _slower(judged: Judged, fastest: Judged) -> str:
    """By how much, and the largest part of the difference."""
    assert judged.audit is not None and fastest.audit is not None
    mine, other = judged.audit.estimate, fastest.audit.estimate
    assert mine is not None and other is not None
    more = {
        "communication": (mine.communication - mine.hidden) - (other.communication - other.hidden),
        "waiting for other stages": mine.waiting - other.waiting,
        "compute": mine.compute - other.compute,
    }
    why = max(more, key=more.__getitem__)
    return f"{judged.seconds / fastest.seconds:.3g} x the time: {why}" if fastest.seconds else "slower"


def infeasible(found: Sequence[Judged], budget: int) -> str:
    """One line: by how much the smallest candidate is too large, and the remedies."""
    smallest = min((judged for judged in found if judged.audit is not None), key=lambda judged: judged.peak_memory)
    assert smallest.audit is not None
    over = smallest.peak_memory - budget
    helps = "more devices, smaller micro-batches, or rematerialization"
    what = f"no candidate fits {size_text(budget)}: the smallest that was tried ({smallest.candidate}) takes"
    return f"plan: {what} {size_text(smallest.peak_memory)}, {size_text(over)} more; {helps} would help"
