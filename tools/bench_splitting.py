"""Measures what splitting a whole-batch step into micro-batches saves: memory, and what it costs. CPU, 8 devices.

Usage: bench_splitting.py [--micro-batches 2 4 8 16]. Prints the rows of the table in docs/accumulation.md.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import simulated_devices

sys.path.insert(0, str(Path(__file__).parents[1] / "test"))
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = simulated_devices.flags_for(8)

import jax
from programs import models
from programs.program import Sizes
from programs.whole_batch import WholeBatch, whole_batch

import paropt

SIZES = Sizes(width=32, layers=4, examples=256, sequence=16)  # four times as many examples in the batch


def cells(step: Any, program: WholeBatch) -> tuple[str, ...]:
    """Temporary memory and bytes reduced, in loops and per step, per device. `step` is jitted, by jax or paropt."""
    lowered = step.lower(*program.args)
    audit = paropt.audit(lowered)
    memory = lowered.compile().memory_analysis().temp_size_in_bytes
    sync = f"{audit.sync_bytes / 1e3:.0f} ({audit.sync_in_loop / 1e3:.0f} in loops)"
    others = audit.total("all-gather", "all-to-all", "collective-permute").bytes
    return f"{memory / 1e3:.0f}", sync, str(others)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--micro-batches", type=int, nargs="+", default=[2, 4, 8, 16], metavar="M")
    options = parser.parse_args()
    print("| program | M | temporary kB | kB reduced | bytes of other collectives |")
    print("|---|---|---|---|---|")
    for build in (models.transformer, models.scanned_transformer):
        program = whole_batch(build, SIZES)
        print(f"| {build.__name__} | whole batch | {' | '.join(cells(jax.jit(program.step), program))} |", flush=True)
        for count in options.micro_batches:
            passes = f"inline-calls,split-microbatches{{count={count}}},grad-sync"
            step = paropt.jit(program.step, passes=passes, strict=True)
            print(f"| {build.__name__} | {count} | {' | '.join(cells(step, program))} |", flush=True)


if __name__ == "__main__":
    main()
