"""Audits as text: tables for the eye, and a sentence per row that says why it stayed or went."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import PurePath

from paropt.base.wording import counted, seconds_text, size_text
from paropt.costs.step_time import Estimate
from paropt.hlo.census import KINDS, SYNC_KINDS, Collective, Loop
from paropt.modules.summary import OF_SUMS
from paropt.reports.comparison import (
    AuditComparison,
    AuditReport,
    Place,
    Row,
    arrays_of,
    place_of,
    reasons_of_partitioned_op,
)
from paropt.reports.reasons import SIZE, Reason, combined_names
from paropt.reports.totals import Audit, Total

NOBODY_SAYS, NOBODY_LOOKED = "no pass says why", "no pass looked at it"  # where there is no remark on a row

_MOVED_KINDS = (*SYNC_KINDS, "all-gather")

_SHAPES_SHOWN = 3
_OPS_SHOWN = 8


def audit_text(audit: Audit) -> str:
    """One row per place, and the sums."""
    parts = [_rows_table(audit.collectives), aligned(summary([("", audit)]), left=(0,))]
    return "\n\n".join([*parts, *([slowest_ops(audit.estimate)] if audit.estimate else [])])


def report_text(report: AuditReport) -> str:
    """For each target the sums, the collectives before and after by place, and why."""
    return "\n\n".join(_comparison_text(comparison) for comparison in report.comparisons)


def _comparison_text(comparison: AuditComparison) -> str:
    head = "\n".join(filter(None, (title(comparison), comparison.offer, comparison.offer_measured)))
    parts = [head, *mismatch_lines(comparison), aligned(summary(sides(comparison)), left=(0,))]
    if comparison.rows:
        parts.append(aligned(_side_by_side(comparison), left=(0, 1, 2, 4, 5)))
        parts.append("\n".join(sentence for row in comparison.rows for sentence in _sentences(row, comparison)))
    else:
        parts.append("no collectives")
    if comparison.after.estimate is not None:
        parts.append(slowest_ops(comparison.after.estimate))
    if comparison.changes is not None:
        parts.append("\n".join(changes_lines(comparison)))
    return "\n\n".join(parts)


def mismatch_lines(comparison: AuditComparison) -> list[str]:
    return [f"RESULTS WOULD BE WRONG: {line}" for line in comparison.mismatches]


def title(comparison: AuditComparison) -> str:
    """`cpu:8, passes grad-sync`."""
    target = comparison.target or "devices of this process"
    if comparison.is_single:
        return f"{target}, no passes"
    return f"{target}, passes {comparison.passes}" if comparison.passes else target


def sides(comparison: AuditComparison) -> list[tuple[str, Audit]]:
    """The audits with their titles; one of them where no passes ran."""
    if comparison.is_single:
        return [("", comparison.after)]
    return [("before", comparison.before), ("after", comparison.after)]


def summary(audits: list[tuple[str, Audit]]) -> list[list[str]]:
    """Sums per device and step: a line of titles, then lines of a name and one cell per audit."""
    lines = [["per device and step", *(title for title, _ in audits)]]
    for kind in KINDS:
        totals = [audit.total(kind) for _, audit in audits]
        if any(total.ops for total in totals):
            lines.append([kind, *(runs_text(t) for t in totals)])
            lines.append(["  payload in loops", *(t.bound + size_text(t.in_loops) for t in totals)])
            lines.append(["  payload outside loops", *(t.bound + size_text(t.outside) for t in totals)])
    sync = [audit.total(*SYNC_KINDS) for _, audit in audits]
    lines.append(["sync payload", *(t.bound + size_text(t.bytes) for t in sync)])
    lines.append(["sync sent on the wire", *(t.bound + size_text(t.wire) for t in sync)])
    lines.append(["scalars", *(runs_text(a.scalars) for _, a in audits)])
    lines.append(["peak memory", *(memory_text(audit) for _, audit in audits)])
    return lines + estimates([audit.estimate for _, audit in audits])


def estimates(found: Sequence[Estimate | None]) -> list[list[str]]:
    """Lines of the estimated step time; none where none was asked for."""
    known = [each for each in found if each is not None]
    if not known or len(known) < len(found):
        return []
    return [
        ["estimated step", *(each.bound + seconds_text(each.seconds) for each in known)],
        ["  compute", *(seconds_text(each.compute) for each in known)],
        ["  communication", *(seconds_text(each.communication) for each in known)],
        ["  hidden beside compute", *(seconds_text(each.hidden) for each in known)],
    ]


def slowest_ops(estimate: Estimate) -> str:
    """A table of the ops that take most of the step, hidden or not."""
    lines = [["slowest ops", "bound by", "runs", "time per step", "of"]]
    for op in estimate.ops[:_OPS_SHOWN]:
        first, *others = combined_names(op.op_name)
        name = _without_program(first) or "-"
        name += f" and {len(others)} more" if others else ""
        lines.append([f"{op.opcode} {op.name}", op.bound, str(op.executions), seconds_text(op.seconds), name])
    calls = ", ".join(estimate.unknown)
    said = [f"of these calls only the bytes are counted: {calls}"] if calls else []
    return "\n".join([aligned(lines, left=(0, 1, 4)), *said])


def runs_text(total: Total) -> str:
    return f"{total.bound}{counted(total.executions, 'run')}"


def memory_text(audit: Audit) -> str:
    return "unknown" if audit.peak_memory is None else size_text(audit.peak_memory)


def row_texts(row: Row, comparison: AuditComparison) -> list[str]:
    """The text for the row of each audit; where an audit has it under the name of another place, that."""
    before, after = side_text(row.before), side_text(row.after)
    if not row.before and row.fresh < len(arrays_of(row.after)):
        before = "combined"
    if not row.after and row.gone < len(arrays_of(row.before)):
        after = "combined"
    return [after] if comparison.is_single else [before, after]


def side_text(collectives: tuple[Collective, ...]) -> str:
    """`8 x 4.19 MB`: how often the collectives of a row run, and the bytes of each run."""
    if not collectives:
        return "-"
    bound = "<= " if collectives[0].at_most else ""
    times = collectives[0].executions
    ops = f" in {len(collectives)} ops" if len(collectives) > 1 else ""
    return f"{'unknown' if times is None else f'{bound}{times}'} x {size_text(_payload(collectives))}{ops}"


def per_step_text(collectives: tuple[Collective, ...]) -> str:
    times = collectives[0].executions
    bound = "<= " if collectives[0].at_most else ""
    return "unknown bytes per step" if times is None else f"{bound}{size_text(_payload(collectives) * times)} per step"


def arrays_text(collectives: tuple[Collective, ...]) -> str:
    """`f32[64,64]` or `3 arrays f32[64,64] bf16[64]`: the shapes that collectives combine, each once."""
    arrays = arrays_of(collectives)
    shapes = list(dict.fromkeys(map(str, arrays)))
    more = " ..." if len(shapes) > _SHAPES_SHOWN else ""
    count = f"{len(arrays)} arrays " if len(arrays) > 1 else ""
    return count + " ".join(shapes[:_SHAPES_SHOWN]) + more


def loops_text(loops: tuple[Loop, ...]) -> str:
    """`in loop `while/body``: JAX's name stack of the innermost loop holds those of the outer ones."""
    if not loops:
        return "outside loops"
    names = [loop.name for loop in loops if loop.name]
    shown = [name for name, inner in zip(names, [*names[1:], ""], strict=True) if not inner.startswith(name)]
    named = " > ".join(f"`{_without_program(name)}`" for name in shown)
    return " ".join(filter(None, ("in loop" if len(loops) == 1 else f"in {len(loops)} nested loops", named)))


