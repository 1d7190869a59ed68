"""Equivalent ops of a block: the same ops on the same values. XLA merges them.

Tests: test/passes/merge-repeated-ops.mlir, test/passes/defer-sync-duplicates.mlir.
"""

from collections import defaultdict

from jaxlib.mlir import ir

from paropt.passes.dataflow.op_comparison import is_same
from paropt.passes.dataflow.side_effects import is_repeatable
from paropt.passes.ir.barriers import BARRIER
from paropt.passes.ir.row_index import DYNAMIC_SLICE, UPDATE, as_copied
from paropt.passes.sharding.collectives import REDUCTIONS
from paropt.passes.support.traversal import defining_op, reads


def twins(block: ir.Block) -> dict[ir.Value, ir.Value]:
    """For each result of an op of `block` that an op before it computes, too: the result of that one."""
    first: dict[ir.Value, ir.Value] = {}
    known: defaultdict[tuple[object, ...], list[ir.Operation]] = defaultdict(list)
    for op in (view.operation for view in block.operations):
        if op.name == BARRIER or not (op.name in REDUCTIONS or is_repeatable(op)):
            continue  # values behind a barrier are to be computed again
        alike = known[(op.name, *(first.get(value, value) for value in reads(op)))]
        twin = next((each for each in alike if is_same(each, op)), None)
        if twin is None:
            alike.append(op)
        else:
            first |= zip(op.results, twin.results, strict=True)
    return first


def writes_back(value: ir.Value, array: ir.Value, block: ir.Block) -> bool:
    """Whether an op of `block` makes `value` of `array` by writing a part of it back, as it was read."""
    op = defining_op(value)
    if op is None or op.name != UPDATE or op.operands[0] != array:
        return False
    read = defining_op(as_copied(op.operands[1]))
    if read is None or read.name != DYNAMIC_SLICE or read.operands[0] != array:
        return False
    first = twins(block) if read.results[0].type == op.operands[1].type else None
    places = zip(list(read.operands)[1:], list(op.operands)[2:], strict=True)
    return first is not None and all(first.get(one, one) == first.get(other, other) for one, other in places)
