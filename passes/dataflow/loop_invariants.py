"""Which values a loop computes anew in each trip. XLA takes the others out of the loop, and what reduces them."""

from collections.abc import Iterator

from jaxlib.mlir import ir

from paropt.passes.dataflow.side_effects import is_repeatable
from paropt.passes.ir.barriers import BARRIER
from paropt.passes.ir.constraints import unconstrained
from paropt.passes.ir.loops import Loop
from paropt.passes.sharding.collectives import REDUCTIONS
from paropt.passes.support.traversal import defining_op, op_of, reads


class Varying:
    """The values in the body of `loop` that may be others in each trip. Not to be kept across a rewrite."""

    def __init__(self, loop: Loop) -> None:
        self._body = loop.body
        self._nexts = list(loop.next_values.operands)
        self._known: dict[ir.Value, bool] = {}

    def __contains__(self, value: ir.Value) -> bool:
        """Looks back from `value` until something varies, which is soon found where much does."""
        path = [] if self._now(value) is not None else [(value, self._read_by_op_of(value))]
        while path:
            each, rest = path[-1]
            read = next(rest, None)
            if read is None:  # nothing that it depends on varies
                self._known[each] = False
                path.pop()
            elif (varies := self._now(read)) is None:
                path.append((read, self._read_by_op_of(read)))
            elif varies:
                self._known |= dict.fromkeys((behind for behind, _ in path), True)
                break
        return self._known[value]

    def _now(self, value: ir.Value) -> bool | None:
        """Whether `value` varies, as far as it is known without what its op reads: None when that decides."""
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

    def _read_by_op_of(self, value: ir.Value) -> Iterator[ir.Value]:
        return iter(reads(op_of(value)))
