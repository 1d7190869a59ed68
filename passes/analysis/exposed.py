"""What `expose-all-reduces` has written, in parts that have no value in common: one may stay without another."""

from collections.abc import Iterator
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.analysis.branches import is_end
from paropt.passes.analysis.collectives import GLOBAL_REDUCE_SCATTER
from paropt.passes.analysis.followed import ROWS as FOLLOWED
from paropt.passes.analysis.linearity import TRACKED
from paropt.passes.analysis.loops import WHILE, Loop, loop_around
from paropt.passes.core.traversal import parent_of


class Exposed(NamedTuple):
    """Ops that stand or go together."""

    sources: list[ir.Operation]  # constraints that say what is not reduced
    all_reduces: list[ir.Operation]
    reduce_scatters: list[ir.Operation]

    @property
    def ops(self) -> list[ir.Operation]:
        """Those that ask for a sum come first."""
        return [*self.all_reduces, *self.reduce_scatters, *self.sources]


def apart(exposed: Exposed) -> list[Exposed]:
    """`exposed` in parts, in the order of their first sources."""
    leaders = list(range(len(exposed.sources)))

    def leader_of(i: int) -> int:
        while leaders[i] != i:
            i = leaders[i]
        return i

    first: dict[ir.Value, int] = {}  # the source that reaches a value
    for number, source in enumerate(exposed.sources):
        for value in _reached(source):
            one, other = sorted((leader_of(number), leader_of(first.setdefault(value, number))))
            leaders[other] = one
    if any(op.operands[0] not in first for op in (*exposed.all_reduces, *exposed.reduce_scatters)):
        return [exposed]  # an op in between hides what belongs together
    parts = {leader: Exposed([], [], []) for leader in dict.fromkeys(map(leader_of, range(len(leaders))))}
    for number, source in enumerate(exposed.sources):
        parts[leader_of(number)].sources.append(source)
    for op in exposed.all_reduces:
        parts[leader_of(first[op.operands[0]])].all_reduces.append(op)
    for op in exposed.reduce_scatters:
        parts[leader_of(first[op.operands[0]])].reduce_scatters.append(op)
    return list(parts.values())


def _reached(source: ir.Operation) -> Iterator[ir.Value]:
    """What is made of the sum that `source` exposes, as far as something may be made of it while it is not reduced."""
    yield source.operands[0]  # of another source, when it is what a reduce_scatter leaves to reduce
    waiting: list[ir.Value] = [source.results[0]]
    seen = set(waiting)
    while waiting:
        value = waiting.pop()
        yield value
        made = [result for use in value.uses for result in _made_by(use)]
        waiting += [result for result in dict.fromkeys(made) if result not in seen]
        seen.update(made)


def _made_by(use: ir.OpOperand) -> list[ir.Value]:
    op, position = use.owner.operation, use.operand_number
    if op.name == WHILE:
        return [Loop(op).body.arguments[position], op.results[position]]
    if is_end(op):
        return [parent_of(op).results[position]]
    if op.name == "stablehlo.return" and (loop := loop_around(op.block)) is not None:
        return [loop.body.arguments[position], loop.op.results[position]]
    passes = op.name in TRACKED or op.name in FOLLOWED or op.name == GLOBAL_REDUCE_SCATTER
    return list(op.results) if passes else []
