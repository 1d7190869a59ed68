"""Edits of shardings of arguments, results and values.

Tests: test/passes/annotate-shardings.mlir, test/passes/annotate-contract.mlir.
"""

from collections.abc import Sequence

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from paropt.passes.ir.loops import WHILE, Loop, loop_around
from paropt.passes.ir.types import bytes_of, widens
from paropt.passes.sharding.explicit_ops import constrained
from paropt.passes.state.alike_shardings import Placements
from paropt.passes.support.traversal import defining_op


def sharding_attribute(mesh: str, dimensions: Sequence[Sequence[str]], context: ir.Context) -> ir.Attribute:
    """An `sdy.sharding` on the mesh of this name, each dimension cut by these axes."""
    cuts = [", ".join(_quoted(axis, context) for axis in axes) for axes in dimensions]
    listed = ", ".join(f"{{{cut}}}" for cut in cuts)
    return ir.Attribute.parse(f"#sdy.sharding<{ir.FlatSymbolRefAttr.get(mesh, context)}, [{listed}]>", context)


def constrain_sum(
    loop: Loop, position: int, sharding: ir.Attribute, placements: Placements, *, also_after: bool
) -> None:
    """Shards a loop-carried value, from its first value to its users, where nothing says how it is sharded. Users
    behind the loop have no say in how the loop carries it. `also_after`: they read it so sharded, too.
    """
    start, following = loop.op.operands[position], loop.next_values.operands[position]
    for reader, operand, value in ((loop.op, position, start), (loop.next_values, position, following)):
        if placements.of_value(value) is None:
            with ir.InsertionPoint(reader), reader.location:
                reader.operands[operand] = constrained(value, sharding)
    if placements.of_sum(loop, position) is None:
        result = loop.op.results[position]
        readers = [(use.owner.operation, use.operand_number) for use in result.uses]
        with ir.InsertionPoint.after(loop.op), loop.op.location:
            behind = constrained(result, sharding) if also_after else _stop_backward(result)
        for reader, operand in readers:
            reader.operands[operand] = behind


def _stop_backward(result: ir.Value) -> ir.Value:
    return sdy.PropagationBarrierOp(result, int(sdy.PropagationDirection.FORWARD)).result


Cuts = Sequence[Sequence[str]]  # the axes that cut each dimension


def gather_at_uses(value: ir.Value, dimensions: Cuts, mesh: str) -> int:
    """Every op that reads `value` in a loop reads it cut like that; of layers in one array, one at a time is gathered.

    Where a loop converts it, or a layer of it, to a narrower type first, the result of that is gathered, which is fewer
    bytes.

    Returns the number of values that are gathered.
    """
    count, readers = 0, list[ir.OpOperand]()
    for use in value.uses:
        op, position = use.owner.operation, use.operand_number
        if op.name == WHILE:
            loop = Loop(op)
            if loop.next_values.operands[position] == loop.body.arguments[position]:
                count += gather_at_uses(loop.body.arguments[position], dimensions, mesh)
        elif op.name == "stablehlo.dynamic_slice" and not dimensions[0]:
            for read, cuts in _cheapest_reads(op.results[0], dimensions):
                count += _gather(read, list(read.uses), cuts, mesh, keeps=True)
        elif loop_around(op.block) is not None and _narrows(op):
            count += _gather(op.results[0], list(op.results[0].uses), dimensions, mesh, keeps=True)
        elif loop_around(op.block) is not None and op.name != "stablehlo.return":
            readers.append(use)
    return count + _gather(value, readers, dimensions, mesh)


def _cheapest_reads(layer: ir.Value, dimensions: Cuts) -> list[tuple[ir.Value, Cuts]]:
    """`layer`, or the values in a narrower type that its readers make of it, if these are fewer bytes together."""
    narrowed = _narrowed(layer, dimensions) or []
    size = sum(bytes_of(ir.RankedTensorType(value.type)) for value, _ in narrowed)
    return narrowed if 0 < size < bytes_of(ir.RankedTensorType(layer.type)) else [(layer, dimensions)]


def _narrowed(layer: ir.Value, dimensions: Cuts) -> list[tuple[ir.Value, Cuts]] | None:
    """The values in a narrower type, and their cuts, that all readers of `layer` make of it; None where one does not.

    In front of them it may lose its dimension of layers, and pass the barrier before a forward pass computed again.
    """
    found: list[tuple[ir.Value, Cuts]] = []
    for use in layer.uses:
        op, position = use.owner.operation, use.operand_number
        further: list[tuple[ir.Value, Cuts]] | None = None
        if _narrows(op):
            further = [(op.results[0], dimensions)]
        elif op.name == "stablehlo.optimization_barrier":
            further = _narrowed(op.results[position], dimensions)
        elif op.name == "stablehlo.reshape" and _drops_layers(op):
            further = _narrowed(op.results[0], dimensions[1:])
        if further is None:
            return None
        found += further
    return found


def _drops_layers(reshape: ir.Operation) -> bool:
    before, after = (list(ir.RankedTensorType(each.type).shape) for each in (reshape.operands[0], reshape.results[0]))
    return before == [1, *after]


def _narrows(op: ir.Operation) -> bool:
    if op.name != "stablehlo.convert":
        return False
    source, target = (ir.RankedTensorType(value.type).element_type for value in (op.operands[0], op.results[0]))
    return source != target and widens(target, source)


def _gather(
    value: ir.Value, readers: Sequence[ir.OpOperand], dimensions: Cuts, mesh: str, *, keeps: bool = False
) -> int:
    """`keeps`: Shardy is to leave `value` as it is, and not to have the op that makes it make it whole."""
    if not readers:
        return 0
    places = [(use.owner.operation, use.operand_number) for use in readers]
    op = defining_op(value)
    block = ir.BlockArgument(value).owner if op is None else op.block
    point = ir.InsertionPoint.after(op) if op is not None else ir.InsertionPoint.at_block_begin(block)
    with point, places[0][0].location:
        kept = _stop_backward(value) if keeps else value
        whole = constrained(kept, sharding_attribute(mesh, dimensions, value.context))
    for reader, position in places:
        reader.operands[position] = whole
    return 1


def _quoted(axis: str, context: ir.Context) -> str:
    return str(sdy.AxisRefAttr.get(axis, context=context)).removeprefix("#sdy<axis_ref").removesuffix(">")
