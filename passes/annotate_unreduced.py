"""Sharding constraints that tell XLA which values are unreduced."""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Annotated, NamedTuple

from jaxlib.mlir import ir

from paropt.passes.dataflow.unreduced import Unreduced, merged
from paropt.passes.dataflow.xla_tracking import UNEQUAL_PARTS
from paropt.passes.deferral.holding_plan import forget_taken
from paropt.passes.ir.constraints import CONSTRAINT
from paropt.passes.ir.control_flow import predecessors
from paropt.passes.ir.op_table import is_tracked_on_condition
from paropt.passes.sharding.annotations import is_source, noted_sharding, shard_bytes, wanted_sharding
from paropt.passes.sharding.axes import Axes, names_of
from paropt.passes.sharding.channels import NewChannels
from paropt.passes.sharding.collectives import GLOBAL_REDUCE_SCATTER, Reduction, global_reduction
from paropt.passes.sharding.explicit_ops import constrained
from paropt.passes.sharding.propagation import Propagated
from paropt.passes.sharding.shardings import Sharding, closed_sharding, is_even, rank_of, read_sharding, without
from paropt.passes.spmd.close_sum import Scatter, scatter_steps, scattered
from paropt.passes.spmd.exposed import Exposed, apart
from paropt.passes.spmd.global_form import (
    erase_exposed,
    erase_notes,
    global_all_reduces,
    global_reduce_scatters,
    pin_operands,
    pin_others,
    reduced_axes,
    sources,
    summed_axes,
    take_back_unmoved,
)
from paropt.passes.spmd.pin import hold, unlike_alone
from paropt.passes.spmd.region_sums import Region
from paropt.passes.spmd.shard_map_sums import Opening, open_sum, openings
from paropt.passes.spmd.xla_quirks.as_slices import has_slices, write_as_slices
from paropt.passes.spmd.xla_quirks.branch_results import in_thirds, needs_third, require_thirds, unreduced_zeros
from paropt.passes.spmd.xla_quirks.complex_numbers import is_complex_product, joined, parts_of, take_apart
from paropt.passes.spmd.xla_quirks.in_place import require_in_place
from paropt.passes.support.registry import On, register
from paropt.passes.support.remarks import Declined, Remark, applied, missed, require
from paropt.passes.support.traversal import defining_op, is_in, module_of, op_of

NAME = "annotate-unreduced"

SCATTERED = 8  # devices: of a reduce_scatter over more chips, XLA:TPU makes an all_reduce
_BROADCAST, _RESHAPE = "stablehlo.broadcast_in_dim", "stablehlo.reshape"