def trips_text(loops: tuple[Loop, ...]) -> str:
    """`4 x 12`: the trip counts, outermost first."""
    return " x ".join("?" if loop.trip_count is None else str(loop.trip_count) for loop in loops) or "-"


def axes_text(place: Place) -> str:
    """`replica,data`: the axes of the mesh that the group spans; `-` where they are not known, or no axes make it."""
    return ",".join(place.axes) or "-"


def reason_text(reason: Reason, comparison: AuditComparison) -> str:
    """The remark with short file names, and which pass made it."""
    text = reason.text
    for file in comparison.source_files:
        text = text.replace(file, PurePath(file).name)
    return f"{text} [{reason.pass_name}]"


def why(row: Row, comparison: AuditComparison) -> list[str]:
    """The reasons for the row's verdict, or a text in place of none."""
    if row.reasons:
        return [reason_text(reason, comparison) for reason in _merged(row.reasons)]
    if not row.place.source:
        return ["XLA does not say where it comes from"]
    gathers = all(each.gathers for each in [*row.before, *row.after])
    if gathers and row.place.loops and comparison.gathers_at_use:
        return [_gathered(row.after or row.before, comparison)]
    partitioned = reasons_of_partitioned_op(row, comparison) if gathers and row.place.loops else ()
    if partitioned:
        return [_partitioned(row, reason, comparison) for reason in _merged(partitioned)]
    if row.verdict != "kept":
        return [NOBODY_SAYS]
    if row.place.kind not in _MOVED_KINDS:
        return [f"passes move reductions and all-gathers, and no {row.place.kind}"]
    if not row.place.loops:
        return ["outside loops already, so once per step"]
    if row.place.kind in SYNC_KINDS and any(remark.pass_name in OF_SUMS for remark in comparison.remarks):
        small = "XLA gathers a small array, by an all-reduce in which each device adds its part to zeros"
        often = ", often to gather a small array" if comparison.target.startswith("tpu") else ""
        return [small if gathers else f"no sum of the program is reduced here: XLA made it{often}"]
    return [NOBODY_LOOKED]


def _partitioned(row: Row, reason: Reason, comparison: AuditComparison) -> str:
    return f"XLA makes it where it partitions {row.place.name}, of whose sum: {reason_text(reason, comparison)}"


