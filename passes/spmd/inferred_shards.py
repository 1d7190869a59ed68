"""Sums that the program leaves open, and that Shardy shards as what reads them after the loop: ZeRO-1.

Tests: test/passes/expose-all-reduces-inferred.mlir, test/numeric/test_sharded_optimizer_state.py.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Literal, NamedTuple

from jaxlib.mlir import ir

from paropt.passes.dataflow.engine import backward
from paropt.passes.ir.loops import WHILE, Loop, row_written_in
from paropt.passes.ir.op_table import is_tracked
from paropt.passes.sharding.axes import Axis, names_of
from paropt.passes.sharding.propagation import Propagated
from paropt.passes.spmd.sharded_sums import sharded_sums, sums_like_parameters, whole_sums
from paropt.passes.support.remarks import Declined
from paropt.passes.support.traversal import defining_op, op_of

Inferred = Literal["kept", "stacked", "whole"]
Shards = dict[ir.Value, frozenset[Axis]]


class SumShards(NamedTuple):
    """How the sums of a program are sharded: by what it says, and by what is inferred."""

    propagated: Propagated
    alone: Callable[[], Propagated | None]  # the shardings that XLA would infer; None where Shardy would abort
    whole: list[ir.Value]  # results of loops that what reads them is not to shard
    alike: Shards  # sums that the program shards only as parameters of their shape
    inferred: Shards  # what else shards sums
    says: bool  # whether the program shards any

    def held_whole(self) -> Shards:
        """Sums that the compiler alone would shard over these axes, too."""
        left = {each: axes for each, axes in self.alike.items() if each not in self.inferred}
        held = inferred_shards(self.whole, self.propagated, self.alone, "kept")
        return held | _inferred_beside(left, self.alone, "kept")


def sum_shards(module: ir.Operation, which: Inferred) -> SumShards:
    """How the sums of `module` are sharded, where `which` are inferred. Raises Declined where Shardy would abort."""
    said = sharded_sums(module)
    whole = whole_sums(module, said)
    alike = sums_like_parameters(module) if said else {}

    @cache
    def alone() -> Propagated | None:
        try:
            return Propagated(module)
        except Declined:  # compilation shows that
            return None

    propagated = Propagated(module, forward_only=whole)
    inferred = inferred_shards(whole, propagated, alone, which)
    if inferred:
        whole = [result for result in whole if result not in inferred]
        propagated = Propagated(module, forward_only=whole)
    inferred |= _inferred_beside(alike, alone, which)
    return SumShards(propagated, alone, whole, alike, inferred, bool(said))


def inferred_shards(
    sums: Sequence[ir.Value], propagated: Propagated, alone: Callable[[], Propagated | None], which: Inferred
) -> Shards:
    """The axes that shard each of `sums`, results of loops, by what reads them alone: as `alone` has it.

    `propagated` is without that, and tells whether anything asks for shards: else nothing is inferred. Of all sums, or
    of those `which` are stacked.
    """
    asked = [each for each in sums if which == "kept" or (which == "stacked" and is_stacked(each))]
    asked = [each for each in asked if propagated.wanted(op_of(each)) is not None]
    shards = alone() if asked else None
    if shards is None:
        return {}
    found: Shards = {}
    for each in asked:
        lies, before = shards.sharding_of(each), propagated.sharding_of(each)
        own = names_of(before.axes) if before is not None else frozenset[str]()
        axes = frozenset(axis for axis in lies.axes if not names_of([axis]) & own) if lies is not None else None
        if axes:
            found[each] = axes
    return found


def _inferred_beside(
    sums: Mapping[ir.Value, frozenset[Axis]], alone: Callable[[], Propagated | None], which: Inferred
) -> Shards:
    """The axes that shard each of `sums` beside those that the program splits it over, as parameters: as what reads it,
    a state over more axes than these, would have it."""
    asked = [each for each in sums if which == "kept" or (which == "stacked" and is_stacked(each))]
    shards = alone() if asked else None
    if shards is None:
        return {}
    lies = {each: shards.sharding_of(each) for each in asked}
    beside = {
        each: frozenset(axis for axis in sharding.axes if not names_of([axis]) & names_of(sums[each]))
        for each, sharding in lies.items()
        if sharding is not None
    }
    return {each: axes for each, axes in beside.items() if axes}


def is_stacked(result: ir.Value) -> bool:
    """Whether a loop in the loop of `result`, as one over layers, makes what is added up: gradients, row by row.

    The compiler reduces each row into its shard there. Held whole, these rows are there as well as their sum. Where
    layers are written out, it has the whole gradients of several at once anyway.
    """
    return any(row_written_in(value) is not None for value in backward([result], _terms))


def _terms(value: ir.Value) -> Sequence[ir.Value]:
    op = defining_op(value)
    if op is not None and op.name == WHILE:
        return [Loop(op).next_values.operands[ir.OpResult(value).result_number]]
    return op.operands if op is not None and is_tracked(op) else ()
