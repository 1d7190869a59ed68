"""Copies of ops that read other values.

Tests: test/passes/outline-accumulation.mlir.
"""

from collections.abc import Iterable, Mapping, Sequence

from jaxlib.mlir import ir

from paropt.passes.ir.loops import Loop, start_of
from paropt.passes.outline.stages import needed
from paropt.passes.rewrite.peel import recapture
from paropt.passes.support.traversal import captured, op_of


class Copies:
    """The replacements of values in another place: `values`, copies of ops, and copies of the constants that these
    read."""

    def __init__(self, values: Mapping[ir.Value, ir.Value]) -> None:
        self._values = dict(values)

    def of(self, value: ir.Value) -> ir.Value:
        """The replacement of `value`; if there is none, a copy of the constant that it is, at the insertion point."""
        if value not in self._values and (start := start_of(value)) is not None:
            return self.of(start)  # a constant that the loop carries
        if value not in self._values:
            self.copy(op_of(value))
        return self._values[value]

    def copy(self, op: ir.Operation) -> None:
        """Copies `op` to the insertion point."""
        operands = [self.of(operand) for operand in op.operands]
        if len(op.regions):
            for value in captured(op):
                self.of(value)
        new = op.clone()
        for i, operand in enumerate(operands):
            new.operands[i] = operand
        recapture(new, self._values)
        self._values.update(zip(op.results, new.results, strict=True))

    def copy_all(self, ops: Iterable[ir.Operation]) -> None:
        for op in ops:
            self.copy(op)


def loop_like(loop: Loop, counter: int, starts: Sequence[ir.Value]) -> Loop:
    """A loop that counts as `loop` does, and carries `starts` around the counter; its body is empty."""
    operands = [*starts[:counter], Copies({}).of(loop.op.operands[counter]), *starts[counter:]]
    types = [operand.type for operand in operands]
    new = ir.Operation.create(loop.op.name, results=types, operands=operands, regions=2)
    condition, _ = (region.blocks.append(*types) for region in new.regions)
    with ir.InsertionPoint(condition):
        copies = Copies({loop.condition.arguments[counter]: condition.arguments[counter]})
        copies.copy_all(needed([op.operation for op in loop.condition.operations], [loop.predicate]))
        ir.Operation.create("stablehlo.return", operands=[copies.of(loop.predicate)])
    return Loop(new)
