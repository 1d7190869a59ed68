"""The census of a final executable: how often each collective runs per step, on how many bytes, and in which loop.

Counted in the optimized HLO, after everything that XLA does to the program; definitions in docs/census.md.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, NamedTuple

from paropt import hlo
from paropt.census import KINDS, Collective, Loop, census, sent_per_byte

SYNC_KINDS = ("all-reduce", "reduce-scatter")


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
        """What to print before the sums per step: nothing where they are exact."""
        return {(False, False): "", (True, False): ">= ", (False, True): "<= ", (True, True): "~ "}[
            self.at_least, self.at_most
        ]


@dataclass(frozen=True)
class Audit:
    """The collectives of one executable, and its memory. `str` of it is a table."""

    collectives: tuple[Collective, ...]  # in program order
    peak_memory: int | None  # bytes per device: arguments + outputs + temporaries - aliased; None for HLO text

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

    def __str__(self) -> str:
        return "\n\n".join([_rows_table(self.collectives), _summary([("", self)])])


@dataclass(frozen=True)
class AuditComparison:
    """The audits of a function compiled as it is (`before`) and with passes (`after`)."""

    before: Audit
    after: Audit

    def __str__(self) -> str:
        parts = ["before", _rows_table(self.before.collectives), "after", _rows_table(self.after.collectives)]
        return "\n\n".join([*parts, _summary([("before", self.before), ("after", self.after)])])


def audit(target: Any, *args: Any, passes: str | None = None, **kwargs: Any) -> Audit | AuditComparison:
    """Counts the collectives of the executable that XLA makes of `target`.

    `target` is a function, or the result of `jax.jit` or `paropt.jit`, that is compiled for the arguments (arrays or
    `jax.ShapeDtypeStruct`); or a `jax.stages.Lowered` or `Compiled`; or the text of optimized HLO.
    With `passes`, a function is compiled twice, as it is and with these passes, and the result has both audits.

    Raises TypeError for another target, `hlo.HloError` when the executable's text cannot be read.
    """
    import jax

    if isinstance(target, str | jax.stages.Compiled | jax.stages.Lowered):
        if args or kwargs or passes is not None:
            raise TypeError("paropt.audit: arguments and passes are for functions; this is lowered or compiled already")
        return _audit(target.compile() if isinstance(target, jax.stages.Lowered) else target)
    if not callable(target):
        raise TypeError(
            f"paropt.audit: expected a function, Lowered, Compiled or HLO text, not {type(target).__name__}"
        )
    jitted = target if isinstance(target, jax.stages.Wrapped) else jax.jit(target)
    if passes is None:
        return _audit(jitted.lower(*args, **kwargs).compile())

    from paropt.jit import Jitted, enabled

    if isinstance(target, Jitted):
        raise TypeError("paropt.audit: with `passes`, give the function or jax.jit of it; this has passes already")
    before = _audit(jitted.lower(*args, **kwargs).compile())
    with enabled(passes):
        after = jitted.lower(*args, **kwargs)
    return AuditComparison(before, _audit(after.compile()))


def _audit(compiled: Any) -> Audit:
    """The audit of a `jax.stages.Compiled` or of HLO text."""
    if isinstance(compiled, str):
        return Audit(census(compiled), None)
    memory = compiled.memory_analysis()
    peak = None
    if memory is not None:
        peak = memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes
        peak -= memory.alias_size_in_bytes
    return Audit(census(compiled.as_text()), peak)


def _is_scalar(array: hlo.Array) -> bool:
    return array.elements == 1


def _total(collectives: Iterable[Collective], counted: Callable[[hlo.Array], bool]) -> Total:
    ops = arrays = executions = in_loops = outside = 0
    wire = 0.0
    at_least = at_most = False
    for collective in collectives:
        chosen = [array for array in collective.arrays if counted(array)]
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


def size_text(size: float) -> str:
    """Bytes in the largest decimal unit that fits, three digits: `4.19 MB`."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size:.0f} B"


class _Row(NamedTuple):
    """What collectives of one row of the table have in common."""

    kind: str
    loops: tuple[Loop, ...]
    at_most: bool
    asynchronous: bool
    group: int
    source: str


def _row_of(c: Collective) -> _Row:
    place = f"{PurePath(c.source_file).name}:{c.source_line} " if c.source_file else ""
    name = c.op_name.rpartition("/")[2].rstrip(")")  # of `transpose(jvp(step/psum))`
    return _Row(c.kind, c.loops, c.at_most, c.asynchronous, c.group, place + name)


def _rows_table(collectives: tuple[Collective, ...]) -> str:
    """One line per kind, place and source: what differs in nothing else is added up."""
    if not collectives:
        return "no collectives"
    rows: dict[_Row, list[Collective]] = defaultdict(list)
    for collective in collectives:
        rows[_row_of(collective)].append(collective)
    header = ["collective", "ops", "arrays", "runs each", "loops", "group", "async", "payload", "per step", "source"]
    return _aligned([header, *(_row_cells(row, members) for row, members in rows.items())], left=(0, 4, 9))


def _row_cells(row: _Row, members: list[Collective]) -> list[str]:
    bound = "<= " if row.at_most else ""
    times = members[0].executions
    payload = sum(member.payload for member in members)
    return [
        row.kind,
        str(len(members)),
        str(sum(len(member.arrays) for member in members)),
        "unknown" if times is None else f"{bound}{times}",
        " x ".join("?" if loop.trip_count is None else str(loop.trip_count) for loop in row.loops) or "-",
        str(row.group),
        "yes" if row.asynchronous else "no",
        size_text(payload),
        "unknown" if times is None else bound + size_text(payload * times),
        row.source,
    ]


def _summary(audits: list[tuple[str, Audit]]) -> str:
    """Sums per device and step, one column per audit."""
    lines = [["per device and step", *(title for title, _ in audits)]]
    for kind in KINDS:
        totals = [audit.total(kind) for _, audit in audits]
        if any(total.ops for total in totals):
            lines.append([kind, *(f"{t.bound}{t.executions} runs" for t in totals)])
            lines.append(["  payload in loops", *(t.bound + size_text(t.in_loops) for t in totals)])
            lines.append(["  payload outside loops", *(t.bound + size_text(t.outside) for t in totals)])
    sync = [audit.total(*SYNC_KINDS) for _, audit in audits]
    lines.append(["sync payload", *(t.bound + size_text(t.bytes) for t in sync)])
    lines.append(["sync sent on the wire", *(t.bound + size_text(t.wire) for t in sync)])
    lines.append(["scalars", *(f"{a.scalars.bound}{a.scalars.executions} runs" for _, a in audits)])
    memory = [audit.peak_memory for _, audit in audits]
    lines.append(["peak memory", *("unknown" if size is None else size_text(size) for size in memory)])
    return _aligned(lines, left=(0,))


def _aligned(lines: list[list[str]], left: tuple[int, ...]) -> str:
    """Columns two spaces apart; those in `left` are aligned left, the others right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    aligns = ["<" if column in left else ">" for column in range(len(widths))]
    return "\n".join(
        "  ".join(f"{cell:{align}{width}}" for cell, align, width in zip(line, aligns, widths, strict=True)).rstrip()
        for line in lines
    )
