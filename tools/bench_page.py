"""The benchmark page: tables in Markdown, and a picture of the counts."""

import datetime
import importlib.metadata
import os
import platform
import re
import statistics
from collections.abc import Sequence
from pathlib import Path

import bench_exposed
import bench_pipelines
import bench_plan_programs
import bench_plans
import bench_sharded
import bench_steps
from bench_costs import Costs
from bench_counts import SIZES, Count, Row, TargetCounts
from bench_growth import Growth
from bench_picture import draw, wrong_alone
from bench_rewrite import Part, Rewrite, Share
from bench_summary import with_summary
from bench_table import table
from bench_times import Times
from programs.catalog import NUMBERS

PACKAGES = ("jax", "jaxlib", "libtpu", "jax-cuda13-plugin")
SHARDED_TITLE, TIMES_TITLE, REWRITE_TITLE = "## Sharded parameters", "## Step time", "## Rewrite time"
GPU_TITLE = "## On a GPU"
GPU_START, GPU_END = "<!-- gpu_check -->", "<!-- end of gpu_check -->"
EXPOSED_TITLE = "## Exposed communication"
PIPELINES_TITLE, PLANS_TITLE = "## Pipelines", "## Plans"
PLAN_PROGRAMS_TITLE = "## Linear programs of plans"
NO_PIPELINES = "Not measured yet: `python tools/bench.py --only-pipelines`."
NO_PLANS = "Not measured yet: `python tools/bench.py --only-plans`."
NO_EXPOSED = "Not measured yet: `python tools/bench.py --only-exposed`."
NO_SHARDED = "Not measured yet: `python tools/bench.py --only-sharded`."
NO_REWRITES = "Not measured yet: `python tools/bench.py --only-rewrite`."
NO_GPU = "Not run on a GPU yet. Where one is at hand: `python tools/gpu_check.py --record docs/benchmarks.md`."

# More temporary memory than this, in multiples of XLA alone, is told, and more than so many bytes: XLA:GPU rounds up
# each of its buffers, and XLA:TPU has any in the memory of the core.
MEMORY, BYTES = 1.02, 16_384

# What is worse than by XLA alone, by the measure and the pattern that the program's name ends in, and why that stays.
WORSE = {
    ("collectives", "_p7"): "The sum over the inner axis is reduced in each micro-batch, that over the outer one once: "
    "one collective more than one over both axes in each, which sends more, and that over the slower links.",
    ("temporary memory", "_p1"): "Gradients of scanned layers are added to rows of sums that are in memory; at this "
    "width, XLA alone has all of them in the memory of the core, which is not counted. Of larger models it holds twice "
    "as much ([accumulate-in-place](passes.md#accumulate-in-place)).",
}
UNKNOWN = "No reason is known."

REWRITE_REASON = (
    "The explicit form needs no propagation. A plain program needs Shardy's propagation on a copy of the whole module, "
    "once: the sharding of each operand depends on all others. Shardy's pipeline runs without its clean-up passes; the "
    "rest of it, in C++, is in the table. The target is twice that."
)

SHARE_REASON = (
    "Beside what jax and XLA take from the function to the executable, measured right before. `paropt.jit` also "
    "predicts what the executable reduces, and reads it: the column `checking` ([jit.md](jit.md)); the share is of "
    "both, and the target is 15 % on CPU, 8 % on TPU and GPU. `propagation` is for Shardy's and to read its answer, op "
    "by op. XLA compiles on several threads: on a machine that does nothing else, the clock shows fewer seconds than "
    "the processors."
)

PARTS_REASON = (
    "Where the processor's time goes, of the plain program with 24 layers (148 gradients), stage by stage. No stage "
    "has a hot spot: beside Shardy, they are Python calls and reads through MLIR's bindings, of each op for the copy "
    "that Shardy gets (in XLA's order, without identities), and of some five ops for each gradient in each stage. Two "
    "things would remove most of it. A copy made in C++, or from a binding that returns names, operands and results of "
    "a block in one call, need not take longer than the one read of each op. And one linearity analysis for "
    "`fuse-all-reduces`, `defer-sync` and `annotate-unreduced` would ask the law of an op once, and not in each of "
    "them; but they are stages of a pipeline, each may run alone, and the module changes between them."
)

