"""Counts what programs with sharded parameters send, per axis of the mesh: gathers of parameters, sums of gradients."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from bench_table import table
from programs.catalog import LAYERS, MATRIX
from programs.program import Program, Sizes

import paropt
from paropt.audit import Audit
from paropt.clusters import targets
from paropt.hlo.parser import HloError
from paropt.hlo.traffic import traffic

SIZES = Sizes(width=128, layers=3, micro_batches=4, examples=16)
PROGRAMS = {
    name: build for name, build in MATRIX.items() if name.endswith(("mlp_p6", "mlp_p7", "transformer_p6"))
} | LAYERS
STAYING = {"model", "expert"}  # axes over which activations are reduced or exchanged, not parameters gathered
REDUCTIONS = ("all-reduce", "reduce-scatter")

# What each variant does with a step.
VARIANTS: dict[str, Callable[[Callable[..., Any]], Any]] = {
    "XLA alone": jax.jit,
    "par-opt": lambda step: paropt.jit(step, strict=True),
    "`policy=once`": lambda step: paropt.jit(step, passes="grad-sync{policy=once}", strict=True),
}


class Ideal(NamedTuple):
    """Wire bytes per device and step where each parameter is gathered once, and each gradient reduced once."""

    gathers: float
    reductions: float


@dataclass(frozen=True)
class Sent:
    """What one executable sends per device and step, in bytes on the wire, and what it holds."""

    gathers: dict[str, float]  # by axes
    reductions: dict[str, float]  # by axes
    wire: float  # of all collectives
    collectives: int  # how many run
    temporary: int | None  # bytes


@dataclass(frozen=True)
class Row:
    """A program on a target with each variant, or why that is not known."""

    name: str
    ideal: Ideal
    sent: dict[str, Sent]
    problem: str = ""


@dataclass(frozen=True)
class Counts:
    """The programs on one target; `problem` says why there are none."""

    target: str
    rows: Sequence[Row] = ()
    problem: str = ""


def count(target: str, names: Sequence[str], *, progress: Callable[[str], None]) -> Counts:
    """The programs with these names on a target. `problem` says why when the target cannot be compiled for here."""
    try:
        devices = targets.get(target).devices
    except targets.TargetError as error:
        return Counts(target, problem=str(error))
    rows = []
    for name in names:
        rows.append(_row(name, PROGRAMS[name](SIZES, devices=devices or None)))
        progress(f"{target} {name:28} {' -> '.join(f'{sent.wire / 1e3:.0f}' for sent in rows[-1].sent.values())} kB")
    return Counts(target, rows)


def _row(name: str, program: Program) -> Row:
    try:
        return Row(name, ideal(name, program), {v: _sent(program, jit) for v, jit in VARIANTS.items()})
    except (targets.TargetError, HloError) as error:
        return Row(name, ideal(name, program), {}, str(error).splitlines()[0])


def ideal(name: str, program: Program) -> Ideal:
    """From the shardings of the parameters and of the batch, and the type that the program computes in."""
    state = jax.tree.leaves(program.args[0])
    # Of P21 only the adapters, which are the second half of the state, have gradients.
    trained = jax.tree.leaves(program.args[0][1]) if name == "adapters_p21" else state
    batch = [axis for axis in _axes(program.args[-1]) if axis not in STAYING]
    computes = jnp.dtype(jnp.bfloat16) if "half" in name else jnp.dtype(SIZES.dtype)
    mesh = program.mesh.shape
    return Ideal(
        sum(_gathered(leaf, batch, mesh) * computes.itemsize / leaf.dtype.itemsize for leaf in state),
        sum(_reduced(leaf, batch, mesh) for leaf in trained),
    )


def _axes(leaf: Any) -> list[str]:
    """The axes that shard an array."""
    entries = [entry for entry in leaf.sharding.spec if entry is not None]
    return [axis for entry in entries for axis in (entry if isinstance(entry, tuple) else (entry,))]


def _whole(leaf: Any, mesh: Any, batch: Sequence[str]) -> tuple[float, int]:
    """Bytes of an array per device when it is gathered over the batch's axes, and over how many devices."""
    axes = _axes(leaf)
    stay = [mesh[axis] for axis in axes if axis not in batch]
    return leaf.size * leaf.dtype.itemsize / prod(stay), prod(mesh[axis] for axis in axes if axis in batch)


