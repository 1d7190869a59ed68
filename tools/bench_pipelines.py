"""Runs steps as pipeline stages, by the classic schedules, and counts what is kept, sent and reduced."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from bench_table import table
from jax.sharding import Mesh
from programs import framework_models, layered_steps
from programs.layered_steps import Program

from paropt.pipeline import Pipeline, pipeline
from paropt.schedules import simulate

SCHEDULES = ("gpipe", "1f1b", "interleaved", "zb-h1", "chimera")
PROGRAMS = ("mlp", "transformer", "scanned", "flax", "equinox")
GRIDS = ((2, 4), (4, 2))  # stages, devices of each
MICROBATCHES = (4, 8)

LEGEND = f"""{len(PROGRAMS)} steps with 4 layers or more, cut into 2 and 4 stages on 8 simulated devices, with 4 and 8
micro-batches: a row is the worst of these 4 runs. Other devices of a stage share its examples.

- error: the largest difference from the step as one program, in parts of the largest change of its state
- activations: micro-batches that a stage keeps at a time, in multiples of what the simulator of schedules says
- sent: arrays per boundary and micro-batch; one activation down and one cotangent up are 2 (`interleaved` and `chimera`
  have several chunks on a device, whose neighbours may be there as well)
- reduced: programs of a stage that reduce over its devices and run in each micro-batch

`flax` and `equinox` are transformers with tied embeddings, dropout, clipping and AdamW, which divides by the size of a
gradient: rounding of a gradient that should be 0 becomes a whole update."""

HEADER = ("program", "schedule", "error", "activations", "sent", "reduced")


class Run(NamedTuple):
    """What one run shows."""

    error: float
    activations: float
    sent: float
    reduced: int


class Row(NamedTuple):
    """A program under a schedule: the worst of its runs."""

    program: str
    schedule: str
    worst: Run


def measure(names: Sequence[str] = PROGRAMS, *, progress: Callable[[str], None]) -> Iterator[Row]:
    """Needs 8 devices."""
    for name, schedule in itertools.product(names, SCHEDULES):
        runs = [_run(name, schedule, *each) for each in itertools.product(GRIDS, MICROBATCHES)]
        progress(f"pipelines  {name} {schedule}")
        yield Row(name, schedule, Run(*map(max, zip(*runs, strict=True))))


def section(rows: Sequence[Row]) -> str:
    """The table in Markdown."""
    return f"{LEGEND}\n\n{table([HEADER, *map(_cells, rows)])}"


def _cells(row: Row) -> tuple[str, ...]:
    worst = row.worst
    return (
        row.program,
        row.schedule,
        f"{worst.error:.1e}",
        f"{worst.activations:.2f}",
        f"{worst.sent:.2f}",
        str(worst.reduced),
    )


def _run(name: str, schedule: str, grid: tuple[int, int], microbatches: int) -> Run:
    stages = grid[0]
    made = _program(name, microbatches, layers=max(4, stages * (2 if schedule == "interleaved" else 1)))
    mesh = Mesh(np.array(jax.devices()).reshape(grid), ("stage", "data"))
    run = pipeline(made.step, stages=stages, microbatches=microbatches, mesh=mesh, schedule=schedule)
    old = jax.tree.map(np.array, made.state)  # the step takes what it is given
    want = jax.jit(made.step)(made.state, made.batch)
    got = run(run.place(made.state, made.batch), made.batch)
    plan = run.plan(made.state, made.batch)
    values = sum(slot.name.startswith("value") for slot in plan.transfers())
    kept = max(mine / said for mine, said in zip(plan.peak_live(), simulate(run.schedule).live, strict=True))
    return Run(_error(old, want, got), kept, values / (run.schedule.chunks - 1) / microbatches, _reducing(run, made))


def _program(name: str, microbatches: int, layers: int) -> Program:
    if name in ("flax", "equinox"):
        return framework_models.framework_program(name, microbatches=microbatches, layers=layers)
    return layered_steps.program(name, microbatches=microbatches, layers=layers)


def _error(state: Any, want: Any, got: Any) -> float:
    changes = zip(_floats(want[0]), _floats(state), strict=True)
    differences = zip(_floats(want), _floats(got), strict=True)
    return max(map(_largest, differences)) / max(map(_largest, changes))


def _floats(tree: Any) -> list[np.ndarray]:
    leaves = map(np.asarray, jax.tree.leaves(tree))
    return [leaf for leaf in leaves if np.issubdtype(leaf.dtype, np.floating)]


def _largest(pair: tuple[np.ndarray, np.ndarray]) -> float:
    return float(np.abs(pair[0] - pair[1]).max())


def _reducing(run: Pipeline, made: Program) -> int:
    texts = {symbol: each.as_text() for (symbol, _), each in run.programs(made.state, made.batch).items()}
    return sum("all-reduce" in text for symbol, text in texts.items() if not symbol.startswith("reduce_"))
