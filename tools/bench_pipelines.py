"""Runs steps as pipeline stages, by the classic schedules, and counts what is kept, sent and reduced."""

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import optax
from bench_table import table
from jax.sharding import Mesh, NamedSharding, PartitionSpec
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

- gradients: the largest difference of a gradient from that of the step as one program on one device, in parts of the
  largest gradient; gradients are the change of the state in plain gradient descent, and AdamW's first moments (`mu`)
- loss: the difference of the loss, in parts of it
- state: the largest difference of the new state, in parts of its largest change
- reordered: the same of the step as one program whose examples are sharded over 8 devices, which adds up in another
  order too
- activations: micro-batches that a stage keeps at a time, in multiples of what the simulator of schedules says
- sent: arrays per boundary and micro-batch; one activation down and one cotangent up are 2 (`interleaved` and `chimera`
  have several chunks on a device, whose neighbours may be there as well)
- reduced: programs of a stage that reduce over its devices and run in each micro-batch

`flax` and `equinox` are transformers with tied embeddings, dropout, clipping and AdamW, which divides a gradient by its
size: in a first step, a gradient that is 0 but for rounding (of a bias that is added to all keys of an attention, which
softmax takes off again) becomes an update nearly as large as any other. So `state` says nothing about a pipeline where
it is as large for the reordered program; `gradients` does."""

HEADER = (
    *("program", "schedule", "gradients", "reordered", "loss", "reordered", "state", "reordered"),
    *("activations", "sent", "reduced"),
)


class Errors(NamedTuple):
    """The largest differences from the step as one program."""

    gradients: float
    loss: float
    state: float


class Run(NamedTuple):
    """What one run shows."""

    errors: Errors
    reordered: Errors
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
        yield Row(name, schedule, _worst(runs))


def section(rows: Sequence[Row]) -> str:
    """The table in Markdown."""
    return f"{LEGEND}\n\n{table([HEADER, *map(_cells, rows)])}"


def _cells(row: Row) -> tuple[str, ...]:
    worst = row.worst
    return (
        row.program,
        row.schedule,
        *(f"{each:.1e}" for pair in zip(worst.errors, worst.reordered, strict=True) for each in pair),
        f"{worst.activations:.2f}",
        f"{worst.sent:.2f}",
        str(worst.reduced),
    )


def _worst(runs: Sequence[Run]) -> Run:
    errors, reordered, activations, sent, reduced = zip(*runs, strict=True)
    own, other = (Errors(*map(max, zip(*each, strict=True))) for each in (errors, reordered))
    return Run(own, other, max(activations), max(sent), max(reduced))


def _run(name: str, schedule: str, grid: tuple[int, int], microbatches: int) -> Run:
    stages = grid[0]
    layers = max(4, stages * (2 if schedule == "interleaved" else 1))
    made, want, reordered = _alone(name, microbatches, layers)
    mesh = Mesh(np.array(jax.devices()).reshape(grid), ("stage", "data"))
    run = pipeline(made.step, stages=stages, microbatches=microbatches, mesh=mesh, schedule=schedule, donate="state")
    got = run(run.place(made.state, made.batch), made.batch)
    plan = run.plan(made.state, made.batch)
    values = sum(slot.name.startswith("value") for slot in plan.transfers())
    kept = max(mine / said for mine, said in zip(plan.peak_live(), simulate(run.schedule).live, strict=True))
    sent = values / (run.schedule.chunks - 1) / microbatches
    errors, others = (_errors(made.state, want, each) for each in (got, reordered))
    return Run(errors, others, kept, sent, _reducing(run, made))


@functools.cache
def _alone(name: str, microbatches: int, layers: int) -> tuple[Program, Any, Any]:
    """A program, with its results as one program on one device, and on 8 which share the examples."""
    made = _program(name, microbatches, layers)
    made = made._replace(state=jax.tree.map(np.asarray, made.state))  # on the host: a pipeline donates what it is given
    whole = NamedSharding(Mesh(np.array(jax.devices()), ("data",)), PartitionSpec())
    given = jax.device_put(made.state, whole), jax.device_put(made.batch, whole.update(spec=PartitionSpec("data")))
    return made, jax.jit(made.step)(made.state, made.batch), jax.jit(made.step)(*given)


def _program(name: str, microbatches: int, layers: int) -> Program:
    if name in ("flax", "equinox"):
        return framework_models.framework_program(name, microbatches=microbatches, layers=layers)
    return layered_steps.program(name, microbatches=microbatches, layers=layers)


def _errors(old: Any, want: Any, got: Any) -> Errors:
    """Of results of a step that takes the state `old`."""
    gradients = [_gradients(each) for each in (old, want[0], got[0])]
    loss = abs(float(want[1]) - float(got[1])) / abs(float(want[1]))
    return Errors(_error(*gradients), loss, _error(old, want[0], got[0]))


def _gradients(state: Any) -> Any:
    """What changes by a gradient, times one number."""
    moments = optax.tree_utils.tree_get(state, "mu")
    return state if moments is None else moments


def _error(old: Any, want: Any, got: Any) -> float:
    """The largest difference of `got` and `want`, in parts of that of `old` and `want`."""
    changes, differences = (zip(_floats(want), _floats(each), strict=True) for each in (old, got))
    return max(map(_largest, differences)) / max(map(_largest, changes))


def _floats(tree: Any) -> list[np.ndarray]:
    leaves = map(np.asarray, jax.tree.leaves(tree))
    return [leaf for leaf in leaves if np.issubdtype(leaf.dtype, np.floating)]


def _largest(pair: tuple[np.ndarray, np.ndarray]) -> float:
    return float(np.abs(pair[0] - pair[1]).max())


def _reducing(run: Pipeline, made: Program) -> int:
    texts = {symbol: each.as_text() or "" for (symbol, _), each in run.programs(made.state, made.batch).items()}
    return sum("all-reduce" in text for symbol, text in texts.items() if not symbol.startswith("reduce_"))
