"""Deferrals in a loop: which are worth it, in what order they leave, and the remarks.

The edit of each: `deferral/partial_loop.py`.

Tests: test/passes/defer-sync.mlir, test/passes/defer-sync-nests.mlir, test/passes/defer-sync-scalars.mlir.
"""

from dataclasses import replace
from functools import partial
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.dataflow.engine import backward
from paropt.passes.dataflow.equivalent_ops import twins
from paropt.passes.dataflow.linearity import ConvertPolicy
from paropt.passes.dataflow.loop_invariants import Varying
from paropt.passes.dataflow.partial_values import BlockFacts
from paropt.passes.deferral.analysis import (
    Deferral,
    Deferrals,
    combines_by,
    deferrals,
    is_scalar,
    made_by_branches,
    merged,
    movable,
    reason_to_stay,
)
from paropt.passes.deferral.certification import Site, certificate_of
from paropt.passes.deferral.deferral_cost import BYTES_PER_COLLECTIVE, Cost, cost_of
from paropt.passes.deferral.finite_hint import masks_missed
from paropt.passes.deferral.last_iteration import last_trip_peeled
from paropt.passes.deferral.partial_loop import deferred
from paropt.passes.deferral.policy import Policy
from paropt.passes.deferral.select_to_branch import selects_branched, selects_taken_back
from paropt.passes.deferral.sink_into_branches import sums_sunk, sums_taken_back
from paropt.passes.deferral.trips_around import is_held_around, trips_around
from paropt.passes.ir.branches import BRANCHES
from paropt.passes.ir.loops import WHILE, Loop, loop_around
from paropt.passes.rewrite.erase import erase_unread
from paropt.passes.rewrite.reduce_scatter import (
    may_move_first,
    moved_first,
    own_shards_scattered,
    scatters_in,
    shard_kept,
)
from paropt.passes.sharding.collectives import ALL_REDUCE, DEFERRED, GLOBAL_ALL_REDUCE, REDUCTIONS, Reduction
from paropt.passes.sharding.meshes import Mesh
from paropt.passes.spmd.region_sums import taken_out
from paropt.passes.support.remarks import Declined, Remark, Saved, applied, missed, require
from paropt.passes.support.traversal import defining_op, is_within, module_of, ops_of, parent_of, reads


class Options(NamedTuple):
    """The user's options, and the pass that they are for."""

    pass_name: str
    convert: ConvertPolicy
    accumulate: ir.Type | None
    policy: Policy
    meshes: tuple[Mesh, ...]
    finite: bool = False  # whether values that are multiplied by 0 are


class Possible(NamedTuple):
    """A deferral that is legal, and worth it."""

    reduction: Reduction
    part: Deferral
    cost: Cost


def defer_in(root: ir.Operation, options: Options) -> list[Remark]:
    """Defers the reductions that may leave loops under `root`; inner loops first, and again, if some have left one."""
    done: list[Remark] = []
    while True:
        remarks = [remark for op in ops_of(root, WHILE) for remark in _defer_from(Loop(op), options)]
        now = [remark for remark in remarks if remark.applied]
        done += now
        if not now or not any(is_within(op, WHILE) for op in ops_of(root, WHILE)):
            return done + [remark for remark in remarks if not remark.applied]


def _defer_from(loop: Loop, options: Options) -> list[Remark]:
    """Defers the reductions that may leave, one kind after the other; each rewrite makes a new loop."""
    remarks = _moved_before(loop, options)
    tried = sunk = False
    while True:
        facts = _facts(loop, options)  # made anew: they do not outlive a rewrite
        possible, stays = _possible(loop, facts, options)
        decided = options.policy.chosen([(each.reduction, each.cost) for each in possible])
        chosen = [each for each, declined in zip(possible, decided, strict=True) if declined is None]
        if again := _reduced_again(chosen, facts, options.pass_name):
            remarks += again
            continue
        if chosen:
            of_one_kind = [each for each in chosen if each.reduction == chosen[0].reduction]
            site = Site.of(loop, options.meshes)
            for each in of_one_kind:
                remarks += _remarks(each, facts, site, options)
                options.policy.take_sum(each.reduction, each.cost)
            loop = deferred(loop, merged([each.part for each in of_one_kind]), facts)
            continue
        if not tried:  # a branch may reduce the operand of a select for itself
            tried = True
            told, sunk, has_changed = _branches_made(loop, options)
            remarks += told
            if has_changed:
                continue
        for each, declined in zip(possible, decided, strict=True):
            assert declined is not None
            stays += [missed(options.pass_name, op, declined) for op in each.part.reductions]
        remarks += _branches_reverted(loop, options, sunk=sunk)
        return remarks + stays + _if_it_were_finite(loop, options) + _elsewhere(loop, options.pass_name)


