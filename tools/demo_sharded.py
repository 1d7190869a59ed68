"""The second part of the demo: a fully sharded step by XLA alone, and by par-opt without and with memory to spend."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from bench_table import plain_table
from programs import models, plain
from programs.program import Sizes

import paropt
from paropt.audit import SYNC_KINDS, Audit

KINDS = {"jax.jit": "", "paropt.jit": "grad-sync", "policy=once": "grad-sync{policy=once}"}
STEPS = 4  # of each, of which the first warms up
TOLERANCE = 1e-5  # relative difference of new parameters after one step: sums are reassociated


@dataclass
class Sharded:
    """A step as one kind compiles it."""

    name: str
    audit: Audit
    results: list[np.ndarray[Any, Any]]
    seconds: list[float]

    @property
    def fastest(self) -> float:
        return min(self.seconds[1:])


def measure(sizes: Sizes) -> Iterator[Sharded]:
    """Scanned blocks whose parameters and gradient sums are sharded over all devices."""
    program = plain.sharded_layers(models.blocks, sizes)
    for name, passes in KINDS.items():
        step = paropt.jit(program.step, passes=passes) if passes else jax.jit(program.step)
        compiled = step.lower(*program.args).compile()
        seconds = []
        for _ in range(STEPS):
            start = time.perf_counter()
            results = jax.block_until_ready(compiled(*program.args))
            seconds.append(time.perf_counter() - start)
        arrays = [np.asarray(leaf) for leaf in jax.tree.leaves(results)]
        yield Sharded(name, paropt.audit(compiled), arrays, seconds)


def summary(found: list[Sharded]) -> str:
    """A table, and how close the results are."""
    alone = found[0]
    rows = [
        ("", *(each.name for each in found)),
        ("all-gathers per step", *(_runs(each.audit, "all-gather") for each in found)),
        ("MB sent by them", *(_megabytes(each.audit, "all-gather") for each in found)),
        ("reductions per step", *(_runs(each.audit, *SYNC_KINDS) for each in found)),
        ("MB sent by them", *(_megabytes(each.audit, *SYNC_KINDS) for each in found)),
        ("peak memory, MB per device", *(f"{(each.audit.peak_memory or 0) / 1e6:.1f}" for each in found)),
        ("step time, relative (fastest)", *(f"{each.fastest / alone.fastest:.2f}" for each in found)),
    ]
    largest = f"largest relative difference of a result: {difference(found):.1e} (allowed: {TOLERANCE:.0e})"
    return f"{plain_table(rows)}\n\n{largest}"


def difference(found: list[Sharded]) -> float:
    """The largest to the results of XLA alone, relative to the largest element of an array."""
    pairs = [(a, b) for each in found[1:] for a, b in zip(found[0].results, each.results, strict=True)]
    return float(max(np.max(np.abs(a - b)) / (np.max(np.abs(a)) or 1.0) for a, b in pairs))


def measured(found: list[Sharded]) -> dict[str, Any]:
    """For the demo's JSON."""
    return {
        each.name: {
            "sent_bytes": each.audit.total().wire,
            "all_gathers": each.audit.total("all-gather").executions,
            "reductions": each.audit.total(*SYNC_KINDS).executions,
            "peak_memory_bytes": each.audit.peak_memory,
            "step_seconds": each.seconds,
        }
        for each in found
    }


def _megabytes(audit: Audit, *kinds: str) -> str:
    total = audit.total(*kinds)
    return f"{total.bound}{total.wire / 1e6:.2f}"


def _runs(audit: Audit, *kinds: str) -> str:
    total = audit.total(*kinds)
    return f"{total.bound}{total.executions}"
