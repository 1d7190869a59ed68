"""The comparison of an audit with an earlier one, the baseline."""

import dataclasses
from collections import Counter
from collections.abc import Iterator

from paropt.hlo.census import Collective
from paropt.reports.comparison import AuditComparison, AuditReport, Changes, place_of
from paropt.reports.report_text import described
from paropt.reports.totals import Audit


class BaselineError(ValueError):
    """The baseline cannot be compared with; the message, one line, says why."""


def compared(report: AuditReport, baseline: AuditReport) -> AuditReport:
    """`report` with the changes since `baseline`. Raises BaselineError when a target is missing there."""
    comparisons = []
    for comparison in report.comparisons:
        earlier = counterpart(comparison.target, baseline)
        comparisons.append(dataclasses.replace(comparison, changes=_changes(earlier.after, comparison.after)))
    return AuditReport(tuple(comparisons))


def counterpart(target: str, baseline: AuditReport) -> AuditComparison:
    """The baseline's audit for `target`. Raises BaselineError."""
    for earlier in baseline.comparisons:
        if earlier.target == target:
            return earlier
    known = ", ".join(earlier.target for earlier in baseline.comparisons)
    raise BaselineError(f"the baseline has no target `{target}`; it has: {known}")


def _changes(earlier: Audit, now: Audit) -> Changes:
    return Changes(tuple(map(_line, not_in(earlier, now))), tuple(map(_line, not_in(now, earlier))))


def _line(collective: Collective) -> str:
    return described(place_of(collective), (collective,))


def not_in(one: Audit, other: Audit) -> Iterator[Collective]:
    """The collectives of `other` without an equal in `one`."""
    with_axes = all(any(c.axes for c in audit.collectives) for audit in (one, other))  # a baseline may lack them all
    left = Counter(_identity(c, with_axes) for c in one.collectives)
    for collective in other.collectives:
        identity = _identity(collective, with_axes)
        if left[identity]:
            left[identity] -= 1
        else:
            yield collective


def _identity(c: Collective, with_axes: bool) -> tuple[object, ...]:
    """The properties by which a collective is the same in two programs. Its line is not part of it: lines move."""
    place = place_of(c)
    trip_counts = tuple(loop.trip_count for loop in place.loops)
    axes = place.axes if with_axes else ()
    return place.kind, trip_counts, place.at_most, place.group, axes, place.name, c.arrays
