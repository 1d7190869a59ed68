"""One of two processes that time a step of the gallery: `gallery_steps.py NAME --pairs 5 --rank 0 --coordinator A:P`.

XLA alone and par-opt run in turns. The first process prints JSON: seconds of each step, `alone` and `paropt`.
"""

import argparse
import importlib
import json
from typing import Any

from bench_steps import start_devices, timed
from gallery_catalog import ENTRIES, TIMED

WIDTH = 512  # of models that are measured: a step takes seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=TIMED, help="of the gallery")
    parser.add_argument("--pairs", type=int, default=5, help="steps of each kind (default: %(default)s)")
    parser.add_argument("--rank", type=int, help="of this process, 0 or 1, when there are two")
    parser.add_argument("--coordinator", help="address:port where the process of rank 0 listens")
    options = parser.parse_args()
    start_devices(options.rank, options.coordinator)
    seconds = measure(options.name, options.pairs)
    if not options.rank:
        print(json.dumps(seconds))


def measure(name: str, pairs: int) -> dict[str, list[float]]:
    """Seconds of `pairs` steps of each kind, after one of each that is not counted."""
    import jax

    import paropt

    (entry,) = (entry for entry in ENTRIES if entry.name == name)
    module, _, function = entry.make.partition(":")
    make = getattr(importlib.import_module(f"gallery_programs.{module}"), function)
    program = make(**{**entry.arguments, "width": WIDTH})
    compiled: dict[str, Any] = {}
    with program.within(program.mesh):
        for kind, passes in (("alone", ""), ("paropt", entry.passes)):
            jax.clear_caches()
            with paropt.enabled(passes):
                compiled[kind] = jax.jit(program.step).lower(*program.args).compile()
    return timed(compiled, program.args, pairs)


if __name__ == "__main__":
    main()
