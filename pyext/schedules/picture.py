"""Timelines as pictures, through matplotlib."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from paropt.schedules.simulation import Simulation
from paropt.schedules.timeline import COLORS, LEGEND, boxes, kinds

_WIDTH_OF_A_LETTER = 0.005  # of the picture


@dataclass(frozen=True)
class Words:
    """What the texts of a picture are in place of the simulation's own."""

    titles: Sequence[str] = ()  # of each simulation
    rows: Sequence[str] = ()  # of each row, in place of `device 0`
    time: str = ""  # of the axis
    time_text: Callable[[float], str] | None = None  # of a number of the axis


def plot(
    simulations: list[Simulation],
    path: str | Path | BinaryIO,
    metadata: dict[str, str] | None = None,
    words: Words = Words(),
) -> None:
    """Writes one timeline above the other, on one scale, in the format of the suffix (PNG for a file object).

    Raises ImportError, with what to install, without matplotlib.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install matplotlib") from error
    heights = [0.75 + 0.26 * simulation.schedule.stages for simulation in simulations]
    figure = Figure(figsize=(12, sum(heights) + 0.4), layout="constrained")
    FigureCanvasAgg(figure)
    all_axes = figure.subplots(len(simulations), 1, squeeze=False, height_ratios=heights)[:, 0]
    longest = max(float(simulation.makespan) for simulation in simulations) or 1
    for axes, simulation, said in zip(all_axes, simulations, words.titles or map(title, simulations), strict=True):
        _draw(axes, simulation, longest, words)
        axes.set_title(said, loc="left", fontsize=9)
    found = [kind for kind in COLORS if any(kind in kinds(simulation) for simulation in simulations)]
    patches = [all_axes[0].barh(0, 0, color=COLORS[kind][0]) for kind in found]
    figure.legend(patches, [LEGEND[kind] for kind in found], loc="outside lower left", ncols=4, frameon=False)
    figure.savefig(path, dpi=110, metadata=metadata)


def title(simulation: Simulation) -> str:
    schedule = simulation.schedule
    sizes = f"{schedule.stages} devices, {schedule.microbatches} micro-batches"
    steps = f", {simulation.steps} steps" if simulation.steps > 1 else ""
    bubble = f"bubble {simulation.bubble} = {float(simulation.bubble):.1%}"
    return f"{schedule.name}: {sizes}{steps}; time {simulation.makespan}, {bubble}"


def _draw(axes: Any, simulation: Simulation, longest: float, words: Words) -> None:
    found = list(boxes(simulation))
    for box in found:
        width = float(box.end - box.start)
        middle = box.device + (box.top + box.bottom) / 2
        height = 0.92 * (box.bottom - box.top)
        left = float(box.start)
        axes.barh(middle, width, left=left, height=height, color=box.color, edgecolor="white", linewidth=0.5)
        if width / longest > _WIDTH_OF_A_LETTER * len(box.label):
            axes.text(left + width / 2, middle, box.label, fontsize=6, ha="center", va="center", clip_on=True)
    axes.set_xlim(0, longest)
    axes.set_ylim(simulation.schedule.stages, 0)
    rows = words.rows or [f"device {row}" for row in range(simulation.schedule.stages)]
    axes.set_yticks([row + 0.5 for row in range(len(rows))], rows, fontsize=7)
    if words.time_text is not None:
        axes.xaxis.set_major_formatter(lambda value, _: words.time_text(value))
    axes.set_xlabel(words.time, fontsize=8)
    axes.tick_params(axis="x", labelsize=7)
    axes.spines[["top", "right", "left"]].set_visible(False)
