"""One reduction in place of several, where the last of them stands.

Tests: test/passes/bucket-all-reduces.mlir, test/numeric/test_bucketing.py.
"""

from collections.abc import Sequence
from math import prod

from jaxlib.mlir import ir

from paropt.passes.reductions.loop_sums import LoopSums
from paropt.passes.rewrite.loop_edits import carry, rebuilt, uncarry
from paropt.passes.rewrite.residual_split import neutral
from paropt.passes.sharding.collectives import ADD, REDUCE_SCATTER


def merge_variadic(ops: Sequence[ir.Operation]) -> None:
    """One all_reduce of all arrays; `ops` are read no more."""
    last = ops[-1]
    operands = [operand for op in ops for operand in op.operands]
    merged = _like(last, operands, [operand.type for operand in operands])
    results = iter(merged.results)
    for op in ops:
        for old in op.results:
            old.replace_all_uses_with(next(results))


def merge_contiguous(ops: Sequence[ir.Operation], sums: LoopSums | None = None) -> None:
    """One reduction of one array that is made of all; `ops` are read no more.

    With `sums`, their operands, a new loop accumulates that one array; the old one has `ops` as its only users.
    """
    flat = set(sums.sums) if sums is not None else set()
    members = [(op, i) for op in ops for i in range(len(op.operands))]
    first = [(op, i) for op, i in members if op.operands[i] in flat]
    others = [(op, i) for op, i in members if op.operands[i] not in flat]
    with ir.InsertionPoint(ops[-1]), ops[-1].location:
        parts = _scattered_over(ops[-1])
        rows = [_flat_sum(sums, [op for op, _ in first])] if sums is not None else []
        rows += [_row(op.operands[i], op, parts) for op, i in others]  # read after the loop was replaced
        whole = _joined(rows)
        tensor = ir.RankedTensorType(whole.type)
        shape = [*([1] if parts else []), tensor.shape[-1]]
        merged = _like(ops[-1], [whole], [ir.RankedTensorType.get(shape, tensor.element_type)], scatter=0)
        begin = 0
        for op, i in first + others:
            old = op.results[i]
            size = prod(ir.RankedTensorType(old.type).shape)
            old.replace_all_uses_with(_cut(merged.results[0], begin, size, ir.RankedTensorType(old.type)))
            begin += size


def _joined(rows: Sequence[ir.Value]) -> ir.Value:
    """One array of all, side by side in the last dimension, at the insertion point."""
    if len(rows) == 1:
        return rows[0]
    *lead, _ = ir.RankedTensorType(rows[0].type).shape
    size = sum(ir.RankedTensorType(row.type).shape[-1] for row in rows)
    element = ir.RankedTensorType(rows[0].type).element_type
    return _create("concatenate", rows, [*lead, size], element, dimension=_i64(len(lead)))


def _flat_sum(sums: LoopSums, ops: Sequence[ir.Operation]) -> ir.Value:
    """The result of a loop that carries `sums`, which `ops` reduce, in one array. Those still read the old loop."""
    loop, gone = sums.loop, set(sums.positions)
    with ir.InsertionPoint(loop.next_values), sums.adds[0].location:
        term = _joined([_row(value, op, _scattered_over(op)) for value, op in zip(sums.terms, ops, strict=True)])
        total = ir.Operation.create(ADD, results=[term.type], operands=[carry(loop, term.type), term]).results[0]
    with ir.InsertionPoint(loop.op), loop.op.location:
        zero = neutral(term.type)
    kept = [i for i in range(len(loop.op.operands)) if i not in gone]
    starts = [*(loop.op.operands[i] for i in kept), zero]
    nexts = [*(loop.next_values.operands[i] for i in kept), total]
    ends = loop.next_values  # reads the sums until it is replaced
    for position, add in zip(sums.positions, sums.adds, strict=True):
        ends.operands[position] = loop.op.operands[position]
        add.erase()
    for position in sorted(gone, reverse=True):
        uncarry(loop, position)
    new = rebuilt(loop, starts, nexts)
    for i, result in zip(kept, new.op.results, strict=False):
        loop.op.results[i].replace_all_uses_with(result)
    return new.op.results[len(kept)]


