"""Defers the reduction of accumulated gradients until after the loop."""

from typing import Annotated, NamedTuple

from jaxlib.mlir import ir

from paropt.passes.analysis.branches import BRANCHES
from paropt.passes.analysis.certification import Site, certificate_of
from paropt.passes.analysis.collectives import ALL_REDUCE, GLOBAL_ALL_REDUCE, Reduction
from paropt.passes.analysis.deferral import Cost, Deferral, Deferrals, cost_of, deferrals, merged, reason_to_stay
from paropt.passes.analysis.linearity import ConvertPolicy
from paropt.passes.analysis.loops import WHILE, Loop, loop_around
from paropt.passes.analysis.meshes import Mesh, meshes_of
from paropt.passes.analysis.partial import BlockFacts
from paropt.passes.analysis.policy import Policy, PolicyName, axes_named
from paropt.passes.analysis.region_sums import taken_out
from paropt.passes.analysis.types import FloatName, float_type
from paropt.passes.core.deferring import deferred
from paropt.passes.core.last_trip import last_trip_peeled
from paropt.passes.core.registry import register
from paropt.passes.core.remarks import Declined, Remark, applied, missed, require
from paropt.passes.core.scattering import own_shards_scattered
from paropt.passes.core.traversal import ops_of, parent_of
from paropt.passes.core.wire import set_wire_type

NAME = "defer-sync"


@register
def defer_sync(
    module: ir.Operation,
    *,
    convert: Annotated[
        ConvertPolicy, "What a reduction may cross: converts to a wider float type, or to any float type."
    ] = "widening",
    policy: Annotated[
        PolicyName,
        "What may cost memory: nothing (keep-shards: a reduce_scatter stays in the loop, with its sharded accumulator; "
        "every, hierarchical: so, and an all_reduce of which each device reads its shard becomes one, over other axes "
        "once), whatever it costs (defer), or what saves most within memory-budget (auto).",
    ] = "keep-shards",
    memory_budget: Annotated[int, "With policy=auto: bytes per device that accumulators may take more."] = 0,
    accumulate_dtype: Annotated[
        FloatName, "Carry deferred sums in this float type where it is wider than the program's accumulator."
    ] = "program",
    wire_dtype: Annotated[
        FloatName, "Convert to this float type before a deferred reduction, and back after it: fewer bytes, rounded."
    ] = "program",
    axes: Annotated[str, "Move only reductions over these mesh axes, as in 'data,replica'; default: all."] = "",
) -> list[Remark]:
    """Accumulate on each device and reduce once after the loop, instead of in every iteration.

    Before:

        %r = while (%acc = %start) {
          %g = all_reduce(%x)
          %next = add %acc, %g
          return %next
        }

    After:

        %d = while (%delta = %zero) {
          %next = add %delta, %x
          return %next
        }
        %s = all_reduce(%d)
        %r = add %start, %s

    Inner loops come first, so a sync leaves a nest of loops one by one. What the accumulator holds from elsewhere
    (its start value, terms that are not reduced) is kept apart and counted once, not once per device: a start value
    that is not zero is added after the loop, and is carried beside the sum only if the loop changes it. Maxima and
    minima are deferred in the same way. Reductions in an if or case count as in the body, and its other branches as
    terms that are not reduced. A branch that runs in the last trip only ("sync on the last micro-batch") follows the
    loop as it is, where the other branch does nothing and all that it reads is carried.

    Legal when:

    - the reduction has a neutral element to start from: it is a sum, a maximum or a minimum
    - each op between the reduction and the accumulator is linear
    - a factor is uniform over the replica groups
    - a predicate is uniform over the replica groups
    - an index is uniform over the replica groups
    - the number of trips is uniform over the replica groups
    - the loop has no shardings of its own (they are one per carried value)
    - the condition does not read the accumulator
    - nothing else in the body reads the accumulator
    - nothing else in the body reads the reduced value
    - the reduction is in the body of the loop, or in a branch there that all devices of a group take

    Worth it when:

    - fewer bytes are reduced after the loop than in all trips of it, or as many in fewer arrays
    - the accumulator keeps its shard, unless `policy` allows more memory: one before a reduce_scatter is unscattered

    Right for any number of trips, zero included. Floating-point sums are reassociated, so results may differ by
    rounding. No type becomes narrower than the program's own accumulator, unless `wire-dtype` asks for it: that rounds
    once, before the reduction that follows the outermost loop. With `accumulate-dtype`, sums of narrower floats are
    carried and reduced in that type, whatever bytes that takes, and rounded once to the program's; a convert that would
    narrow them on the way is left out. Contractions, windows and scatters work in the type in which they are written.

    Sources: XLA `WhileLoopAllReduceCodeMotion`, without its unsound cases; Alpa's gradient accumulation.
    """
    allowed = Policy(policy, memory_budget, axes_named(axes))
    meshes = tuple(meshes_of(module).values())
    accumulate, wire = (float_type(name, module.context) for name in (accumulate_dtype, wire_dtype))
    remarks = defer_in(module, Options(convert, accumulate, allowed, meshes))
    set_wire_type(module, wire)
    return remarks


