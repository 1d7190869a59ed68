"""Measures what a pass costs on a large module in which it finds nothing, against parse + verify + print.

Usage: bench_overhead.py [--ops 100000] [--repeat 5]. Prints a row per pass: seconds and the share of the base.
"""

import argparse
import functools
import gc
import time
from collections.abc import Callable

from jaxlib.mlir import ir

import paropt.passes  # noqa: F401  registers every pass
from paropt.passes.support.context import make_context
from paropt.passes.support.registry import PASSES

LAYER = """
  %a{i} = stablehlo.dot %h{p}, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %b{i} = stablehlo.tanh %a{i} : tensor<8x8xf32>
  %c{i} = stablehlo.multiply %b{i}, %h{p} : tensor<8x8xf32>
  %d{i} = stablehlo.transpose %c{i}, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %h{i} = stablehlo.add %d{i}, %h{p} : tensor<8x8xf32>"""


def module_text(ops: int) -> str:
    """A program of `ops` ops in one block, without collectives, loops or calls."""
    layers = "".join(LAYER.format(i=i, p=i - 1) for i in range(1, ops // 5 + 1))
    signature = "(%h0: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32>"
    return f"func.func public @main{signature} {{{layers}\n  return %h{ops // 5} : tensor<8x8xf32>\n}}\n"


# Nothing to find is no question for a pass that does what its rules say.
WITH_RULES = frozenset({"annotate-shardings", "split-mesh-axis", "split-microbatches"})


def best_of(repeat: int, run: Callable[[], object]) -> float:
    """The shortest of `repeat` runs, in seconds: what disturbs a run only makes it longer."""
    times = []
    for _ in range(repeat):
        gc.collect()
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def measure(ops: int, repeat: int) -> tuple[float, dict[str, float]]:
    """Seconds of parse + verify + print, and of each pass alone."""
    text, context = module_text(ops), make_context()
    module = ir.Module.parse(text, context)

    def base() -> None:
        parsed = ir.Module.parse(text, context)
        assert parsed.operation.verify()
        parsed.operation.get_asm(assume_verified=True)

    return best_of(repeat, base), {
        name: best_of(repeat, functools.partial(declared.run, module.operation))
        for name, declared in PASSES.items()
        if name not in WITH_RULES
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", type=int, default=100_000, help="ops in the module (default: %(default)s)")
    parser.add_argument(
        "--repeat", type=int, default=5, help="runs, of which the shortest counts (default: %(default)s)"
    )
    options = parser.parse_args()
    base, passes = measure(options.ops, options.repeat)
    print(f"{'parse + verify + print':24} {base:8.4f} s")
    for name, seconds in passes.items():
        print(f"{name:24} {seconds:8.4f} s  {100 * seconds / base:5.2f} %")


if __name__ == "__main__":
    main()
