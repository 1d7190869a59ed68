"""How much of the communication of a step is exposed: the seconds that it waits for collectives, by the estimate.

Each program is compiled by XLA alone and with par-opt, by the compiler's defaults and with options for overlap, and
the schedule of each executable is timed with the figures of the target (docs/costs.md).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
from bench_table import table
from programs.catalog import LAYERS, MATRIX
from programs.program import Program, Sizes

import paropt
from paropt.clusters import targets
from paropt.clusters.targets import Options
from paropt.costs.clusters import cluster_of
from paropt.costs.step_time import estimate
from paropt.hlo.parser import HloError

# Gradients outweigh activations, and both take longer than a collective takes to start.
SIZES = Sizes(width=2048, layers=4, micro_batches=4, examples=64, vocabulary=8192, sequence=128, heads=16)
NAMES = (
    "plain_mlp_p0",
    "plain_mlp_p6",
    "plain_transformer_p1",
    "plain_transformer_p6",
    "plain_transformer_p11",
    "blocks_p17",
    "half_blocks_p17",
    "half_blocks_p18",
    "llama_p19",
    "experts_p20",
    "explicit_transformer_p0",
)
PROGRAMS = {name: (MATRIX | LAYERS)[name] for name in NAMES}

# By target: XLA's options, and a name for them.
OVERLAP: dict[str, dict[str, Options]] = {
    "gpu": {
        "pipelined collectives": {
            "xla_gpu_enable_latency_hiding_scheduler": True,
            "xla_gpu_enable_pipelined_all_gather": True,
            "xla_gpu_enable_pipelined_all_reduce": True,
            "xla_gpu_enable_pipelined_reduce_scatter": True,
        },
        "buckets of 8 MB": {
            "xla_gpu_enable_latency_hiding_scheduler": True,
            "xla_gpu_all_reduce_combine_threshold_bytes": "8388608",
            "xla_gpu_all_gather_combine_threshold_bytes": "8388608",
            "xla_gpu_reduce_scatter_combine_threshold_bytes": "8388608",
        },
    },
    "tpu": {
        "fused collectives": {
            "xla_tpu_enable_data_parallel_all_reduce_opt": True,
            "xla_tpu_data_parallel_opt_different_sized_ops": True,
            "xla_tpu_enable_async_collective_fusion": True,
            "xla_tpu_enable_async_collective_fusion_fuse_all_gather": True,
            "xla_tpu_enable_async_collective_fusion_multiple_steps": True,
            "xla_tpu_overlap_compute_collective_tc": True,
            "xla_enable_async_all_gather": True,
        },
    },
}
TARGETS = ("gpu:h100:1x1x8", "tpu:v5e:2x4")
DEFAULTS = "the compiler's defaults"
ONCE = "grad-sync{policy=once}"
PEELED = "grad-sync,peel-last-sync"  # of reductions that the program writes

Say = Callable[[str], None]


class Time(NamedTuple):
    """Estimated seconds of a step."""

    step: float
    communication: float
    exposed: float


class Row(NamedTuple):
    """A program on a target with some options: the times by variant; or why there are none."""

    target: str
    options: str
    program: str
    times: dict[str, Time]
    problem: str = ""


def variants_of(name: str) -> dict[str, str]:
    """Pipelines by the name of the variant; of XLA alone an empty one."""
    more = {"peeled": PEELED} if name.startswith("explicit") else {"`once`": ONCE} if is_sharded(name) else {}
    return {"XLA alone": "", "par-opt": "grad-sync", **more}


def is_sharded(name: str) -> bool:
    """Whether it shards parameters over an axis of the batch."""
    return name.endswith(("_p6", "_p7")) or name in LAYERS


def measure(names: Sequence[str], chosen: Sequence[str] = TARGETS, *, progress: Say) -> Iterator[Row]:
    """Of each target, with each set of options, the programs with these names."""
    for target in chosen:
        try:
            devices = targets.get(target).devices
        except targets.TargetError as error:
            yield Row(target, DEFAULTS, "", {}, str(error))
            continue
        for name in names:
            program = PROGRAMS[name](SIZES, devices)
            for title, options in {DEFAULTS: {}, **OVERLAP[target.partition(":")[0]]}.items():
                row = _row(target, title, name, program, options)
                yield row
                told = "; ".join(f"{what} {_ms(time.exposed)}" for what, time in row.times.items())
                progress(f"{target} {name} with {title}: exposed ms {told}{row.problem}")


def _row(target: str, title: str, name: str, program: Program, options: Options) -> Row:
    try:
        times = {what: _time(target, program, passes, options) for what, passes in variants_of(name).items()}
    except (targets.TargetError, HloError, jax.errors.JaxRuntimeError) as error:
        return Row(target, title, name, {}, str(error).splitlines()[0])
    return Row(target, title, name, times)


def _time(target: str, program: Program, passes: str, options: Options) -> Time:
    given: dict[str, Any] = {"compiler_options": dict(options)}
    jitted = paropt.jit(program.step, passes=passes, strict=True, **given) if passes else jax.jit(program.step, **given)
    found = estimate(jitted.lower(*program.args).compile().as_text() or "", cluster_of(target))
    return Time(found.seconds, found.communication, found.communication - found.hidden)


LEGEND = f"""\
Estimated milliseconds per step in which nothing is computed, since collectives are waited for: of each executable, by
its schedule and the figures of the target ([costs.md](costs.md)). Width {SIZES.width}, {SIZES.layers} layers,
{SIZES.micro_batches} micro-batches of {SIZES.examples} examples of {SIZES.sequence} tokens;
`python tools/bench.py --only-exposed`.