def _scattered_over(op: ir.Operation) -> int:
    """Over how many devices a reduce_scatter scatters; 0 for an all_reduce."""
    if op.name != REDUCE_SCATTER:
        return 0
    dimension = ir.IntegerAttr(op.attributes["scatter_dimension"]).value
    before, after = (ir.RankedTensorType(value.type).shape[dimension] for value in (op.operands[0], op.results[0]))
    return int(before // after)


def _row(value: ir.Value, op: ir.Operation, parts: int) -> ir.Value:
    """`value` in one dimension; for a reduce_scatter, in two, the first of which has each device's shard."""
    tensor = ir.RankedTensorType(value.type)
    shape, element = list(tensor.shape), tensor.element_type
    if not parts:
        return _reshaped(value, [prod(shape)])
    dimension = ir.IntegerAttr(op.attributes["scatter_dimension"]).value
    apart = [*shape[:dimension], parts, shape[dimension] // parts, *shape[dimension + 1 :]]
    order = [dimension, *(i for i in range(len(apart)) if i != dimension)]
    value = _reshaped(value, apart)
    if order != sorted(order):
        permutation = ir.DenseI64ArrayAttr.get(order)
        value = _create("transpose", [value], [apart[i] for i in order], element, permutation=permutation)
    return _reshaped(value, [parts, prod(shape) // parts])


def _cut(merged: ir.Value, begin: int, size: int, tensor: ir.RankedTensorType) -> ir.Value:
    """`size` elements of the last dimension of `merged`, from `begin` on, as a `tensor`."""
    lead = [1] * (ir.RankedTensorType(merged.type).rank - 1)
    array = ir.DenseI64ArrayAttr.get
    part = _create(
        "slice",
        [merged],
        [*lead, size],
        tensor.element_type,
        start_indices=array([0] * len(lead) + [begin]),
        limit_indices=array([*lead, begin + size]),
        strides=array([1] * (len(lead) + 1)),
    )
    return _reshaped(part, list(tensor.shape))


def _like(
    op: ir.Operation, operands: Sequence[ir.Value], results: Sequence[ir.Type], scatter: int | None = None
) -> ir.Operation:
    """A reduction of other arrays in the way of `op`, in front of it."""
    attributes = {name: op.attributes[name] for name in op.attributes}
    if scatter is not None and op.name == REDUCE_SCATTER:
        attributes["scatter_dimension"] = _i64(scatter)
    with ir.InsertionPoint(op), op.location:
        new = ir.Operation.create(
            op.name, results=list(results), operands=list(operands), attributes=attributes, regions=1
        )
        source = op.regions[0].blocks[0]
        target = new.regions[0].blocks.append(*[argument.type for argument in source.arguments])
        values = dict(zip(source.arguments, target.arguments, strict=True))
        with ir.InsertionPoint(target):
            for inner in source.operations:
                copy = inner.operation.clone()
                for i, operand in enumerate(inner.operation.operands):
                    copy.operands[i] = values[operand]
                values.update(zip(inner.operation.results, copy.results, strict=True))
    return new


def _reshaped(value: ir.Value, shape: list[int]) -> ir.Value:
    tensor = ir.RankedTensorType(value.type)
    return value if list(tensor.shape) == shape else _create("reshape", [value], shape, tensor.element_type)


def _create(
    name: str, operands: Sequence[ir.Value], shape: Sequence[int], element: ir.Type, **attributes: ir.Attribute
) -> ir.Value:
    type_ = ir.RankedTensorType.get(list(shape), element)
    return ir.Operation.create(
        f"stablehlo.{name}", results=[type_], operands=list(operands), attributes=attributes
    ).results[0]


def _i64(number: int) -> ir.IntegerAttr:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)
