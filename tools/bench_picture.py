"""The picture of the benchmark page: how many bytes each program reduces, in multiples of the ideal."""

import re
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from bench_counts import Row, TargetCounts

ALONE, OURS = "XLA alone", "par-opt"
ROUNDED = "XLA alone, rounded to fewer bits before it is summed"
WRONG = "XLA alone computes something else (on a GPU)"
COLORS = {ALONE: "#8a8f98", OURS: "#2a7de1", WRONG: "#b3362b"}

# What the patterns of test/programs are; a program's name ends in one.
PATTERNS = {
    "p0": "gradients added",
    "p1": "added, layers in a loop",
    "p2": "averaged",
    "p3": "running mean",
    "p4": "bf16, added in f32",
    "p5": "tied weights",
    "p6": "fully sharded",
    "p7": "sharded in a node",
    "p8": "no loop",
    "p9": "embedding",
    "p10": "weighted sum",
    "p11": "state sharded (ZeRO-1)",
    "p12": "norms per micro-batch",
    "p13": "clipped per micro-batch",
    "p14": "tensor parallel",
    "p15": "mixture of experts",
}


def label(name: str) -> str:
    """`plain_mlp_p2` with what that is."""
    meaning = PATTERNS.get(name.rpartition("_")[2])
    return f"{meaning}  {name}" if meaning else name


def wrong_alone(recorded: str) -> set[str]:
    """The programs of which gpu_check recorded that XLA alone gets them wrong."""
    section = recorded.partition("XLA alone is wrong:\n\n")[2].partition("\n\n")[0]
    return set(re.findall(r"^- (\w+): ", section, re.MULTILINE))


def draw(path: Path, counts: list[TargetCounts], wrong: set[str]) -> None:
    """A panel per target, a line per program."""
    names = list(dict.fromkeys(row.name for target in counts for row in target.rows))
    size = (4.6 + 3.4 * len(counts), 1.9 + 0.21 * len(names))
    figure, panels = plt.subplots(1, len(counts), figsize=size, sharex=True, sharey=True, squeeze=False)
    for axes, target in zip(panels[0], counts, strict=True):
        _draw_panel(axes, target, names, wrong if target.target.startswith("gpu:") else set())
    panels[0][0].set_yticks(range(len(names)), map(label, names), fontsize=8)
    panels[0][0].set_ylim(len(names) - 0.5, -0.5)
    figure.suptitle("Gradient bytes reduced per device and step, in multiples of the ideal", fontsize=12)
    figure.tight_layout(rect=(0, 0.025, 1, 1))
    shown = {text: handle for axes in panels[0] for handle, text in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(shown.values(), shown, loc="lower center", ncols=len(shown), fontsize=8, frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _draw_panel(axes: Any, target: TargetCounts, names: list[str], wrong: set[str]) -> None:
    known = [row for row in target.rows if row.alone and row.ours]
    for row in known:
        ends = (row.ratio(row.alone), row.ratio(row.ours))
        axes.plot(ends, [names.index(row.name)] * 2, color="#c5cad3", linewidth=2, zorder=2)
    rounded = [row for row in known if _rounds(row)]

    def dots(rows: list[Row], kind: str, **style: Any) -> None:
        ratios = [row.ratio(row.ours if kind == OURS else row.alone) for row in rows]
        if rows:
            axes.scatter(ratios, [names.index(row.name) for row in rows], label=kind, **style)

    dots([row for row in known if row not in rounded], ALONE, s=60, color=COLORS[ALONE], zorder=3)
    dots(rounded, ROUNDED, s=50, facecolors="white", edgecolors=COLORS[ALONE], linewidths=1.5, zorder=3)
    dots(known, OURS, s=22, color=COLORS[OURS], zorder=4)
    dots([row for row in known if row.name in wrong], WRONG, s=90, marker="x", color=COLORS[WRONG], zorder=5)
    axes.axvline(1, color="#3a9d7c", linewidth=1)
    axes.set_xlim(left=0)
    axes.set_xlabel("x ideal")
    axes.set_title(target.target, fontsize=10)
    axes.grid(axis="y", color="#eef0f3")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _rounds(row: Row) -> bool:
    """Whether XLA alone reduces fewer bytes than each gradient has in the type in which it is accumulated."""
    ratio = row.ratio(row.alone)
    return ratio is not None and ratio < 0.99
