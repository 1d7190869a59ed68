"""Gradients of scanned layers, added to the rows of their accumulators in the loop over layers."""

from jaxlib.mlir import ir

from paropt.passes.accumulators.row_stack import require_rows, require_unreduced, row_stack
from paropt.passes.accumulators.row_sums import Found, add_in_loop
from paropt.passes.accumulators.stack_additions import additions_of
from paropt.passes.accumulators.sum_shardings import SumShardings
from paropt.passes.ir.loops import WHILE, Loop, loop_around
from paropt.passes.ir.types import bytes_of
from paropt.passes.support.registry import register
from paropt.passes.support.remarks import Declined, Remark, applied, missed
from paropt.passes.support.traversal import ops_of

NAME = "accumulate-in-place"


@register(inlines=True)
def accumulate_in_place(module: ir.Operation) -> list[Remark]:
    """Add the gradient of each layer to its row of the accumulator, and stack none.

    Before:

        %r = while (%acc = %start) {
          %stack = while (%i = 0, %s = %zeros) {
            %g = ...
            return %i + 1, dynamic_update_slice(%s, %g, %i)
          }
          %next = add %acc, %stack
          return %next
        }

    After:

        %r = while (%acc = %start) {
          %next = while (%i = 0, %s = %acc) {
            %g = ...
            %row = add(dynamic_slice(%s, %i), %g)
            return %i + 1, dynamic_update_slice(%s, %row, %i)
          }
          return %next
        }

    A `lax.scan` over layers stacks their gradients for one micro-batch, which are added to the sums of all
    micro-batches behind it: both are held, twice the bytes of the parameters. The same additions, one row at a time,
    need the sums only.

    Legal when:

    *The stack*

    - each row is written once, by one iteration of a loop of known trip count
    - the condition of the loop does not read the stack
    - it is read for additions to accumulators only
    - it is converted, scaled, transposed or sliced row by row before it is added

    *The addition*

    - no factor, and no accumulator, depends on the loop
    - rows of sums that begin at zeros are added as they are

    *Shardings*

    - the rows are on one device each, and the accumulator is sharded as the stack is
    - the loop has no shardings of its own (they are one per loop-carried value)

    Worth it when:

    - the loop around carries the accumulator to the addition, and nothing else reads it: else it is copied
    - no reduction of its rows stays in the loop: XLA:TPU and XLA:GPU move it behind the loop, with a stack again

    The additions are the same, bit for bit; where the loop adds to rows that begin at zeros, but for the sign of zeros.

    Sources: `jax.new_ref` and gradients that are accumulated into references; buffer reuse of accumulators.
    """
    shardings = SumShardings(module)
    remarks: list[Remark] = []
    for op in reversed(ops_of(module, WHILE)):  # outer loops first: their rows are accumulators of inner ones
        loop = Loop(op)
        if loop_around(op.block) is None:
            continue
        found, declined = _found(loop, shardings)
        remarks += declined
        if found:
            remarks.append(applied(NAME, op, _done(found)))
            add_in_loop(loop, found)
            shardings.forget()
    return remarks


def _found(loop: Loop, shardings: SumShardings) -> tuple[list[Found], list[Remark]]:
    """The stacks of `loop` that may be added in it, and why others may not."""
    found: list[Found] = []
    remarks: list[Remark] = []
    for position in range(len(loop.op.results)):
        stack = row_stack(loop, position)
        try:
            additions = additions_of(stack) if stack is not None else None
            if stack is None or not additions:
                continue
            require_rows(stack)
            require_unreduced(stack)
            for addition in additions:
                shardings.require_alike(stack, addition)
        except Declined as declined:
            remarks.append(missed(NAME, loop.op, declined))
            continue
        found.append(Found(stack, additions))
    return found, remarks


def _done(found: list[Found]) -> str:
    count = sum(len(additions) for _, additions in found)
    size = sum(bytes_of(ir.RankedTensorType(stack.result.type)) for stack, _ in found)
    return f"{count} arrays are added to row by row, and no stacks of {size} bytes are held"
