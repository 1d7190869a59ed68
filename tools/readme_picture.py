"""Draws docs/headline.png, the picture of README.md, and writes the table below it, from docs/scale.json.

`--check` fails when one of both is stale.
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from bench_table import table

ROOT = Path(__file__).parents[1]
README, PICTURE, DATA = ROOT / "README.md", ROOT / "docs" / "headline.png", ROOT / "docs" / "scale.json"
BEGIN, END = "<!-- headline: written by tools/readme_picture.py -->", "<!-- end of headline -->"

STEPS = {
    "1 G parameters,\ndata parallel": "1 G | data parallel | gpu:h100:1x8x8",
    "1 G parameters,\nfully sharded": "1 G | FSDP | gpu:h100:1x8x8",
    "7 G parameters,\nfully sharded": "7 G | FSDP | gpu:h100:1x8x8",
}
VARIANTS = {"XLA alone": "XLA alone", "par-opt": "default", 'par-opt, memory_budget="auto"': 'memory_budget="auto"'}
COLORS = ("#8a8f98", "#2a7de1", "#3a9d7c")
GB = 1e9

Figures = dict[str, dict[str, tuple[float, float]]]


def figures(found: dict[str, Any]) -> Figures:
    """By step and variant: GB sent and held at the peak, per device."""
    return {
        step: {name: _figures(found[key]["variants"][variant]) for name, variant in VARIANTS.items()}
        for step, key in STEPS.items()
    }


def _figures(variant: dict[str, Any]) -> tuple[float, float]:
    return sum(variant["kinds"].values()) / GB, variant["peak"] / GB


def generated(shown: Figures) -> str:
    """The picture and the table, as README.md has them."""
    head = ("GB per device and step: sent, peak memory", *VARIANTS)
    rows = [
        (step.replace("\n", " "), *(f"{sent:.1f}, {peak:.1f}" for sent, peak in variants.values()))
        for step, variants in shown.items()
    ]
    picture = "![Bytes sent and peak memory per device: XLA alone and par-opt](docs/headline.png)"
    return f"{BEGIN}\n{picture}\n\n{table([head, *rows])}\n{END}"


def with_generated(text: str, shown: Figures) -> str:
    before, _, rest = text.partition(BEGIN)
    return f"{before}{generated(shown)}{rest.partition(END)[2]}"


def digest(shown: Figures) -> str:
    return hashlib.sha256(repr(shown).encode()).hexdigest()


def draw(shown: Figures, path: Path) -> None:
    """Two panels, bytes sent and peak memory, with a group of bars for each step."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
    for axes, position, title in zip(panels, (0, 1), ("Sent per step", "Peak memory"), strict=True):
        _draw_bars(axes, shown, position)
        axes.set_title(f"{title}, GB per device", fontsize=11)
    panels[0].legend(frameon=False, fontsize=9, loc="upper left")
    figure.suptitle("Training steps compiled for 64 H100: four micro-batches per step", fontsize=12)
    figure.savefig(path, dpi=110, metadata={"Description": digest(shown)})
    plt.close(figure)


def _draw_bars(axes: Any, shown: Figures, position: int) -> None:
    width = 0.27
    for number, (name, color) in enumerate(zip(VARIANTS, COLORS, strict=True)):
        heights = [variants[name][position] for variants in shown.values()]
        places = [step + (number - 1) * width for step in range(len(shown))]
        axes.bar(places, heights, width=width * 0.95, color=color, label=name)
        for place, height in zip(places, heights, strict=True):
            axes.text(place, height, f"{height:.1f}", ha="center", va="bottom", fontsize=8)
    axes.set_xticks(range(len(shown)), list(shown))
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(y=0.12)


def drawn(path: Path) -> str:
    """The digest that a picture has."""
    from PIL import Image

    if not path.exists():
        return ""
    with Image.open(path) as image:
        return str(image.info.get("Description", ""))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail when picture or table are stale; write nothing")
    check = parser.parse_args().check
    shown = figures(json.loads(DATA.read_text()))
    text = README.read_text()
    is_stale = with_generated(text, shown) != text, drawn(PICTURE) != digest(shown)
    if check:
        if any(is_stale):
            print("README.md or docs/headline.png is stale: run `make docs`")
        return int(any(is_stale))
    if is_stale[0]:
        README.write_text(with_generated(text, shown))
    if is_stale[1]:
        draw(shown, PICTURE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
