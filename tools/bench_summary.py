"""The first section of docs/benchmarks.md, from the tables below it. As a command, it writes the section anew."""

import argparse
import re
import statistics
from collections.abc import Iterator
from pathlib import Path

from bench_table import table

TITLE, NEXT = "## In short", "## What is communicated"
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
IDEAL = 1.01  # times the ideal that count as the ideal: losses and metrics are reduced, too

Row = tuple[str, ...]


def with_summary(text: str) -> str:
    """The page with the section made anew; a page without tables of counts stays as it is."""
    before, _, rest = text.partition(TITLE if TITLE in text else NEXT)
    if TITLE in text:
        rest = rest.partition(NEXT)[2]
    parts = list(summary(NEXT + rest))
    return f"{before}{TITLE}\n\n{chr(10).join(parts)}\n\n{NEXT}{rest}" if parts else f"{before}{NEXT}{rest}"


def summary(text: str) -> Iterator[str]:
    """What the tables of the page come to, each part with a link to them."""
    targets = {name: rows for name, body in sections(text, "###") if (rows := rows_of(body)) and len(rows[0]) == 14}
    if targets:
        yield "What XLA alone and par-opt reduce and hold, of [all programs](#what-is-communicated):\n"
        yield _counts(targets) + "\n"
    sharded = {
        name.removeprefix("Sharded parameters, "): rows_of(body)
        for name, body in sections(text, "###")
        if name.startswith("Sharded parameters, ")
    }
    for target, rows in sharded.items():
        yield from _sharded(target, rows)
    bodies = dict(sections(text, "##"))
    yield from _times(rows_of(bodies.get("Step time", "")))
    yield from _pipelines(rows_of(bodies.get("Pipelines", "")))
    yield from _plans(rows_of(bodies.get("Plans", "")))
    yield from _rewriting(bodies.get("Rewrite time", ""))
    yield from _gpu(bodies.get("On a GPU", ""))


def sections(text: str, level: str) -> Iterator[tuple[str, str]]:
    """Titles of that level, each with the text up to the next title of the same level or a higher one."""
    for found in re.finditer(rf"^{level} (.*)$", text, re.M):
        rest = text[found.end() :]
        end = re.search(rf"^#{{1,{len(level)}}} ", rest, re.M)
        yield found[1], rest[: end.start()] if end else rest


def rows_of(text: str) -> list[Row]:
    """The rows of the first table in the text, without its head."""
    found = re.search(r"((?:^\|.*\n?)+)", text, re.M)
    lines = found[1].splitlines() if found else []
    rows = [tuple(cell.strip() for cell in line.strip()[1:-1].split("|")) for line in lines]
    return rows[2:]


def number(cell: str) -> float | None:
    found = re.search(r"[\d.]+", cell)
    return float(found[0]) if found else None


def _pairs(rows: list[Row], first: int, second: int) -> list[tuple[float, float]]:
    """Of the rows that have both numbers."""
    numbers = [(number(row[first]), number(row[second])) for row in rows]
    return [(one, other) for one, other in numbers if one is not None and other is not None]


def _counts(targets: dict[str, list[Row]]) -> str:
    head = (
        "target",
        "programs",
        "at the ideal, XLA alone",
        "par-opt",
        "reduced, median of par-opt / XLA alone",
        "peak memory, the same",
        "largest",
    )
    return table([head, *(_count_row(target, rows) for target, rows in targets.items())])


def _count_row(target: str, rows: list[Row]) -> Row:
    sync, peak = _pairs(rows, 2, 3), _pairs(rows, 10, 11)
    at_ideal = [sum(pair[side] <= IDEAL for pair in sync) for side in (0, 1)]
    held = [ours / alone for alone, ours in peak if alone]
    return (
        f"[{target}](#{slug(target)})",
        str(len(rows)),
        *map(str, at_ideal),
        _median(ours / alone for alone, ours in sync if alone),
        _median(held),
        f"{max(held):.2f}" if held else "",
    )


def _median(ratios: Iterator[float] | list[float]) -> str:
    found = list(ratios)
    return f"{statistics.median(found):.2f}" if found else ""


def _sharded(target: str, rows: list[Row]) -> Iterator[str]:
    """Rows come in threes: XLA alone, par-opt, and what a policy is given memory for."""
    wire = [number(row[5]) for row in rows]
    ratios = [
        [ours / alone for alone, ours in zip(wire[::3], wire[side::3], strict=False) if alone and ours is not None]
        for side in (1, 2)
    ]
    if not all(ratios):
        return
    default, once = (f"{min(each):.2f} to {max(each):.2f}" for each in ratios)
    yield (
        f"- [Sharded parameters](#{slug(f'Sharded parameters, {target}')}) on {target}, {len(ratios[0])} programs: "
        f"of the bytes of XLA alone, par-opt sends {default} by default, and {once} with `policy=once`."
    )


def _times(rows: list[Row]) -> Iterator[str]:
    ratios = {row: value for row in rows if len(row) > 4 and (value := number(row[4])) is not None}
    if not ratios:
        return
    low, high = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
    yield (
        f"- [Step time](#step-time): steps run {ratios[low]:.2f} ({low[0]}, {low[1]}) to {ratios[high]:.2f} times "
        f"({high[0]}, {high[1]}) as fast as by XLA alone."
    )


def _pipelines(rows: list[Row]) -> Iterator[str]:
    worst = max((float(row[2]) for row in rows), default=None)
    if worst is not None:
        yield (
            f"- [Pipelines](#pipelines): {len(rows)} pairs of program and schedule; gradients differ by at most "
            f"{worst:.1e} of the largest one from those of one program."
        )


def _plans(rows: list[Row]) -> Iterator[str]:
    times = [value for row in rows if (value := number(row[8])) is not None]
    if times:
        faster = sum(time < 1 / IDEAL for time in times)
        yield (
            f"- [Plans](#plans): of {len(times)} pairs of program and target, the plan is faster than the fastest "
            f"template by the estimate in {faster}, and takes at most {max(times):.2f} times its time in the others."
        )


def _rewriting(text: str) -> Iterator[str]:
    shares = [
        float(share) for share in re.findall(r"\| ([\d.]+) % \|", text.partition("share |")[2].partition("\n\n")[0])
    ]
    if shares:
        yield (
            f"- [Rewriting](#rewrite-time) a transformer of 24 layers and checking its executable takes "
            f"{min(shares):g} to {max(shares):g} % of tracing, lowering and compiling it."
        )


def _gpu(text: str) -> Iterator[str]:
    found = re.search(
        r"^(\d{4}-\d\d-\d\d), (jax [\d.]+), .*?: (\d+) checks\. Of par-opt (\d+) results are wrong, of XLA alone (\d+)",
        text,
        re.M,
    )
    if found:
        date, jax, checks, ours, alone = found.groups()
        yield (
            f"- [On a GPU](#on-a-gpu), {date}, {jax}: of {checks} checks, {ours} results of par-opt are wrong, and "
            f"{alone} of XLA alone."
        )


def slug(title: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    PAGE.write_text(with_summary(PAGE.read_text()))


if __name__ == "__main__":
    main()
