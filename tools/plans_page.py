"""The page of tools/bench_alpa.py: docs/plans.md."""

from collections.abc import Iterator
from statistics import median
from typing import Any

from alpa_plans import PUBLISHED, SHAPES
from bench_table import table
from scipy.stats import spearmanr

from paropt.base.wording import counted, seconds_text

GB = 1e9
CHECK, RUN = "check", "run"  # what is measured of a model beside its rows
TOLERANCE = 1.02  # times as long counts as no longer

INTRO = """\
# Plans at the sizes people train

GPT models of Alpa's benchmark as one ordinary jax step each: 1024 sequences of 1024 tokens, vocabulary 51200,
gradients accumulated over micro-batches, layers in a scan and computed again in the backward pass, f16 with
parameters and AdamW in f32. On the hosts for which plans were published (p3.16xlarge: 8 V100 with 16 GB, 25 Gbit/s
between hosts), and on as many H100s with 80 GB.

`python tools/bench_alpa.py` measures all rows, in hours; `--only '1.3B*'` some, `--estimate` without compiling;
`--run 1.3B` runs a plan at a tenth of its width. All rows are **estimates** before compilation
([planning.md](planning.md#estimates-before-compilation)), made alike; of *chosen* the executable is compiled where the
section on estimates has it. Attention is written out as in 2022, and softmax is bound by memory, so these are no
measurements of the systems that published the plans. `ilp`, of which `paropt.plan` tries more, is only there: its
estimates are the worst, as XLA reshards otherwise than the rules say.

- **published**: the stages of Alpa's plan, cut by equal FLOPs, which is more than whole layers allow. The
  optimizer's state is sharded.
- **grid**: data x tensor x pipeline, all factorizations, with the optimizer's state sharded: the best of them.
- **micro-batches**: the best, of each kind of plan, of as many as published and of those with a quarter, one, two or
  four sequences per device.
- **runs**: whether `Plan.jit` runs it. Stages of different sizes are estimates only, and so is the grid, whose plans
  with stages `pp x dp x tp` has as well.
- **memory**: GB per device at the peak, of 90 % of the device's; of what does not fit, that of its fastest.
- Links: GB that a device sends over each, per step.
"""


def page(found: dict[str, Any]) -> str:
    """Of what tools/bench_alpa.py has measured."""
    rows = {key: each for key, each in found.items() if not key.endswith((CHECK, RUN))}
    parts = [INTRO, _summary(rows)]
    parts += [_section(key, each) for key, each in rows.items()]
    parts.append(_compared(found))
    parts += [_run(key, each) for key, each in found.items() if key.endswith(RUN)]
    return "\n".join(parts)


def chosen(each: dict[str, Any]) -> dict[str, Any]:
    """The best of what runs, of the same estimates: that which is compiled, or will be."""
    running = [row for row in each["rows"] if row["runs"]]
    return min(running, key=lambda row: (not row["fits"], row["seconds"] if row["fits"] else row["memory"]))


def faster(each: dict[str, Any]) -> list[str]:
    """The rows that fit and would be faster than the chosen one."""
    own = chosen(each)
    others = (row for row in each["rows"] if row["fits"] and row is not own)
    return [row["template"] for row in others if row["seconds"] * TOLERANCE < own["seconds"] or not own["fits"]]


def _summary(rows: dict[str, Any]) -> str:
    worse = {key: names for key, each in rows.items() if (names := faster(each))}
    good = f"{len(rows) - len(worse)} of {len(rows)}" if worse else f"all {len(rows)}"
    more = " The others:\n" if worse else ""
    lines = [
        f"On {good} rows, nothing that fits is more than 2 % faster by estimate than the plan that is chosen.{more}",
        *(f"- {_title(key)}: {', '.join(names)}" for key, names in worse.items()),
    ]
    return "\n".join(lines) + "\n"


def _title(key: str) -> str:
    model, gpu = key.split(" | ")
    return f"{model} on {PUBLISHED[model].devices} {gpu.upper()} (`gpu:{gpu}:{SHAPES[PUBLISHED[model].devices]}`)"


def _section(key: str, each: dict[str, Any]) -> str:
    own = chosen(each)
    links = list(dict.fromkeys(link for row in each["rows"] for link in row["links"]))
    head = ("", "plan", "micro-batches", "step", "memory", *links, "runs", "")
    lines = [_row(row, own, links) for row in sorted(each["rows"], key=lambda row: (not row["fits"], row["seconds"]))]
    how = "planned and compiled" if each["compiled"] else "estimated"
    took = f"{_plural(len(each['rows']))}, {how} in {each['took']:.0f} s ({each['date']}, jax {each['jax']})."
    return f"## {_title(key)}\n\n{took}\n\n{table([head, *lines])}\n"


