"""What the linear program of a plan takes for a deep transformer, with equal layers sharing their choices or not."""

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from bench_table import table
from programs.program import Sizes
from programs.unplaced import shapes_of

from paropt.base.wording import seconds_text
from paropt.clusters import targets
from paropt.costs.clusters import cluster_of
from paropt.costs.machines import read_table
from paropt.planning.candidates import factored
from paropt.planning.equal_layers import shared
from paropt.planning.ilp import best
from paropt.planning.proposals import choices_of, rates_of
from paropt.planning.sharded_programs import lowered_without_mesh
from paropt.planning.strategies import Choices

TARGET = "gpu:h100:1x2x8"
LAYERS = 48
SIZES = Sizes(width=1024, layers=LAYERS, micro_batches=4, examples=64, vocabulary=32768, sequence=256, heads=16)
LIMIT = 30.0  # seconds for each program

LEGEND = f"""The transformer of the table above with {LAYERS} layers written out, width {SIZES.width}, for {TARGET}: the
linear program that chooses the shardings over one mesh, at most {LIMIT:.0f} s; where both axes at once take longer, one
after the other is chosen. Step: seconds in its model."""

HEADER = ("mesh", "choices", "classes", "transfers", "program s", "step")


class Row(NamedTuple):
    """One linear program."""

    mesh: str
    is_shared: bool
    choices: Choices
    seconds: float
    step: float


class Times(NamedTuple):
    """Seconds to read the choices from the module, and to merge equal layers; and the programs."""

    reading: float
    merging: float
    rows: tuple[Row, ...]


def measure(progress: Callable[[str], None]) -> Times:
    cluster = cluster_of(TARGET, read_table())
    made = shapes_of("transformer", SIZES)
    module = lowered_without_mesh(made.step, made.args, targets.get(TARGET)).compiler_ir()
    start = time.perf_counter()
    whole = choices_of(module)
    read = time.perf_counter()
    small = shared(whole)
    merged = time.perf_counter()

    def rows() -> Iterator[Row]:
        for mesh in factored(cluster.size)[:2]:
            for choices in (whole, small):
                start = time.perf_counter()
                plan = best(choices, dict(mesh.axes), rates_of(cluster, mesh), time_limit=LIMIT)
                yield Row(str(mesh), choices is small, choices, time.perf_counter() - start, plan.seconds)
                progress(f"linear program over {mesh}: {len(choices.sizes)} classes")

    return Times(read - start, merged - read, tuple(rows()))


def section(times: Times) -> str:
    """The table in Markdown."""
    took = f"Reading the choices took {times.reading:.1f} s, merging equal layers {times.merging:.1f} s."
    return f"{LEGEND} {took}\n\n{table([HEADER, *map(_cells, times.rows)])}"


def _cells(row: Row) -> tuple[str, ...]:
    transfers = len(row.choices.moves) + len(row.choices.sums)
    kind = "equal layers share" if row.is_shared else "each layer its own"
    return row.mesh, kind, str(len(row.choices.sizes)), str(transfers), f"{row.seconds:.1f}", seconds_text(row.step)
