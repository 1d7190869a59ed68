"""Sums that one loop accumulates, with readers after the loop only.

Tests: test/passes/bucket-all-reduces.mlir, test/numeric/test_bucketing.py.
"""

from collections.abc import Sequence
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.ir.constants import is_zero
from paropt.passes.ir.loops import WHILE, Loop
from paropt.passes.sharding.collectives import ADD
from paropt.passes.support.remarks import Declined, require
from paropt.passes.support.traversal import defining_op, is_read_once, op_of


class LoopSums(NamedTuple):
    """Results of `loop`, each the sum of one term per trip."""

    loop: Loop
    sums: list[ir.Value]
    terms: list[ir.Value]  # in the body
    adds: list[ir.Operation]

    @property
    def positions(self) -> list[int]:
        return [ir.OpResult(value).result_number for value in self.sums]


def loop_sums(values: Sequence[ir.Value]) -> LoopSums:
    """Those of `values` that one loop accumulates, that with most of them. Declines below two."""
    found: dict[ir.Value, LoopSums] = {}  # by the loop's first result
    reason = Declined("the values of the bucket are not accumulated by one loop")
    for value in values:
        op = defining_op(value)
        if op is None or op.name != WHILE:
            continue
        try:
            require(is_read_once(value), "a sum is also read by something else", op)
            loop = found[op.results[0]].loop if op.results[0] in found else Loop(op)
            add, term = _added(loop, ir.OpResult(value).result_number)
        except Declined as declined:
            reason = declined
            continue
        sums = found.setdefault(op.results[0], LoopSums(loop, [], [], []))
        sums.sums.append(value)
        sums.terms.append(term)
        sums.adds.append(add)
    most = max(found.values(), key=lambda sums: len(sums.sums), default=None)
    if most is None or len(most.sums) < 2:
        raise reason
    return most


def _added(loop: Loop, position: int) -> tuple[ir.Operation, ir.Value]:
    """The op that adds to the loop-carried value, and its addend."""
    require(is_zero(loop.op.operands[position]), "a sum does not start from zero", loop.op)
    carried, following = loop.body.arguments[position], loop.next_values.operands[position]
    add = defining_op(following)
    reads = list(add.operands) if add is not None and add.name == ADD and add.block == loop.body else []
    alone = reads.count(carried) == 1 and is_read_once(carried) and is_read_once(following)
    unread = next(loop.condition.arguments[position].uses, None) is None
    require(alone and unread, "the loop does more with a sum than add to it", loop.op)
    return op_of(following), reads[1 - reads.index(carried)]
