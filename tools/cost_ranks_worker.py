"""Estimates and measures one executable: a program of the tests, its width, and a pipeline.

Prints JSON: `estimated`, seconds, and `measured`, the seconds of each step. With --rank and --coordinator it is one of
two processes with 4 devices each, as bench_steps.py; the devices of a process are then a host of the estimate.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from bench_steps import DEVICES, PROCESSES, start_devices
from bench_times import RATE

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "test"))

BITS_PER_BYTE = 8


def main() -> None:
    options = _options()
    start_devices(options.rank, options.coordinator)
    told = measure(options.program, options.width, options.passes, options.steps, is_slow=options.rank is not None)
    if not options.rank:
        print(json.dumps(told))


def measure(name: str, width: int, passes: str, steps: int, *, is_slow: bool) -> dict[str, Any]:
    """The estimate, and seconds of `steps` steps after one that is not counted."""
    import jax
    from programs.catalog import LAYERS, MATRIX
    from programs.program import Sizes

    import paropt
    from paropt.costs import estimate

    program = (MATRIX | LAYERS)[name](Sizes(width=width, examples=64))
    step = paropt.jit(program.step, passes=passes, strict=True) if passes else jax.jit(program.step)
    compiled = step.lower(*program.args).compile()
    found = estimate(compiled.as_text() or "", cluster(is_slow=is_slow))
    seconds = []
    for number in range(steps + 1):
        start = time.perf_counter()
        jax.block_until_ready(compiled(*program.args))
        if number:
            seconds.append(time.perf_counter() - start)
    return {"estimated": found.seconds, "measured": seconds}


def cluster(*, is_slow: bool) -> Any:
    """8 CPU devices: of one process, or of two, joined by a link of the rate that all devices of a process share."""
    import dataclasses

    from paropt.costs import cluster_of, read_table
    from paropt.costs.clusters import Unit

    found = cluster_of(f"cpu:{DEVICES}", read_table())
    if not is_slow:
        return found
    bits = float(RATE.removesuffix("gbit")) * 1e9
    (memory,) = found.machine.links
    inner = dataclasses.replace(memory, within="host")
    per_device = bits / BITS_PER_BYTE / (DEVICES // PROCESSES)
    outer = dataclasses.replace(memory, name="link", bandwidth=per_device, latency=100e-6, source=f"{RATE}, shared")
    units = tuple(Unit(device // (DEVICES // PROCESSES), 0) for device in range(DEVICES))
    return dataclasses.replace(found, machine=dataclasses.replace(found.machine, links=(inner, outer)), units=units)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="a name of test/programs/catalog.py, such as blocks_p17")
    parser.add_argument("--width", type=int, default=128, help="(%(default)s)")
    parser.add_argument("--passes", default="", help="par-opt's pipeline; empty: XLA alone")
    parser.add_argument("--steps", type=int, default=15, help="(%(default)s)")
    parser.add_argument("--rank", type=int, help="of this process, 0 or 1, when there are two")
    parser.add_argument("--coordinator", help="address:port where the process of rank 0 listens")
    return parser.parse_args()


if __name__ == "__main__":
    main()