class Options(NamedTuple):
    """What the user asked for."""

    convert: ConvertPolicy
    accumulate: ir.Type | None
    policy: Policy
    meshes: tuple[Mesh, ...]


class Possible(NamedTuple):
    """A deferral that is legal, and worth it."""

    reduction: Reduction
    part: Deferral
    cost: Cost


def defer_in(root: ir.Operation, options: Options) -> list[Remark]:
    """Defers what can be in the loops under `root`; inner loops first."""
    return [remark for op in ops_of(root, WHILE) for remark in _defer_from(Loop(op), options)]


def _defer_from(loop: Loop, options: Options) -> list[Remark]:
    """Defers what can be, one kind of reduction after the other; each rewrite makes a new loop."""
    policy = options.policy
    remarks = last_trip_peeled(loop, NAME, Site.of(loop, options.meshes))
    if policy.name in ("every", "hierarchical"):
        remarks += own_shards_scattered(loop, NAME)
    while True:
        # made anew: facts do not outlive a rewrite
        facts = BlockFacts(loop.body, options.convert, with_branches=True, accumulate=options.accumulate)
        possible, stays = _possible(loop, facts, options)
        decided = policy.chosen([(each.reduction, each.cost) for each in possible])
        chosen = [each for each, declined in zip(possible, decided, strict=True) if declined is None]
        if not chosen:
            for each, declined in zip(possible, decided, strict=True):
                assert declined is not None
                stays += [missed(NAME, op, declined) for op in each.part.reductions]
            return remarks + stays + _elsewhere(loop)
        site = Site.of(loop, options.meshes)
        of_one_kind = [each for each in chosen if each.reduction == chosen[0].reduction]
        for each in of_one_kind:
            remarks += _remarks(each, facts, site, options)
            policy.held += each.cost.held
        loop = deferred(loop, merged([each.part for each in of_one_kind]), facts)


def _possible(loop: Loop, facts: BlockFacts, options: Options) -> tuple[list[Possible], list[Remark]]:
    """What may leave the loop, and for each reduction that may not, why."""
    possible: list[Possible] = []
    stays = [missed(NAME, op, declined) for op, declined in facts.reductions.declined]
    for reduction, reductions in facts.reductions.kinds.items():
        try:
            options.policy.require_axes(reduction, options.meshes)
        except Declined as declined:
            stays += [missed(NAME, op, declined) for op in reductions]
            continue
        found = deferrals(loop, reduction, facts)
        worth, reason = _worth(found, loop)
        possible += worth
        leaving = {op.results[0] for each in worth for op in each.part.reductions}
        staying = [op for op in reductions if op.results[0] not in leaving]
        stays += [missed(NAME, op, reason_to_stay(op, found, reason)) for op in staying]
    return possible, stays


def _worth(found: Deferrals, loop: Loop) -> tuple[list[Possible], Declined]:
    """The parts that are worth it, and why the others are not."""
    worth: list[Possible] = []
    reason = Declined("no accumulator takes it")
    for part in found.parts:
        cost = cost_of(part, loop)
        try:
            _require_worth(cost)
        except Declined as declined:
            reason = declined
            continue
        worth.append(Possible(part.values.reduction, part, cost))
    return worth, reason


def _require_worth(cost: Cost) -> None:
    inside = sum(cost.inside.values())
    counts = {2 if runs is None else runs for runs in cost.runs.values()}
    often = f"{min(counts)} times " if len(counts) == 1 else f"in all {len(cost.runs)} arrays "
    require(cost.is_less, f"{cost.unwidened} bytes after the loop are no fewer than {often}{inside} in it")


def _remarks(done: Possible, facts: BlockFacts, site: Site, options: Options) -> list[Remark]:
    cost = done.cost
    remarks = []
    for op in done.part.reductions:
        moved = [result for result in op.results if result in done.part.members]
        size, runs = sum(cost.inside[result] for result in moved), cost.runs[moved[0]]
        often = "in every trip" if runs is None else f"{runs} times"
        text = f"{size} bytes per device, now reduced after the loop and not {often} in it"
        if cost.held or options.policy.name == "auto":
            text += f"; {cost.saved} bytes fewer are reduced, {cost.held} more are held"
        certificate = certificate_of(op, done.part, cost, facts, site)
        remarks.append(applied(NAME, op, text, certificate))
    return remarks


def _elsewhere(loop: Loop) -> list[Remark]:
    """A remark for each all_reduce in a region within the body that is neither a branch nor a loop of its own."""
    reason = Declined("the reduction is in a region of its own within the loop", loop.op)
    found = ops_of(loop.op, ALL_REDUCE, GLOBAL_ALL_REDUCE)
    inner = [op for op in found if not _is_in_body(op) and _loop_op_around(op) == loop.op]
    exposed = taken_out(loop.op) if inner else frozenset()
    return [missed(NAME, op, reason) for op in inner if op.results[0] not in exposed]


def _is_in_body(op: ir.Operation) -> bool:
    """Whether `op` is in the body of a loop, or in branches there."""
    while parent_of(op).name in BRANCHES:
        op = parent_of(op)
    return loop_around(op.block) is not None


def _loop_op_around(op: ir.Operation) -> ir.Operation:
    while op.name != WHILE:
        op = parent_of(op)
    return op