def _moved_before(loop: Loop, options: Options) -> list[Remark]:
    """What may leave only in another form: reads of the last trip, elements before a reduce_scatter."""
    policy = options.policy
    remarks = last_trip_peeled(loop, options.pass_name, Site.of(loop, options.meshes))
    if policy.scatters_own_shards:
        remarks += own_shards_scattered(loop, options.pass_name)
    if policy.may_unscatter:
        moved_first(scatters_in(loop))
    elif policy.has_budget:
        remarks += _chosen_moved_first(loop, options)
    return remarks


def _branches_made(loop: Loop, options: Options) -> tuple[list[Remark], bool, bool]:
    """Makes branches of selects, and has branches reduce sums that they alone read.

    Returns why selects stay, whether it did the latter, and whether it did either.
    """
    name = options.pass_name
    branched, remarks = selects_branched(loop, partial(_facts, loop, options), name, finite=options.finite)
    sunk = sums_sunk(loop, _facts(loop, options))
    if sunk or branched:
        remarks += last_trip_peeled(loop, name, Site.of(loop, options.meshes))
    return remarks, sunk, sunk or branched


def _branches_reverted(loop: Loop, options: Options, *, sunk: bool) -> list[Remark]:
    """Reverts branches that have let nothing leave."""
    remarks = sums_taken_back(loop, options.pass_name) if sunk else []
    return remarks + selects_taken_back(loop, options.pass_name)


def _if_it_were_finite(loop: Loop, options: Options) -> list[Remark]:
    """What would leave with the option `finite`."""
    if options.finite:
        return []
    return masks_missed(loop, options.pass_name, partial(_defer_from, options=_if_finite(options)))


def _chosen_moved_first(loop: Loop, options: Options) -> list[Remark]:
    """Moves elements before those reduce_scatters that the budget then lets leave `loop`; others keep their form.

    Which these are is tried out on a copy, with all loops around.
    """
    scatters = scatters_in(loop)
    if not any(map(may_move_first, scatters)):
        return []
    module = module_of(loop.op)
    copy = module.clone()
    trial = Loop(ops_of(copy, WHILE)[ops_of(module, WHILE).index(loop.op)])
    moved_first(scatters_in(trial))
    possible, _ = _possible(trial, _facts(trial, options), options)
    decided = options.policy.chosen([(each.reduction, each.cost) for each in possible])
    why = {op.results[0]: no for each, no in zip(possible, decided, strict=True) for op in each.part.reductions}
    pairs = [(op, tried.results[0]) for op, tried in zip(scatters, scatters_in(trial), strict=True)]
    movable_first = [(op, why[tried]) for op, tried in pairs if tried in why and may_move_first(op)]
    moved_first([op for op, no in movable_first if no is None])
    return [missed(options.pass_name, op, no) for op, no in movable_first if no is not None]


def _if_finite(options: Options) -> Options:
    """The same with the option `finite`, for a trial that costs the policy nothing."""
    return options._replace(finite=True, policy=replace(options.policy))


def _facts(loop: Loop, options: Options) -> BlockFacts:
    return BlockFacts(loop.body, options.convert, with_branches=True, leaves_loop=True, accumulate=options.accumulate)


def _possible(loop: Loop, facts: BlockFacts, options: Options) -> tuple[list[Possible], list[Remark]]:
    """The parts that may leave the loop, and for each reduction that may not, why."""
    stays = [missed(options.pass_name, op, declined) for op, declined in facts.reductions.declined]
    kinds: list[OfKind] = []
    around = _facts_around(loop, options)
    for reduction in facts.reductions.kinds:
        try:
            options.policy.require_axes(reduction, options.meshes)
        except Declined as declined:
            stays += [missed(options.pass_name, op, declined) for op in movable(reduction, facts)]
            continue
        kinds.append(_of_kind(loop, reduction, facts, around, options))
    possible = [each for kind in kinds for each in kind.worth]
    possible += _for_fewer_collectives(possible, [each for kind in kinds for each in kind.dearer], loop)
    combined = _combined_with_others(kinds, _leaving(possible), facts)
    possible = [each for each in possible if combined.keys().isdisjoint(_leaving([each]))]
    leaving = _leaving(possible)
    for kind in kinds:
        staying = [op for op in movable(kind.found.values.reduction, facts) if op.results[0] not in leaving]
        name = options.pass_name
        reasons = [combined.get(op.results[0]) or reason_to_stay(op, kind.found, kind.reason) for op in staying]
        stays += [missed(name, op, shard_kept(op, reason)) for op, reason in zip(staying, reasons, strict=True)]
    return possible, stays


class OfKind(NamedTuple):
    """The deferrals of one kind of reduction, the parts that are worth it, and why the others are not."""

    found: Deferrals
    worth: list[Possible]
    reason: Declined
    dearer: list[Possible]  # parts of which more bytes are reduced after the loop than in it


