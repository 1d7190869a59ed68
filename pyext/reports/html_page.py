"""Audits as one HTML page that needs nothing else: no script, no font, no image. It follows the light or dark theme."""

from html import escape

from paropt.base.wording import size_text
from paropt.hlo.census import SYNC_KINDS
from paropt.reports.comparison import AuditComparison, AuditReport, Row
from paropt.reports.html_document import document, table
from paropt.reports.lanes import COLORS, Bar, Lane, bars_text, lanes
from paropt.reports.report_text import (
    arrays_text,
    axes_text,
    changes_lines,
    loops_text,
    memory_text,
    mismatch_lines,
    row_texts,
    sides,
    summary,
    title,
    trips_text,
    why,
)

# The picture, in its own units. The bars end where their labels begin.
_WIDTH, _LEFT, _LABELS = 1000, 64, 290
_SPAN = _WIDTH - _LEFT - _LABELS
_BAR, _GAP, _TITLE = 20, 5, 30
_NARROWEST_RUN = 3  # runs that are narrower than this are not told apart


def page(report: AuditReport) -> str:
    """The whole page."""
    names = ", ".join(title(comparison) for comparison in report.comparisons)
    body = "".join(_section(comparison) for comparison in report.comparisons)
    intro = "What the executable communicates, counted in the optimized HLO; bytes are per device and step."
    return document(f"par-opt audit: {names}", f"par-opt audit{_modules(report)}", intro, body)


def _modules(report: AuditReport) -> str:
    """` of jit_step`."""
    names = dict.fromkeys(comparison.module for comparison in report.comparisons if comparison.module)
    return f" of {', '.join(names)}" if names else ""


def _section(comparison: AuditComparison) -> str:
    parts = [f"<h2>{escape(title(comparison))}</h2>"]
    parts += [f'<p class="in-loop">{escape(line)}</p>' for line in mismatch_lines(comparison)]
    parts += [f"<p>{escape(line)}</p>" for line in (comparison.offer, comparison.offer_measured) if line]
    parts.append(_cards(comparison))
    if comparison.changes is not None:
        parts += ["<h3>Since the baseline</h3>", f"<pre>{escape(chr(10).join(changes_lines(comparison)))}</pre>"]
    if not comparison.rows:
        parts.append("<p>No collectives.</p>")
    else:
        found = lanes(comparison)
        if found:
            parts += ["<h3>Per loop, one block per run</h3>", _legend(found), _picture(comparison, found)]
            parts.append("<p>Arrays of one element (losses, norms) are left out, as in the sums.</p>")
        parts += ["<h3>Where, and why</h3>", _rows(comparison)]
    parts += ["<h3>Sums</h3>", table(summary(sides(comparison)), "narrow")]
    return "\n".join(parts) + "\n"


def _cards(comparison: AuditComparison) -> str:
    audits = [audit for _, audit in sides(comparison)]
    sync = [audit.total(*SYNC_KINDS) for audit in audits]
    shown = {
        "sync payload": [total.bound + size_text(total.bytes) for total in sync],
        "of it in loops": [total.bound + size_text(total.in_loops) for total in sync],
        "peak memory": [memory_text(audit) for audit in audits],
    }
    cards = (f'<div class="card"><b>{" → ".join(texts)}</b><span>{name}</span></div>' for name, texts in shown.items())
    return f'<div class="cards">{"".join(cards)}</div>'


def _legend(found: list[Lane]) -> str:
    kinds = dict.fromkeys(bar.kind for lane in found for bars in lane.bars for bar in bars)
    items = (f'<span><i style="background:{COLORS[kind]}"></i>{kind}</span>' for kind in kinds)
    return f'<div class="legend">{"".join(items)}</div>'


