"""Totals of the collectives of an executable: per kind, in loops and outside. docs/census.md defines them."""

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from paropt.base.wording import counted
from paropt.costs.step_time import Estimate
from paropt.hlo import parser as hlo
from paropt.hlo.census import KINDS, SYNC_KINDS, Collective, sent_per_byte


@dataclass(frozen=True)
class Total:
    """Sums over collectives of one or several kinds. Bytes are per device and step."""

    ops: int
    arrays: int  # arrays that these ops combine
    executions: int  # of these ops, per step
    in_loops: int  # payload bytes
    outside: int  # payload bytes
    wire: float  # bytes sent
    at_least: bool  # something runs an unknown number of times and is left out of the sums per step
    at_most: bool  # something is in a branch of a conditional and counted as if always taken

    @property
    def bytes(self) -> int:
        """Payload bytes, in loops and outside."""
        return self.in_loops + self.outside

    @property
    def bound(self) -> str:
        """The sign before the sums per step: none where they are exact."""
        return {(False, False): "", (True, False): ">= ", (False, True): "<= ", (True, True): "~ "}[
            self.at_least, self.at_most
        ]


@dataclass(frozen=True, repr=False)
class Audit:
    """The collectives of one executable, and its memory. `str` of it is a table, and so is a notebook's cell."""

    collectives: tuple[Collective, ...]  # in program order
    peak_memory: int | None  # bytes per device: arguments + outputs + temporaries - aliased; None for HLO text
    estimate: Estimate | None = None  # of the step time; None unless it was asked for

    def total(self, *kinds: str) -> Total:
        """The sum over collectives of these kinds (of all kinds if none is given), scalars left out."""
        unknown = [kind for kind in kinds if kind not in KINDS]
        if unknown:
            raise ValueError(f"no kind of collective is called `{unknown[0]}`; there are: {', '.join(KINDS)}")
        chosen = [c for c in self.collectives if not kinds or c.kind in kinds]
        return _total(chosen, lambda array: not _is_scalar(array))

    @property
    def scalars(self) -> Total:
        """The sum over arrays of one element (losses, metrics, norms), whatever the kind."""
        return _total(self.collectives, _is_scalar)

    @property
    def sync_bytes(self) -> int:
        """Bytes per device and step of all-reduce and reduce-scatter, scalars left out."""
        return self.total(*SYNC_KINDS).bytes

    @property
    def sync_in_loop(self) -> int:
        """The part of `sync_bytes` that is in loops."""
        return self.total(*SYNC_KINDS).in_loops

    def plot(self, path: str | Path) -> None:
        """Writes a picture, bars per loop, to `path`. Raises ImportError without matplotlib."""
        from paropt.reports.comparison import AuditComparison

        AuditComparison(self, self).plot(path)

    def __repr__(self) -> str:
        from paropt.base.wording import size_text

        sync = self.total(*SYNC_KINDS)
        sizes = f"{sync.bound}{size_text(sync.bytes)} of gradient sync, {size_text(sync.in_loops)} of it in loops"
        return f"<Audit: {counted(len(self.collectives), 'collective')}, {sizes}>"

    def _repr_html_(self) -> str:
        from paropt.reports.comparison import AuditComparison

        return AuditComparison(self, self)._repr_html_()

    def __str__(self) -> str:
        from paropt.reports.report_text import audit_text

        return audit_text(self)


def without_scalars(collectives: Iterable[Collective]) -> list[Collective]:
    """Those that take more than arrays of one element, with these arrays left out."""
    marked = [(c, [(array, joined) for array, joined in c.marked_arrays if not _is_scalar(array)]) for c in collectives]
    return [
        dataclasses.replace(c, arrays=arrays, joined=joined)
        for c, kept in marked
        if kept
        for arrays, joined in [tuple(zip(*kept, strict=True))]
    ]


def _is_scalar(array: hlo.Array) -> bool:
    return array.elements == 1


def _total(collectives: Iterable[Collective], counts: Callable[[hlo.Array], bool]) -> Total:
    ops = arrays = executions = in_loops = outside = 0
    wire = 0.0
    at_least = at_most = False
    for collective in collectives:
        chosen = [array for array in collective.arrays if counts(array)]
        if not chosen:
            continue
        ops += 1
        arrays += len(chosen)
        at_least |= collective.executions is None
        at_most |= collective.at_most
        times = collective.executions or 0
        executions += times
        size = times * sum(array.bytes for array in chosen)
        in_loops += size if collective.loops else 0
        outside += 0 if collective.loops else size
        wire += size * sent_per_byte(collective.kind, collective.group)
    return Total(ops, arrays, executions, in_loops, outside, wire, at_least, at_most)
