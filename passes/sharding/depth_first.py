"""The order in which XLA hands ops to Shardy, whose propagation breaks ties by order.

Tests: test/unit/passes/sharding/test_propagation.py, test/numeric/test_predicted_shardings.py.
"""

from typing import NamedTuple

from jaxlib.mlir import ir


class Sorted(NamedTuple):
    """Sorted ops."""

    ops: list[ir.Operation]  # as a walk would have found them before: inner ops before the op that holds them
    unread: list[ir.Operation]  # those of them with results of which nothing reads any


def sort_depth_first(root: ir.Operation) -> Sorted:
    """Sorts the blocks in `root` as XLA does: from the ops that nobody reads, depth first, operands in their order."""
    found = Sorted([], [])
    for region in root.regions:
        for block in region.blocks:
            _sort(block, found)
    found.ops.append(root)
    return found


def _sort(block: ir.Block, found: Sorted) -> list[ir.Value]:
    """Appends to `found`; returns the values from outside that the ops in `block` read, in order."""
    ops: list[ir.Operation] = []
    makers: dict[ir.Value, int] = {}  # the number of the op that makes a value
    read: list[list[int]] = []  # the numbers of the ops that make the operands of each op, also those in its regions
    outside: dict[ir.Value, None] = {}
    for number, view in enumerate(block.operations):
        op = view.operation
        values = list(op.operands)
        if len(regions := op.regions):
            values += [value for region in regions for inner in region.blocks for value in _sort(inner, found)]
        ops.append(op)
        made_by: list[int] = []
        for value in values:
            maker = makers.get(value)
            if maker is None:
                outside[value] = None
            else:
                made_by.append(maker)
        read.append(made_by)
        for result in op.results:
            makers[result] = number
        found.ops.append(op)
    inner_ops = {maker for mine in read for maker in mine}
    ends = [number for number in range(len(ops)) if number not in inner_ops]
    found.unread.extend(ops[end] for end in ends if len(ops[end].results))
    _move(ops, _depth_first(read, ends))
    for argument in block.arguments:
        outside.pop(argument, None)
    return list(outside)


def _depth_first(read: list[list[int]], ends: list[int]) -> list[int]:
    """The numbers of the ops, each behind those that it reads."""
    order: list[int] = []
    is_placed = [False] * len(read)
    for makers in read:
        makers.reverse()  # the first is taken from the end
    for end in ends:
        path = [end]
        while path:
            makers = read[path[-1]]
            while makers and is_placed[makers[-1]]:
                del makers[-1]
            if makers:
                path.append(makers.pop())
                continue
            number = path.pop()
            is_placed[number] = True
            order.append(number)
    return order


def _move(ops: list[ir.Operation], order: list[int]) -> None:
    """Puts `ops` into that order, in which the last one, the terminator, stays."""
    if order == list(range(len(ops))):
        return
    for number in order:
        if number != len(ops) - 1:
            ops[number].move_before(ops[-1])