def _plural(count: int) -> str:
    return f"{count} kinds of plans"


def _row(row: dict[str, Any], own: dict[str, Any], links: list[str]) -> tuple[str, ...]:
    return (
        row["template"],
        row["plan"],
        str(row["micro_batches"]),
        seconds_text(row["seconds"]),
        f"{row['memory'] / GB:.1f}",
        *(f"{row['links'].get(link, 0) / GB:.1f}" for link in links),
        "yes" if row["runs"] else "no",
        _verdict(row, own),
    )


def _verdict(row: dict[str, Any], own: dict[str, Any]) -> str:
    if row is own:
        return "chosen" if row["fits"] else "least memory, does not fit"
    if not row["fits"]:
        return "does not fit"
    if not own["fits"] or row["seconds"] * TOLERANCE < own["seconds"]:
        return "faster, but not run" if not row["runs"] else "faster"
    if row["seconds"] <= own["seconds"] * TOLERANCE:
        return "about as fast"
    parts = {"compute": "compute", "exposed": "communication", "waiting": "waiting for other stages"}
    part = max(parts, key=lambda name: row[name] - own[name])
    return f"{row['seconds'] / own['seconds']:.2f} x the time: {parts[part]}"


def _compared(found: dict[str, Any]) -> str:
    pairs = [(key, row) for key, each in found.items() for row in (*each.get("compiled", ()), *each.get(CHECK, ()))]
    head = "## Estimates and executables\n"
    if not pairs:
        return f"{head}\nNone is compiled.\n"
    ratios = [row["seconds"] / row["executable"]["seconds"] for _, row in pairs]
    memory = [row["memory"] / row["executable"]["memory"] for _, row in pairs]
    near = sum(abs(ratio - 1) <= 0.15 for ratio in ratios)
    lines = [
        f"Of {len(pairs)} programs that were compiled, the estimates of {near} are within 15 % of the seconds that the",
        "executable's schedule takes by the model of [costs.md](costs.md). The median is",
        f"{median(abs(r - 1) for r in ratios):.0%} off, of the memory {median(abs(r - 1) for r in memory):.0%}.",
        *_ranks(found),
    ]
    titles = ("model", "plan", "step: estimate", "executable", "memory: estimate", "executable")
    rows = [_pair(key, row) for key, row in pairs]
    return f"{head}\n" + "\n".join(lines) + f"\n\n{table([titles, *rows])}\n"


def _ranks(found: dict[str, Any]) -> Iterator[str]:
    for key, each in found.items():
        rows = each.get(CHECK, ())
        if len(rows) > 2:
            pairs = [(row["seconds"], row["executable"]["seconds"]) for row in rows]
            rank = float(spearmanr(*zip(*pairs, strict=True)).statistic)
            what = f"{len(rows)} programs of {key.split(' | ')[0]} on H100s"
            yield f"Spearman's rank correlation of estimates and executables of {what} is {rank:.2f}."


def _run(key: str, each: dict[str, Any]) -> str:
    """What the plan for 8 H100s moves, and what it moves where it runs."""
    model, runs = key.split(" | ")[0], each["runs"]
    executables = {"for 8 H100s, compiled": each["moved"]}
    executables |= {
        f"{counted(int(count), 'process', 'processes')} with {8 // int(count)} CPU devices": run["moved"]
        for count, run in runs.items()
    }
    kinds = sorted({kind for moved in executables.values() for kind in moved})
    lines = [(what, *(f"{moved.get(kind, 0):.2f}" for kind in kinds)) for what, moved in executables.items()]
    largest = max(run["difference"] for run in runs.values())
    text = f"""\
## What a plan assumes is what runs

The plan of {model} on 8 H100s (`{each["plan"]}`), run in float32 on 8 CPU devices at a tenth of its width
({each["width"]}, {each["parameters"] / 1e6:.1f} M parameters), with sequences and vocabulary that are as much smaller:
`python tools/bench_alpa.py --run {model}` ({each["date"]}, jax {each["jax"]}). New parameters and the optimizer's state
are those of `jax.jit` on one device: {largest:.0e} is the largest difference, relative to each array's largest update.
Elements that collectives move per step and device, in multiples of all parameters:
"""
    return f"{text}\n{table([('', *kinds), *lines])}\n"


def _pair(key: str, row: dict[str, Any]) -> tuple[str, ...]:
    made = row["executable"]
    cells = seconds_text(row["seconds"]), seconds_text(made["seconds"])
    sizes = f"{row['memory'] / GB:.1f}", f"{made['memory'] / GB:.1f}"
    model, gpu = key.split(" | ")
    return (f"{model}, {gpu.replace(CHECK, 'h100').upper()}", f"{row['template']}, {row['plan']}", *cells, *sizes)
