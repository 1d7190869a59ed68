"""Audits of one program without and with passes, for one target or several, and the remarks that explain them."""

import dataclasses
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePath
from typing import BinaryIO, NamedTuple

from paropt.base.wording import size_text
from paropt.hlo.census import Collective, Loop
from paropt.hlo.origins import Origin
from paropt.hlo.parser import Array
from paropt.modules.summary import OFFER
from paropt.passes.support.remarks import Remark
from paropt.reports.reasons import Explanations, Reason, reasons
from paropt.reports.totals import Audit

_NUMBERED = re.compile(r"\.\d+$")  # a name of XLA's own, as in `while.5`

_SOURCES_SHOWN = 3
_NEARLY = 0.1  # of the bytes that the passes count


class Changes(NamedTuple):
    """Collectives of an executable that its baseline had not, and the reverse: one line each."""

    added: tuple[str, ...]
    removed: tuple[str, ...]


class Place(NamedTuple):
    """The common properties of the collectives of one row of a report."""

    kind: str
    loops: tuple[Loop, ...]  # without the names that XLA numbers: these differ from one compilation to the next
    at_most: bool
    group: int
    source_file: str
    source_line: int
    name: str  # the last part of JAX's name stack
    axes: tuple[str, ...] = ()
    origins: tuple[Origin, ...] = ()  # with the last part of the name stack, each once

    @property
    def source(self) -> str:
        """`loss.py:41 psum`, as far as it is known; several where the collective takes values of all these."""
        if not self.origins:
            return _source(self.source_file, self.source_line, self.name)
        found = dict.fromkeys(_source(o.source_file, o.source_line, o.op_name) for o in self.origins)
        return ", ".join([*list(found)[:_SOURCES_SHOWN], *(["..."] if len(found) > _SOURCES_SHOWN else [])])


@dataclass(frozen=True)
class Row:
    """The collectives of one place, before and after the passes, and the remarks of the passes on them.

    XLA combines collectives, and labels the result with the place of one of them. So an array is still there when the
    same kind of collective takes an array of its type in the same loop, whatever place that is labelled with.
    """

    place: Place
    before: tuple[Collective, ...]
    after: tuple[Collective, ...]
    gone: int  # arrays of `before` that are not there after
    fresh: int  # arrays of `after` that were not there before
    reasons: tuple[Reason, ...]  # each once, those for not applying first

    @property
    def verdict(self) -> str:
        """`kept`, `removed`, `new`, or how many of the arrays are."""
        had, has = len(arrays_of(self.before)), len(arrays_of(self.after))
        if not self.gone and not self.fresh:
            return "kept"
        if self.gone == had and not has:
            return "removed"
        if self.fresh == has and not had:
            return "new"
        parts = [(self.gone, had, "removed"), (self.fresh, has, "new")]
        return ", ".join(f"{part} of {whole} arrays {verdict}" for part, whole, verdict in parts if part)


