"""Compiles the programs of `make bench` with `strict=True`: is what par-opt makes of them taken for what XLA has lost?

By default for CPU, TPU and GPU targets, with keep-shards and with policy=defer. A compiler that dies is an alarm, too.
It prints a table, and what was raised; the status is 1 if anything was. All of it takes an hour on two cores.
"""

import argparse
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import simulated_devices

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = simulated_devices.flags_for(8)
sys.path.append(str(Path(__file__).resolve().parent.parent / "test"))

from bench_counts import SIZES, TARGETS
from programs.catalog import MATRIX

import paropt
from paropt.clusters import targets

PIPELINES = ("grad-sync", "grad-sync{policy=defer}")


class Case(NamedTuple):
    target: str
    passes: str
    program: str


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", nargs="+", choices=MATRIX, default=list(MATRIX), metavar="NAME")
    parser.add_argument("--targets", nargs="+", default=TARGETS, metavar="TARGET", help="(%(default)s)")
    parser.add_argument("--passes", nargs="+", default=PIPELINES, metavar="PIPELINE", help="(%(default)s)")
    options = parser.parse_args()
    alarms: dict[Case, str] = {}
    rows: list[str] = []
    for target in options.targets:
        for passes in options.passes:
            cases = [Case(target, passes, program) for program in options.programs]
            raised = {case: text for case, text in zip(cases, compiled(cases), strict=True) if text}
            rows.append(f"| {target} | {passes} | {len(cases)} | {len(raised)} |")
            alarms |= raised
    print("| target | passes | programs | alarms |", "|---|---|---|---|", *rows, sep="\n")
    for case, text in alarms.items():
        print(f"{case.program} on {case.target}, {case.passes}: {text}")
    return 1 if alarms else 0


def compiled(cases: list[Case]) -> list[str]:
    """What each case raises, "" for nothing. In a process that a compiler may end, and then in another."""
    raised: list[str] = []
    while len(raised) < len(cases):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            try:
                for text in pool.map(alarm, cases[len(raised) :]):
                    _say(cases[len(raised)], text)
                    raised.append(text)
            except BrokenProcessPool:
                raised.append("the compiler ended the process")
                _say(cases[len(raised) - 1], raised[-1])
    return raised


def alarm(case: Case) -> str:
    """What compiling the program raises, in one line; "" for nothing."""
    program = MATRIX[case.program](SIZES, targets.get(case.target).devices)
    try:
        paropt.jit(program.step, passes=case.passes, strict=True).lower(*program.args).compile()
    except Exception as error:  # whatever a pass or a compiler raises
        return f"{type(error).__name__}: {error}".partition("\n")[0]
    return ""


def _say(case: Case, text: str) -> None:
    print(*case, text or "nothing", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
