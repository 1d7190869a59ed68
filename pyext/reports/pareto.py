"""A picture of the bytes that policies send against those that they hold, through matplotlib."""

from pathlib import Path
from typing import NamedTuple

from paropt.base.wording import size_text

_NEAR = 0.01  # of an axis: points that cover each other


class Point(NamedTuple):
    """A policy, in bytes per device."""

    name: str
    peak_memory: int
    wire_bytes: float
    is_best: bool  # no other point takes and sends as little or less


def plot_pareto(points: list[Point], target: str, path: str | Path) -> None:
    """Writes the picture to `path`, in the format of its suffix. Raises ImportError without matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.ticker import FuncFormatter
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install matplotlib") from error
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    front = sorted((point.peak_memory, point.wire_bytes) for point in points if point.is_best)
    axes.step(*zip(*front, strict=True), where="post", color="#2a7de1", linewidth=1)
    for point in points:
        axes.plot(point.peak_memory, point.wire_bytes, "o", color="#2a7de1" if point.is_best else "#8a8f98")
    for i, ((memory, sent), names) in enumerate(_places(points)):
        beside = (5, 4 if i % 2 == 0 else -11)  # labels of neighbours don't meet
        axes.annotate(", ".join(names), (memory, sent), xytext=beside, textcoords="offset points", fontsize=8)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: size_text(round(value))))
    axes.set_xlabel("peak memory per device")
    axes.set_ylabel("sent per device and step")
    axes.margins(x=0.15)
    axes.set_xlim(left=0)  # both from 0: what looks twice as large is
    axes.set_ylim(bottom=0)
    axes.set_title(f"Policies on {target}", loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)


def _places(points: list[Point]) -> list[tuple[tuple[int, float], list[str]]]:
    """The places of the picture, from left to right, with the names there: one for points that can't be told apart."""
    widest, highest = max(point.peak_memory for point in points), max(point.wire_bytes for point in points)
    places: list[tuple[tuple[int, float], list[str]]] = []
    for point in sorted(points, key=lambda point: point.peak_memory):
        short = "auto" if point.name.startswith("auto") else point.name  # its budget is where it stands
        for (memory, sent), names in places:
            if point.peak_memory - memory < _NEAR * widest and abs(point.wire_bytes - sent) < _NEAR * highest:
                names += [] if short in names else [short]
                break
        else:
            places.append(((point.peak_memory, point.wire_bytes), [short]))
    return places