def _for_fewer_collectives(worth: list[Possible], dearer: list[Possible], loop: Loop) -> list[Possible]:
    """Those of `dearer` that leave as well: all, where no trip is left to reduce anything, at little cost in bytes.

    Else XLA may do all that a trip reduces in one collective, of which there would be as many as before.
    """
    leaving = _leaving([*worth, *dearer])
    staying = any(op.results[0] not in leaving for op in ops_of(loop.op, *REDUCTIONS))
    if staying or not dearer:
        return []
    fewer = min(each.cost.fewer for each in dearer)
    more = sum(each.cost.more for each in dearer)
    return dearer if fewer > 0 and more <= fewer * BYTES_PER_COLLECTIVE else []


# XLA shards features of activations over the devices that share the examples: to pin a loss may move others.
_OF_ACTIVATIONS = "it is computed from sums over the same devices, which stay in the loop"


def _combined_with_others(kinds: list[OfKind], leaving: set[ir.Value], facts: BlockFacts) -> dict[ir.Value, Declined]:
    """Reductions of scalars, such as losses, for which a collective after the loop is one more, and why they stay.

    XLA combines reductions of one kind and element type that do not depend on each other: where others stay, as many
    collectives as before run in the loop.
    """
    found: dict[ir.Value, Declined] = {}
    for kind in kinds:
        stays = [op for op in movable(kind.found.values.reduction, facts) if op.results[0] not in leaving]
        beside = set(map(combines_by, stays))
        scalars = [each for each in kind.worth if all(map(is_scalar, each.part.reductions))]
        together = [each for each in scalars if beside.issuperset(map(combines_by, each.part.reductions))]
        reduced = {result for op in stays for result in op.results}
        operands = [operand for each in together for op in each.part.reductions for operand in op.operands]
        is_apart = reduced.isdisjoint(backward(operands, _computed_from))
        for each in together if is_apart or kind.found.values.reduction.is_global else ():
            why = _one_more(each.cost) if is_apart else Declined(_OF_ACTIVATIONS)
            found |= {op.results[0]: why for op in each.part.reductions}
    return found


def _one_more(cost: Cost) -> Declined:
    few = f"{cost.saved} bytes fewer, in one collective more after the loop"
    return Declined(f"{few}: XLA combines it with others that stay in the loop")


def _computed_from(value: ir.Value) -> list[ir.Value]:
    op = defining_op(value)
    return [] if op is None else reads(op)


def _of_kind(
    loop: Loop, reduction: Reduction, facts: BlockFacts, around: BlockFacts | None, options: Options
) -> OfKind:
    found = deferrals(loop, reduction, facts)
    kind = _worth(found, loop, around, options)
    by_branches = made_by_branches(found, loop)
    if not by_branches:
        return kind
    fewer = _worth(deferrals(loop, reduction, facts, stay_reduced=by_branches), loop, around, options)
    if _leaving(fewer.worth) >= _leaving(kind.worth) and _saved(fewer.worth) >= _saved(kind.worth):
        return fewer
    return kind


def _leaving(possible: list[Possible]) -> set[ir.Value]:
    """The first results of the reductions that leave."""
    return {op.results[0] for each in possible for op in each.part.reductions}


def _saved(possible: list[Possible]) -> int:
    return sum(each.cost.saved for each in possible)


def _reduced_again(chosen: list[Possible], facts: BlockFacts, pass_name: str) -> list[Remark]:
    """Reduces the values of equivalent ops once, where only one of both is to leave the loop.

    XLA finds the equivalent ops, and would reduce their value in each trip for the one that stays anyway.
    """
    leaving = {result for each in chosen for op in each.part.reductions for result in op.results}
    kinds = [facts.reductions.kinds[reduction] for reduction in {each.reduction for each in chosen}]
    mixed = [op for ops in kinds if not leaving.issuperset(op.results[0] for op in ops) for op in ops]
    first = twins(facts.block) if mixed else {}
    again = facts.in_order(op.results[0] for op in mixed if op.results[0] in first)
    text = "equivalent values are reduced once, where the first is computed"
    remarks = [applied(pass_name, op, text) for op in again]
    for op in again:
        operands = list(op.operands)
        for result in op.results:
            result.replace_all_uses_with(first[result])
        op.erase()
        erase_unread(operands)
    return remarks


