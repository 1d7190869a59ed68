"""Copies of ops that read other values."""

from collections.abc import Iterable, Mapping

from jaxlib.mlir import ir

from paropt.passes.core.peel import recapture
from paropt.passes.core.traversal import captured, op_of


class Copies:
    """What stands for values in another place: `values`, copies of ops, and copies of the constants that these read."""

    def __init__(self, values: Mapping[ir.Value, ir.Value]) -> None:
        self._values = dict(values)

    def of(self, value: ir.Value) -> ir.Value:
        """What stands for `value`; if nothing does, a copy of the constant that it is, at the insertion point."""
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