def _gathered(leaf: Any, batch: Sequence[str], mesh: Any) -> float:
    size, shards = _whole(leaf, mesh, batch)
    return size * (shards - 1) / shards


def _reduced(leaf: Any, batch: Sequence[str], mesh: Any) -> float:
    """Scattered over the axes that shard the parameter, the shard reduced over the batch's other axes."""
    size, shards = _whole(leaf, mesh, batch)
    others = prod(mesh[axis] for axis in batch) // shards
    return size * (shards - 1) / shards + 2 * size / shards * (others - 1) / others


def _sent(program: Program, step: Any) -> Sent:
    compiled = step(program.step).lower(*program.args).compile()
    memory = targets.memory_of(compiled.memory_analysis())
    return sent(paropt.audit(compiled, mesh=program.mesh), memory and memory.temp)


def sent(audit: Audit, temporary: int | None) -> Sent:
    """Of an executable. Its scalars (losses, norms) and what spans an axis that stays are in no gather or reduction."""
    gathers, reductions = defaultdict[str, float](float), defaultdict[str, float](float)
    for each in audit.collectives:
        axes = [axis.partition(":")[0] for axis in each.axes]
        if STAYING & {*axes} or all(array.elements == 1 for array in each.arrays):
            continue
        kind = gathers if each.kind == "all-gather" else reductions if each.kind in REDUCTIONS else None
        if kind is not None:
            kind[" + ".join(axes) or "?"] += each.wire_bytes * (each.executions or 0)
    return Sent(
        dict(gathers),
        dict(reductions),
        traffic(audit.collectives).known,
        sum(each.executions or 0 for each in audit.collectives),
        temporary,
    )


LEGEND = f"""\
Wire bytes per device and step of programs whose parameters are sharded over axes that shard the batch, too. Width
{SIZES.width}, {SIZES.layers} layers, {SIZES.micro_batches} micro-batches of {SIZES.examples} examples; \
`python tools/bench.py --only-sharded`.

- **gathers**: all-gathers, in multiples of each parameter gathered once per step, in the type in which the program
  computes. **reductions**: all-reduces and reduce-scatters, in multiples of each gradient reduced once.
- **by axis**: kB of both for each axis of the mesh (or axes, joined by +) that they span. Axes `model` and `expert`,
  over which activations are reduced or exchanged, are in **wire** only: the kB of all collectives.
- **collectives**: how many run per step. **temporary**: memory beside arguments and results, from the compiler.
- XLA:CPU sends bf16 as f32: twice the ideal there.
- `policy=once` is given the memory that it asks for ([sharded-training.md](sharded-training.md)); where the default
  options are worse than XLA alone in one of the last columns, test/numeric/test_baseline_comparison.py says why."""

HEADER = ("program", "", "gathers", "reductions", "by axis, kB", "wire kB", "collectives", "temporary kB")


def section(counts: Sequence[Counts]) -> str:
    """The tables in Markdown, a target each."""
    parts = [LEGEND]
    for target in counts:
        parts.append(f"### Sharded parameters, {target.target}")
        lines = [line for row in target.rows for line in _lines(row)]
        parts.append(f"Not measured: {target.problem}" if target.problem else table([HEADER, *lines]))
    return "\n\n".join(parts)


def _lines(row: Row) -> list[tuple[str, ...]]:
    if row.problem:
        return [(row.name, row.problem, *[""] * 6)]
    return [(row.name if not i else "", variant, *_cells(row, row.sent[variant])) for i, variant in enumerate(row.sent)]


def _cells(row: Row, sent: Sent) -> tuple[str, ...]:
    axes = sorted({*sent.gathers, *sent.reductions})
    kilobytes = [f"{axis} {(sent.gathers.get(axis, 0) + sent.reductions.get(axis, 0)) / 1e3:.0f}" for axis in axes]
    return (
        _times(sum(sent.gathers.values()), row.ideal.gathers),
        _times(sum(sent.reductions.values()), row.ideal.reductions),
        ", ".join(kilobytes),
        f"{sent.wire / 1e3:.0f}",
        str(sent.collectives),
        "" if sent.temporary is None else f"{sent.temporary / 1e3:.0f}",
    )


def _times(bytes: float, ideal: float) -> str:
    return f"{bytes / ideal:.2f}" if ideal else f"{bytes / 1e3:.0f} kB"
