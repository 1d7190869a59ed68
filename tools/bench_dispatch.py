"""What a call through `paropt.jit` costs more than one through `jax.jit`: microseconds per call, a table.

Both dispatch in jax's C++; the difference is one context switch in Python, whatever the program or its arguments.
The passes are run once, when the program is compiled; they are not measured here.
"""

import argparse
import timeit
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import paropt

PASSES = "canonicalize"  # any: what is measured does not depend on them


def interleaved(calls: list[Callable[[], Any]], repetitions: int, number: int) -> list[float]:
    """The shortest time of each call, in us. Interleaved: a busy moment of the machine hits all of them."""
    best = [float("inf")] * len(calls)
    for _ in range(repetitions):
        for i, call in enumerate(calls):
            best[i] = min(best[i], timeit.timeit(call, number=number) / number * 1e6)
    return best


def calls_of(leaves: int) -> list[Callable[[], Any]]:
    """A call on a dict of `leaves` small arrays by `jax.jit`, by `paropt.jit`, and by `jax.jit` inside `enabled`."""

    def f(arrays: dict[str, jax.Array]) -> dict[str, jax.Array]:
        return {name: array + 1 for name, array in arrays.items()}

    arrays = {f"a{i}": jnp.ones(8) for i in range(leaves)}
    plain, rewritten = jax.jit(f), paropt.jit(f, passes=PASSES)

    def inside() -> Any:
        with paropt.enabled(PASSES):
            return plain(arrays)

    calls = [lambda: plain(arrays), lambda: rewritten(arrays), inside]
    for call in calls:  # compiles
        jax.block_until_ready(call())
    return calls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=25, help="timings per cell, of which the shortest counts")
    options = parser.parse_args()
    print(f"jax {jax.__version__}, {jax.devices()[0].platform}, us per call, shortest of {options.repetitions}")
    print(f"{'':10} {'jax.jit':>9} {'paropt.jit':>11} {'more':>6} {'enabled + jax.jit':>18}")
    for leaves in (1, 10, 100):
        times = interleaved(calls_of(leaves), options.repetitions, 20_000 // leaves)
        plain, rewritten, inside = times
        name = f"{leaves} arrays" if leaves > 1 else "1 array"
        print(f"{name:10} {plain:9.2f} {rewritten:11.2f} {rewritten - plain:6.2f} {inside:18.2f}")


if __name__ == "__main__":
    main()