@dataclass(frozen=True, repr=False)
class AuditComparison:
    """The audits of a program compiled as it is (`before`) and with passes (`after`). `str` of it is a report.

    Where no passes ran, both are the same, and reports show one.
    """

    before: Audit
    after: Audit
    passes: str = ""
    target: str = ""  # "" for the devices of this process
    remarks: tuple[Remark, ...] = ()
    changes: Changes | None = None  # between a baseline and `after`
    mismatches: tuple[str, ...] = ()  # where the executable's reductions differ from the passes' result
    module: str = ""  # its name, as in `jit_step`
    offers: Callable[[], Sequence[Remark]] = field(default=tuple, repr=False, compare=False)  # on reductions in loops
    arguments: frozenset[tuple[int, ...]] = field(default=frozenset(), repr=False, compare=False)  # unsharded shapes

    @cached_property
    def offer(self) -> str:
        """The reductions that stay in loops, and the bytes that another policy would send and hold, in a line; ""
        without any."""
        return self._offered.text if self._offered is not None else ""

    @cached_property
    def _offered(self) -> Remark | None:
        return next((remark for remark in [*self.offers(), *self.remarks] if remark.pass_name == OFFER), None)

    @property
    def offer_measured(self) -> str:
        """The bytes that the executable gathers in loops, where these are others than the passes count; else ""."""
        counted = self._offered.saved.bytes if self._offered is not None and self._offered.saved is not None else 0
        gathered = self.after.total("all-gather").in_loops
        if not counted or abs(gathered - counted) <= _NEARLY * counted:
            return ""
        found = f"the executable gathers {size_text(gathered)} per step in loops, not {size_text(counted)}"
        why = "XLA gathers before the loop, in another type, or other arrays in place of parameters"
        return f"{found}: {why}; paropt.policies compiles each policy, and counts what it sends and takes"

    @property
    def gathers_at_use(self) -> bool:
        """Whether parameters are gathered in loops, and another policy would gather them before."""
        return " gathered (" in self.offer

    def parameters_of(self, collectives: Iterable[Collective]) -> int:
        """How many arrays of these all-gathers have the shape of an argument, or of its part in an inner loop.

        XLA may transpose one, and may have a dimension for the devices before the one that it gathers.
        """
        known = {_sizes(shape) for shape in self.arguments}
        parts = {_sizes((*shape[:at], *shape[at + 1 :])) for shape in self.arguments for at in range(len(shape))}
        found = [(array.dims, len(each.loops) > 1) for each in collectives for array in each.arrays]
        return sum(not _gathered(dims).isdisjoint(known | parts if is_inner else known) for dims, is_inner in found)

    @property
    def is_single(self) -> bool:
        """True where no passes ran: there is nothing to compare."""
        return not self.passes and self.before == self.after

    @cached_property
    def source_files(self) -> tuple[str, ...]:
        """The paths that remarks name."""
        return tuple(dict.fromkeys(remark.source.file for remark in self.remarks if "/" in remark.source.file))

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """One row per kind, place and loop: first those of `before`, in program order, then the new ones."""
        before, after = _by_place(self.before.collectives), _by_place(self.after.collectives)
        gone, fresh = _unmatched(before, after), _unmatched(after, before)
        explanations = Explanations(self.remarks)
        rows = []
        for place in dict.fromkeys([*before, *after]):
            left, right = tuple(before.get(place, ())), tuple(after.get(place, ()))
            is_gone = not right and gone[place] == len(arrays_of(left))
            said = [remark for collective in left for remark in explanations.of(collective)]
            for collective in right:
                said += explanations.of(collective, is_new=fresh[place] > 0)
            if not said and gone[place]:
                said = [*explanations.of_fewer(left), *explanations.of_hoisted(left)] or explanations.of_sums(left)
            if not said and fresh[place]:
                said = explanations.of_hoisted(right) or explanations.of_new_sums(right)
            if not said and right:
                said = explanations.of_parameters(right)
            rows.append(Row(place, left, right, gone[place], fresh[place], reasons(said, is_gone)))
        return tuple(_with_moved_gathers(rows))

    def json(self) -> str:
        """The report as JSON; docs/audit-schema.json describes it."""
        return AuditReport((self,)).json()

    def html(self) -> str:
        """The report as one self-contained HTML page."""
        return AuditReport((self,)).html()

    def plot(self, path: str | Path) -> None:
        """Writes a picture, bars per loop, to `path`. Raises ImportError without matplotlib."""
        AuditReport((self,)).plot(path)

    def __repr__(self) -> str:
        target = f" on {self.target}" if self.target else ""
        if self.is_single:
            return f"<AuditComparison{target}, no passes: {self.after!r}>"
        return f"<AuditComparison{target} of {self.passes}: before {self.before!r}, after {self.after!r}>"

    def _repr_html_(self) -> str:
        return AuditReport((self,))._repr_html_()

    def __str__(self) -> str:
        return str(AuditReport((self,)))


@dataclass(frozen=True, repr=False)
class AuditReport:
    """The audits of one program for several targets. `str` of it is a report."""

    comparisons: tuple[AuditComparison, ...]

    @property
    def mismatches(self) -> list[str]:
        """Those of all targets, each with its target."""
        return [f"{c.target}: {line}" for c in self.comparisons for line in c.mismatches]

    def __getitem__(self, target: str) -> AuditComparison:
        found = [c for c in self.comparisons if c.target == target]
        if not found:
            raise KeyError(
                f"no audit for target `{target}`; there are: {', '.join(c.target for c in self.comparisons)}"
            )
        return found[0]

    def json(self) -> str:
        """The report as JSON; docs/audit-schema.json describes it."""
        from paropt.reports.json_form import dumps

        return dumps(self)

    def html(self) -> str:
        """The report as one self-contained HTML page."""
        from paropt.reports.html_page import page

        return page(self)

    def plot(self, path: str | Path | BinaryIO) -> None:
        """Writes a picture, bars per loop, to `path`. Raises ImportError without matplotlib."""
        from paropt.reports.plot import plot

        plot(self, path)

    def __repr__(self) -> str:
        return f"<AuditReport: {', '.join(map(repr, self.comparisons))}>"

    def _repr_html_(self) -> str:
        """The page in a frame: its styles are not for the notebook."""
        from paropt.reports.html_document import frame

        return frame(self.html())

    def __str__(self) -> str:
        from paropt.reports.report_text import report_text

        return report_text(self)


