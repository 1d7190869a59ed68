"""Budgets: conditions such as `sync_in_loop > 0` on the numbers of an audit, for use in continuous integration."""

import difflib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from paropt.base.wording import size_text
from paropt.passes.support.byte_sizes import UNIT_NAMES, UNITS
from paropt.reports.baseline import not_in
from paropt.reports.comparison import AuditComparison
from paropt.reports.metrics import METRICS, Bounds, Metric
from paropt.reports.totals import Audit

# Before the name of a metric: how much more it is than in the baseline; or its value for the collectives that the
# baseline lacks, whatever is gone.
ADDED, NEW = "added.", "new."
_CONDITION = re.compile(
    r"\s*(?P<name>[\w.]+)\s*(?P<op>[<>]=?|[=!]=)\s*(?P<number>-?\d+(?:\.\d+)?(?:e\d+)?)\s*(?P<unit>[A-Za-z]*)\s*"
)

# Whether a number within these bounds may fulfil the condition: a possible value counts.
_POSSIBLE: dict[str, Callable[[Bounds, float], bool]] = {
    ">": lambda bounds, limit: bounds.high > limit,
    ">=": lambda bounds, limit: bounds.high >= limit,
    "<": lambda bounds, limit: bounds.low < limit,
    "<=": lambda bounds, limit: bounds.low <= limit,
    "==": lambda bounds, limit: bounds.low <= limit <= bounds.high,
    "!=": lambda bounds, limit: bounds != (limit, limit),
}


class BudgetError(ValueError):
    """A budget cannot be read; the message, one line, says how it should be."""


@dataclass(frozen=True)
class Budget:
    """A condition that must not hold."""

    text: str  # as written
    metric: Metric
    prefix: str  # ADDED or NEW, which compare with the baseline; or empty
    op: str
    limit: float

    @classmethod
    def parse(cls, text: str) -> "Budget":
        """Reads `NAME OP NUMBER[UNIT]`. Raises BudgetError."""
        found = _CONDITION.fullmatch(text)
        if not found:
            raise BudgetError(
                f"`{text}`: expected NAME OP NUMBER[UNIT], such as `sync_in_loop > 0` or `peak_memory > 2GiB`"
            )
        prefix = next((prefix for prefix in (ADDED, NEW) if found["name"].startswith(prefix)), "")
        name = found["name"].removeprefix(prefix)
        if name not in METRICS:
            raise BudgetError(f"`{text}`: no metric is called `{name}`{_hint(name)}")
        metric = METRICS[name]
        if prefix == NEW and not metric.of_collectives:
            raise BudgetError(f"`{text}`: {name} is of the whole executable: take `{ADDED}{name}`")
        limit = float(found["number"]) * _factor(text, metric, found["unit"])
        return cls(text.strip(), metric, prefix, found["op"], limit)

    def exceeded(self, comparison: AuditComparison, baseline: AuditComparison | None) -> str | None:
        """None when the condition does not hold after the passes; else a line that says so.

        A condition that cannot be decided, because a trip count is unknown, counts as one that holds.
        """
        bounds = self._bounds(comparison.after, None if baseline is None else baseline.after)
        if not _POSSIBLE[self.op](bounds, self.limit):
            return None
        return f"{comparison.target}: {self.text}: it is {_bounds_text(bounds, self.metric)}"

    def _bounds(self, now: Audit, baseline: Audit | None) -> Bounds:
        if not self.prefix:
            return self.metric.of(now)
        assert baseline is not None, "checked before anything was compiled"
        if self.prefix == NEW:
            return self.metric.of(replace(now, collectives=tuple(not_in(baseline, now))))
        return self.metric.of(now) - self.metric.of(baseline)


def _hint(name: str) -> str:
    near = difflib.get_close_matches(name, METRICS, n=1)
    return f"; did you mean `{near[0]}`?" if near else "; docs/audit.md lists them"


def _factor(text: str, metric: Metric, unit: str) -> int:
    if not unit:
        return 1
    if metric.unit != "bytes":
        raise BudgetError(f"`{text}`: {metric.name} is a count: leave `{unit}` out")
    if unit.lower() not in UNITS:
        raise BudgetError(f"`{text}`: no unit is called `{unit}`; there are {UNIT_NAMES}")
    return UNITS[unit.lower()]


def _bounds_text(bounds: Bounds, metric: Metric) -> str:
    """`12.3 kB (12288)`, or the bounds where the number is not exact."""
    if bounds.exact is not None:
        return _number(bounds.exact, metric)
    ends = (("at least", bounds.low), ("at most", bounds.high))
    known = [f"{name} {_number(end, metric)}" for name, end in ends if end and not math.isinf(end)]
    return " and ".join(known) or "not known"


def _number(value: float, metric: Metric) -> str:
    if metric.unit == "count" or abs(value) < 1000:
        return f"{value:.15g}{' B' * (metric.unit == 'bytes')}"
    sign = "-" if value < 0 else ""
    return f"{sign}{size_text(abs(value))} ({value:.15g} B)"
