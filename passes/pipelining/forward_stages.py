"""The stages of forward ops: where the sequence of these is cut.

Tests: test/passes/cut-stages.mlir, test/unit/passes/test_cut_stages.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.pipelining.cut_points import Costs, cut_points
from paropt.passes.pipelining.layer_names import layer_starts
from paropt.passes.pipelining.op_costs import flops_of, value_bytes
from paropt.passes.pipelining.phases import Phases
from paropt.passes.pipelining.recomputed_ops import recomputing_flops
from paropt.passes.pipelining.step_loop import StepLoop, from_arguments
from paropt.passes.support.remarks import require
from paropt.passes.support.sources import source_of

_BACKWARD = 2  # floating-point operations of the backward pass for one of the forward pass


class Weights(NamedTuple):
    """The criteria by which a cut is chosen."""

    by_names: bool
    flops_per_byte: int
    most_bytes: int  # of parameters, of a stage; 0: no limit
    recompute: bool  # whether values that are cheaper to compute again are not sent


@dataclass(frozen=True)
class Cut:
    """The stages of the forward ops, by op number."""

    stage: dict[int, int]
    by_names: bool  # whether cuts are between layers that names tell
    without_parameters: list[int]  # stages of which no cut gives each some


def forward_cut(step: StepLoop, phases: Phases, stages: int, weights: Weights) -> Cut:
    """Raises Declined where there is no such cut."""
    ops = phases.forward
    require(len(ops) >= stages, f"{len(ops)} forward ops are too few for {stages} stages", step.loop.op)
    costs = _costs(step, phases, weights)
    scopes = [source_of(step.body.ops[n].location).scope for n in ops]
    starts = layer_starts(scopes, stages) if weights.by_names else []
    # A stage without parameters may be the cheapest, where sending costs most, and would leave its devices idle.
    of_each = replace(costs, least_memory=1)
    points = cut_points(of_each, stages, starts) or cut_points(costs, stages, starts) if starts else None
    named = points is not None
    if points is None:
        points = cut_points(of_each, stages, range(len(ops))) or cut_points(costs, stages, range(len(ops)))
    why = f"no cut into {stages} stages has at most {weights.most_bytes} bytes of parameters in each"
    require(points is not None, why, step.loop.op)
    assert points is not None
    spans = pairwise((0, *points, len(ops)))
    empty = [stage for stage, (start, end) in enumerate(spans) if not sum(costs.memory[start:end])]
    stage = {n: sum(position >= point for point in points) for position, n in enumerate(ops)}
    _sink(step, phases, stage)
    return Cut(stage, named, empty)


def _costs(step: StepLoop, phases: Phases, weights: Weights) -> Costs:
    """In floating-point operations; a byte that is sent costs as much as some of them."""
    ops, place = phases.forward, {n: i for i, n in enumerate(phases.forward)}
    work = [float((1 + _BACKWARD) * flops_of(step.body.ops[n])) for n in ops]
    crossing = [0.0] * (len(ops) + 1)
    again = recomputing_flops(step, phases) if weights.recompute else {}
    for n in ops:
        for value in step.body.ops[n].results:
            last = max((place[m] for m in phases.through.readers(value) if m in place), default=place[n])
            cost = weights.flops_per_byte * value_bytes(value)
            cost = min(cost, again[n]) if n in again else 2 * cost  # there, and its cotangent back
            for position in range(place[n] + 1, last + 1):
                crossing[position] += cost
    memory = [0.0] * len(ops)
    for parameter, n in _first_reads(step, phases).items():
        memory[place[n]] += value_bytes(parameter)
    return Costs(work, crossing, memory, float(weights.most_bytes) if weights.most_bytes else float("inf"))


def _first_reads(step: StepLoop, phases: Phases) -> dict[ir.Value, int]:
    """The values computed from arguments of the step that forward ops read, each with the first op that reads it."""
    given, found = from_arguments(step), dict[ir.Value, int]()
    for n in phases.forward:
        for value in phases.through.sources(n):
            if value in given:
                found.setdefault(value, n)
    return found


def _sink(step: StepLoop, phases: Phases, stage: dict[int, int]) -> None:
    """Moves ops that are made of constants only, such as masks, to the first stage that reads them."""
    given, maker = from_arguments(step), phases.through.graph.maker
    for n in reversed(phases.forward):
        if not any(value in given or value in maker for value in phases.through.sources(n)):
            stage[n] = min(_stages_reading(phases, stage, n), default=stage[n])


def _stages_reading(phases: Phases, stage: dict[int, int], n: int) -> Sequence[int]:
    """The stages of the ops that read results of op `n`, of those with a stage."""
    results = phases.through.graph.ops[n].results
    return [stage[m] for value in results for m in phases.through.readers(value) if m in stage]
