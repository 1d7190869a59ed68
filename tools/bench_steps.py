"""Measures the step time of one training program: XLA alone against par-opt, in turns, in the same process.

Usage: bench_steps.py PROGRAM [--passes grad-sync] [--pairs 25]. Prints JSON: seconds of each step, `alone` and
`paropt`. With --rank and --coordinator it is one of two processes with 4 devices each; both must be started, and the
first prints.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import simulated_devices

DEVICES = 8
PROCESSES = 2
JOIN_SECONDS = 60
SIZES = {"width": 512, "layers": 4, "micro_batches": 8, "examples": 64}

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "test"))


def main() -> None:
    options = _options()
    start_devices(options.rank, options.coordinator)
    seconds = measure(options.program, options.passes, options.pairs, SIZES)
    if not options.rank:
        print(json.dumps(seconds))


def start_devices(rank: int | None, coordinator: str) -> None:
    """8 CPU devices in this process, or its half of them where `rank` says which of two processes it is."""
    alone = rank is None
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = simulated_devices.flags_for(DEVICES if alone else DEVICES // PROCESSES)
    import jax

    if not alone:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(coordinator, PROCESSES, rank, initialization_timeout=JOIN_SECONDS)


def measure(name: str, passes: str, pairs: int, sizes: dict[str, int]) -> dict[str, list[float]]:
    """Seconds of `pairs` steps of each kind, after one of each that is not counted."""
    import jax
    from programs.catalog import LAYERS, MATRIX
    from programs.program import Sizes

    import paropt

    program = (MATRIX | LAYERS)[name](Sizes(**sizes))
    steps: dict[str, Any] = {
        "alone": jax.jit(program.step),
        "paropt": paropt.jit(program.step, passes=passes, strict=True),
    }
    return timed({kind: step.lower(*program.args).compile() for kind, step in steps.items()}, program.args, pairs)


def timed(compiled: dict[str, Any], args: tuple[Any, ...], pairs: int) -> dict[str, list[float]]:
    """Seconds of `pairs` steps of each executable, in turns, after one of each that is not counted."""
    seconds: dict[str, list[float]] = {kind: [] for kind in compiled}
    for pair in range(pairs + 1):
        for kind in sorted(compiled, reverse=pair % 2 == 1):  # what comes second in a pair may find warmer caches
            taken = _seconds(compiled[kind], args)
            if pair:
                seconds[kind].append(taken)
    return seconds


def _seconds(step: Any, args: tuple[Any, ...]) -> float:
    import jax

    start = time.perf_counter()
    jax.block_until_ready(step(*args))
    return time.perf_counter() - start


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="a name of test/programs/catalog.py, such as explicit_mlp_p0")
    parser.add_argument("--passes", default="grad-sync", help="par-opt's pipeline (default: %(default)s)")
    parser.add_argument("--pairs", type=int, default=25, help="steps of each kind (default: %(default)s)")
    parser.add_argument("--rank", type=int, help="of this process, 0 or 1, when there are two")
    parser.add_argument("--coordinator", help="address:port where the process of rank 0 listens")
    return parser.parse_args()


if __name__ == "__main__":
    main()
