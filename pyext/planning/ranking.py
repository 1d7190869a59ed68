"""The ranking of judged candidates, as a table: the best first, and of each other one why it lost."""

from collections.abc import Sequence

from paropt.base.wording import seconds_text, size_text
from paropt.hlo.traffic import traffic
from paropt.planning.search import Judged


def ranked(found: Sequence[Judged], budget: int | None) -> list[Judged]:
    """Those that fit, by estimated time, then bytes sent, then memory; those that do not by memory; then the others."""

    def key(judged: Judged) -> tuple[int, float, float, float]:
        if judged.audit is None:
            return 2, 0, 0, 0
        if not fits(judged, budget):
            return 1, judged.peak_memory, judged.seconds, 0
        return 0, judged.seconds, traffic(judged.audit.collectives).known, judged.peak_memory

    return sorted(found, key=key)


def fits(judged: Judged, budget: int | None) -> bool:
    return judged.audit is not None and (budget is None or judged.peak_memory <= budget)


def table(found: Sequence[Judged], budget: int | None) -> str:
    """A line for each candidate of the ranking `found`."""
    titles = ("template", "mesh", "policy", "sent", "peak memory", "compute", "communication", "hidden", "step", "")
    rows = [titles, *(_row(judged, found[0], budget) for judged in found)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(titles))]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines)


def _row(judged: Judged, best: Judged, budget: int | None) -> tuple[str, ...]:
    candidate = judged.candidate
    head = (candidate.name, str(candidate.mesh), candidate.policy or "XLA alone")
    if judged.audit is None or judged.audit.estimate is None:
        return (*head, *["-"] * 6, judged.problem)
    time = judged.audit.estimate
    cells = [size_text(traffic(judged.audit.collectives).known), size_text(judged.peak_memory)]
    cells += [seconds_text(seconds) for seconds in (time.compute, time.communication, time.hidden)]
    return (*head, *cells, time.bound + seconds_text(time.seconds), _verdict(judged, best, budget))


def _verdict(judged: Judged, best: Judged, budget: int | None) -> str:
    if budget is not None and not fits(judged, budget):
        return f"{size_text(judged.peak_memory - budget)} over the memory budget"
    if judged is best:
        return "<- best"
    assert judged.audit is not None and best.audit is not None
    mine, other = judged.audit.estimate, best.audit.estimate
    assert mine is not None and other is not None
    slower = judged.seconds - best.seconds
    if slower <= 0:
        return "as fast, sends or takes no less"
    exposed = (mine.communication - mine.hidden) - (other.communication - other.hidden)
    why = "communication" if exposed > slower / 2 else "compute"
    return f"{judged.seconds / best.seconds:.3g} x the time: {why}" if best.seconds else "slower"


def infeasible(found: Sequence[Judged], budget: int) -> str:
    """One line: by how much the smallest candidate is too large, and what would help."""
    smallest = min((judged for judged in found if judged.audit is not None), key=lambda judged: judged.peak_memory)
    assert smallest.audit is not None
    over = smallest.peak_memory - budget
    helps = "more devices, smaller micro-batches, or rematerialization"
    what = f"no candidate fits {size_text(budget)}: the smallest ({smallest.candidate}) takes"
    return f"plan: {what} {size_text(smallest.peak_memory)}, {size_text(over)} more; {helps} would help"
