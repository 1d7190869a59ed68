"""The ops of `expose-all-reduces`, in components without a common value: each may be reverted alone.

Found by where unreduced values may go, before `dataflow/unreduced.py` proves of a component that they do.

Tests: test/passes/annotate-unreduced-reductions.mlir, test/numeric/test_shard_map_regions.py.
"""

from collections.abc import Iterator
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.dataflow.engine import forward
from paropt.passes.dataflow.unreduced import made_unreduced
from paropt.passes.support.disjoint_sets import connected


class Exposed(NamedTuple):
    """Ops that stand or go together."""

    sources: list[ir.Operation]  # constraints that say an unreduced value
    all_reduces: list[ir.Operation]
    reduce_scatters: list[ir.Operation]

    @property
    def ops(self) -> list[ir.Operation]:
        """Those that ask for a sum come first."""
        return [*self.all_reduces, *self.reduce_scatters, *self.sources]


def apart(exposed: Exposed) -> list[Exposed]:
    """`exposed` in parts, in the order of their first sources."""
    reached = {number: list(_reached(source)) for number, source in enumerate(exposed.sources)}
    groups = connected(list(reached), reached)
    group_of = {value: g for g, group in enumerate(groups) for number in group for value in reached[number]}
    if any(op.operands[0] not in group_of for op in (*exposed.all_reduces, *exposed.reduce_scatters)):
        return [exposed]  # an op in between hides that they belong together
    parts = [Exposed([exposed.sources[number] for number in group], [], []) for group in groups]
    for op in exposed.all_reduces:
        parts[group_of[op.operands[0]]].all_reduces.append(op)
    for op in exposed.reduce_scatters:
        parts[group_of[op.operands[0]]].reduce_scatters.append(op)
    return parts


def _reached(source: ir.Operation) -> Iterator[ir.Value]:
    """The values computed from the sum that `source` exposes, as far as they may be while it is unreduced."""
    yield source.operands[0]  # of another source, when a reduce_scatter leaves it to reduce
    yield from forward([source.results[0]], lambda use: made_unreduced(use, on_condition=True))