LEGEND = """\
- **sync**: bytes per device and step of the all-reduces and reduce-scatters of gradients, in multiples of the ideal.
  Ideal is each gradient reduced once per step, in the type it is accumulated in; of programs that read the summed
  gradient of each micro-batch (P12, P13), once per micro-batch. Below 1: reduced in a narrower type than that. An
  all-reduce sends twice its bytes, a reduce-scatter once: of P7, 4.25 with par-opt is less on the wire than 4.00.
- **runs in loops**: how often these reductions run inside loops, per step.
- **activations**: bytes of reductions over other axes, which must not change. **other**: bytes of all other
  collectives, which must not grow.
- **peak**: kB per device, as the compiler states it. XLA:TPU counts the memory of the core as well, 128 MiB that it
  fills as it likes, which at these sizes is all: beyond it, [scale.md](scale.md) has the figures.
- P6, P7 and P11 shard gradients or the optimizer's state: by default, their sums stay so, and are reduced in each
  micro-batch, since whole ones take more memory; [sharded parameters](#sharded-parameters-cpu8) has `policy=once`.
- Arrays of one element (losses, norms) are left out. `>=`: a loop's trip count is not known.
- `plain`: `jax.jit` with shardings, in which XLA adds the reductions; `explicit`:
  `jax.shard_map`.
- The number in a name says what the program does, the word before it what it trains:"""


def legend() -> str:
    return "\n".join([LEGEND, *(f"  - P{number}: {text}" for number, text in NUMBERS.items())])


def write(
    out: Path,
    counts: list[TargetCounts],
    times: list[Times],
    *,
    command: str,
    sharded: Sequence[bench_sharded.Counts] = (),
    pipelines: Sequence[bench_pipelines.Row] = (),
    costs: Costs | None = None,
) -> None:
    """Writes the page and, with the suffix .png, the picture.

    Keeps what gpu_check recorded in the page, and plans, and sharded programs, pipelines, step and rewrite times if
    there are no new ones.
    """
    picture = out.with_suffix(".png")
    parts = [
        "<!-- Written by tools/bench.py: `make bench`. Only tools/gpu_check.py writes to it, too. -->",
        "# Benchmarks",
        _environment(command),
        "## What is communicated",
        legend(),
    ]
    if any(target.rows for target in counts):
        draw(picture, [target for target in counts if target.rows], wrong_alone(recorded(out)))
        parts.append(f"![Reduced bytes per step, in multiples of the ideal]({picture.name})")
    parts += [part for target in counts for part in _target(target)]
    parts += [SHARDED_TITLE, bench_sharded.section(sharded) if sharded else _kept(out, SHARDED_TITLE) or NO_SHARDED]
    parts += [EXPOSED_TITLE, _kept(out, EXPOSED_TITLE) or NO_EXPOSED]
    runs = bench_pipelines.section(pipelines) if pipelines else _kept(out, PIPELINES_TITLE) or NO_PIPELINES
    parts += [PIPELINES_TITLE, runs]
    parts += [PLANS_TITLE, _kept(out, PLANS_TITLE) or NO_PLANS]
    parts += [PLAN_PROGRAMS_TITLE, _kept(out, PLAN_PROGRAMS_TITLE) or NO_PLANS]
    parts += [TIMES_TITLE, _times(times) if times else _kept(out, TIMES_TITLE) or _times(times)]
    parts += [REWRITE_TITLE, _costs(costs) if costs is not None else _kept(out, REWRITE_TITLE) or NO_REWRITES]
    parts += [GPU_TITLE, f"{GPU_START}\n{recorded(out)}\n{GPU_END}"]
    out.write_text(with_summary("\n\n".join(parts) + "\n"))


def write_times(out: Path, times: list[Times]) -> None:
    """Replaces the step times of the page, which has to be there."""
    _replace(out, TIMES_TITLE, _times(times))


def write_sharded(out: Path, counts: Sequence[bench_sharded.Counts]) -> None:
    """Replaces the counts of sharded programs of the page, which has to be there."""
    _replace(out, SHARDED_TITLE, bench_sharded.section(counts))


def write_exposed(out: Path, rows: Sequence[bench_exposed.Row]) -> None:
    """Replaces the exposed communication of the page, which has to be there."""
    _replace(out, EXPOSED_TITLE, bench_exposed.section(rows))


def write_pipelines(out: Path, rows: Sequence[bench_pipelines.Row]) -> None:
    """Replaces the runs of pipelines of the page, which has to be there."""
    _replace(out, PIPELINES_TITLE, bench_pipelines.section(rows))


def write_plans(out: Path, rows: Sequence[bench_plans.Row]) -> None:
    """Replaces these rows of the table of plans of the page, which has to be there."""
    _replace(out, PLANS_TITLE, bench_plans.section(rows, _kept(out, PLANS_TITLE)))


