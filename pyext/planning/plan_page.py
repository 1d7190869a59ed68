"""A plan as one HTML page: its mesh, shardings and traffic, and the ranking that it won.

Tests: test/unit/pyext/planning/test_plan_page.py.
"""

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from paropt.base.wording import counted, seconds_text, size_text
from paropt.hlo.census import KINDS, Collective
from paropt.planning.argument_groups import ArgumentGroup, texts_of
from paropt.planning.candidates import Candidate, Mesh, Stages
from paropt.planning.goals import Goal
from paropt.planning.ranking import rows_of, sent
from paropt.planning.search import Judged
from paropt.reports.html_document import document, table
from paropt.reports.lanes import COLORS
from paropt.schedules import schedule, simulate
from paropt.schedules.page import timeline

ESTIMATED = "by estimate before compilation, the best of each other template"

# The pictures, in their own units.
_WIDTH, _LEFT, _TOP = 1000, 280, 26
_BOX, _ROW = 52, 30
_BAR, _LABELS = 20, 290
_COMPUTE, _EXPOSED, _WAITING = "#7a8aa0", "#d1495b", "#d9dde3"
_HOSTS = ("#2a7de1", "#edae49")  # hosts take turns


class Shown(NamedTuple):
    """The content of a page."""

    target: str
    candidate: Candidate
    ranking: Sequence[Judged]
    goal: Goal
    groups: Sequence[ArgumentGroup]
    hosts: Sequence[int]  # of each device; empty when not known
    remark: str
    estimated: Sequence[Sequence[str]] = ()  # rows of candidates that are not compiled, the titles first
    notes: Sequence[str] = ()  # on the ranking


def page(shown: Shown) -> str:
    """The whole page; without a ranking, of a plan that was loaded, the mesh and the rules alone."""
    parts = [f'<p class="in-loop">{escape(shown.remark)}</p>'] if shown.remark else []
    parts += [f"<h2>{escape(str(shown.candidate))}</h2>"]
    best = shown.ranking[0] if shown.ranking else None
    parts += [_cards(best, shown.goal.memory)] if best is not None else []
    parts += ["<h3>Mesh</h3>", _mesh(shown.candidate.mesh, shown.hosts)]
    if shown.candidate.stages is not None:
        parts += ["<h3>Schedule</h3>", _schedule(shown.candidate.stages, shown.candidate.mesh)]
    if best is not None and best.audit is not None:
        parts += ["<h3>Traffic of a step</h3>", _traffic(best.audit.collectives)]
    if shown.ranking:
        parts += ["<h3>Candidates</h3>", _times(shown.ranking), _ranking(shown)]
        parts += [f"<p>{escape(note)}</p>" for note in shown.notes]
    if shown.estimated:
        parts += [f"<p>{ESTIMATED}</p>", table(shown.estimated, "scroll rows")]
    if shown.groups:
        parts += ["<h3>Shardings</h3>", _groups(shown.groups)]
    parts += ["<h3>Rules</h3>", f"<pre>{escape(shown.candidate.rules.strip())}</pre>"]
    title = f"par-opt plan for {shown.target}"
    intro = "Bytes are per device and step, counted in the executable, times are estimated."
    return document(title, title, intro, "\n".join(parts) + "\n")


def _cards(best: Judged, budget: int | None) -> str:
    allowed = f" of {size_text(budget)}" if budget is not None else ""
    shown = {
        "sent": size_text(sent(best)),
        "peak memory": size_text(best.peak_memory) + allowed,
        "step": seconds_text(best.seconds),
    }
    cards = (f'<div class="card"><b>{escape(text)}</b><span>{name}</span></div>' for name, text in shown.items())
    return f'<div class="cards">{"".join(cards)}</div>'


def _mesh(mesh: Mesh, hosts: Sequence[int]) -> str:
    """Devices in the order of the target: the last axis from left to right, the others downwards."""
    *outer, (inner, columns) = mesh.axes
    width = min(_BOX, (_WIDTH - _LEFT) / columns)
    shapes = [f'<text x="{_LEFT}" y="{_TOP - 8}">{escape(f"{inner}={columns}")} →</text>']
    for row in range(mesh.size // columns):
        y = _TOP + row * _ROW
        shapes.append(f'<text class="faint" x="0" y="{y + 19}">{escape(_place(row, outer))}</text>')
        for column in range(columns):
            device = row * columns + column
            shapes.append(_device(device, hosts[device] if hosts else None, _LEFT + column * width, y, width))
    height = _TOP + mesh.size // columns * _ROW
    label = f"mesh {mesh}"
    said = _hosts_text(hosts)
    picture = f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(label)}">{"".join(shapes)}</svg>'
    return f'<div class="scroll">{picture}</div>{said}'


