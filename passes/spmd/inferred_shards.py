"""Sums that the program leaves open, and that Shardy shards like the values before or after the loop: ZeRO-1.

Tests: test/passes/expose-all-reduces-inferred.mlir, test/numeric/test_sharded_optimizer_state.py.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Literal, NamedTuple

from jaxlib.mlir import ir

from paropt.passes.dataflow.engine import spread
from paropt.passes.dataflow.unreduced import made_unreduced
from paropt.passes.ir.constants import is_zero
from paropt.passes.ir.constraints import CONSTRAINT
from paropt.passes.ir.loops import WHILE, loop_around
from paropt.passes.sharding.axes import Axis, names_of
from paropt.passes.sharding.propagation import Propagated, propagated_or_none
from paropt.passes.spmd.producers import Producer, producers
from paropt.passes.spmd.sharded_sums import sharded_sums, sums_said_around, whole_sums
from paropt.passes.support.remarks import Declined
from paropt.passes.support.traversal import defining_op, is_within, op_of

Inferred = Literal["kept", "whole"]
Shards = dict[ir.Value, frozenset[Axis]]


class SumShards(NamedTuple):
    """How the sums of a program are sharded: as it says, and as is inferred."""

    propagated: Propagated
    alone: Callable[[], Propagated | None]  # the shardings that XLA would infer; None where Shardy would abort
    whole: list[ir.Value]  # results of loops that their users are not to shard
    inferred: Shards  # axes that the program does not give
    says: bool  # whether the program shards any
    found: list[Producer]  # the reductions, by these shardings
    declined: list[Declined]


def sum_shards(module: ir.Operation, *, infers: bool) -> SumShards:
    """How the sums of `module` are sharded. Raises Declined where Shardy would abort.

    Without `infers`, only as the program says.
    """
    said = sharded_sums(module)
    whole = whole_sums(module, said)

    @cache
    def alone() -> Propagated | None:
        return propagated_or_none(module)

    def forward(whole: Sequence[ir.Value]) -> Propagated:
        return (not whole and alone()) or Propagated(module, forward_only=whole)

    shards = alone()
    found, declined = producers(module, shards) if shards is not None else ([], [])
    inferred = _shards_of_users(whole, shards, found) if shards is not None else None
    if shards is not None and inferred is not None and (infers or not inferred):
        propagated = shards
    else:
        propagated = forward(whole)
        found, declined = producers(module, propagated)
        inferred = _started_in_shards(whole, propagated)
        inferred |= _read_in_shards(whole, propagated, alone, _reduced_over(found)) if infers else {}
        if inferred:
            propagated = forward([result for result in whole if result not in inferred])
            found, declined = producers(module, propagated)
    whole = [result for result in whole if result not in inferred]
    around = sums_said_around(module, said) if infers and said else {}
    inferred |= _more_shards(around, propagated, _reduced_over(found))
    return SumShards(propagated, alone, whole, inferred, bool(said), found, declined)


def _shards_of_users(sums: Sequence[ir.Value], shards: Propagated, found: Iterable[Producer]) -> Shards | None:
    """The axes that shard each of `sums`, where its own producers reduce over them and only its users may ask for them.

    Empty where no sum is sharded, and so no user asks. None where something else may, which only shardings without
    the users tell.
    """
    lies = {each: shards.sharding_of(each) for each in sums}
    split = {
        each: frozenset(sharding.axes) for each, sharding in lies.items() if sharding is not None and sharding.axes
    }
    reduced: defaultdict[ir.Value, set[str]] = defaultdict(set)
    for producer in found if split else ():
        for accumulator in _only_added_up(producer.value):
            reduced[accumulator] |= names_of(producer.axes)
    return split if all(names_of(axes) <= reduced[each] for each, axes in split.items()) else None


def _only_added_up(value: ir.Value) -> list[ir.Value]:
    """The results of loops that add up `value`, from zeros; none where an op in the loops reads it otherwise."""
    ends: list[ir.Value] = []
    others: list[ir.Operation] = []

    def made_of(_: ir.Value, use: ir.OpOperand) -> list[ir.Value]:
        user = use.owner.operation
        if not is_within(user, WHILE):
            return []
        if user.name == "stablehlo.return" and (loop := loop_around(user.block)) is not None:
            ends.append(loop.op.results[use.operand_number])
            others.extend([] if is_zero(loop.op.operands[use.operand_number]) else [user])
        made = made_unreduced(use)
        others.extend([] if made else [user])
        return made

    spread({value: None}, made_of)
    return [] if others else ends


def _reduced_over(found: Iterable[Producer]) -> frozenset[str]:
    return names_of(axis for producer in found for axis in producer.axes)


def _started_in_shards(sums: Sequence[ir.Value], propagated: Propagated) -> Shards:
    """The axes that shard each of `sums` whatever reads it, as a constraint on its zeros does."""
    lies = {each: propagated.sharding_of(each) for each in sums if _starts_at_constrained_zeros(each)}
    return {each: frozenset(sharding.axes) for each, sharding in lies.items() if sharding is not None and sharding.axes}


def _starts_at_constrained_zeros(result: ir.Value) -> bool:
    start = defining_op(op_of(result).operands[ir.OpResult(result).result_number])
    return start is not None and start.name == CONSTRAINT and is_zero(start.operands[0])


def _read_in_shards(
    sums: Sequence[ir.Value],
    propagated: Propagated,
    alone: Callable[[], Propagated | None],
    reduced: frozenset[str],
) -> Shards:
    """The axes that shard each of `sums`, results of loops, by their users, as `alone` has it.

    `propagated` is without that, and tells whether any user asks for shards: else nothing is inferred. Axes outside
    `reduced` are left out: they would shard the computation in the loop.
    """
    loops = dict.fromkeys(map(op_of, sums))
    asking = {loop for loop in loops if propagated.wanted(loop) is not None}
    asked = [each for each in sums if op_of(each) in asking]
    before = {each: propagated.sharding_of(each) for each in asked}
    shards = alone() if asked else None
    known = {each: frozenset(lies.axes if lies else ()) for each, lies in before.items()}
    return _more_shards(known, shards, reduced) if shards is not None else {}


def _more_shards(sums: Mapping[ir.Value, frozenset[Axis]], shards: Propagated, reduced: frozenset[str]) -> Shards:
    """The axes that shard each of `sums` by its users, such as a state over more axes, beside those here."""
    found: Shards = {}
    for each, known in sums.items():
        lies = shards.sharding_of(each)
        axes = frozenset(axis for axis in lies.axes if not names_of([axis]) & names_of(known)) if lies else None
        if axes and names_of(axes) & reduced:
            found[each] = axes
    return found
