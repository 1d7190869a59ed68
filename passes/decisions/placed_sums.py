"""Where each sum of a step is reduced: over which axes once, and which reduce_scatters are written.

Tests: test/passes/expose-all-reduces-outermost.mlir, test/numeric/test_sharded_optimizer_state.py.
"""

from collections import defaultdict
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.decisions.step_sums import StepSums
from paropt.passes.decisions.sum_decisions import reduced_once_over, stays_sharded_over, why_sharded
from paropt.passes.deferral.policy import Policy
from paropt.passes.deferral.sharded_sum_costs import steps_of, sums_of, why_beside, with_rows_gathered
from paropt.passes.deferral.sharded_sum_scatters import (
    Scatters,
    held_where_sunk,
    require_fewer_bytes,
    room_for_sums,
    scattering_of,
    written,
)
from paropt.passes.sharding.axes import Axes, names_of
from paropt.passes.spmd.global_form import Scattering
from paropt.passes.spmd.producers import Producer
from paropt.passes.support.remarks import Declined

Kept = dict[ir.Value, frozenset[str]]


class PlacedSum(NamedTuple):
    """A sum, and the reductions of it that are written."""

    producer: Producer
    moved: Axes = ()  # the axes over which it is reduced once
    scattering: Scattering | None = None  # written: over the axes that shard it
    declined: tuple[Declined, ...] = ()  # why no axis is reduced once, or not all
    stays: bool = False  # whether a reduce_scatter is left to the compiler

    @property
    def is_written(self) -> bool:
        return bool(self.moved) or self.scattering is not None


class Bought(NamedTuple):
    """A sum that a budget holds whole over some axes, or does not."""

    parts: list[Producer]
    saved: int  # bytes per device and step
    held: int  # bytes per device
    declined: Declined | None


def kept_axes(sums: StepSums, policy: Policy) -> Kept:
    """By producer, the axes over which its sum stays sharded, but for those that a budget pays for."""
    allowed = frozenset(policy.axes)
    return {each.value: stays_sharded_over(sums.record(each), policy.name, allowed) for each in sums.found}


def bought(sums: StepSums, kept: Kept, policy: Policy) -> tuple[list[Bought], Kept]:
    """The sums that a budget of `policy` holds whole, or does not; and `kept` without the axes along which it does."""
    if not policy.has_budget:
        return [], kept
    carried = sums_of(producer for producer in sums.found if kept[producer.value])
    steps = [step for parts in carried for step in steps_of(parts, kept[parts[0].value], sums.propagated, policy)]
    decided = policy.chosen([(step.reduction, step.cost) for step in steps])
    found, left = list[Bought](), dict(kept)
    for (parts, axes, reduction, cost), declined in zip(steps, decided, strict=True):
        found.append(Bought(parts, cost.saved, cost.held, declined))
        if declined is None:
            policy.take_sum(reduction, cost)
            left |= {producer.value: left[producer.value] - axes for producer in parts}
    return found, left


def placed_sums(
    module: ir.Operation, sums: StepSums, kept: Kept, policy: Policy, scatters: Scatters
) -> list[PlacedSum]:
    """The place of each sum that stays sharded over the axes `kept`, in program order."""
    gradients: defaultdict[frozenset[str], set[ir.Value]] = defaultdict(set)
    found = [with_rows_gathered(producer, kept[producer.value], sums.propagated) for producer in sums.found]
    scatterings = [scattering_of(module, each, kept[each.value], sums.propagated, gradients) for each in found]
    fits = held_where_sunk(found, scatterings) <= room_for_sums(module)
    placed = [
        _placed(sums, producer, scattering, kept[producer.value], policy, scatters, fits=fits)
        for producer, scattering in zip(found, scatterings, strict=True)
    ]
    staying = [each.producer for each in placed if each.stays]
    return [_beside(each, staying, leaves_little=scatters == "outermost") for each in placed]


def _placed(
    sums: StepSums,
    producer: Producer,
    scattering: Scattering | None,
    kept: frozenset[str],
    policy: Policy,
    scatters: Scatters,
    *,
    fits: bool,
) -> PlacedSum:
    try:
        names = reduced_once_over(sums.record(producer), kept, policy.name, frozenset(policy.axes))
        require_fewer_bytes(scatters, producer, scattering)
    except Declined as reason:
        alone = written(scatters, producer, scattering, (), fits=fits)
        return PlacedSum(producer, (), alone, (reason,), stays=alone is None and scattering is not None)
    moved = tuple(axis for axis in producer.axes if names_of([axis]) <= names)
    sharded = sums.record(producer).shards & kept
    declined = (Declined(why_sharded(sharded)),) if sharded else ()
    return PlacedSum(producer, moved, written(scatters, producer, scattering, moved, fits=fits), declined)


def _beside(each: PlacedSum, staying: list[Producer], *, leaves_little: bool) -> PlacedSum:
    """`each`, but where it had better stay in its loop with those `staying`."""
    why = why_beside(each.producer, staying, leaves_little=leaves_little) if each.is_written else ""
    return PlacedSum(each.producer, declined=(*each.declined, Declined(why))) if why else each