def write_plan_programs(out: Path, times: bench_plan_programs.Times) -> None:
    """Replaces the linear programs of the page, which has to be there."""
    _replace(out, PLAN_PROGRAMS_TITLE, bench_plan_programs.section(times))


def write_costs(out: Path, costs: Costs) -> None:
    """Replaces the rewrite times of the page, which has to be there."""
    _replace(out, REWRITE_TITLE, _costs(costs))


def _replace(out: Path, title: str, body: str) -> None:
    """Gives the section with that title another body; a page that lacks it gets it before the last one."""
    text = out.read_text()
    if title not in text:
        text = text.replace(GPU_TITLE, f"{title}\n\n{GPU_TITLE}")
    before, _, rest = text.partition(title)
    end = rest.index("\n## ")
    out.write_text(with_summary(f"{before}{title}\n\n{body}\n{rest[end:]}"))


def _kept(page: Path, title: str) -> str:
    """The body of that section as it is in the page; "" when it is not there."""
    found = re.search(f"{title}\n\n(.*?)\n\n## ", page.read_text() if page.exists() else "", re.DOTALL)
    return found[1] if found else ""


def recorded(page: Path) -> str:
    """What gpu_check wrote into the page."""
    text = page.read_text() if page.exists() else ""
    found = re.search(f"{GPU_START}\n(.*?)\n{GPU_END}", text, re.DOTALL)
    return found[1] if found else NO_GPU


def _environment(command: str) -> str:
    versions = ", ".join(f"{name} {version}" for name in PACKAGES if (version := _version(name)))
    today = datetime.datetime.now(datetime.UTC).date()
    return (
        f"`{command}`, {today}: {versions}, Python {platform.python_version()}, {platform.machine()} with "
        f"{os.cpu_count()} cores. The models have {SIZES.layers} layers of width {SIZES.width}; {SIZES.micro_batches} "
        f"micro-batches of {SIZES.examples} examples."
    )


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _target(target: TargetCounts) -> list[str]:
    if target.problem:
        return [f"### {target.target}", f"Not measured: {target.problem}"]
    header = (
        "program",
        "ideal kB",
        "sync alone",
        "par-opt",
        "runs in loops alone",
        "par-opt",
        "activations kB",
        "par-opt",
        "other kB alone",
        "par-opt",
        "peak kB alone",
        "par-opt",
        "compile s alone",
        "par-opt",
    )
    return [f"### {target.target}", table([header, *(_cells(row) for row in target.rows)]), *_worse(target)]


