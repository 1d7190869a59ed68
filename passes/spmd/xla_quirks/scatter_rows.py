"""Has a scatter that adds to a sum add to zeros instead, so that its updates make a sum of their own, to be reduced
later:

%c1 = scatter %c, %i, %x   ->   %s = scatter %zeros, %i, %x
                                %c1 = add %c, %s

The partitioner reduces the former in each trip, for `%c` is on all devices; so `counts.at[labels].add(1)` is written.
Nor can `%c` be unreduced: where the rows are sharded, XLA drops all addends of `%c` but those of one device.

Target: CPU.
Measured with: jaxlib 0.10.2; 0.12.0.1.
Reproducer: test/numeric/test_xla_quirks.py::test_xla_still_does_it.

Tests: test/passes/separate-reductions-scatters.mlir, test/numeric/test_user_programs.py.
"""

from collections.abc import Iterator

from jaxlib.mlir import ir

from paropt.passes.ir.constants import is_zero
from paropt.passes.ir.induction_variable import create
from paropt.passes.ir.loops import loop_around
from paropt.passes.ir.types import is_number, tensor_of
from paropt.passes.rewrite.erase import erase_unread
from paropt.passes.rewrite.residual_split import neutral
from paropt.passes.sharding.collectives import ADD, combiner_of
from paropt.passes.sharding.propagation import Propagated, propagated_or_none
from paropt.passes.sharding.shardings import is_manual
from paropt.passes.spmd.producers import SCATTER, producer_of
from paropt.passes.support.remarks import Declined
from paropt.passes.support.traversal import defining_op, is_read_once, op_of, ops_of


def rows_apart(module: ir.Operation) -> list[ir.Operation]:
    """The scatters that add to zeros now: of rows that devices have to reduce, to a sum that nothing else reads."""
    apart = list(_accumulating(module))
    for op in apart:
        _take_apart(op)
    kept = _reduced(module, apart) if apart else []
    for op in apart:
        if op not in kept:
            _join(op)
    return kept


def _accumulating(module: ir.Operation) -> Iterator[ir.Operation]:
    for op in ops_of(module, SCATTER):
        if _adds(op) and not is_zero(op.operands[0]) and not is_manual(op) and _is_accumulated(op):
            yield op


def _adds(op: ir.Operation) -> bool:
    plain = op.name == SCATTER and combiner_of(op) == ADD
    tensor = tensor_of(op.results[0]) if plain else None
    return tensor is not None and is_number(tensor.element_type)


def _is_accumulated(op: ir.Operation) -> bool:
    """Whether scatters, one after the other, add to zeros, or to a loop-carried value, and only the last one is
    read."""
    first = _start(op)
    if is_zero(first):
        return True
    loop = loop_around(op.block)
    if loop is None or first.owner != loop.body or not is_read_once(first):
        return False
    number = ir.BlockArgument(first).arg_number
    last = _end(op)
    is_tested = next(loop.condition.arguments[number].uses, None) is not None
    return is_read_once(last) and last == loop.next_values.operands[number] and not is_tested


def _start(op: ir.Operation) -> ir.Value:
    """The operand of the first of the scatters that add to each other, up to `op`."""
    first = op.operands[0]
    while (before := defining_op(first)) is not None and _adds(before) and is_read_once(first):
        first = before.operands[0]
    return first


def _end(op: ir.Operation) -> ir.Value:
    """The result of the last of the scatters that add to each other, from `op` on."""
    last = op.results[0]
    while is_read_once(last) and _adds(after := next(last.uses).owner.operation):
        last = after.results[0]
    return last


def _take_apart(op: ir.Operation) -> None:
    result, old = op.results[0], op.operands[0]
    with ir.InsertionPoint(op), op.location:
        op.operands[0] = neutral(result.type)
    with ir.InsertionPoint.after(op), op.location:
        total = create(ADD, result.type, old, result)
    result.replace_all_uses_except(total, op_of(total))


def _join(op: ir.Operation) -> None:
    zeros, add = op.operands[0], next(op.results[0].uses).owner.operation
    op.operands[0] = add.operands[0]
    add.results[0].replace_all_uses_with(op.results[0])
    add.erase()
    erase_unread([zeros])


def _reduced(module: ir.Operation, scatters: list[ir.Operation]) -> list[ir.Operation]:
    """Those after which the partitioner reduces, and leaves that to us."""
    propagated = propagated_or_none(module)
    return [op for op in scatters if _is_reduced(op, propagated)] if propagated is not None else []


def _is_reduced(op: ir.Operation, propagated: Propagated) -> bool:
    try:
        return producer_of(op, propagated) is not None
    except Declined:
        return False
