"""The facts that justify a deferral, for its certificate.

Tests: test/unit/passes/support/test_certificate.py.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.dataflow.linearity import law_of
from paropt.passes.dataflow.partial_values import BlockFacts, Carried, PartialValues
from paropt.passes.deferral.analysis import Deferral
from paropt.passes.deferral.branch_reads import branch_reads, branches_to
from paropt.passes.deferral.deferral_cost import Cost
from paropt.passes.ir.branches import BRANCHES
from paropt.passes.ir.loops import WHILE, Loop, trip_count
from paropt.passes.ir.types import bytes_of
from paropt.passes.sharding.collectives import Reduction, axes_of, reduction_of
from paropt.passes.sharding.meshes import Mesh
from paropt.passes.support.certificate import Certificate, Scope, Step, Uniform, Within
from paropt.passes.support.sources import source_of
from paropt.passes.support.traversal import defining_op, module_of, parent_of

_STRUCTURE = {
    **dict.fromkeys(BRANCHES, "each branch returns a partial value, or one that is kept apart"),
    WHILE: "each trip makes a partial value of one, and what else it adds is kept apart",
}


class Site(NamedTuple):
    """A loop that reductions leave, for all their certificates. Made once, because finding it takes time."""

    loop: Loop
    meshes: tuple[Mesh, ...]
    outside: tuple[Scope, ...]  # around the loop, outermost first
    scope: Scope  # the loop itself

    @classmethod
    def of(cls, loop: Loop, meshes: tuple[Mesh, ...]) -> "Site":
        return cls(loop, meshes, _scopes(loop.op, module_of(loop.op)), _scope(loop.op))


def certificate_of(op: ir.Operation, part: Deferral, cost: Cost, facts: BlockFacts, site: Site) -> Certificate:
    """For the reduction `op` of `part`, before it leaves its loop."""
    moved = [result for result in op.results if result in part.members]
    moves = Moves(sum(cost.inside[result] for result in moved), cost.runs[moved[0]], sum(cost.after))
    uniform = _uniform(op, part, site.loop, facts)
    made = _certificate(op, part.values.reduction, moves, site, _chain(part, facts), uniform)
    within = [Within(b.branch.name, source_of(b.branch.location), b.size, b.runs) for b in cost.within]
    return made._replace(branches=tuple(dict.fromkeys(within)))


def peel_certificate(op: ir.Operation, branch: ir.Operation, site: Site) -> Certificate:
    """For the reduction `op` in `branch`, which runs in the last trip only, before it follows the loop."""
    size = sum(bytes_of(ir.RankedTensorType(operand.type)) for operand in op.operands)
    why = f"computed for each of {trip_count(site.loop)} trips: only the last one takes the branch"
    fact = Uniform("a predicate", branch.name, source_of(branch.location), why)
    return _certificate(op, reduction_of(op), Moves(size, 1, size), site, (), (fact,))


class Moves(NamedTuple):
    """Bytes per device in the loop, how often, and after it."""

    inside: int
    runs: int | None
    after: int


def _certificate(
    op: ir.Operation,
    reduction: Reduction,
    moves: Moves,
    site: Site,
    chain: tuple[Step, ...],
    uniform: tuple[Uniform, ...],
) -> Certificate:
    return Certificate(
        form="global" if reduction.is_global else "manual",
        kind=reduction.kind,
        combiner=reduction.combiner,
        element_type=str(ir.RankedTensorType(op.results[0].type).element_type),
        bytes=moves.inside,
        runs=moves.runs,
        bytes_after=moves.after,
        groups=reduction.groups,
        axes=axes_of(reduction, site.meshes),
        source=source_of(op.location),
        moved_from=(*site.outside, site.scope, *_scopes(op, site.loop.op)),
        moved_to=site.outside,
        chain=chain,
        uniform=uniform,
        branches=(),
    )


def _scopes(op: ir.Operation, within: ir.Operation) -> tuple[Scope, ...]:
    """The loops and branches in `within` around `op`, outermost first."""
    found: list[Scope] = []
    while (parent := parent_of(op)) != within:
        op = parent
        if op.name == WHILE or op.name in BRANCHES:
            found.append(_scope(op))
    return tuple(reversed(found))


def _scope(op: ir.Operation) -> Scope:
    return Scope(op.name, source_of(op.location), trip_count(Loop(op)) if op.name == WHILE else None)


def _chain(part: Deferral, facts: BlockFacts) -> tuple[Step, ...]:
    return tuple(_steps(part.values, part.order, facts))


def _steps(values: PartialValues, order: Sequence[ir.Value], facts: BlockFacts) -> Iterator[Step]:
    """The ops that cross the reduction; those in the trips of a loop follow the loop."""
    between = [value for value in order if defining_op(value) is not None and not values.is_source(value)]
    members = frozenset(order)
    for op in facts.in_order(between):
        law = _STRUCTURE[op.name] if op.name in _STRUCTURE else law_of(op, values.reduction)
        yield Step(op.name, source_of(op.location), law)
        for carried in _carried([result for result in op.results if result in members], values):
            yield from _steps(carried.values, carried.order, carried.facts)


def _carried(order: Iterable[ir.Value], values: PartialValues) -> Iterator[Carried]:
    """The loop-carried values that some of the values `order` are made of."""
    for value in order:
        carried = values.values[value].carried
        if carried is not None:
            yield carried


def _uniform(op: ir.Operation, part: Deferral, loop: Loop, facts: BlockFacts) -> tuple[Uniform, ...]:
    """The values that had to be uniform: for ops of the chain, for the branches around `op`, and for the loop."""
    if part.values.reduction.is_global:
        return ()  # a value of a global-view program is one value
    readers = [loop.op, *facts.in_order(part.order)]
    readers += [
        b for read in branch_reads(part.values, part.order, loop.body) for b in branches_to(read.block, loop.body)
    ]
    while op.block != loop.body:
        op = parent_of(op)
        readers.append(op)
    found = [fact for reader in readers for fact in facts.uniform_in(reader, part.values.reduction)]
    return tuple(dict.fromkeys([*found, *_uniform_within(part.values, part.order)]))


def _uniform_within(values: PartialValues, order: Sequence[ir.Value]) -> Iterator[Uniform]:
    """The values that had to be uniform in loops that carry some of the values `order`."""
    for carried in _carried(order, values):
        readers = [carried.facts.block.owner.operation, *carried.facts.in_order(carried.order)]
        for reader in readers:
            yield from carried.facts.uniform_in(reader, values.reduction)
        yield from _uniform_within(carried.values, carried.order)
