"""Writes the rank correlation of estimated and measured step times into docs/costs.md.

Variants of programs of the tests, by width and pipeline: estimated from the schedule of their executable, measured on 8
simulated devices of one process, and of two processes x 4 devices that a slow link joins. `--one-process` leaves out
the latter, `--print` the writing. Measure on a machine that does nothing else.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from bench_times import ONE_PROCESS, RATE, TWO_PROCESSES, WorkerError, rank_options, results
from scipy.stats import spearmanr
from slow_link import LinkError, slow_link

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "costs.md"
WORKER = Path(__file__).with_name("cost_ranks_worker.py")
MARKS = ("<!-- ranks: written by tools/cost_ranks.py -->\n", "<!-- end of ranks -->\n")

PROGRAMS = ("blocks_p17", "plain_mlp_p0")
PIPELINES = ("", *(f"grad-sync{{policy={name}}}" for name in ("every", "keep-shards", "gather", "once")))
WIDTHS = (128, 256)


class Variant(NamedTuple):
    """One executable to estimate and to measure."""

    program: str
    width: int
    passes: str

    def __str__(self) -> str:
        return f"{self.program}, width {self.width}, {self.passes or 'XLA alone'}"


class Found(NamedTuple):
    """Seconds of a step of a variant."""

    variant: Variant
    estimated: float
    measured: float  # the median


def main() -> None:
    options = _options()
    variants = [Variant(p, w, passes) for p in options.programs for w in options.widths for passes in PIPELINES]
    places: list[tuple[str, Callable[[Variant], Found]]] = [(ONE_PROCESS, lambda v: _one(v, options.steps))]
    if not options.one_process:
        places.append((TWO_PROCESSES, lambda v: _two(v, options.steps)))
    parts = []
    for where, measure in places:
        try:
            parts.append(section(where, list(_told(map(measure, variants)))))
        except (LinkError, WorkerError) as error:
            parts.append(f"{where}: not measured, {error}\n")
    text = "\n".join(parts)
    print(text)
    if not options.print:
        PAGE.write_text(with_section(PAGE.read_text(), text))


def section(where: str, found: Sequence[Found]) -> str:
    """The table of one place, and its rank correlation."""
    lines = ["| program | width | passes | estimated | measured |", "|---|---|---|---|---|"]
    for variant, estimated, measured in found:
        passes = f"`{variant.passes}`" if variant.passes else "XLA alone"
        cells = (variant.program, str(variant.width), passes, f"{estimated * 1e3:.3g} ms", f"{measured * 1e3:.3g} ms")
        lines.append(f"| {' | '.join(cells)} |")
    said = (
        f"{where}: Spearman's rank correlation of {len(found)} variants is {correlation(found):.2f}; "
        f"of the variants of one program and width it is {correlation_within(found):.2f}, on average."
    )
    return "\n".join([said, "", *lines]) + "\n"


def correlation(found: Sequence[Found]) -> float:
    """Spearman's rank correlation of estimated and measured seconds."""
    return float(spearmanr([f.estimated for f in found], [f.measured for f in found]).statistic)


def correlation_within(found: Sequence[Found]) -> float:
    """The mean of the same among variants that differ in nothing but their passes: what choosing a policy needs."""
    groups = groupby(found, lambda each: (each.variant.program, each.variant.width))
    return statistics.mean(correlation(list(group)) for _, group in groups)


def with_section(page: str, text: str) -> str:
    """`page` with `text` between the marks."""
    start, end = MARKS
    if page.count(start) != 1 or page.count(end) != 1:
        raise SystemExit(f"{PAGE.name} lacks the lines {start.strip()} and {end.strip()}")
    return re.sub(f"{re.escape(start)}.*{re.escape(end)}", lambda _: f"{start}{text}{end}", page, flags=re.DOTALL)


def _told(found: Iterator[Found]) -> Iterator[Found]:
    for each in found:
        print(f"{each.variant}: estimated {each.estimated:.4g} s, measured {each.measured:.4g} s", file=sys.stderr)
        yield each


def _one(variant: Variant, steps: int) -> Found:
    return _found(variant, results([_start([], variant, steps)]))


def _two(variant: Variant, steps: int) -> Found:
    with slow_link(RATE) as sides:
        started = [_start(s.prefix, variant, steps, *rank_options(sides, rank)) for rank, s in enumerate(sides)]
        return _found(variant, results(started))


def _found(variant: Variant, printed: str) -> Found:
    told = json.loads(printed)
    return Found(variant, told["estimated"], statistics.median(told["measured"]))


def _start(prefix: list[str], variant: Variant, steps: int, *options: str) -> subprocess.Popen[str]:
    program = [variant.program, "--width", str(variant.width), "--passes", variant.passes, "--steps", str(steps)]
    command = [*prefix, sys.executable, str(WORKER), *program, *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", nargs="+", default=PROGRAMS, help="of test/programs/catalog.py (%(default)s)")
    parser.add_argument("--widths", nargs="+", type=int, default=WIDTHS, help="(%(default)s)")
    parser.add_argument("--steps", type=int, default=15, help="of each variant, whose median counts (%(default)s)")
    parser.add_argument("--one-process", action="store_true", help="leave out the two processes with a slow link")
    parser.add_argument("--print", action="store_true", help="print the tables, and leave the page as it is")
    return parser.parse_args()


if __name__ == "__main__":
    main()
