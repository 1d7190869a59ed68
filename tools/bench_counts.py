"""Compiles training programs for a target, as jax does, with XLA alone and with par-opt, and counts what they send."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax
from programs.catalog import MATRIX
from programs.program import Program, Sizes

import paropt
from paropt.audit import SYNC_KINDS, Audit
from paropt.clusters import targets
from paropt.hlo.census import Collective
from paropt.hlo.parser import HloError
from paropt.hlo.traffic import traffic

TARGETS = ("cpu:8", "tpu:v5e:2x4", "gpu:h100:1x1x8")
SIZES = Sizes(width=128, layers=3, micro_batches=4, examples=64, vocabulary=256, sequence=16, heads=4)


@dataclass(frozen=True)
class Count:
    """One executable. Bytes are payload per device and step, and without arrays of one element (losses, norms)."""

    sync: int  # reductions of gradients
    runs_in_loops: int  # of these reductions
    activations: int  # reductions over other axes
    others: int  # all other kinds: gathers, permutes, ...
    peak: int | None  # memory, bytes per device
    seconds: float  # to compile
    is_exact: bool  # False: something runs an unknown number of times and is left out
    wire: float = 0  # bytes that all collectives send, scalars included
    collectives: int = 0  # how many run
    temporary: int | None = None  # bytes beside arguments and results


@dataclass(frozen=True)
class Row:
    """A program: how many bytes would be ideal, what XLA alone and par-opt make of it, or why that is not known."""

    name: str
    ideal: int = 0
    alone: Count | None = None
    ours: Count | None = None
    problem: str = ""

    def ratio(self, count: Count | None) -> float | None:
        """Reduced bytes in multiples of the ideal."""
        return count.sync / self.ideal if count and self.ideal else None


@dataclass(frozen=True)
class TargetCounts:
    target: str
    rows: list[Row] = field(default_factory=list)
    problem: str = ""  # why there are no rows: what is not installed, and the command that installs it


def count(target: str, names: list[str], *, progress: Callable[[str], None]) -> TargetCounts:
    """The programs on a target. `problem` says why when the target cannot be compiled for here."""
    try:
        devices = targets.get(target).devices
    except targets.TargetError as error:
        progress(f"{target}: {error}")
        return TargetCounts(target, problem=str(error))
    rows = []
    for place, name in enumerate(names, 1):
        start = time.perf_counter()
        rows.append(_row(name, devices))
        progress(f"{target} {place:2}/{len(names)} {name:28} {_line(rows[-1])} {time.perf_counter() - start:5.1f} s")
    return TargetCounts(target, rows)


def _row(name: str, devices: Any) -> Row:
    program = MATRIX[name](SIZES, devices)
    try:
        alone = _count(program, jax.jit(program.step))
        ours = _count(program, paropt.jit(program.step, strict=True))
    except (targets.TargetError, HloError) as error:
        return Row(name, program.ideal_bytes, problem=str(error))
    return Row(name, program.ideal_bytes, alone, ours)


def _count(program: Program, step: Any) -> Count:
    lowered = step.lower(*program.args)
    start = time.perf_counter()
    compiled = lowered.compile()
    seconds = time.perf_counter() - start
    audit = paropt.audit(compiled)
    memory = targets.memory_of(compiled.memory_analysis())
    return replace(counted(program, audit, audit.peak_memory, seconds), temporary=memory and memory.temp)


def counted(program: Program, audit: Audit, peak: int | None, seconds: float) -> Count:
    """Gradients are told from activations by how many devices a reduction spans."""
    reductions = [c for c in audit.collectives if c.kind in SYNC_KINDS and _payload(c)]
    sync = [c for c in reductions if c.group in program.sync_groups]
    return Count(
        sync=_bytes(sync),
        runs_in_loops=sum(c.executions or 0 for c in sync if c.loops),
        activations=_bytes([c for c in reductions if c.group not in program.sync_groups]),
        others=_bytes([c for c in audit.collectives if c.kind not in SYNC_KINDS]),
        peak=peak,
        seconds=seconds,
        is_exact=all(c.executions is not None for c in audit.collectives if _payload(c)),
        wire=traffic(audit.collectives).known,
        collectives=sum(c.executions or 0 for c in audit.collectives if c.wire_bytes),
    )


def _payload(collective: Collective) -> int:
    return sum(array.bytes for array in collective.arrays if array.elements > 1)


def _bytes(collectives: list[Collective]) -> int:
    return sum((c.executions or 0) * _payload(c) for c in collectives)


def _line(row: Row) -> str:
    if row.alone is None or row.ours is None:
        return row.problem.splitlines()[0]
    return f"{row.ratio(row.alone):5.2f} -> {row.ratio(row.ours):5.2f} x ideal"
