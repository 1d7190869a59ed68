"""Measures what rolling unrolled micro-batches saves: ops, HLO instructions, compile time, memory. CPU, 8 devices.

Usage: bench_rolling.py [--micro-batches 4 8 32] [--repeat 3]. Prints the rows of the table in docs/accumulation.md.
"""

import argparse
import functools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import simulated_devices

sys.path.insert(0, str(Path(__file__).parents[1] / "test"))
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = simulated_devices.flags_for(8)

import jax
from programs import explicit, models, plain
from programs.patterns import UNROLLED
from programs.program import Program, Sizes

import paropt

PASSES = "inline-calls,roll-accumulation"


class Size(NamedTuple):
    """How large a program is, and what it costs to compile."""

    lines: int  # of StableHLO
    instructions: int  # of optimized HLO
    compile_seconds: float  # the shortest of the runs
    temporary_bytes: int  # per device, besides arguments and results
    lower_seconds: float  # of tracing and lowering, with par-opt's passes where they run


def programs(micro_batches: int) -> dict[str, Callable[[], Program]]:
    sizes = Sizes(micro_batches=micro_batches)
    return {
        f"{form.__name__.rpartition('.')[2]} {build.__name__}": functools.partial(
            form.data_parallel, build, UNROLLED, sizes
        )
        for form in (plain, explicit)
        for build in (models.mlp, models.transformer)
    }


def measure(jit: Callable[..., Any], program: Program, repeat: int) -> Size:
    compiling, lowering = [], []
    for _ in range(repeat):
        jax.clear_caches()
        start = time.perf_counter()
        lowered = jit(program.step).lower(*program.args)
        middle = time.perf_counter()
        compiled = lowered.compile()
        compiling.append(time.perf_counter() - middle)
        lowering.append(middle - start)
    instructions = sum(" = " in line for line in compiled.as_text().splitlines())
    memory = compiled.memory_analysis().temp_size_in_bytes
    return Size(lowered.as_text().count("\n"), instructions, min(compiling), memory, min(lowering))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--micro-batches", type=int, nargs="+", default=[4, 8, 32], metavar="M")
    parser.add_argument("--repeat", type=int, default=3, help="runs, of which the shortest counts")
    options = parser.parse_args()
    print("| program | M | StableHLO lines | HLO instructions | compile s | lower s | temporary kB |")
    print("|---|---|---|---|---|---|---|")
    for count in options.micro_batches:
        for name, build in programs(count).items():
            program = build()
            before = measure(jax.jit, program, options.repeat)
            after = measure(lambda step: paropt.jit(step, passes=PASSES, strict=True), program, options.repeat)
            cells = [f"{was} → {now}" for was, now in zip(before[:2], after[:2], strict=True)]
            cells += [f"{was:.2f} → {now:.2f}" for was, now in zip(before[2::2], after[2::2], strict=True)]
            cells.append(f"{before.temporary_bytes / 1e3:.0f} → {after.temporary_bytes / 1e3:.0f}")
            print(f"| {name} | {count} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
