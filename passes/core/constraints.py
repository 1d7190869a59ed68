"""Edits that say how values are sharded."""

from collections.abc import Sequence

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from paropt.passes.analysis.contract import Placements
from paropt.passes.analysis.loops import Loop
from paropt.passes.core.global_form import constrained
from paropt.passes.core.traversal import op_of


def sharding_attribute(mesh: str, dimensions: Sequence[Sequence[str]], context: ir.Context) -> ir.Attribute:
    """An `sdy.sharding` on the mesh of this name, each dimension cut by these axes."""
    cuts = [", ".join(_quoted(axis, context) for axis in axes) for axes in dimensions]
    listed = ", ".join(f"{{{cut}}}" for cut in cuts)
    return ir.Attribute.parse(f"#sdy.sharding<{ir.FlatSymbolRefAttr.get(mesh, context)}, [{listed}]>", context)


def constrain_sum(loop: Loop, position: int, sharding: ir.Attribute, placements: Placements) -> None:
    """Shards a carried value, from its first value to what is made of it, where nothing says how it is sharded."""
    start, following = loop.op.operands[position], loop.next_values.operands[position]
    for reader, operand, value in ((loop.op, position, start), (loop.next_values, position, following)):
        if placements.of_value(value) is None:
            with ir.InsertionPoint(reader), reader.location:
                reader.operands[operand] = constrained(value, sharding)
    if placements.of_sum(loop, position) is None:
        _constrain_result(loop.op.results[position], sharding)


def _constrain_result(result: ir.Value, sharding: ir.Attribute) -> None:
    """Else what reads the sum would have a say in how the loop carries it."""
    readers = [(use.owner.operation, use.operand_number) for use in result.uses]
    loop = op_of(result)
    with ir.InsertionPoint.after(loop), loop.location:
        alike = constrained(result, sharding)
    for reader, operand in readers:
        reader.operands[operand] = alike


def _quoted(axis: str, context: ir.Context) -> str:
    return str(sdy.AxisRefAttr.get(axis, context=context)).removeprefix("#sdy<axis_ref").removesuffix(">")
