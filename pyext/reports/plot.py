"""Audits as a picture, through matplotlib: the lanes of each target."""

from pathlib import Path
from typing import BinaryIO

from paropt.base.wording import size_text
from paropt.reports.comparison import AuditReport
from paropt.reports.lanes import COLORS, Lane, bars_text, lanes
from paropt.reports.report_text import sides, title


def plot(report: AuditReport, path: str | Path | BinaryIO) -> None:
    """Writes a picture to `path`, in the format of its suffix (PNG for a file object).

    Raises ImportError, with the package to install, without matplotlib.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install matplotlib") from error
    shown = [(comparison, lanes(comparison)) for comparison in report.comparisons]
    heights = [1.1 + sum(len(lane.bars) + 1.2 for lane in found) * 0.3 for _, found in shown]
    figure = Figure(figsize=(9, sum(heights)), layout="constrained")
    FigureCanvasAgg(figure)
    all_axes = figure.subplots(len(shown), 1, squeeze=False, height_ratios=heights)[:, 0]
    kinds: dict[str, None] = {}
    widest = max((lane.bytes for _, found in shown for lane in found), default=0) or 1  # one scale for all targets
    for axes, (comparison, found) in zip(all_axes, shown, strict=True):
        axes.set_title(title(comparison), loc="left", fontsize=11)
        _draw(axes, found, [name for name, _ in sides(comparison)], widest)
        kinds |= dict.fromkeys(bar.kind for lane in found for bars in lane.bars for bar in bars)
    patches = [all_axes[0].barh(0, 0, color=COLORS[kind]) for kind in kinds]
    if patches:
        figure.legend(patches, list(kinds), loc="outside lower left", ncols=len(kinds), frameon=False, fontsize=9)
    figure.suptitle("What the executable communicates per loop", x=0.01, ha="left", fontsize=12, fontweight="bold")
    figure.savefig(path, dpi=120)


def _draw(axes: object, found: list[Lane], titles: list[str], widest: int) -> None:
    from matplotlib.axes import Axes
    from matplotlib.ticker import FuncFormatter

    assert isinstance(axes, Axes)
    places, labels = [], []
    y = 0.0
    for lane in found:
        axes.text(0, y, lane.title, fontsize=9, fontweight="bold", va="center")
        for name, bars in zip(titles, lane.bars, strict=True):
            y += 1
            left = 0
            for bar in bars:
                axes.barh(y, bar.bytes, left=left, height=0.8, color=COLORS[bar.kind])
                left += bar.bytes
            axes.text(left + widest * 0.01, y, bars_text(bars), fontsize=8, va="center")
            places.append(y)
            labels.append(name)
        y += 1.2
    axes.set_yticks(places, labels, fontsize=8)
    axes.set_ylim(max(y, 1) - 0.2, -0.8)
    axes.set_xlim(0, widest * 1.3)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: size_text(value)))
    axes.tick_params(axis="x", labelsize=8)
    axes.set_xlabel("payload, bytes per device and step", fontsize=8)
    axes.spines[["top", "right", "left"]].set_visible(False)
    if not found:
        axes.text(0.5, 0, "no collectives", fontsize=9)