def _schedule(stages: Stages, mesh: Mesh) -> str:
    """The order of work of each stage."""
    table = schedule(stages.schedule, stages=mesh.axes[0][1], microbatches=stages.microbatches, chunks=stages.chunks)
    return f"<p>{escape(str(stages))} micro-batches, as if all parts took the same time.</p>{timeline(simulate(table))}"


def _device(device: int, host: int | None, x: float, y: float, width: float) -> str:
    color = COLORS["send"] if host is None else _HOSTS[host % len(_HOSTS)]
    title = f"device {device}" + (f", host {host}" if host is not None else "")
    box = f'x="{x:.1f}" y="{y}" width="{width - 3:.1f}" height="{_ROW - 4}" rx="3"'
    text = f'<text x="{x + width / 2 - 1.5:.1f}" y="{y + 18}" text-anchor="middle">{device}</text>'
    return f'<g class="device"><title>{title}</title><rect {box} fill="{color}" fill-opacity="0.35"/>{text}</g>'


def _place(row: int, outer: Sequence[tuple[str, int]]) -> str:
    """Where a row is along the outer axes, as in `replica=1 data=0`."""
    found: list[str] = []
    for name, size in reversed(outer):
        found.append(f"{name}={row % size}")
        row //= size
    return " ".join(reversed(found))


def _hosts_text(hosts: Sequence[int]) -> str:
    count = len(set(hosts))
    return f"<p>{counted(count, 'host')}, in turn of two colours.</p>" if count > 1 else ""


def _groups(groups: Sequence[ArgumentGroup]) -> str:
    return table(texts_of(groups), "scroll rows")


def _traffic(collectives: Iterable[Collective]) -> str:
    """A bar of bytes sent for each kind of collective and the axes that it spans."""
    alike: dict[tuple[str, tuple[str, ...]], list[Collective]] = {}
    for each in collectives:
        alike.setdefault((each.kind, each.axes), []).append(each)
    if not alike:
        return "<p>No collectives.</p>"
    bytes_of = {key: sum(each.wire_bytes * (each.executions or 0) for each in same) for key, same in alike.items()}
    scale = (_WIDTH - _LEFT - _LABELS) / (max(bytes_of.values()) or 1)
    shapes: list[str] = []
    for number, key in enumerate(sorted(alike, key=lambda key: (KINDS.index(key[0]), key[1]))):
        kind, axes = key
        runs = sum(each.executions or 0 for each in alike[key])
        name, y = f"{kind} over {', '.join(axes) or 'all'}", number * _ROW
        said = f"{size_text(bytes_of[key])} in {counted(runs, 'run')}"
        shapes += _bar(name, [(bytes_of[key] * scale, COLORS[kind])], said, y)
    return _bars(shapes, len(alike), "bytes sent by collective and axes")


def _times(ranking: Sequence[Judged]) -> str:
    """A bar of compute, and communication that nothing hides, for each candidate that has an executable."""
    found = [judged for judged in ranking if judged.audit is not None and judged.audit.estimate is not None]
    scale = (_WIDTH - _LEFT - _LABELS) / (max((judged.seconds for judged in found), default=0.0) or 1)
    shapes: list[str] = []
    for number, judged in enumerate(found):
        assert judged.audit is not None and judged.audit.estimate is not None
        time, candidate = judged.audit.estimate, judged.candidate
        exposed = time.communication - time.hidden
        parts = [(time.compute * scale, _COMPUTE), (exposed * scale, _EXPOSED), (time.waiting * scale, _WAITING)]
        said = f"{time.bound}{seconds_text(time.seconds)}, {candidate.policy or 'XLA alone'}"
        shapes += _bar(f"{candidate.name}, {candidate.mesh}", parts, said, number * _ROW)
    names = [("compute", _COMPUTE), ("communication that nothing hides", _EXPOSED)]
    if any(judged.candidate.stages is not None for judged in found):
        names.append(("waiting for other stages or the host", _WAITING))
    legend = "".join(f'<span><i style="background:{color}"></i>{name}</span>' for name, color in names)
    return f'<div class="legend">{legend}</div>{_bars(shapes, len(found), "estimated step times")}'


def _bar(name: str, parts: Iterable[tuple[float, str]], said: str, y: int) -> list[str]:
    """One after the other, between a name and a text on it."""
    shapes, x = [f'<text class="faint" x="0" y="{y + 15}">{escape(name)}</text>'], float(_LEFT)
    for width, color in parts:
        shapes.append(f'<rect class="bar" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_BAR}" fill="{color}"/>')
        x += width
    return [*shapes, f'<text x="{x + 10:.1f}" y="{y + 15}">{escape(said)}</text>']


def _bars(shapes: Iterable[str], rows: int, label: str) -> str:
    size = f'viewBox="0 0 {_WIDTH} {rows * _ROW}"'
    return f'<div class="scroll"><svg {size} role="img" aria-label="{escape(label)}">{"".join(shapes)}</svg></div>'


def _ranking(shown: Shown) -> str:
    return table(rows_of(shown.ranking, shown.goal), "scroll rows")