@register
def annotate_unreduced(
    module: ir.Operation,
    *,
    scatter_devices: Annotated[
        int,
        "Write a reduce_scatter over all devices of the mesh, if these are more than this many, as two: over groups of "
        "at most this many, and over the others; 0: as one. paropt.jit and paropt.audit take 8 for TPUs: of one over "
        "all chips of a slice of two or three dimensions, XLA:TPU makes an all_reduce, which sends twice as much.",
        On("tpu", SCATTERED),
    ] = 0,
) -> list[Remark]:
    """Write reductions that moved as sharding constraints that XLA's partitioner obeys; revert the others.

    Before:

        %u = sdy.sharding_constraint %p <@mesh, [{?}], unreduced={"data"}>
        %t = negate %u
        %v = sdy.all_reduce {"data"} %t

    After:

        %u = sdy.sharding_constraint %p <@mesh, [{}], unreduced={"data"}>
        %t = negate %u
        %w = sdy.sharding_constraint %t <@mesh, [{}], unreduced={"data"}>
        %v = sdy.sharding_constraint %w <@mesh, [{}]>

    The last stage for the reductions that `expose-all-reduces` has written. Every unreduced value is constrained, and
    beside these only the operands of the op that reduces, and the other operands of contractions and scatters on the
    way: XLA keeps its own choices for all other values.

    Where parameters are sharded, or an axis of the mesh is idle, these constraints could change the shardings that XLA
    infers: ops of which that would change the result's sharding are pinned to the one that XLA would infer alone. An
    operand that XLA all-gathers or all-to-alls for the op that reduces is gathered once for all contractions that need
    it so.

    Some ops are written in a form that XLA tracks. Zeros that are added on the way become fresh constants with
    constraints of their own. Complex numbers are multiplied and reduced part by part. Lookups and updates at one index,
    and pads that cut, become slices: XLA:TPU and XLA:GPU make slices of these themselves, and reduce their operands. An
    if, or a case of two branches, with some unreduced results becomes a case of three, the last never taken: Shardy
    aborts on such ifs, and XLA:GPU makes ifs of cases of two.

    A sum of which each device keeps a shard ends in a reduce_scatter, in an `sdy.manual_computation` that takes the
    unreduced value; other sums end in a constraint. Where devices hold other parts of that sum before, they reduce
    these and exchange them there. A manual computation that takes the sum itself returns the addend of each device.
    Where a condition fails, all reductions that share a value with this one are reverted, which leaves the program as
    it was there.

    Legal when:

    *Linearity*

    - each op between the op that reduces and the all_reduce is linear
    - unreduced values are added to unreduced values and zeros only
    - values that are unreduced over different axes do not meet
    - the all_reduce is over the axes over which its operand is unreduced
    - the condition of a loop does not read an unreduced value
    - an if or case with unreduced results returns plain tensors
    - a sum that is exposed behind a manual computation is one that the computation takes

    *Ops that XLA tracks*

    - no broadcast repeats elements (XLA would take its result for reduced)
    - no convolution has groups (XLA reduces it itself)
    - a dot_general contracts a dimension (XLA:TPU and XLA:GPU make broadcasts of others)
    - no reduce_window slides along the only dimension (XLA:TPU reduces it itself)
    - no division of complex numbers, and no reduction within an array of them (XLA:TPU does not track these)

    *Shardings of contractions, scatters, gathers and other ops between*

    - the shardings of the operands of a contraction, scatter or gather are annotated
    - their other operands are not sharded over the unreduced axes (XLA would all-gather them)
    - no sharded dimension is contracted, or looked up along
    - their results are not sharded over the unreduced axes
    - no result is sharded over unreduced axes in place of axes that shard the operand (XLA would all-gather that)

    *Shards of unreduced values*

    - an unreduced value is sharded into equal parts (XLA aborts)
    - parts are cut or joined, and not moved to other devices (XLA would add wrong parts)
    - a reduce_scatter cuts its operand into equal parts, and none moves to another device, or all are exchanged

    Worth it when:

    - more than scalars have left a loop, or XLA alone shards the reduced values alike

    Sources: `unreduced` axes of Shardy, as in JAX's explicit sharding mode.
    """
    forget_taken(module)
    if not sources(module):
        return []
    take_back_unmoved(module)
    with module.context:
        remarks = _annotated(module, _kept_in_loops(module), scatter_devices)
        held = hold(module) if any(remark.applied for remark in remarks) else []
        remarks += [applied(NAME, op, "its result keeps the sharding that XLA would infer") for op in held]
    erase_notes(module)
    return remarks


def _kept_in_loops(module: ir.Operation) -> set[ir.Value]:
    """The sources of scalars that make XLA infer other shardings in their loop, or need all of it pinned."""
    unlike = {source.results[0] for source in unlike_alone(module)}
    if not unlike and _is_held_for_numbers(module):
        return {source.results[0] for source in sources(module)}
    return unlike


def _is_held_for_numbers(module: ir.Operation) -> bool:
    """Whether only scalars have moved, and XLA would infer other shardings of arrays for them."""
    if any(rank_of(source.results[0]) for source in sources(module)):
        return False
    trial = module.clone()
    return any(remark.applied for remark in _annotated(trial, set(), 0)) and bool(hold(trial))


