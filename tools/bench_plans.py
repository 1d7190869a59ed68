"""Plans of training steps against the best hand-made template, in what the compilers make of them."""

import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from multiprocessing import get_context
from typing import NamedTuple

from bench_table import table
from programs.unplaced import SIZES, WIDE, shapes_of

import paropt
from paropt.base.wording import seconds_text, size_text
from paropt.planning.goals import TOLERANCE, Goal
from paropt.planning.ranking import ranked, sent
from paropt.planning.search import Judged

# Programs and their sizes; the wide MLP has the bytes to make its collectives longer than their starts.
CASES = {
    "mlp": ("mlp", SIZES),
    "mlp, width 1024": ("mlp", replace(SIZES, width=1024)),
    **{name: (name, SIZES) for name in ("transformer", "moe_transformer", "flax_gpt")},
    "wide_embedding": ("wide_embedding", WIDE),
}
PROGRAMS = tuple(CASES)
TARGETS = ("cpu:8", "tpu:v5e:2x4", "gpu:h100:1x1x8", "gpu:h100:1x2x8")
SECONDS = 3600.0  # no template may be left out for want of time

LEGEND = f"""Training steps that name no mesh, with AdamW and {SIZES.micro_batches} micro-batches: one layer of width
{SIZES.width} where nothing is said, {SIZES.examples} examples of {SIZES.sequence} tokens in a micro-batch, a
vocabulary of {SIZES.vocabulary}; of `wide_embedding` {WIDE.examples} tokens and a vocabulary of {WIDE.vocabulary}.
`paropt.plan` compiles all templates with all their policies, what its linear program proposes, and stages.

- best template, plan: of the templates, and of all candidates, what sends least of those whose estimated time is
  within {TOLERANCE:.0%} of the shortest ([planning.md](planning.md#the-ranking))
- sent: bytes on the wire per device and step, counted in the executable; step: estimated ([costs.md](costs.md))
- time: that of the plan in multiples of that of the fastest template, {1 + TOLERANCE:.2f} at most
- sent at equal memory: what the plan sends in multiples of the least that a template sends which takes no more memory;
  `-` where each takes more
- search: seconds for all, one process per core; memory: the largest of the planner and of one compiler"""

HEADER = (
    "program",
    "target",
    "best template",
    "sent",
    "step",
    "plan",
    "sent",
    "step",
    "time",
    "sent at equal memory",
    "candidates",
    "search s",
    "planner",
    "compiler",
)


class Row(NamedTuple):
    """A program on a target."""

    program: str
    target: str
    template: Judged  # the best of them
    plan: Judged
    fastest: float  # estimated seconds of the fastest template
    least: float | None  # sent by a template that takes no more memory than the plan; None: each takes more
    candidates: int
    seconds: float
    planner_bytes: int
    compiler_bytes: int


def measure(names: Sequence[str], targets: Sequence[str], *, progress: Callable[[str], None]) -> Iterator[Row]:
    """Each search in a process of its own: its memory is that of no other, and nothing is compiled before."""
    for target in targets:
        for name in names:
            with get_context("spawn").Pool(1) as pool:
                row = pool.apply(_row, (name, target))
            progress(f"plans  {name} {target}: {row.seconds:.0f} s, {_ratio(row):.3f} x the best template's time")
            yield row


def section(rows: Sequence[Row], known: str = "") -> str:
    """The table in Markdown; of programs that were not measured now, the lines in `known`, a section as it was."""
    lines = table([HEADER, *map(_cells, rows)]).splitlines()
    made = dict.fromkeys(_key(line) for line in lines)
    kept = [line for line in known.splitlines() if line.startswith("| ") and _key(line) not in made]
    ordered = sorted([*lines[2:], *kept], key=_place)
    return "\n".join([LEGEND, "", *lines[:2], *ordered])


def _key(line: str) -> tuple[str, ...]:
    """Program and target of a line."""
    return tuple(cell.strip() for cell in line.split("|")[1:3])


def _place(line: str) -> tuple[int, int]:
    program, target = _key(line)
    return PROGRAMS.index(program), TARGETS.index(target) if target in TARGETS else len(TARGETS)


def _row(name: str, target: str) -> Row:
    made = shapes_of(*CASES[name])
    start = time.monotonic()
    plan = paropt.plan(made.step, *made.args, target=target, seconds=SECONDS, progress=_say)
    seconds = time.monotonic() - start
    assert not plan.skipped
    best = plan.ranking[0]
    templates = [each for each in plan.ranking if not each.candidate.is_proposed and each.audit is not None]
    small = [sent(each) for each in templates if each.peak_memory <= best.peak_memory]
    unit = 1 if sys.platform == "darwin" else 1024
    used = [resource.getrusage(who).ru_maxrss * unit for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    fastest, least = min(each.seconds for each in templates), min(small, default=None)
    return Row(name, target, ranked(templates, Goal())[0], best, fastest, least, len(plan.ranking), seconds, *used)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _ratio(row: Row) -> float:
    return row.plan.seconds / row.fastest


def _cells(row: Row) -> tuple[str, ...]:
    least = "-" if row.least is None else f"{sent(row.plan) / row.least:.2f}" if row.least else "1.00"
    return (
        row.program,
        row.target,
        *_judged(row.template),
        *_judged(row.plan),
        f"{_ratio(row):.3f}",
        least,
        str(row.candidates),
        f"{row.seconds:.0f}",
        size_text(row.planner_bytes),
        size_text(row.compiler_bytes),
    )


def _judged(judged: Judged) -> tuple[str, str, str]:
    candidate = judged.candidate
    policy = candidate.policy or "XLA alone"
    return f"{candidate.name}, {candidate.mesh}, {policy}", size_text(sent(judged)), seconds_text(judged.seconds)
