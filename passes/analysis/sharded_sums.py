"""Over which axes a program splits the sums that it accumulates, as fully sharded training does.

A sum that is left unreduced over such an axis would have to be held whole on every device.
"""

from collections import defaultdict
from collections.abc import Iterator

from jaxlib.mlir import ir

from paropt.passes.analysis.linearity import ROWS
from paropt.passes.analysis.loops import WHILE, Loop, loop_around
from paropt.passes.analysis.propagation import Propagated
from paropt.passes.analysis.shardings import is_manual, read_sharding
from paropt.passes.core.traversal import defining_op, ops_of

_CONSTRAINT = "sdy.sharding_constraint"
# Ops of the linear table that read more than one addend: behind them a value is a sum, no longer one gradient.
_JOINS = frozenset({"stablehlo.add", "stablehlo.subtract"})


def sharded_sums(module: ir.Operation, propagated: Propagated) -> dict[ir.Value, frozenset[str]]:
    """For each value that an accumulated sum is made of, the axes by which the program splits that sum; no others.

    A sum is split by an axis when the program says so in the loop that accumulates it (or before a sum outside of
    loops), or when the loop also carries a value of the same shape unchanged (the parameter) that is split by it.
    """
    found: defaultdict[ir.Value, frozenset[str]] = defaultdict(frozenset)
    for op in ops_of(module, _CONSTRAINT):
        axes = read_sharding(op.attributes["sharding"]).axes
        if axes and not is_manual(op):
            _spread(op.operands[0], axes, found, through_sums=loop_around(op.block) is not None)
    for op in ops_of(module, WHILE):
        if not is_manual(op):
            for value, axes in _like_parameters(Loop(op), propagated):
                _spread(value, axes, found, through_sums=True)
    return found


def _like_parameters(loop: Loop, propagated: Propagated) -> Iterator[tuple[ir.Value, frozenset[str]]]:
    """What the loop computes for its next trip, where a value of that shape that it only reads is split the same."""
    nexts = list(loop.next_values.operands)
    splits = [propagated.sharding_of(result) for result in loop.op.results]
    by_shape: defaultdict[str, frozenset[str]] = defaultdict(frozenset)
    for value, argument, split in zip(nexts, loop.body.arguments, splits, strict=True):
        if value == argument and split is not None:
            by_shape[_shape(value)] |= split.axes
    for value, argument, split in zip(nexts, loop.body.arguments, splits, strict=True):
        if value != argument and split is not None and split.axes & by_shape[_shape(value)]:
            yield value, split.axes & by_shape[_shape(value)]


def _shape(value: ir.Value) -> str:
    return str(ir.RankedTensorType(value.type).shape)


def _spread(
    value: ir.Value, axes: frozenset[str], found: defaultdict[ir.Value, frozenset[str]], *, through_sums: bool
) -> None:
    """Notes `axes` for all that `value` is made of by linear ops, in its loop and the loops in it."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if axes <= found[value]:
            continue
        found[value] |= axes
        op = defining_op(value)
        if op is None or is_manual(op):
            continue
        if op.name == WHILE:
            waiting.append(Loop(op).next_values.operands[ir.OpResult(value).result_number])
        elif (op.name in ROWS or op.name == "stablehlo.add") and (through_sums or op.name not in _JOINS):
            waiting += op.operands
