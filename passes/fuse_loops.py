"""Fusion of a loop of forward passes with the loop of their backward passes, so that no activation is kept."""

from jaxlib.mlir import ir

from paropt.passes.ir.loops import WHILE, Loop
from paropt.passes.microbatch.loop_pairs import firsts_of, pair_of
from paropt.passes.microbatch.paired_loop import fuse
from paropt.passes.support.registry import register
from paropt.passes.support.remarks import Declined, Remark, applied, missed, require
from paropt.passes.support.sources import source_of
from paropt.passes.support.traversal import ops_of

NAME = "fuse-loops"


@register(inlines=True)
def fuse_loops(module: ir.Operation) -> list[Remark]:
    """Do the backward pass of each micro-batch right after its forward pass, and not after all forward passes.

    Before:

        %f = while (%i = 0, %loss = 0, %kept = %zeros) {  // to M
          %l, %h = forward(%i)
          %n = add %loss, %l
          %k = dynamic_update_slice %kept, %h, %i
          return %i + 1, %n, %k
        }
        %b = while (%i = 0, %acc = %zero) {  // to M
          %h = dynamic_slice %f#2, M - 1 - %i
          %g = backward(%h)
          %n = add %acc, %g
          return %i + 1, %n
        }

    After:

        %f = while (%i = 0, %loss = 0, %acc = %zero) {  // to M
          %l, %h = forward(%i)
          %n = add %loss, %l
          %g = backward(%h)
          %m = add %acc, %g
          return %i + 1, %n, %m
        }

    `jax.grad` of a loss that is a sum over micro-batches has this form: the activations of all micro-batches are kept
    for their backward passes. In one loop those of one are kept. Calls are inlined first. Run it before `grad-sync`.

    Legal when:

    - neither loop has attributes, but for metadata that only hints
    - both loops count from 0 by 1 to the same constant
    - the second loop takes from the first only arrays into which each iteration writes a part of its own
    - each iteration of the second loop reads of them only what one iteration of the first wrote
    - the second loop reads the iterations of the first in their order, or in reverse
    - in reverse, the second loop carries only sums, and arrays into which each iteration writes a part of its own
    - no other live-in of the second loop depends on a result of the first
    - the loops, and ops that move with them, have no side effects

    Worth it when:

    - an array that the first loop makes is read in the second loop only

    Sums of the second loop are added up in reverse order. All other values are the same.

    Sources: loop fusion, Kennedy and McKinley, "Maximizing Loop Parallelism and Improving Data Locality via Loop Fusion
    and Distribution" (1993).
    """
    remarks: list[Remark] = []
    waiting = [Loop(op) for op in reversed(ops_of(module, WHILE))]
    while waiting:
        second = waiting.pop()
        for first in firsts_of(second):
            try:
                remark, fused = _fuse(first, second)
            except Declined as declined:
                remarks.append(missed(NAME, second.op, declined))
                continue
            remarks.append(remark)
            # It may be the second loop of another pair, and loops in it may have become one.
            waiting += [Loop(op) for op in reversed(ops_of(fused.op, WHILE))]
            break
    return list(dict.fromkeys(remarks))


def _fuse(first: Loop, second: Loop) -> tuple[Remark, Loop]:
    pair = pair_of(first, second)
    require(bool(pair.gone), "all arrays that the second loop reads are read elsewhere, too")
    done = f"fused with the loop at {source_of(first.op.location)}: "
    done += f"{len(pair.gone)} arrays of {pair.saved} bytes are no longer kept for all {pair.trips} trips"
    remark = applied(NAME, second.op, done)
    return remark, fuse(pair)
