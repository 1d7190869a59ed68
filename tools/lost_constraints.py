"""Takes from rewritten training programs one constraint after the other: what becomes of them, and what is noticed.

The table of docs/jit.md. Each program is compiled for 8 CPU devices without one of its constraints that name unreduced
axes, without these axes, or without one that asks for a sum. Results are compared with those of the whole module. What
the executable shows is counted twice: as it is, and compared with what XLA makes of the program as it was.
"""

import argparse
import functools
import os
import random
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import simulated_devices

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = simulated_devices.flags_for(8)
sys.path.append(str(Path(__file__).resolve().parent.parent / "test"))

import jax
import numpy as np
from jaxlib.mlir import ir
from numeric import oracle
from programs.catalog import MATRIX
from programs.program import Sizes

from paropt.hlo.census import Collective, census
from paropt.hlo.participants import Layout
from paropt.passes.ir.constraints import CONSTRAINT
from paropt.passes.sharding.shardings import closed_sharding
from paropt.passes.support.context import make_context
from paropt.passes.support.traversal import defining_op, ops_of
from paropt.reports.totals import Audit
from paropt.verify.predictions import Prediction, prediction
from paropt.verify.tags import gaps, sharding_by
from paropt.verify.verification import mismatches

PROGRAMS = (
    *(f"plain_mlp_p{n}" for n in (0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 14)),
    "plain_transformer_p0",
)
WRONG, MORE, AS_BEFORE, ABORTS = (
    "wrong results",
    "right results, more reductions",
    "right results, as before",
    "XLA aborts",
)
CLOSE = 1e-3  # between sums taken in another order, relative to the largest number


class Outcome(NamedTuple):
    """What became of a program without a constraint, and whether the module or the executable shows it."""

    became: str
    gap: bool
    mismatch: bool
    alarm: bool  # the mismatch is none that XLA explains by what it does to the program as it was


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", nargs="+", choices=MATRIX, default=PROGRAMS, metavar="NAME", help="(%(default)s)")
    parser.add_argument("--most", type=int, default=48, help="modules of one program, a sample (%(default)s)")
    options = parser.parse_args()
    outcomes: list[Outcome] = []
    for name in options.programs:
        original, whole = original_and_rewritten(name)
        texts = list(_without_one(whole))
        chosen = random.Random(0).sample(texts, min(len(texts), options.most))
        outcomes += _tried(original, whole, chosen)
        print(f"{name}: {len(chosen)} of {len(texts)} modules", file=sys.stderr, flush=True)
    print(table(outcomes))


def original_and_rewritten(name: str) -> tuple[str, str]:
    program = MATRIX[name](Sizes(layers=2))
    original = str(jax.jit(program.step).lower(*program.args).compiler_ir())
    return original, oracle.optimized(original, "grad-sync")[0]


def table(outcomes: list[Outcome]) -> str:
    counts = Counter(outcome.became for outcome in outcomes)
    rows = [
        "| the program | modules | gap in the module | mismatch in the executable | alarm |",
        "|---|---|---|---|---|",
    ]
    for became in (WRONG, MORE, AS_BEFORE, ABORTS):
        alike = [outcome for outcome in outcomes if outcome.became == became]
        found = [sum(bool(outcome[column]) for outcome in alike) if became != ABORTS else "-" for column in (2, 3)]
        rows.append(
            f"| {became} | {counts[became]} | {sum(outcome.gap for outcome in alike)} | {found[0]} | {found[1]} |"
        )
    return "\n".join(rows)


def _without_one(text: str) -> Iterator[str]:
    """The module without one constraint of those that concern what is not reduced, or without its unreduced axes."""
    count = len(_constraints(_parsed(text)))
    for number in range(count):
        for lose in (_erase, _lose_axes):
            module = _parsed(text)
            constraint = _constraints(module)[number]
            if lose is _erase or sharding_by(constraint).unreduced:
                lose(constraint)
                yield str(module)


def _constraints(module: ir.Module) -> list[ir.Operation]:
    """Those that say that a value is not reduced, or ask for the sum of one that is not."""
    return [op for op in ops_of(module.operation, CONSTRAINT) if sharding_by(op).unreduced or _asks_for_sum(op)]


def _asks_for_sum(constraint: ir.Operation) -> bool:
    before = defining_op(constraint.operands[0])
    return before is not None and before.name == CONSTRAINT and bool(sharding_by(before).unreduced)


def _erase(constraint: ir.Operation) -> None:
    constraint.results[0].replace_all_uses_with(constraint.operands[0])
    constraint.erase()


def _lose_axes(constraint: ir.Operation) -> None:
    sharding = sharding_by(constraint)
    with constraint.context:
        constraint.attributes["sharding"] = closed_sharding(sharding.mesh, sharding.dimensions)


def _tried(original: str, whole: str, texts: list[str]) -> list[Outcome]:
    """In a process that XLA may abort, and then in another."""
    outcomes: list[Outcome] = []
    while len(outcomes) < len(texts):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            try:
                for outcome in pool.map(
                    _outcome, *zip(*((original, whole, text) for text in texts[len(outcomes) :]), strict=True)
                ):
                    outcomes.append(outcome)
            except BrokenProcessPool:
                outcomes.append(Outcome(ABORTS, bool(_gaps(texts[len(outcomes)])), False, False))
    return outcomes


def _outcome(original: str, whole: str, text: str) -> Outcome:
    gap = bool(_gaps(text))
    try:
        hlo = oracle.optimized_hlo(text)
    except jax.errors.JaxRuntimeError:
        return Outcome(ABORTS, gap, False, False)
    layout, predicted = _said(whole)
    collectives = census(hlo, layout)
    mismatch, alarm = (bool(mismatches(predicted, collectives, by_itself)) for by_itself in ((), _alone(original)))
    if not _is_close(oracle.results(whole), oracle.results(text)):
        return Outcome(WRONG, gap, mismatch, alarm)
    alone = census(oracle.optimized_hlo(whole), layout)
    more = Audit(collectives, None).sync_bytes > Audit(alone, None).sync_bytes
    return Outcome(MORE if more else AS_BEFORE, gap, mismatch, alarm)


@functools.cache
def _said(whole: str) -> tuple[Layout, Prediction]:
    module = _parsed(whole)
    return Layout.of_module(module), prediction(module.operation)


@functools.cache
def _alone(original: str) -> tuple[Collective, ...]:
    """What XLA makes of the program as it was."""
    return census(oracle.optimized_hlo(original), Layout.of_module(_parsed(original)))


def _is_close(want: oracle.Results, got: oracle.Results) -> bool:
    pairs = ((w, g) for result in zip(want, got, strict=True) for w, g in zip(*result, strict=True))
    return all(_near(w.astype(np.float64), g.astype(np.float64)) for w, g in pairs)


def _near(want: np.ndarray, got: np.ndarray) -> bool:
    largest = float(np.nanmax(np.abs(want), initial=1e-6))
    return bool(np.allclose(want, got, rtol=0, atol=CLOSE * largest, equal_nan=True))


def _gaps(text: str) -> list[str]:
    return gaps(_parsed(text).operation)


def _parsed(text: str) -> ir.Module:
    return ir.Module.parse(text, make_context())


if __name__ == "__main__":
    main()