def _worth(found: Deferrals, loop: Loop, around: BlockFacts | None, options: Options) -> OfKind:
    kind = OfKind(found, [], Declined("it reaches no accumulator"), [])
    shared, varying = _shared(found), Varying(loop)
    for part in found.parts:
        cost = cost_of(part, loop, shared, varying)
        if cost.held > 0 and is_held_around(part, loop, around):
            cost = cost.in_place()
        if options.policy.has_budget:
            again = all(DEFERRED in op.attributes for op in part.reductions)
            cost = cost._replace(around=trips_around(part, loop, around), again=again)
        possible = Possible(part.values.reduction, part, cost)
        try:
            enough = cost.is_less() and not cost.holds_for_little()
            _require_worth(cost, 1 if enough else trips_around(part, loop, around))
        except Declined as declined:
            kind = kind._replace(reason=declined)
            if not cost.is_less() and cost.moves_less():
                kind.dearer.append(possible)
            continue
        kind.worth.append(possible)
    return kind


def _shared(found: Deferrals) -> dict[ir.Value, int]:
    """How many reductions of a value may leave; 0 if others may not. XLA takes several of the same value for one."""
    leaving = frozenset().union(*(part.members for part in found.parts))
    shared: dict[ir.Value, int] = {}
    for op in found.reductions:
        for operand, result in zip(op.operands, op.results, strict=True):
            before = shared.get(operand, 0)
            stays = result not in leaving or (operand in shared and not before)
            shared[operand] = 0 if stays else before + 1
    return shared


def _facts_around(loop: Loop, options: Options) -> BlockFacts | None:
    """Those of the loop around `loop`; None where there is none."""
    around = loop_around(loop.op.block)
    return None if around is None else _facts(around, options)


def _require_worth(cost: Cost, times: int) -> None:
    inside = sum(cost.inside.values())
    counts = {cost.often(value) for value in cost.runs}
    often = f"{min(counts)} times " if len(counts) == 1 else f"in all {len(cost.runs)} arrays "
    merged = ", of values that are reduced there for others, too" if set(cost.shared.values()) != {1} else ""
    lifted = ": XLA reduces loop-invariant values once" if cost.lifted else ""
    within = f" and {cost.in_branches} in branches" if cost.within else ""
    few = f"{cost.unwidened} bytes after the loop{within} are no fewer than {often}{inside} in it{merged}{lifted}"
    require(cost.is_less(times), few)
    nothing = f"{cost.held} bytes more would be held, and as many are reduced after the loop as in it, in fewer arrays"
    require(not cost.holds_for_little(times), nothing)
    more: list[str] = []
    if cost.joined:
        more.append(f"{cost.joined} bytes more are moved in the loop, to gather sharded values for duplicated ops")
    if cost.repeated:
        more.append(f"{cost.repeated} more multiplications run in the loop, in duplicated ops")
    require(cost.moves_less(times), " and ".join(more))


def _remarks(done: Possible, facts: BlockFacts, site: Site, options: Options) -> list[Remark]:
    cost = done.cost
    remarks = []
    for op in done.part.reductions:
        moved = [result for result in op.results if result in done.part.members]
        size, runs = sum(cost.inside[result] for result in moved), cost.runs[moved[0]]
        often = "in every trip" if runs is None else f"{runs} times"
        text = f"{size} bytes per device, now reduced after the loop and not {often} in it"
        trip, after = sum(cost.inside.values()), sum(cost.after)
        if after > trip:  # in the accumulator's type, or in all of an array that it is a part of
            text += f"; {trip} bytes in a trip are {after} after them"
        if cost.within:
            most = "" if all(each.runs is not None for each in cost.within) else "at most "
            text += f"; {most}{cost.in_branches} bytes are reduced in branches that need them in there"
        if cost.held or options.policy.has_budget:
            text += f"; {cost.saved} bytes fewer are reduced, {cost.held} more are held"
        certificate = certificate_of(op, done.part, cost, facts, site)
        # A value that several reductions lead to is reduced after the loop once.
        closed = cost.after if op == done.part.reductions[0] else ()
        saved = Saved(len(moved), size, runs, len(closed), sum(closed))
        held = cost.held if op == done.part.reductions[0] else 0
        remarks.append(applied(options.pass_name, op, text, certificate, saved, held))
    return remarks


def _elsewhere(loop: Loop, pass_name: str) -> list[Remark]:
    """A remark for each all_reduce in a region within the body that is neither a branch nor a loop of its own."""
    reason = Declined("the reduction is in a region within the body that is no branch", loop.op)
    found = ops_of(loop.op, ALL_REDUCE, GLOBAL_ALL_REDUCE)
    inner = [op for op in found if not _is_in_body(op) and _loop_op_around(op) == loop.op]
    exposed = taken_out(loop.op) if inner else frozenset()
    return [missed(pass_name, op, reason) for op in inner if op.results[0] not in exposed]


def _is_in_body(op: ir.Operation) -> bool:
    """Whether `op` is in the body of a loop, or in branches there."""
    while parent_of(op).name in BRANCHES:
        op = parent_of(op)
    return loop_around(op.block) is not None


def _loop_op_around(op: ir.Operation) -> ir.Operation:
    while op.name != WHILE:
        op = parent_of(op)
    return op
