"""Sums of terms that are reduced and then moved alike: slices at an index of each device, transposed shards.

A reduction may not be done after an op that takes other elements on each device. But where all terms of a sum are cut
alike, the sum may be taken first, then reduced, then cut: `cut(sum(x)) + cut(sum(y)) = cut(sum(x + y))`.

Tests: test/passes/fuse-all-reduces-moved.mlir, test/numeric/test_shard_map_loops.py.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.dataflow.equivalent_ops import twins
from paropt.passes.dataflow.linearity import is_mover
from paropt.passes.dataflow.partial_values import BlockFacts, PartialValues
from paropt.passes.ir.types import bytes_of
from paropt.passes.sharding.collectives import Moved
from paropt.passes.support.traversal import is_read_once, op_of


class MovedSums(NamedTuple):
    """The values that may be left unreduced, of those that are all moved in the same way after their reduction."""

    values: PartialValues  # the sources are the results of the ops that move others
    read: PartialValues  # the operands of these ops
    before: "MovedSums | None"  # if that is moved itself


def moved_sums(found: list[PartialValues], facts: BlockFacts) -> list[MovedSums]:
    """The sums of values moved after a reduction, the partial ones being `found`; and of values moved again."""
    known: dict[ir.Value, ir.Value] | None = None
    sums: list[MovedSums] = []
    todo: list[tuple[PartialValues, MovedSums | None]] = [(each, None) for each in found]
    for read, before in todo:  # which grows
        moves = [op for op in map(op_of, read.stopped) if is_mover(op) and _may_follow(op, read)]
        if known is None and any(len(op.operands) > 1 for op in moves):
            known = twins(facts.block)
        by_kind: dict[Moved, list[ir.Value]] = {}
        for op in moves:
            by_kind.setdefault(_moved(op, known or {}), []).append(op.results[0])
        for kind, results in by_kind.items():
            reduction = read.reduction._replace(moved=(*read.reduction.moved, kind))
            sums.append(MovedSums(facts.partial_values(reduction, results), read, before))
            todo.append((sums[-1].values, sums[-1]))
    return sums


def before_moves(used: Sequence[ir.Value], sums: MovedSums | None, *, deep: bool = True) -> list[ir.Value]:
    """The partial values that the sources `used` of `sums` are made of, in program order; if `deep`, back to the first
    reductions.
    """
    if sums is None:
        return []
    members = frozenset(each for value in used for each in sums.read.made_of(op_of(value).operands[0]))
    order = [value for value in sums.read.values if value in members]
    return order + before_moves([v for v in order if sums.read.is_source(v)], sums.before) if deep else order


def reduced_for(value: ir.Value, sums: MovedSums | None) -> list[ir.Value]:
    """The results of reductions that the source `value` of `sums` is made of."""
    if sums is None:
        return [value]
    made_of = sums.read.made_of(op_of(value).operands[0])
    return [each for source in made_of if sums.read.is_source(source) for each in reduced_for(source, sums.before)]


def _may_follow(op: ir.Operation, values: PartialValues) -> bool:
    """Whether `op` moves a partial value that is at most as large as its sources, where all values that it is made of
    have one user each."""
    value = op.operands[0]
    members = values.made_of(value) if not values.reduction.is_global else []
    sources = sum(bytes_of(ir.RankedTensorType(each.type)) for each in members if values.is_source(each))
    alone = all(is_read_once(each) for each in members)
    return bool(members) and alone and bytes_of(ir.RankedTensorType(value.type)) <= sources


def _moved(op: ir.Operation, known: Mapping[ir.Value, ir.Value]) -> Moved:
    """The move that `op` does, with equivalent operands replaced by the first of them."""
    attributes = " ".join(f"{name}={op.attributes[name]}" for name in sorted(op.attributes.keys()))
    others = tuple(known.get(value, value) for value in list(op.operands)[1:])
    return Moved(op.name, attributes, others, (op.operands[0].type, op.results[0].type))