def _gathered(collectives: tuple[Collective, ...], comparison: AuditComparison) -> str:
    """By the sizes of arguments, where the program tells them."""
    arrays = len(arrays_of(collectives))
    parameters = comparison.parameters_of(collectives) if comparison.arguments else arrays
    if not parameters:
        return "no array has the shape of an argument: XLA gathers activations, often in place of a parameter"
    said = "by this policy, parameters are gathered where they are read (policy=once: once, before the loop)"
    return said if parameters == arrays else f"{said}; {arrays - parameters} of {arrays} arrays are none: activations"


def _merged(reasons: tuple[Reason, ...]) -> list[Reason]:
    """`reasons`, of which those that differ only in a number of bytes at their start are one."""
    alike: dict[Reason, list[int]] = defaultdict(list)
    for reason in reasons:
        size = SIZE.match(reason.text)
        alike[reason._replace(text=reason.text[size.end() :]) if size else reason] += [int(size[1])] if size else []
    return [
        reason._replace(text=f"{_range(sizes)} bytes{reason.text}") if sizes else reason
        for reason, sizes in alike.items()
    ]


def _range(numbers: list[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"


def changes_lines(comparison: AuditComparison) -> list[str]:
    """The collectives that this change adds to the baseline and removes from it."""
    changes = comparison.changes
    assert changes is not None
    if not changes.added and not changes.removed:
        return ["compared with the baseline, the collectives are the same"]
    lines = []
    for verb, found in (("adds", changes.added), ("removes", changes.removed)):
        if found:
            lines.append(f"this change {verb} {len(found)} collective{'s' * (len(found) > 1)}:")
            lines += [f"  {line}" for line in found]
    return lines


def described(place: Place, collectives: tuple[Collective, ...]) -> str:
    """`all-reduce f32[64,64] x 8 in loop `while`, loss.py:41 psum, 131 kB per step`."""
    times = f" x {trips_text(collectives[0].loops)}" if place.loops else ""
    what = f"{place.kind} {arrays_text(collectives)}{times} {loops_text(collectives[0].loops)}"
    over = f"over {axes_text(place)}" if place.axes else ""
    return ", ".join(filter(None, (what, over, place.source, per_step_text(collectives))))


def _side_by_side(comparison: AuditComparison) -> list[list[str]]:
    titles = [title or "payload" for title, _ in sides(comparison)]
    lines = [["collective", "arrays", "loops", "group", "axes", "source", *titles]]
    for row in comparison.rows:
        place = row.place
        loops = trips_text(place.loops)
        arrays = arrays_text(row.after or row.before)
        group = [str(place.group), axes_text(place)]
        cells = [place.kind, arrays, loops, *group, place.source, *row_texts(row, comparison)]
        lines.append(cells if comparison.is_single else [*cells, row.verdict])
    if not comparison.is_single:
        lines[0].append("")
    return lines


def _sentences(row: Row, comparison: AuditComparison) -> list[str]:
    start = described(row.place, row.after or row.before)
    if comparison.is_single:
        return [start]
    reasons = why(row, comparison)
    if len(reasons) == 1:
        return [f"{start}: {row.verdict}, {reasons[0]}"]
    return [f"{start}: {row.verdict}", *(f"  {reason}" for reason in reasons)]


def _rows_table(collectives: tuple[Collective, ...]) -> str:
    """One line per kind, place and source: collectives that agree in these are added up."""
    if not collectives:
        return "no collectives"
    rows: dict[tuple[Place, bool], list[Collective]] = defaultdict(list)
    for collective in collectives:
        rows[place_of(collective), collective.asynchronous].append(collective)
    header = "collective,ops,arrays,runs each,loops,group,axes,async,payload,per step,source".split(",")
    lines = [_row_cells(place, is_async, tuple(found)) for (place, is_async), found in rows.items()]
    return aligned([header, *lines], left=(0, 4, 6, 10))


def _row_cells(place: Place, is_async: bool, collectives: tuple[Collective, ...]) -> list[str]:
    bound = "<= " if place.at_most else ""
    times = collectives[0].executions
    payload = _payload(collectives)
    return [
        place.kind,
        str(len(collectives)),
        str(sum(len(collective.arrays) for collective in collectives)),
        "unknown" if times is None else f"{bound}{times}",
        trips_text(place.loops),
        str(place.group),
        axes_text(place),
        "yes" if is_async else "no",
        size_text(payload),
        "unknown" if times is None else bound + size_text(payload * times),
        place.source,
    ]


def _payload(collectives: tuple[Collective, ...]) -> int:
    return sum(collective.payload for collective in collectives)


def _without_program(name: str) -> str:
    """JAX's name stack without `jit(step)/` at its start."""
    first, _, rest = name.partition("/")
    return rest if first.startswith("jit(") and rest else name


def aligned(lines: list[list[str]], left: tuple[int, ...]) -> str:
    """Columns two spaces apart; those in `left` are aligned left, the others right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    aligns = ["<" if column in left else ">" for column in range(len(widths))]
    return "\n".join(
        "  ".join(f"{cell:{align}{width}}" for cell, align, width in zip(line, aligns, widths, strict=True)).rstrip()
        for line in lines
    )