def _annotated(module: ir.Operation, kept: set[ir.Value], devices: int) -> list[Remark]:
    """Annotates the parts that can be, and reverts the others. All are planned before anything is written.

    A plan holds whichever others are reverted: parts have no value in common, and globally an exposed op of another
    part has the value of its operand. `kept` are sources of parts that are not worth it.
    """
    exposed = Exposed(sources(module), global_all_reduces(module), global_reduce_scatters(module))
    order = {op.results[0]: number for number, op in enumerate(exposed.ops)}
    rules = cache(lambda: Propagated(module, rules_only=True))
    regions: dict[ir.Value, Region] = {}
    plans: list[Plan] = []
    declined: list[Exposed] = []
    remarks: list[Remark] = []
    for part in apart(exposed):
        try:
            _require_worth(part, kept)
            plans.append(_plan(part, module, rules, regions))
        except Declined as reason:
            remarks.append(missed(NAME, reason.op or module, reason))
            declined.append(part)
    erase_exposed([op for part in declined for op in part.ops])
    return remarks + _write(_joined(plans, order), devices)


def _require_worth(part: Exposed, kept: set[ir.Value]) -> None:
    is_worth = kept.isdisjoint(source.results[0] for source in part.sources)
    reason = "only scalars have moved, and XLA would infer other shardings for the reduced values"
    require(is_worth, reason, part.sources[0])


class Plan(NamedTuple):
    """The annotations found for exposed ops, to be written."""

    starts: list[ir.Operation]
    found: Unreduced
    opened: list[Opening]
    closings: list[tuple[ir.Operation, ir.Attribute]]  # reduce_scatters, then all_reduces, and how their results lie
    shardings: dict[ir.Value, ir.Attribute]  # of unreduced values
    halves: list[ir.Operation]  # ifs and cases of which only some results are unreduced


def _plan(
    exposed: Exposed, module: ir.Operation, rules: Callable[[], Propagated], regions: dict[ir.Value, Region]
) -> Plan:
    """Writes nothing. Raises Declined where a condition fails.

    `rules` knows the sharding rules of the module's ops, `regions` the manual computations that were looked into.
    """
    starts = exposed.sources
    found = Unreduced({op.results[0]: global_reduction(*reduced_axes(op)) for op in starts})
    opened = openings(starts, regions)
    closings = [(op, _closed(op)) for op in exposed.all_reduces]
    scatterings = [(op, _shards(op)) for op in exposed.reduce_scatters]
    shardings = {
        value: _unreduced(value, noted_sharding(value), reduction)
        for value, reduction in found.values.items()
        if defining_op(value) is not None
    }
    for op in starts:  # XLA reduces twice where the axes that shard the sum shard the result, unreduced over the rest
        shardings[op.results[0]] = _whole(shardings[op.results[0]], summed_axes(op))
    for value, sharding in shardings.items():
        even = is_even(value, read_sharding(sharding), module)
        require(even, UNEQUAL_PARTS, op_of(value))
    require_in_place(found, {value: read_sharding(sharding) for value, sharding in shardings.items()}, module, rules)
    for op, shard in scatterings:
        start, end = read_sharding(shardings[op.operands[0]]), read_sharding(shard)
        can = scatter_steps(module_of(op), ir.RankedTensorType(op.operands[0].type).shape, start, end)
        require(bool(can), "no reduce_scatter cuts it like that", op)
    halves = [op for op in _branches(found) if needs_third(op, shardings)]
    for op in halves:
        require_thirds(op)
    return Plan(starts, found, opened, scatterings + closings, shardings, halves)


def _joined(plans: Sequence[Plan], order: dict[ir.Value, int]) -> Plan:
    """One plan for parts that have no value in common, in the order of the ops that were exposed, as their results have
    it."""

    def place(op: ir.Operation) -> int:
        return order[op.results[0]]

    starts = sorted((op for plan in plans for op in plan.starts), key=place)
    found = merged([plan.found for plan in plans], [op.results[0] for op in starts])
    opened = sorted((opening for plan in plans for opening in plan.opened), key=lambda each: place(each.source))
    closings = [closing for plan in plans for closing in plan.closings]
    closings.sort(key=lambda closing: (closing[0].name != GLOBAL_REDUCE_SCATTER, place(closing[0])))
    shardings = {value: sharding for plan in plans for value, sharding in plan.shardings.items()}
    in_order = {value: shardings[value] for value in found.values if value in shardings}
    halves = {op.results[0] for plan in plans for op in plan.halves}
    return Plan(starts, found, opened, closings, in_order, [op for op in _branches(found) if op.results[0] in halves])


