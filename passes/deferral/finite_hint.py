"""Remarks on the option `finite`, for loops that multiply an update by 0 or 1, as `optax.MultiSteps` does.

Tests: test/passes/defer-sync-selects.mlir, test/numeric/test_select_to_branch.py.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.dataflow.execution_bounds import most_trips
from paropt.passes.dataflow.loop_eval import trips_of
from paropt.passes.deferral.counter_selects import MULTIPLY, selections
from paropt.passes.ir.loops import WHILE, Loop, trip_count
from paropt.passes.sharding.collectives import REDUCTIONS
from paropt.passes.support.remarks import Declined, Remark, missed
from paropt.passes.support.traversal import ops_of, parent_of


def masks_missed(loop: Loop, pass_name: str, with_option: Callable[[Loop], list[Remark]]) -> list[Remark]:
    """One remark on all that `loop` multiplies by 0 or 1, where reductions would leave it if that made branches.

    `with_option` rewrites a loop as the pass does with the option: here one in a copy of the function.
    """
    if not ops_of(loop.op, *REDUCTIONS):
        return []
    masks = _masks(loop)
    if not masks:
        return []
    moved = [remark.certificate for remark in _tried(loop, with_option) if remark.certificate is not None]
    if not moved:
        return []
    rarest = min(masks, key=lambda mask: mask.most)
    size, arrays = sum(each.bytes for each in moved), f"{len(moved)} array{'s' if len(moved) > 1 else ''}"
    text = (
        f"its factor is 0 or 1, and 1 in at most {rarest.most} of {trip_count(loop)} trips: since 0 times infinity is "
        'not 0, each trip needs the sum. passes="grad-sync{finite=true}" takes all values for finite: then '
        f"{arrays}, {size} bytes in a trip, are reduced in these trips and after the loop only. Or "
        "paropt.accumulate(compute_grad=..., apply_grad=...) calls the optimizer once, without such factors"
    )
    return [missed(pass_name, rarest.product, Declined(text))]


class _Mask(NamedTuple):
    """A product by 0 or 1, and in how many trips the factor is 1 at most."""

    product: ir.Operation
    most: int


def _masks(loop: Loop) -> list[_Mask]:
    found: list[_Mask] = []
    trips = trips_of(loop)
    for selection in selections(loop, finite=True):
        counts = (partial(_is_truth, kept_if) for kept_if in (False, True))
        mosts = [most_trips(selection.predicate, loop, trips, count) for count in counts]
        for each in (each for each in selection.selected if each.op.name == MULTIPLY):
            kept_if = each.sides[0] is None  # then it is 0 where the predicate does not hold
            most = mosts[kept_if]
            found += [] if most is None else [_Mask(each.op, most)]
    return found


def _is_truth(truth: bool, number: int) -> bool:
    return bool(number) == truth


def _tried(loop: Loop, with_option: Callable[[Loop], list[Remark]]) -> list[Remark]:
    """The remarks of `with_option` on the loop in a copy of its function, which is erased again."""
    function = loop.op
    while parent_of(function).name != "builtin.module":
        function = parent_of(function)
    place = ops_of(function, WHILE).index(loop.op)
    with ir.InsertionPoint(function):
        copy = function.clone()
    try:
        return with_option(Loop(ops_of(copy, WHILE)[place]))
    finally:
        copy.erase()
