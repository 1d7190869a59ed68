"""The last iteration of a counted loop, peeled off.

Tests: test/passes/peel-last-sync.mlir, test/numeric/test_loop_peeling.py.
"""

from collections.abc import Mapping

from jaxlib.mlir import ir

from paropt.passes.ir.loops import Loop
from paropt.passes.support.traversal import op_of


def peel_last(loop: Loop) -> None:
    """Makes one trip fewer in the loop and the last one after it; `trip_count` must know how many there are."""
    op, end = loop.op, loop.next_values
    readers = [[(use.owner.operation, use.operand_number) for use in result.uses] for result in op.results]
    values: dict[ir.Value, ir.Value] = dict(zip(loop.body.arguments, op.results, strict=True))
    ops = [each.operation for each in loop.body.operations]
    with ir.InsertionPoint.after(op):
        for each in ops[:-1]:
            copy = each.clone()
            for i, operand in enumerate(each.operands):
                copy.operands[i] = values.get(operand, operand)
            recapture(copy, values)
            values.update(zip(each.results, copy.results, strict=True))
    for reading, last in zip(readers, end.operands, strict=True):
        for reader, number in reading:
            reader.operands[number] = values.get(last, last)
    _stop_earlier(loop)


def recapture(op: ir.Operation, values: Mapping[ir.Value, ir.Value]) -> None:
    """Lets the regions of `op` read other values from outside."""
    for region in op.regions:
        for block in region:
            for inner in block.operations:
                for i, operand in enumerate(inner.operation.operands):
                    if operand in values:
                        inner.operation.operands[i] = values[operand]
                recapture(inner.operation, values)


def _stop_earlier(loop: Loop) -> None:
    """Makes the loop end one trip before it did."""
    counting = loop.counting
    assert counting is not None, "the pass asks first"
    test = op_of(loop.predicate)
    tensor = ir.RankedTensorType(test.operands[1].type)
    bound = ir.IntegerAttr.get(tensor.element_type, counting.bound - counting.step)
    with ir.InsertionPoint(test), test.location:
        value = ir.DenseElementsAttr.get_splat(tensor, bound)
        new = ir.Operation.create("stablehlo.constant", results=[tensor], attributes={"value": value})
    test.operands[1] = new.results[0]