def _picture(comparison: AuditComparison, found: list[Lane]) -> str:
    scale = _SPAN / (max(lane.bytes for lane in found) or 1)
    titles = [name for name, _ in sides(comparison)]
    shapes = []
    y = 0
    for lane in found:
        y += _TITLE
        shapes.append(f'<text x="0" y="{y - 8}" font-weight="600">{escape(lane.title.replace("`", ""))}</text>')
        for name, bars in zip(titles, lane.bars, strict=True):
            shapes += _bar_row(name, bars, y, scale)
            y += _BAR + _GAP
    label = f"payload per loop, {title(comparison)}"
    picture = f'<svg viewBox="0 0 {_WIDTH} {y}" role="img" aria-label="{escape(label)}">{"".join(shapes)}</svg>'
    return f'<div class="scroll">{picture}</div>'


def _bar_row(name: str, bars: tuple[Bar, ...], y: int, scale: float) -> list[str]:
    middle = y + _BAR / 2 + 4
    shapes = [
        f'<text class="faint" x="0" y="{middle}">{name}</text>',
        f'<rect class="track" x="{_LEFT}" y="{y}" width="{_SPAN}" height="{_BAR}" rx="3"/>',
    ]
    x = float(_LEFT)
    for bar in bars:
        width = bar.bytes * scale
        box = f'x="{x:.1f}" y="{y}" width="{max(width, 1):.1f}" height="{_BAR}"'
        shapes.append(
            f'<rect class="bar" {box} fill="{COLORS[bar.kind]}">'
            f"<title>{bar.kind}: {escape(bars_text((bar,)))}</title></rect>"
        )
        shapes += _ticks(x, bar, scale, y)
        x += width
    shapes.append(f'<text x="{_LEFT + _SPAN + 10}" y="{middle}">{escape(bars_text(bars))}</text>')
    return shapes


def _ticks(x: float, bar: Bar, scale: float, y: int) -> list[str]:
    """Lines between the runs of a bar, where there is room for them."""
    lines, last = [], len(bar.blocks) - 1
    for number, (runs, size) in enumerate(bar.blocks):
        width = size * scale
        inner = runs if width >= _NARROWEST_RUN else 0
        places = [x + width * run for run in range(1, inner)] + ([x + width * runs] if number < last else [])
        lines += [f'<line class="tick" x1="{at:.1f}" y1="{y}" x2="{at:.1f}" y2="{y + _BAR}"/>' for at in places]
        x += width * runs
    return lines


def _rows(comparison: AuditComparison) -> str:
    titles = [name or "payload" for name, _ in sides(comparison)]
    header = ["collective", "where", "group", "axes", *titles, *([] if comparison.is_single else ["verdict", "why"])]
    cells = "".join(f"<th>{name}</th>" for name in header)
    body = "".join(_row(row, comparison) for row in comparison.rows)
    return f'<div class="scroll"><table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table></div>'


def _row(row: Row, comparison: AuditComparison) -> str:
    place, collectives = row.place, row.after or row.before
    loops = loops_text(collectives[0].loops).replace("`", "")
    where = f"{loops}, {trips_text(place.loops)} trips" if place.loops else loops
    cells = [
        f"<td>{place.kind}<br><code>{escape(arrays_text(collectives))}</code></td>",
        f"<td>{escape(where)}<br><code>{escape(place.source)}</code></td>",
        f"<td>{place.group}</td>",
        f"<td>{escape(axes_text(place))}</td>",
        *(f'<td class="side">{escape(text)}</td>' for text in row_texts(row, comparison)),
    ]
    if not comparison.is_single:
        style = "in-loop" if row.verdict == "kept" and place.loops else row.verdict.replace(" ", "-")
        cells.append(f'<td class="verdict {style}">{row.verdict}</td>')
        reasons = why(row, comparison)
        items = "".join(f"<li>{escape(reason)}</li>" for reason in reasons)
        said = escape(reasons[0]) if len(reasons) == 1 else f"<ul>{items}</ul>"
        cells.append(f'<td class="why">{said}</td>')
    return f"<tr>{''.join(cells)}</tr>"
