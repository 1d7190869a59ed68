"""The order in which XLA hands ops to Shardy, whose propagation breaks ties by order.

Tests: test/unit/test_propagation.py, test/numeric/test_as_xla_splits.py.
"""

from jaxlib.mlir import ir


def sort_depth_first(root: ir.Operation) -> list[ir.Operation]:
    """Sorts the blocks in `root` as XLA does: from the ops that nobody reads, depth first, operands in their order.

    Returns the ops as a walk would have found them before: inner ops before the op that holds them, `root` last.
    """
    found: list[ir.Operation] = []
    for region in root.regions:
        for block in region.blocks:
            _sort(block, found)
    return [*found, root]


def _sort(block: ir.Block, found: list[ir.Operation]) -> list[ir.Value]:
    """Appends to `found`; returns what the ops in `block` read from outside of it, in order."""
    ops: list[ir.Operation] = []
    makers: dict[ir.Value, int] = {}  # the number of the op that makes a value
    read: list[list[int]] = []  # the numbers of the ops that make what each op reads, directly or in its regions
    outside: dict[ir.Value, None] = {}
    for number, op in enumerate(view.operation for view in block.operations):
        values = list(op.operands)
        if len(regions := op.regions):
            values += [value for region in regions for inner in region.blocks for value in _sort(inner, found)]
        found.append(op)
        ops.append(op)
        mine: list[int] = []
        for value in values:
            if (maker := makers.get(value)) is not None:
                mine.append(maker)
            else:
                outside[value] = None
        read.append(mine)
        for result in op.results:
            makers[result] = number
    _move(ops, _depth_first(read))
    for argument in block.arguments:
        outside.pop(argument, None)
    return list(outside)


def _depth_first(read: list[list[int]]) -> list[int]:
    """The numbers of the ops, each behind those that it reads."""
    order: dict[int, None] = {}
    inner = {maker for makers in read for maker in makers}
    for end in range(len(read)):
        path = [(end, iter(read[end]))] if end not in inner else []
        while path:
            number, rest = path[-1]
            for maker in rest:
                if maker not in order:
                    path.append((maker, iter(read[maker])))
                    break
            else:
                order[number] = None
                path.pop()
    return list(order)


def _move(ops: list[ir.Operation], order: list[int]) -> None:
    """Puts `ops` into that order, in which the last one, the terminator, stays."""
    for number in order:
        if number != len(ops) - 1:
            ops[number].move_before(ops[-1])