def _worse(target: TargetCounts) -> list[str]:
    """Which programs send more bytes, run more collectives or hold more than with XLA alone, and why."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in target.rows:
        for measure, said in _worse_measures(row):
            found.setdefault((measure, f"_{row.name.rpartition('_')[2]}"), []).append(f"`{row.name}` ({said})")
    if not found:
        return ["No program sends more, runs more collectives or holds more temporary memory than with XLA alone."]
    return [
        f"More {key[0]} than with XLA alone: {', '.join(names)}. {WORSE.get(key, UNKNOWN)}"
        for key, names in found.items()
    ]


def _worse_measures(row: Row) -> list[tuple[str, str]]:
    """The measures in which par-opt is worse, each with what both have."""
    if row.alone is None or row.ours is None:
        return []
    alone, ours = row.alone, row.ours
    held, holds = alone.temporary or 0, ours.temporary or 0
    pairs = (
        ("bytes", f"{_kb(round(ours.wire))} kB for {_kb(round(alone.wire))} kB", ours.wire > alone.wire),
        ("collectives", f"{ours.collectives} for {alone.collectives}", ours.collectives > alone.collectives),
        ("temporary memory", f"{_kb(holds)} kB for {_kb(held)} kB", holds > max(MEMORY * held, held + BYTES)),
    )
    return [(measure, said) for measure, said, is_worse in pairs if is_worse]


def _cells(row: Row) -> tuple[str, ...]:
    if row.alone is None or row.ours is None:
        return (row.name, _kb(row.ideal), row.problem, *[""] * 11)
    pair = (row.alone, row.ours)
    columns = (
        [_bound(c) + f"{row.ratio(c):.2f}" for c in pair],
        [_bound(c) + str(c.runs_in_loops) for c in pair],
        [_bound(c) + _kb(c.activations) for c in pair],
        [_bound(c) + _kb(c.others) for c in pair],
        ["" if c.peak is None else _kb(c.peak) for c in pair],
        [f"{c.seconds:.2f}" for c in pair],
    )
    return (row.name, _kb(row.ideal), *(cell for column in columns for cell in column))


def _bound(count: Count) -> str:
    return "" if count.is_exact else ">= "


def _kb(size: int) -> str:
    return f"{size / 1e3:.0f}"


def _times(times: list[Times]) -> str:
    if not times:
        return "Not measured in this run."
    header = ("program", "devices", "XLA alone, ms", "par-opt, ms", "ratio", "middle half", "pairs")
    today = datetime.datetime.now(datetime.UTC).date()
    layers, width, count, examples = (
        bench_steps.SIZES[key] for key in ("layers", "width", "micro_batches", "examples")
    )
    explained = (
        f"{today}, {os.cpu_count()} cores with a load of {os.getloadavg()[0]:.1f} at the end. Models of {layers} "
        f"layers of width {width}, {count} micro-batches of {examples} examples. XLA alone and par-opt run in turns in "
        "the same process. "
        "Times are medians; the ratio is the median over pairs of steps (XLA alone / par-opt), with the range "
        "that the middle half of the pairs is in."
    )
    return "\n\n".join([explained, table([header, *(_time_cells(t) for t in times)])])


def _time_cells(times: Times) -> tuple[str, ...]:
    if times.skipped:
        return (times.program, times.where, f"skipped: {times.skipped}", "", "", "", "")
    low, _, high = statistics.quantiles(times.ratios, n=4, method="inclusive")
    medians = (f"{statistics.median(seconds) * 1e3:.0f}" for seconds in (times.alone, times.ours))
    return (
        times.program,
        times.where,
        *medians,
        f"{times.ratio:.2f}",
        f"{low:.2f} to {high:.2f}",
        str(len(times.ratios)),
    )


def _costs(costs: Costs) -> str:
    today = datetime.datetime.now(datetime.UTC).date()
    explained = (
        f"`python tools/bench.py --only-rewrite`, {today}, {os.cpu_count()} cores with a load of "
        f"{os.getloadavg()[0]:.1f} at the end. Seconds of processors, of all threads and child processes. The shortest "
        "of three runs or more."
    )
    transformers = (
        "transformer",
        "ops",
        "parse + verify + print, s",
        "Shardy's propagation, s",
        "`grad-sync`, s",
        "of Shardy's",
    )
    compiled = (
        "transformer",
        "target",
        "trace + lower + compile, s",
        "on the clock, s",
        "`grad-sync`, s",
        "checking, s",
        "share",
        "propagation",
    )
    many = ("module", "pass", "seconds", "missed")
    return "\n\n".join(
        [
            explained,
            table([transformers, *map(_rewrite_cells, costs.rewrites)]),
            REWRITE_REASON,
            SHARE_REASON,
            table([compiled, *map(_share_cells, costs.shares)]),
            PARTS_REASON,
            table([("part of `grad-sync`", "ms", "of all"), *_part_cells(costs.parts)]),
            "What many of the same cost:",
            table([many, *map(_growth_cells, costs.growths)]),
            f"`test_growth.py` counts calls of the same. The passes have {costs.loops} work-list loops outside of "
            f"`dataflow/engine.py`, and {costs.lists} lists of ops outside of `ir/op_table.py`: `test_layout.py` and "
            "`test_op_lists.py` say why.",
        ]
    )


def _part_cells(parts: Sequence[Part]) -> list[tuple[str, ...]]:
    every = next((part.seconds for part in parts), 0.0)
    return [(part.name, f"{1000 * part.seconds:.0f}", f"{100 * part.seconds / every:.0f} %") for part in parts]


def _growth_cells(growth: Growth) -> tuple[str, ...]:
    return growth.program, f"`{growth.passes}`", f"{growth.seconds:.2f}", str(growth.declined)


def _rewrite_cells(r: Rewrite) -> tuple[str, ...]:
    return (
        r.program,
        str(r.ops),
        f"{r.text:.2f}",
        f"{r.shardy:.2f}" if r.shardy is not None else "",
        f"{r.rewrite:.2f}",
        f"{r.rewrite / r.shardy:.1f} x" if r.shardy is not None else "",
    )


def _share_cells(s: Share) -> tuple[str, ...]:
    if s.problem:
        return (s.program, s.target, s.problem, "", "", "", "", "")
    return (
        s.program,
        s.target,
        f"{s.compilation:.1f}",
        f"{s.clock:.1f}",
        f"{s.rewrite:.2f}",
        f"{s.checking:.2f}",
        f"{100 * s.share:.1f} %",
        f"{100 * s.propagation / s.compilation:.1f} %" if s.propagation is not None else "",
    )
