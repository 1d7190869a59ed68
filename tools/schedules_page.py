"""Writes the table and the pictures of docs/pipelines.md from the schedules; `--check` fails when they are stale."""

import argparse
import difflib
import hashlib
import sys
from pathlib import Path

from paropt.schedules import SCHEDULES, Costs, Schedule, schedule, simulate, steady_bubble
from paropt.schedules.closed_forms import CLOSED_FORMS, Sizes, measured
from paropt.schedules.picture import plot

DOCS = Path(__file__).parents[1] / "docs"
PAGE, PICTURES = DOCS / "pipelines.md", DOCS / "pipelines"
BEGIN = "<!-- Written by tools/schedules_page.py from the schedules, up to the end mark. -->"
END = "<!-- The end of what tools/schedules_page.py writes. -->"

STAGES, MICROBATCHES = 4, 8
COSTS = Costs()
GROUPS = {
    "one-direction": ("gpipe", "1f1b", "interleaved"),
    "zero-bubble": ("zb-h1", "zb-h2", "zb-v"),
    "both-ways": ("chimera", "dualpipe", "dualpipev"),
    "others": ("terapipe", "pipedream", "ampnet"),
}
TITLES = {
    "one-direction": "One stage or several chunks per device",
    "zero-bubble": "Zero bubble: two steps in a row, since the second fills the end of the first",
    "both-ways": "Bidirectional, and a V: light colours are the copy that runs up, or the second chunk of a device",
    "others": "Token slices, and the asynchronous ones (AMPNet's order is PipeDream's)",
}
HEAD = """
| schedule | a device waits | bubble | simulated | activations | simulated, by device | weights | sent per micro-batch |
|---|---|---|---|---|---|---|---|"""


def made(name: str) -> Schedule:
    return schedule(name, stages=STAGES, microbatches=MICROBATCHES)


def generated() -> str:
    """The table, and the places of the pictures."""
    parts = [BEGIN, HEAD.strip() + "\n" + "\n".join(map(row, SCHEDULES))]
    for group, title in TITLES.items():
        parts.append(f"![{', '.join(GROUPS[group])}](pipelines/{group}.png)\n*{title}.*")
    return "\n\n".join([*parts, END])


def row(name: str) -> str:
    found, form = made(name), CLOSED_FORMS[name]
    sizes, simulated = Sizes.of(found, COSTS), measured(found, COSTS)
    assert form.holds(sizes), f"the formulas of {name} are for other sizes: {form.where}"
    peak = simulate(found, COSTS).peak
    cells = (
        f"`{name}`",
        f"{form.idle.text}{f' if {form.where}' if form.where else ''}",
        f"{float(form.bubble(sizes)):.1%}",
        f"{float(steady_bubble(found, COSTS)):.1%}",
        f"{form.peak.text} = {float(form.peak.value(sizes)):g}",
        ", ".join(f"{float(each):g}" for each in peak),
        f"{form.weights.text}{f' = {simulated.weights}' if not form.weights.text.isdigit() else ''}",
        f"{form.traffic.text} = {simulated.traffic}",
    )
    return f"| {' | '.join(cells)} |"


def pictures() -> dict[str, tuple[Schedule, ...]]:
    return {group: tuple(map(made, names)) for group, names in GROUPS.items()}


def steps_of(group: str) -> int:
    return 2 if group == "zero-bubble" else 1


def digest(group: str) -> str:
    """What a picture shows, in few letters."""
    shown = [simulate(each, COSTS, steps=steps_of(group)).events for each in pictures()[group]]
    return hashlib.sha256(repr(shown).encode()).hexdigest()


def draw(group: str) -> None:
    simulations = [simulate(each, COSTS, steps=steps_of(group)) for each in pictures()[group]]
    plot(simulations, PICTURES / f"{group}.png", metadata={"Description": digest(group)})


def drawn(group: str) -> str:
    """The digest that a picture has."""
    from PIL import Image

    path = PICTURES / f"{group}.png"
    if not path.exists():
        return ""
    with Image.open(path) as image:
        return image.info.get("Description", "")


def with_generated(text: str) -> str:
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{generated()}{after}"


def stale() -> list[str]:
    """What differs from the schedules: lines of the page, and pictures."""
    written = PAGE.read_text()
    lines = difflib.unified_diff(written.splitlines(), with_generated(written).splitlines(), PAGE.name, "the schedules")
    return [*lines, *(f"docs/pipelines/{group}.png is stale" for group in GROUPS if drawn(group) != digest(group))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail when the page is stale; write nothing")
    if parser.parse_args().check:
        found = stale()
        if found:
            print("\n".join([*found[:20], "docs/pipelines.md is stale: run tools/schedules_page.py"]))
        return 1 if found else 0
    PAGE.write_text(with_generated(PAGE.read_text()))
    for group in GROUPS:
        draw(group)
    return 0


if __name__ == "__main__":
    sys.exit(main())
