"""Which values a loop computes anew in each trip. XLA takes the others out of the loop, and what reduces them."""

from jaxlib.mlir import ir

from paropt.passes.analysis.collectives import REDUCTIONS
from paropt.passes.analysis.congruence import is_repeatable, reads
from paropt.passes.analysis.constants import BARRIER
from paropt.passes.analysis.loops import Loop
from paropt.passes.analysis.shardings import unconstrained
from paropt.passes.core.traversal import defining_op


class Varying:
    """The values in the body of `loop` that may be others in each trip. Not to be kept across a rewrite."""

    def __init__(self, loop: Loop) -> None:
        self._body = loop.body
        self._nexts = list(loop.next_values.operands)
        self._known: dict[ir.Value, bool] = {}

    def __contains__(self, value: ir.Value) -> bool:
        """Looks back from `value` until something varies, which is soon found where much does."""
        readers: dict[ir.Value, ir.Value | None] = {value: None}  # for which each was looked at first
        waiting = [value]
        while waiting:
            each = waiting.pop()
            if self._known.get(each, False) or self._is_first(each):
                path: ir.Value | None = each
                while path is not None:
                    self._known[path] = True
                    path = readers[path]
                return True
            op = defining_op(each)
            if each in self._known or op is None or op.block != self._body:
                continue
            for read in reads(op):
                if read not in readers:
                    readers[read] = each
                    waiting.append(read)
        self._known |= dict.fromkeys(readers, False)
        return False

    def _is_first(self, value: ir.Value) -> bool:
        """Whether `value` varies by itself: it is carried and changes, or its op may make something else each time."""
        op = defining_op(value)
        if op is None:
            argument: ir.BlockArgument = ir.BlockArgument(value)
            return argument.owner == self._body and unconstrained(self._nexts[argument.arg_number]) != value
        once = op.name in REDUCTIONS or (is_repeatable(op) and op.name != BARRIER)
        return op.block == self._body and not once
