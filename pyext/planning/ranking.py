"""The ranking of judged candidates, as a table: the best first, and of each other one why it lost.

Times are estimated: a difference of TOLERANCE means nothing. Bytes and memory are those of the executable. So of the
candidates whose time is that near the shortest, the one that sends least is the best, then the one that takes least.
"""

from collections.abc import Sequence

from paropt.base.wording import seconds_text, size_text
from paropt.hlo.traffic import traffic
from paropt.planning.search import Judged

TOLERANCE = 0.02  # of the shortest estimated time


def ranked(found: Sequence[Judged], budget: int | None) -> list[Judged]:
    """Those that fit and are about as fast as the fastest by bytes sent, memory, templates before proposals, time; the
    others that fit by time; those that do not fit by memory; those without an executable.
    """
    fastest = _fastest(found, budget)

    def key(judged: Judged) -> tuple[float, ...]:
        if judged.audit is None:
            return (3,)
        if not fits(judged, budget):
            return 2, judged.peak_memory, judged.seconds
        if fastest is None or not _about_as_fast(judged, fastest):
            return 1, judged.seconds, sent(judged), judged.peak_memory, judged.candidate.is_proposed
        return 0, sent(judged), judged.peak_memory, judged.candidate.is_proposed, judged.seconds

    return sorted(found, key=key)


def _fastest(found: Sequence[Judged], budget: int | None) -> Judged | None:
    """Of those that fit."""
    return min((judged for judged in found if fits(judged, budget)), key=lambda judged: judged.seconds, default=None)


def _about_as_fast(judged: Judged, fastest: Judged) -> bool:
    return judged.seconds <= fastest.seconds * (1 + TOLERANCE)


def sent(judged: Judged) -> float:
    """Bytes on the wire per device and step, of an executable."""
    assert judged.audit is not None
    return traffic(judged.audit.collectives).known


def fits(judged: Judged, budget: int | None) -> bool:
    return judged.audit is not None and (budget is None or judged.peak_memory <= budget)


def rows_of(found: Sequence[Judged], budget: int | None) -> list[tuple[str, ...]]:
    """The texts of the titles, and of each candidate of the ranking `found`. Those with pipeline stages have columns of
    their own: the schedule and its micro-batches, and the waits of the busiest stage.
    """
    titles = ("template", "mesh", "policy", "sent", "peak memory", "compute", "communication", "hidden", "step", "")
    fastest = _fastest(found, budget)
    rows = [titles, *(_row(judged, found[0], fastest, budget) for judged in found)]
    if all(judged.candidate.stages is None for judged in found):
        return rows
    more = [("schedule", "waits"), *map(_of_stages, found)]
    return [(*row[:3], schedule, *row[3:8], waits, *row[8:]) for row, (schedule, waits) in zip(rows, more, strict=True)]


def _of_stages(judged: Judged) -> tuple[str, str]:
    if judged.candidate.stages is None:
        return "-", "-"
    waits = judged.audit.estimate.waiting if judged.audit is not None and judged.audit.estimate is not None else None
    return str(judged.candidate.stages), "-" if waits is None else seconds_text(waits)


def table(found: Sequence[Judged], budget: int | None) -> str:
    """A line for each candidate of the ranking `found`."""
    return aligned(rows_of(found, budget))


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """The lines of a table, its columns side by side."""
    titles = rows[0]
    widths = [max(len(row[i]) for row in rows) for i in range(len(titles))]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines)


def _row(judged: Judged, best: Judged, fastest: Judged | None, budget: int | None) -> tuple[str, ...]:
    candidate = judged.candidate
    head = (candidate.name, str(candidate.mesh), candidate.policy or "XLA alone")
    if judged.audit is None or judged.audit.estimate is None:
        return (*head, *["-"] * 6, judged.problem)
    time = judged.audit.estimate
    cells = [size_text(sent(judged)), size_text(judged.peak_memory)]
    cells += [seconds_text(seconds) for seconds in (time.compute, time.communication, time.hidden)]
    return (*head, *cells, time.bound + seconds_text(time.seconds), _verdict(judged, best, fastest, budget))


def _verdict(judged: Judged, best: Judged, fastest: Judged | None, budget: int | None) -> str:
    if budget is not None and not fits(judged, budget):
        return f"{size_text(judged.peak_memory - budget)} over the memory budget"
    if judged is best:
        return "<- best"
    assert fastest is not None
    if not _about_as_fast(judged, fastest):
        return _slower(judged, fastest)
    if sent(judged) > sent(best):
        return f"about as fast, sends {size_text(sent(judged) - sent(best))} more"
    if judged.peak_memory > best.peak_memory:
        return f"about as fast, takes {size_text(judged.peak_memory - best.peak_memory)} more"
    return "about as fast, sends and takes the same"


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
    what = f"no candidate fits {size_text(budget)}: the smallest ({smallest.candidate}) takes"
    return f"plan: {what} {size_text(smallest.peak_memory)}, {size_text(over)} more; {helps} would help"