- **communication**: of all collectives. **exposed**: of these what no computation hides, by the compiler's defaults,
  and with options for overlap: `paropt.jit(step, compiler_options=...)`, as `jax.jit` takes them, of which
  tools/bench_exposed.py has the names.
- `peeled`: `grad-sync,peel-last-sync` ([overlap.md](overlap.md)), of reductions that the program writes."""

LEAST = 0.01  # more than so much of XLA alone's, and of the step, is told
_MORE = f" by more than {LEAST:.0%} of that and of the step"


def section(rows: Sequence[Row]) -> str:
    """The tables in Markdown, a target each."""
    parts = [LEGEND]
    for target in dict.fromkeys(row.target for row in rows):
        own = [row for row in rows if row.target == target]
        parts.append(f"### Exposed communication, {target}")
        missing = [row.problem for row in own if not row.program]
        parts += [f"Not measured: {missing[0]}"] if missing else [_table(own), _more(own)]
    return "\n\n".join(parts)


def _table(rows: Sequence[Row]) -> str:
    titles = list(dict.fromkeys(row.options for row in rows))
    head = ("program", "", "step, ms", "communication, ms", "exposed, ms", *(f"with {each}" for each in titles[1:]))
    lines = []
    for name in dict.fromkeys(row.program for row in rows):
        found = {row.options: row for row in rows if row.program == name}
        plain = found[DEFAULTS]
        lines += [_line(name, what, found, titles) for what in plain.times] or [(name, plain.problem)]
    return table([head, *(line + ("",) * (len(head) - len(line)) for line in lines)])


def _line(name: str, what: str, found: dict[str, Row], titles: Sequence[str]) -> tuple[str, ...]:
    time = found[DEFAULTS].times[what]
    exposed = [_ms(row.times[what].exposed) if what in (row := found[each]).times else "-" for each in titles]
    return (name if what == "XLA alone" else "", what, _ms(time.step), _ms(time.communication), *exposed)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g}"


def _more(rows: Sequence[Row]) -> str:
    """The programs that wait longer with par-opt than with XLA alone, by whichever options."""
    found = [
        f"`{row.program}` ({_ms(row.times['par-opt'].exposed)} for {_ms(row.times['XLA alone'].exposed)} ms with "
        f"{row.options})"
        for row in rows
        if row.times and waits_longer(row.times)
    ]
    if not found:
        return f"After `grad-sync`, no program waits longer than with XLA alone{_MORE}, by any of these options."
    return f"After `grad-sync`, longer than with XLA alone{_MORE}: {', '.join(found)}."


def waits_longer(times: dict[str, Time]) -> bool:
    """Whether more is exposed by default than by XLA alone, by a part of the step that counts."""
    ours, alone = times["par-opt"], times["XLA alone"]
    return ours.exposed > alone.exposed * (1 + LEAST) and ours.exposed - alone.exposed > LEAST * alone.step
