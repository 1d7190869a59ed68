"""The metrics of an audit, by name, for budgets, JSON reports and docs/audit.md."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from paropt.hlo.census import KINDS, SYNC_KINDS
from paropt.reports.totals import Audit, Total

Unit = Literal["bytes", "count"]


class Bounds(NamedTuple):
    """Where a number lies. Both are equal where it is exact; `high` is infinite where nothing bounds it."""

    low: float
    high: float

    @property
    def exact(self) -> float | None:
        return self.low if self.low == self.high else None

    def __sub__(self, other: "Bounds") -> "Bounds":
        return Bounds(self.low - other.high, self.high - other.low)


@dataclass(frozen=True)
class Metric:
    """One number of an audit. Bytes are per device and step."""

    name: str
    unit: Unit
    help: str
    of: Callable[[Audit], Bounds]
    of_collectives: bool = True  # or of the executable


class _Measure(NamedTuple):
    suffix: str
    unit: Unit
    help: str
    of: Callable[[Total], Bounds]


def _exact(value: float) -> Bounds:
    return Bounds(value, value)


def _per_step(value: float, total: Total) -> Bounds:
    """`value`, to which collectives that run unknown times may add, and of which a branch not taken may be missing."""
    return Bounds(0 if total.at_most else value, math.inf if total.at_least else value)


# Of scalars there is one metric, below: these leave them out.
_MEASURES = (
    _Measure("ops", "count", "{} in the executable", lambda t: _exact(t.ops)),
    _Measure("arrays", "count", "arrays that {} combine", lambda t: _exact(t.arrays)),
    _Measure("executions", "count", "runs of {} per step", lambda t: _per_step(t.executions, t)),
    _Measure("bytes", "bytes", "payload of {}", lambda t: _per_step(t.bytes, t)),
    _Measure("in_loop", "bytes", "the part of the payload of {} that is in loops", lambda t: _per_step(t.in_loops, t)),
    _Measure("wire", "bytes", "what a device sends for {}", lambda t: _per_step(t.wire, t)),
)


def _of_total(name: str, kinds: tuple[str, ...], title: str) -> Iterator[Metric]:
    for measure in _MEASURES:

        def of(audit: Audit, measure: _Measure = measure) -> Bounds:
            return measure.of(audit.total(*kinds))

        yield Metric(name + measure.suffix, measure.unit, measure.help.format(title), of)


def _peak_memory(audit: Audit) -> Bounds:
    return Bounds(0, math.inf) if audit.peak_memory is None else _exact(audit.peak_memory)


def _unknown(audit: Audit) -> Bounds:
    return _exact(sum(c.executions is None for c in audit.collectives))


def _scalar_runs(audit: Audit) -> Bounds:
    return _per_step(audit.scalars.executions, audit.scalars)


_ALL = (
    *_of_total("sync_", SYNC_KINDS, "all-reduces and reduce-scatters"),
    *(metric for kind in KINDS for metric in _of_total(f"{kind.replace('-', '_')}.", (kind,), f"{kind}s")),
    Metric("collectives", "count", "collectives of any kind in the executable", lambda a: _exact(len(a.collectives))),
    Metric("scalars", "count", "runs of collectives for arrays of one element, per step", _scalar_runs),
    Metric("unknown_trip_counts", "count", "collectives that run an unknown number of times", _unknown),
    Metric(
        "peak_memory", "bytes", "arguments + outputs + temporaries - outputs that share memory", _peak_memory, False
    ),
)
METRICS = {metric.name: metric for metric in _ALL}
