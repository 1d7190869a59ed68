"""The last iteration of an accumulation loop, peeled off, so that reductions overlap with its computation."""

from jaxlib.mlir import ir

from paropt.passes.dataflow.engine import forward
from paropt.passes.ir.constraints import CONSTRAINT
from paropt.passes.ir.loops import WHILE, Loop, trip_count
from paropt.passes.ir.op_table import keeps_elements
from paropt.passes.rewrite.peel import peel_last
from paropt.passes.sharding.collectives import PER_DEVICE
from paropt.passes.support.registry import register
from paropt.passes.support.remarks import Declined, Remark, applied, missed, require
from paropt.passes.support.traversal import defining_op, op_of, ops_of

NAME = "peel-last-sync"
_CONCATENATE = "stablehlo.concatenate"


@register
def peel_last_sync(module: ir.Operation) -> list[Remark]:
    """Peel the last iteration off an accumulation loop, so that each sum is reduced as soon as it is complete.

    Before:

        %r = while (%i = 0, %acc = %zero) {  // to 4
          %g = dot %x, %y
          %n = add %acc, %g
          return %i + 1, %n
        }
        %s = all_reduce(%r)

    After:

        %r = while (%i = 0, %acc = %zero) {  // to 3
          %g = dot %x, %y
          %n = add %acc, %g
          return %i + 1, %n
        }
        %g = dot %x, %y
        %n = add %r, %g
        %s = all_reduce(%n)

    A loop ends when its whole last iteration is done: no reduction of its results starts before. After the loop, a
    gradient that is complete can be reduced while the others are computed. Run it after `defer-sync`, and before
    `bucket-all-reduces`.

    Legal when:

    - the loop counts from a constant by a constant to a constant

    Worth it when:

    - a reduction reads a value that the last iteration computes
    - there are at least two iterations

    Values do not change. The program grows by one iteration.

    Sources: XLA `WhileLoopPeeling` peels first trips only; PyTorch DDP's `no_sync` on all micro-batches but the last.
    """
    return [remark for op in ops_of(module, WHILE) if (remark := _peel(Loop(op))) is not None]


def _peel(loop: Loop) -> Remark | None:
    reductions = _reductions_of(loop)
    if not reductions:
        return None
    trips = trip_count(loop)
    try:
        require(trips is not None, "the trip count is not known")
        assert trips is not None
        require(trips > 1, f"the loop makes {trips} trips only")
    except Declined as declined:
        return missed(NAME, loop.op, declined)
    done = f"the last of {trips} trips is done after the loop, for {len(reductions)} reductions"
    remark = applied(NAME, loop.op, done)
    peel_last(loop)
    return remark


def _reductions_of(loop: Loop) -> list[ir.Value]:
    """The first results of the reductions after the loop that read values of the last trip."""
    pairs = zip(loop.op.results, loop.next_values.operands, strict=True)
    computed = [result for result, following in pairs if defining_op(following) is not None]
    readers = [use.owner.operation for value in forward(computed, _passed_on) for use in value.uses]
    found = dict.fromkeys(op.results[0] for op in readers if op.name in PER_DEVICE)
    return [value for value in found if op_of(value).block == loop.op.block]


def _passed_on(use: ir.OpOperand) -> list[ir.Value]:
    op = use.owner.operation
    return [op.results[0]] if _may_stand_between(op) else []


def _may_stand_between(op: ir.Operation) -> bool:
    """Whether `op` may, between the loop and a reduction: it waits for one array, or makes buckets."""
    return keeps_elements(op) or op.name == CONSTRAINT or op.name == _CONCATENATE