def _write(plan: Plan, devices: int) -> list[Remark]:
    starts, found, opened, closings, shardings, halves = plan
    _write_zeros(found, shardings)
    for opening in opened:
        open_sum(opening, shardings[opening.source.results[0]])
    for op in starts:
        pin_operands(op)
    products = [op_of(op.operands[0]) for op in starts]
    for value, addends in found.addends.items():
        products.append(op_of(value))
        if is_tracked_on_condition(op_of(value)):
            pin_others(op_of(value), addends, found.values[value].place[0])
    sliced = [op for op in map(op_of, found.addends) if has_slices(op)]
    products = [op for op in products if is_complex_product(op)]
    for value, sharding in shardings.items():
        _constrain(value, sharding)
    for result, ends in found.branches.items():
        _end_alike(ends, ir.OpResult(result).result_number, shardings[result])
    for op in halves:
        in_thirds(op, [shardings.get(result) for result in op.results])
    for op in products:
        take_apart(op)
    for op in sliced:
        write_as_slices(op)
    if not closings:
        return []
    channels = NewChannels(module_of(closings[0][0]))
    return [_close(op, sharding, channels, devices) for op, sharding in closings]


def _branches(found: Unreduced) -> list[ir.Operation]:
    """The ifs and cases with unreduced results, once each."""
    return list({op.results[0]: op for op in map(op_of, found.branches)}.values())


def _shards(scatter: ir.Operation) -> ir.Attribute:
    """The sharding of the scattered value, which may have to be reduced over other axes later."""
    shard = read_sharding(scatter.attributes["out_sharding"])
    readers = [use.owner.operation for use in scatter.results[0].uses]
    left = next((read_sharding(op.attributes["sharding"]).unreduced for op in readers if is_source(op)), ())
    return closed_sharding(shard.mesh, shard.dimensions, left)


def _closed(all_reduce: ir.Operation) -> ir.Attribute:
    """The sharding of the reduced value: the one that XLA would infer."""
    mesh, _ = reduced_axes(all_reduce)
    return closed_sharding(mesh, _dimensions(all_reduce.results[0], wanted_sharding(all_reduce.operands[0]), mesh))


def _unreduced(value: ir.Value, alone: Sharding | None, reduction: Reduction) -> ir.Attribute:
    """The sharding of `value`, not reduced: the one that XLA `alone` would give it, without the axes of the
    reduction."""
    mesh, axes = reduction.place
    return closed_sharding(mesh, without(_dimensions(value, alone, mesh), axes), axes)


def _whole(sharding: ir.Attribute, axes: Axes) -> ir.Attribute:
    """`sharding` without `axes`."""
    lies = read_sharding(sharding)
    return closed_sharding(lies.mesh, without(lies.dimensions, axes), lies.unreduced)


def _dimensions(value: ir.Value, sharding: Sharding | None, mesh: str) -> tuple[Axes, ...]:
    """The sharding of the dimensions of `value`: replicated, without an annotation on `mesh`, or with one of another
    rank.
    """
    rank = ir.RankedTensorType(value.type).rank
    fits = sharding is not None and sharding.mesh == mesh and len(sharding.dimensions) == rank
    return sharding.dimensions if sharding is not None and fits else ((),) * rank


def _write_zeros(found: Unreduced, shardings: dict[ir.Value, ir.Attribute]) -> None:
    """Gives each zero that is added, returned by a branch, or that a loop starts from, a constant of its own."""
    for value, addends in found.addends.items():
        for i in addends:
            _write_zero(op_of(value), i, found, shardings[value])
    for result, use in found.entries():
        _write_zero(use.op, use.position, found, shardings[result])


