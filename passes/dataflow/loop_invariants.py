"""Loop-invariant values. XLA hoists them out of the loop, with their reductions."""

from collections.abc import Iterator

from jaxlib.mlir import ir

from paropt.passes.dataflow.engine import exhaust, post_order
from paropt.passes.dataflow.side_effects import is_repeatable
from paropt.passes.ir.barriers import BARRIER
from paropt.passes.ir.constraints import unconstrained
from paropt.passes.ir.loops import Loop
from paropt.passes.sharding.collectives import REDUCTIONS
from paropt.passes.support.traversal import defining_op, op_of, reads


class Varying:
    """The values in the body of `loop` that may not be loop-invariant. Not to be kept across a rewrite."""

    def __init__(self, loop: Loop) -> None:
        self._body = loop.body
        self._nexts = list(loop.next_values.operands)
        self._known: dict[ir.Value, bool] = {}

    def __contains__(self, value: ir.Value) -> bool:
        """Looks back from `value` until something varies, which is soon found where much does."""
        if self._now(value) is None:
            exhaust(post_order([value], self._undecided))
        return self._known[value]

    def _undecided(self, value: ir.Value) -> Iterator[ir.Value]:
        """The values that decide whether `value` varies and have to be decided first; decides it then."""
        for read in reads(op_of(value)):
            if self._now(read) is None:
                yield read
            if self._known[read]:
                self._known[value] = True
                return
        self._known[value] = False  # nothing that it depends on varies

    def _now(self, value: ir.Value) -> bool | None:
        """Whether `value` varies, as far as it is known without its op's operands: None when these decide."""
        if value not in self._known:
            op = defining_op(value)
            if op is None:
                self._known[value] = self._is_carried(ir.BlockArgument(value))
            elif op.block != self._body:
                self._known[value] = False
            elif op.name not in REDUCTIONS and (op.name == BARRIER or not is_repeatable(op)):
                self._known[value] = True  # it may make something else each time
        return self._known.get(value)

    def _is_carried(self, argument: ir.BlockArgument) -> bool:
        return argument.owner == self._body and unconstrained(self._nexts[argument.arg_number]) != argument
