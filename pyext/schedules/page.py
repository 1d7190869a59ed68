"""A simulation as one HTML page that needs nothing else: no script, no font, no image."""

from html import escape

from paropt.schedules.picture import title
from paropt.schedules.simulation import Simulation
from paropt.schedules.timeline import COLORS, LEGEND, Box, boxes, kinds

_STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --page: #ffffff; --line: #d5d8dd; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --page: #15171a; --line: #363b42; } }
body { margin: 0 auto; max-width: 80rem; padding: 1.5rem; background: var(--page); color: var(--ink);
       font: 15px/1.45 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.2rem; }
.scroll { overflow-x: auto; }
svg { display: block; font: 11px system-ui, "DejaVu Sans", sans-serif; }
svg text.row { fill: var(--ink); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .3rem .9rem; border-bottom: 1px solid var(--line); }
.legend span { margin-right: 1.2rem; }
.legend i { display: inline-block; width: .8em; height: .8em; margin-right: .4em; }
"""

_LEFT, _ROW, _WIDTH = 70, 26, 1100
_NARROWEST_LABEL = 12  # pixels


def page(simulation: Simulation) -> str:
    head = escape(title(simulation))
    return "\n".join(
        [
            f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{head}</title>',
            f"<style>{_STYLE}</style></head><body><h1>{head}</h1>",
            timeline(simulation),
            _table(simulation),
            "</body></html>\n",
        ]
    )


def timeline(simulation: Simulation) -> str:
    """The boxes of all devices, and the legend of their colours: HTML for any page."""
    legend = "".join(f'<span><i style="background:{COLORS[k][0]}"></i>{LEGEND[k]}</span>' for k in kinds(simulation))
    return f'<p class="legend">{legend}</p><div class="scroll">{_boxes(simulation)}</div>'


def _boxes(simulation: Simulation) -> str:
    stages = simulation.schedule.stages
    scale = (_WIDTH - _LEFT) / (float(simulation.makespan) or 1)
    rows = [f'<text class="row" x="0" y="{(n + 0.65) * _ROW}">device {n}</text>' for n in range(stages)]
    drawn = [_rectangle(box, scale) for box in boxes(simulation)]
    size = f'width="{_WIDTH}" height="{stages * _ROW}"'
    return f'<svg role="img" aria-label="timeline" {size}>{"".join([*rows, *drawn])}</svg>'


def _rectangle(box: Box, scale: float) -> str:
    left, width = _LEFT + float(box.start) * scale, float(box.end - box.start) * scale
    top, height = (box.device + box.top) * _ROW + 1, (box.bottom - box.top) * _ROW - 2
    shape = f'<rect x="{left:.2f}" y="{top:.1f}" width="{max(width - 0.7, 0.3):.2f}" height="{height:.1f}"'
    label = ""
    if width >= _NARROWEST_LABEL:
        label = (
            f'<text x="{left + width / 2:.2f}" y="{top + height / 2 + 4:.1f}" text-anchor="middle">{box.label}</text>'
        )
    return f'<g><title>{escape(box.title)}</title>{shape} fill="{box.color}"/>{label}</g>'


def _table(simulation: Simulation) -> str:
    names = ("device", "works", "waits", "activations at most", "their memory", "weights kept")
    columns = (
        range(simulation.schedule.stages),
        simulation.busy,
        simulation.idle,
        simulation.live,
        simulation.peak,
        simulation.weights,
    )
    rows = [f"<tr>{''.join(f'<td>{each}</td>' for each in row)}</tr>" for row in zip(*columns, strict=True)]
    head = "".join(f"<th>{name}</th>" for name in names)
    return f'<div class="scroll"><table><tr>{head}</tr>{"".join(rows)}</table></div>'