def _write_zero(op: ir.Operation, operand: int, found: Unreduced, like: ir.Attribute) -> None:
    old = op.operands[operand]
    if old in found.values:
        return
    result = read_sharding(like)
    dimensions = _dimensions(old, result, result.mesh)
    with ir.InsertionPoint(op), op.location:
        op.operands[operand] = unreduced_zeros(old.type, closed_sharding(result.mesh, dimensions, result.unreduced))


def _constrain(value: ir.Value, sharding: ir.Attribute) -> None:
    op = op_of(value)
    if op.name == CONSTRAINT:
        op.attributes["sharding"] = sharding
        return
    with ir.InsertionPoint.after(op), op.location:
        if op.name == _BROADCAST:  # it only adds dimensions: XLA loses track of an unreduced value in any broadcast
            value = ir.Operation.create(_RESHAPE, results=[value.type], operands=[op.operands[0]]).results[0]
            op.results[0].replace_all_uses_with(value)
            op.erase()
        tagged = constrained(value, sharding)
    value.replace_all_uses_except(tagged, op_of(tagged))


def _end_alike(ends: Iterable[ir.Operation], position: int, sharding: ir.Attribute) -> None:
    """Has all branches return that operand with the sharding of their op's result: XLA rejects others."""
    for end in ends:
        value = end.operands[position]
        op = defining_op(value)
        if op is not None and op.name == CONSTRAINT and op.attributes["sharding"] != sharding:
            with ir.InsertionPoint(end), op.location:
                end.operands[position] = constrained(value, sharding)


def _said_to_lie(reduction: ir.Operation) -> ir.Value:
    """The operand of `reduction`, with a constraint that gives its sharding.

    A branch says it again of a value from outside, for all its users in there: XLA takes that for reduced otherwise,
    where the branch reduces it and returns something else that is linear in it, too.
    """
    value = start = reduction.operands[0]
    while isinstance(start.owner, ir.Block):
        entries = predecessors(start, manual=False, back_edges=False)
        assert entries is not None, "the values that are not reduced begin at ops"
        start = entries[0].value
    if start == value and op_of(start).block == reduction.block:
        return value
    with ir.InsertionPoint.at_block_begin(reduction.block), reduction.location:
        said = constrained(value, op_of(start).attributes["sharding"])
    for use in list(value.uses):
        reader = use.owner.operation
        if reader != op_of(said) and is_in(reader, reduction.block):
            reader.operands[use.operand_number] = said
    return said


def _close(op: ir.Operation, sharding: ir.Attribute, channels: NewChannels, devices: int) -> Remark:
    """Replaces the all_reduce or reduce_scatter `op`; its result gets that sharding."""
    value = _said_to_lie(op)
    start, end = read_sharding(op_of(value).attributes["sharding"]), read_sharding(sharding)
    steps = scatter_steps(module_of(op), ir.RankedTensorType(value.type).shape, start, end)
    with ir.InsertionPoint(op), op.location:
        parts = parts_of(value)
        closed = [
            scattered(part, start, end, steps, channels, devices) if steps else constrained(part, sharding)
            for part in parts
        ]
        if steps and end.unreduced and len(parts) > 1:  # the op that assembles them reads values annotated as unreduced
            closed = [constrained(part, sharding) for part in closed]
        reduced = joined(closed)
    axes = ", ".join(sorted(names_of(start.unreduced) - names_of(end.unreduced)))
    done = f"are {_done(steps)} here, over {axes}"
    before = "" if op.name == GLOBAL_REDUCE_SCATTER else ", and not before"
    remark = applied(NAME, op, f"{shard_bytes(value, start)} bytes per device {done}{before}")
    op.results[0].replace_all_uses_with(reduced)
    op.erase()
    return remark


def _done(steps: Sequence[Scatter]) -> str:
    if any(step.swapped for step in steps):
        return "reduced and exchanged"
    return "scattered" if steps else "reduced"
