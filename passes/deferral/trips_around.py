"""How often the loop around a loop reduces the sums that the inner one leaves to it.

Tests: test/passes/defer-sync-nests.mlir.
"""

from paropt.passes.accumulators.stack_additions import is_added_in_place
from paropt.passes.dataflow.partial_values import BlockFacts
from paropt.passes.deferral.analysis import Deferral, deferrals
from paropt.passes.ir.loops import Loop, trip_count


def trips_around(part: Deferral, loop: Loop, facts: BlockFacts | None) -> int:
    """How often the loop around `loop` runs, where it, too, can defer the sums that `loop` leaves to it; else 1.

    `facts` are those of the loop around; None where there is none.

    Gradients of scanned layers may be reduced in a narrower type in each layer than in the accumulator of all.
    """
    if facts is None:
        return 1
    around = Loop(facts.block.owner.operation)
    results = [loop.op.results[i] for i in part.positions]
    found = deferrals(around, part.values.reduction, facts, results)
    leaving = frozenset().union(*(each.members for each in found.parts))
    trips = trip_count(around)
    return (2 if trips is None else trips) if leaving.issuperset(results) else 1


def is_held_around(part: Deferral, loop: Loop, facts: BlockFacts | None) -> bool:
    """Whether all that `part` has `loop` carry are stacks that it adds to sums of the loop around, row by row."""
    stacked = all(is_added_in_place(loop.op.results[i]) for i in part.positions)
    return stacked and trips_around(part, loop, facts) > 1