def reasons_of_partitioned_op(row: Row, comparison: AuditComparison) -> tuple[Reason, ...]:
    """The remarks on the sum of an op that XLA makes the all-gathers of `row` of, where it partitions the op."""
    found = Explanations(comparison.remarks).of_partitioned_op([*row.before, *row.after])
    return reasons(found, row.verdict == "removed")


def _with_moved_gathers(rows: Sequence[Row]) -> Iterator[Row]:
    """`rows`, of which those without reasons that gather before a loop have those of the same arrays in the loop.

    XLA:TPU gathers small arrays by all-reduces, which keep neither the label of an op nor that of a loop.
    """
    moved = [row for row in rows if row.reasons and row.gone and all(each.gathers for each in row.before)]
    for row in rows:
        if row.reasons or row.place.loops or not row.fresh or not all(each.gathers for each in row.after):
            yield row
            continue
        arrays = set(arrays_of(row.after))
        same = [each for each in moved if each.place.loops and arrays <= set(arrays_of(each.before))]
        yield dataclasses.replace(row, reasons=same[0].reasons) if same else row


def _by_place(collectives: Iterable[Collective]) -> dict[Place, list[Collective]]:
    found: dict[Place, list[Collective]] = {}
    for collective in collectives:
        found.setdefault(place_of(collective), []).append(collective)
    return found


def arrays_of(collectives: Iterable[Collective]) -> list[Array]:
    """The arrays that `collectives` take, one by one."""
    return [array for collective in collectives for array in collective.arrays]


def _unmatched(one: dict[Place, list[Collective]], other: dict[Place, list[Collective]]) -> Counter[Place]:
    """For each place in `one`, how many of its arrays `other` lacks, in the same place and elsewhere."""
    spare: Counter[tuple[object, ...]] = Counter()
    for place, collectives in other.items():
        spare.update((_unlabelled(place), array) for array in _marked(collectives))
    found: Counter[Place] = Counter()
    waiting: list[tuple[Place, tuple[Array, bool]]] = []
    for place, collectives in one.items():
        here = Counter(_marked(other.get(place, ())))
        for array in _marked(collectives):
            if here[array]:
                here[array] -= 1
                spare[_unlabelled(place), array] -= 1
            else:
                waiting.append((place, array))
    for place, array in waiting:
        if spare[_unlabelled(place), array]:
            spare[_unlabelled(place), array] -= 1
        else:
            found[place] += 1
    return found


def _marked(collectives: Iterable[Collective]) -> list[tuple[Array, bool]]:
    """The arrays, each with whether an all-reduce gathers it: such a one is not that which sums."""
    return [array for collective in collectives for array in collective.marked_arrays]


def _unlabelled(place: Place) -> tuple[object, ...]:
    return place.kind, place.loops, place.at_most, place.group, place.axes


def place_of(c: Collective) -> Place:
    loops = tuple(Loop("" if _NUMBERED.search(loop.name) else loop.name, loop.trip_count) for loop in c.loops)
    name = _last_name(c.op_name)
    origins = tuple(dict.fromkeys(o._replace(op_name=_last_name(o.op_name)) for o in c.origins))
    return Place(c.kind, loops, c.at_most, c.group, c.source_file, c.source_line, name, c.axes, origins)


def _last_name(op_name: str) -> str:
    name = re.split("[/:]", op_name)[-1].rstrip(")")  # of `transpose(jvp(step/psum))`, and of combined `a:b`
    return "" if _NUMBERED.search(name) else name


def _sizes(shape: Sequence[int]) -> tuple[int, ...]:
    """The same for a shape that is transposed, or has more dimensions of size 1."""
    return tuple(sorted(size for size in shape if size > 1))


def _gathered(dims: Sequence[int]) -> set[tuple[int, ...]]:
    """The sizes of an array, as it is and with two adjacent dimensions as one."""
    merged = [(*dims[:at], math.prod(dims[at : at + 2]), *dims[at + 2 :]) for at in range(len(dims) - 1)]
    return {_sizes(dims), *map(_sizes, merged)} if len(dims) > 2 else {_sizes(dims)}


def _source(file: str, line: int, name: str) -> str:
    position = f"{PurePath(file).name}:{line}" if file else ""
    return " ".join(filter(None, (position, name)))
