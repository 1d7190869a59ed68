"""The picture of an audit, as numbers: per loop, the bytes that each kind of collective moves in one step, run after
run."""

from dataclasses import dataclass
from typing import NamedTuple

from paropt.base.wording import counted, size_text
from paropt.hlo.census import KINDS, Collective, Loop
from paropt.reports.comparison import AuditComparison, place_of
from paropt.reports.report_text import loops_text, sides, trips_text
from paropt.reports.totals import without_scalars

# Of the bars, in the order of census.KINDS: readable on white and on black.
COLORS = {
    "all-reduce": "#d1495b",
    "reduce-scatter": "#edae49",
    "all-gather": "#2a7de1",
    "all-to-all": "#00798c",
    "ragged-all-to-all": "#5fb49c",
    "collective-permute": "#8d6a9f",
    "collective-broadcast": "#a0a35b",
    "send": "#8a8f98",
}


class Bar(NamedTuple):
    """The collectives of one kind in one loop, arrays of one element left out as in the sums. Bytes are per device."""

    kind: str
    blocks: tuple[tuple[int, int], ...]  # of each collective: runs per step, bytes of each; 1 run where unknown
    is_known: bool  # how often they run
    at_most: bool  # some are in a branch of a conditional, and counted as if always taken

    @property
    def runs(self) -> int:
        return sum(runs for runs, _ in self.blocks)

    @property
    def bytes(self) -> int:
        """Payload per step; of one run each where their number is unknown."""
        return sum(runs * size for runs, size in self.blocks)


@dataclass(frozen=True)
class Lane:
    """One loop (or the outside of all), with the bars of each audit, in the order of `report_text.sides`."""

    title: str
    bars: tuple[tuple[Bar, ...], ...]

    @property
    def bytes(self) -> int:
        return max(sum(bar.bytes for bar in bars) for bars in self.bars)


def lanes(comparison: AuditComparison) -> list[Lane]:
    """A lane for each loop that communicates, before or after; the outside of loops is the last one."""
    audits = [without_scalars(audit.collectives) for _, audit in sides(comparison)]
    loops = dict.fromkeys(place_of(c).loops for collectives in audits for c in collectives)
    return [
        Lane(_title(where), tuple(_bars(tuple(c for c in found if place_of(c).loops == where)) for found in audits))
        for where in sorted(loops, key=lambda where: not where)
    ]


def _title(loops: tuple[Loop, ...]) -> str:
    where = loops_text(loops)
    return f"{where}, {trips_text(loops)} trips" if loops else where


def _bars(collectives: tuple[Collective, ...]) -> tuple[Bar, ...]:
    found = []
    for kind in KINDS:
        members = [c for c in collectives if c.kind == kind]
        if not members:
            continue
        blocks = tuple((1 if c.executions is None else c.executions, c.payload) for c in members)
        is_known = all(c.executions is not None for c in members)
        found.append(Bar(kind, blocks, is_known, any(c.at_most for c in members)))
    return tuple(found)


def bars_text(bars: tuple[Bar, ...]) -> str:
    """`8 runs, 4.19 MB`, or `-` where nothing runs."""
    if not bars:
        return "-"
    size = size_text(sum(bar.bytes for bar in bars))
    if not all(bar.is_known for bar in bars):
        return f"unknown number of runs; {size} if each ran once"
    bound = "at most " if any(bar.at_most for bar in bars) else ""
    return f"{bound}{counted(sum(bar.runs for bar in bars), 'run')}, {size}"
