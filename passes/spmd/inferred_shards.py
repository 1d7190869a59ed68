"""Sums that the program leaves open, and that Shardy shards as what reads them after the loop: ZeRO-1.

Tests: test/passes/expose-all-reduces-inferred.mlir, test/numeric/test_sharded_optimizer_state.py.
"""

from collections.abc import Callable, Sequence
from typing import Literal

from jaxlib.mlir import ir

from paropt.passes.dataflow.engine import backward
from paropt.passes.ir.loops import WHILE, Loop, row_written_in
from paropt.passes.ir.op_table import is_tracked
from paropt.passes.sharding.axes import Axis, names_of
from paropt.passes.sharding.propagation import Propagated
from paropt.passes.support.traversal import defining_op, op_of

Inferred = Literal["kept", "stacked", "whole"]


def inferred_shards(
    sums: Sequence[ir.Value], propagated: Propagated, alone: Callable[[], Propagated | None], which: Inferred
) -> dict[ir.Value, frozenset[Axis]]:
    """The axes that shard each of `sums`, results of loops, by what reads them alone: as `alone` has it.

    `propagated` is without that, and tells whether anything asks for shards: else nothing is inferred. Of all sums, or
    of those `which` are stacked.
    """
    asked = [each for each in sums if which == "kept" or (which == "stacked" and is_stacked(each))]
    asked = [each for each in asked if propagated.wanted(op_of(each)) is not None]
    shards = alone() if asked else None
    if shards is None:
        return {}
    found: dict[ir.Value, frozenset[Axis]] = {}
    for each in asked:
        lies, before = shards.sharding_of(each), propagated.sharding_of(each)
        own = names_of(before.axes) if before is not None else frozenset[str]()
        axes = frozenset(axis for axis in lies.axes if not names_of([axis]) & own) if lies is not None else None
        if axes:
            found[each] = axes
    return found


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
