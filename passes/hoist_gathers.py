"""All-gathers of sharded parameters, once per step, before the loop over micro-batches."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple

from jaxlib.mlir import ir

from paropt.passes.decisions.parameter_decisions import steps_once
from paropt.passes.decisions.step_parameters import StepParameter, name_of, step_parameters
from paropt.passes.defer_sync import defer_sync
from paropt.passes.deferral.holding_plan import Trade, held_by, saved_by, taken_in, taken_of
from paropt.passes.deferral.policy import HAS_BUDGET, HOLDS_PARAMETERS, UNLIMITED, Policy, PolicyName, names_where
from paropt.passes.expose_all_reduces import expose_all_reduces
from paropt.passes.ir.loops import WHILE, Loop, trip_count
from paropt.passes.ir.types import FloatName, bytes_of, float_type, is_float
from paropt.passes.separate_reductions import separate_reductions
from paropt.passes.sharding.collectives import ALL_GATHER, axes_of
from paropt.passes.sharding.meshes import LinkCosts, MeshAxes, axes_named, has_mesh, meshes_of
from paropt.passes.sharding.propagation import Propagated
from paropt.passes.sharding.shardings import is_manual
from paropt.passes.spmd.hoisted_gathers import gathered_before_loop
from paropt.passes.spmd.hoisted_parameters import erase_unread_in_barriers, hoist, hoist_renewed
from paropt.passes.spmd.loop_gathers import CHANGED, LoopGather, LoopGathers, gathered_before, gathered_type
from paropt.passes.spmd.loop_parameters import Parameter
from paropt.passes.support.registry import Bytes, OnlyWith, register
from paropt.passes.support.remarks import Choice, Declined, Remark, Saved, applied, missed
from paropt.passes.support.traversal import ops_of

NAME = "hoist-gathers"


@register
def hoist_gathers(
    module: ir.Operation,
    *,
    policy: Annotated[
        PolicyName,
        f"What may cost memory: whole parameters ({names_where(lambda each: each.parameters)}), those that save most "
        f"within memory-budget ({names_where(lambda each: each.budget)}), or none (all others, with which nothing is "
        "done).",
    ] = "gather",
    memory_budget: Annotated[
        Bytes,
        "With policy=auto, and only then: bytes per device that parameters and sums may take more.",
        OnlyWith("policy", "auto"),
    ] = 0,
    link_cost: Annotated[
        LinkCosts,
        "With policy=auto: what a byte costs over each of these mesh axes, as in `replica:8,data:1`; over others 1.",
    ] = "",
    axes: Annotated[
        MeshAxes,
        "Mesh axes over which parameters are gathered once, separated by commas; over others they are gathered at use. "
        "Empty: all.",
    ] = "",
    gather_dtype: Annotated[
        FloatName,
        "The float type to gather in, which rounds where it is narrower than the type that is read. program: the "
        "parameter's own, or the narrower one that all readers in the loop convert it to.",
    ] = "program",
    finite: Annotated[
        bool,
        "Take a parameter for unchanged in trips that add 0 times something to it, as optax.MultiSteps does in all but "
        "some.",
    ] = False,
) -> list[Remark]:
    """All-gather the parameters that a loop reads in each iteration once, before it.

    Before:

        %r = while (%w = %parameter, %acc = %zero) {
          %b = convert %w
          %y = dot_general %x, %b                      %x and %b are both sharded over "data"
          ...
          return %w, %next
        }

    After:

        %b = convert %parameter
        %s = sdy.sharding_constraint %b <@mesh, [{"data"}, {}]>
        %g = sdy.sharding_constraint %s <@mesh, [{}, {}]>
        %r = while (%w = %parameter, %acc = %zero) {
          %y = dot_general %x, %g
          ...
          return %w, %next
        }

    A parameter that is sharded over an axis which also shards the batch, as in fully sharded training, is all-gathered
    where the two meet: in the forward and in the backward pass of every micro-batch. Hoisted, it is gathered once, and
    every device holds all of it until the loop ends. Other axes, such as those of tensor parallelism, keep sharding it.
    With the option `axes`, a parameter that is sharded over a slow and a fast axis is gathered once over the slow one,
    and at each use over the fast one.
    Where all readers convert it to a narrower type, in front of loops over layers or slices of it in them, it is
    converted first, which halves the bytes sent and held. The first constraint keeps Shardy from gathering it before it
    is converted.
    The loop-carried value stays sharded, and so do gradients.

    Where activations are not constrained, XLA may shard their features as the parameter is sharded, and move these in
    place of the parameter. An argument of the program of which the loop adds up a gradient is gathered there, too, over
    the axes that shard the micro-batches. In the loop, a constraint that shards it as it is sharded is dropped, such as
    jax writes on meshes with explicit axes.

    An argument of the program that the loop updates in some trips only, as `optax.MultiSteps` does, is gathered in the
    first trip and in each that follows an update, and carried from trip to trip:

        %r = while (%w = %parameter, %g = %zeros, %stale = true) {
          %now = case %stale { return %g } {
            %all = sdy.sharding_constraint %w <@mesh, [{}, {}]>
            return %all
          }
          %y = dot_general %x, %now
          ...
          %next = select %emit, %updated, %w
          return %next, %now, %emit
        }

    Which trips these are may depend on an argument.

    A program under `shard_map` has all_gathers of its own. Of these, too, one is done before the outermost loop that
    repeats it. Where a loop over layers gathers its slice of a stacked parameter, all layers are gathered, and the
    slice of that is read: also behind the barrier of rematerialized values, so that both read the array gathered once.

    A loop over layers that are not computed again keeps converted or transposed copies of each layer's parameters for
    the backward pass, in a stack. The backward pass converts or transposes the gathered array instead, and the stack is
    dead.

    Legal when:

    - the loop passes the parameter through
    - of one that it updates, a scalar of each trip tells whether that trip does: the predicate of a select or of a
      branch, or with the option `finite` a factor that is 0 or 1
    - one that it updates is carried once, and not read from outside
    - no constraint in the loop shards the parameter over the same axes otherwise, unless one behind it gathers it (XLA
      would all-gather it there)
    - each row of a stack that a loop writes is made of that row of the parameter, and only rows of it are read
    - copies of which an all_gather gathers one have all of the dimension that is gathered
    - an index of such a copy is uniform over the replica groups
    - an all_gather gathers one array, and no metadata binds it to other ops

    Worth it when:

    - the loop makes more than one iteration
    - the loop is in no other loop (XLA would shard the gathered array there, and all-gather it again)
    - nothing reads its shards as they are, as contractions read examples, which are no parameters
    - what XLA moves in a step for a parameter that it does not gather is no less
    - the loop gathers the same in each iteration, or another loop the same slices: as loops over layers do for a
      forward and a backward pass, or for micro-batches that Python unrolls
    - it is not done before the loop already
    - `policy` allows the memory

    Values do not change, unless `gather-dtype` asks for a narrower type.

    Sources: FSDP's `reshard_after_forward=False`, for all micro-batches of a step; `zero_hpz_partition_size` of
    DeepSpeed.
    """
    if policy not in HOLDS_PARAMETERS | HAS_BUDGET or not ops_of(module, WHILE, ALL_GATHER):
        return []
    plan = _Plan(
        module,
        Policy.of(module, policy, memory_budget, axes_named(axes), link_cost),
        float_type(gather_dtype, module.context),
        link_cost,
        axes_named(axes),
        finite,
    )
    remarks = [*_hoist_explicit(module, plan), *_hoist_global(module, plan)]
    plan.policy.note(module)
    return [*plan.said(), *remarks]


@dataclass
class _Plan:
    """The parameters that may be gathered once, and in which element type."""

    module: ir.Operation
    policy: Policy
    dtype: ir.Type | None  # that the user asks for
    link_cost: str = ""
    axes: tuple[str, ...] = ()  # over which parameters are gathered once; () for all
    finite: bool = False  # whether 0 times anything is 0

    sums: list[Trade] | None = None  # that later passes may hold whole; known before anything is hoisted

    def chosen(self, trades: list[Trade]) -> list[Declined | None]:
        """Of each parameter, why it is gathered at use; None when it is gathered once."""
        return self.policy.gathers_chosen(trades, self._later_sums)

    def _later_sums(self) -> list[Trade]:
        if self.sums is None:
            self.sums = _sums_of(self.module, self.link_cost, ",".join(self.axes))
        return self.sums

    def said(self) -> Iterator[Remark]:
        """The bytes that the plan holds, and those that it saves: of gathers now, of sums later."""
        gathers, sums = self.policy.taken, taken_of(self.sums or [], self.policy.room)
        if not gathers and not sums:
            return
        held = held_by([*gathers, *sums])
        parts = (_listed(gathers, "parameter", "gathered"), _listed(sums, "sum", "reduced"))
        text = f"{held} bytes of a budget of {self.policy.memory_budget} are held: {'; '.join(filter(None, parts))}"
        costs = ", ".join(f"{cost} over {axis}" for axis, cost in self.policy.links.items())
        yield applied(NAME, self.module, f"{text}; a byte costs {costs}" if costs else text)


def _sums_of(module: ir.Operation, link_cost: str, axes: str) -> list[Trade]:
    """The sums that may be held whole, if there is room. Tried out on a copy."""
    copy = module.clone()
    before = len(taken_in(copy))
    separate_reductions(copy, axes=axes)
    for unshard in (expose_all_reduces, defer_sync):
        unshard(copy, policy="auto", memory_budget=UNLIMITED, link_cost=link_cost, axes=axes)
    return taken_in(copy)[before:]


def _listed(trades: list[Trade], what: str, done: str) -> str:
    count = f"1 {what}" if len(trades) == 1 else f"{len(trades)} {what}s"
    return f"{held_by(trades)} for {count} {done} once, which saves {saved_by(trades)}" if trades else ""


def _hoist_explicit(module: ir.Operation, plan: _Plan) -> Iterator[Remark]:
    """Hoists the all_gathers that the program has; again, where one gathers the result of another."""
    already = gathered_before(module) if ops_of(module, WHILE) else []
    yield from (missed(NAME, op, Declined("it is done before the loop already")) for op in already)
    while ops_of(module, ALL_GATHER):
        found, declined = _found(module, plan)
        groups: defaultdict[tuple[object, ...], list[LoopGather]] = defaultdict(list)
        for gather in found:
            groups[gather.key].append(gather)
        worth = [group for group in groups.values() if len(group) > 1 or group[0].repeats]
        decided = plan.chosen([_trade(group, _element_of(group, plan.dtype), plan.policy) for group in worth])
        chosen = [group for group, no in zip(worth, decided, strict=True) if no is None]
        if not chosen:
            yield from declined
            yield from (missed(NAME, gather.op, Declined(CHANGED)) for gather in found if gather.is_changed)
            over = [(group[0].op, no) for group, no in zip(worth, decided, strict=True) if no is not None]
            yield from (missed(NAME, op, no) for op, no in over)
            return
        yield from _hoist_groups(module, chosen, plan)


def _trade(group: list[LoopGather], element: ir.Type, policy: Policy) -> Trade:
    """Once, or for each gather of the group as often as it is done: of slices, in as many parts."""
    held = bytes_of(gathered_type(group[0], element))
    before = sum(gather.executions * bytes_of(ir.RankedTensorType(gather.op.results[0].type)) for gather in group)
    link = policy.link(axes_of(group[0].over, policy.meshes) or ()) if policy.links else 1
    return Trade(before - held, held, sum(gather.executions for gather in group) - 1, link)


def _found(module: ir.Operation, plan: _Plan) -> tuple[list[LoopGather], list[Remark]]:
    """The all_gathers that may be hoisted, and why others may not."""
    found, declined = list[LoopGather](), list[Remark]()
    gathers = LoopGathers()
    for op in ops_of(module, ALL_GATHER):
        try:
            gather = gathers.of(op)
            if gather is not None:
                plan.policy.require_axes(gather.over, plan.policy.meshes)
        except Declined as reason:
            declined.append(missed(NAME, op, reason))
            continue
        found += [gather] if gather is not None else []
    return found, declined


def _hoist_groups(module: ir.Operation, groups: list[list[LoopGather]], plan: _Plan) -> Iterator[Remark]:
    """Each group gathers the same; one remark for those that gather over the same axes in front of the same loop."""
    meshes = tuple(meshes_of(module).values())
    done: defaultdict[tuple[ir.Block, str], list[tuple[Loop, Choice]]] = defaultdict(list)
    loops: dict[ir.Block, Loop] = {}
    for group in groups:
        first = group[0]
        element = _element_of(group, plan.dtype)
        within = {gather.loop.body: gather.loop for gather in group}
        over = tuple(axes_of(first.over, meshes) or ())
        instead = _in_trips(first.loop) if first.repeats else f"slice by slice in {len(within)} loops"
        trade = _trade(group, element, plan.policy)
        choice = _choice(name_of(first.value), trade.saved, trade.held)
        done[first.loop.body, f"gathered{_over(over)} before the loop, not {instead}"].append((first.loop, choice))
        loops |= within
        gathered_before_loop(group, element)
    for (_, what), each in done.items():
        yield _applied(each[0][0], [choice for _, choice in each], what)
    for loop in loops.values():
        erase_unread_in_barriers(loop)


def _element_of(group: list[LoopGather], dtype: ir.Type | None) -> ir.Type:
    """The element type to gather in: `dtype` for floats, or the narrower one that all of `group` need."""
    own = ir.RankedTensorType(group[0].value.type).element_type
    if dtype is not None and is_float(own):
        return dtype
    needed = {gather.element for gather in group}
    return needed.pop() if len(needed) == 1 else own


def _hoist_global(module: ir.Operation, plan: _Plan) -> Iterator[Remark]:
    """Hoists the all-gathers that XLA adds to a program for all devices."""
    loops = [op for op in reversed(ops_of(module, WHILE)) if not is_manual(op)]  # outer ones before those in them
    if not loops or not has_mesh(module):
        return
    try:
        propagated = Propagated(module)
    except Declined as reason:
        yield missed(NAME, reason.op or module, reason)
        return
    for op in loops:
        yield from _hoist_all(Loop(op), propagated, plan)


def _hoist_all(loop: Loop, propagated: Propagated, plan: _Plan) -> Iterator[Remark]:
    """Hoists the gathers that may be; one remark for each group of parameters that are gathered over the same axes."""
    steps = list[_Step]()
    for each in step_parameters(loop, propagated, plan.policy, plan.dtype, finite=plan.finite):
        try:
            steps += [_Step(each, names, trade) for names, trade in steps_once(each.record)]
        except Declined as declined:
            yield _stays(loop, each.record.name, each.record.once, declined)
    taken: defaultdict[ir.Value, list[_Step]] = defaultdict(list)
    for step, no in zip(steps, plan.chosen([step.trade for step in steps]), strict=True):
        if no is None:
            taken[step.of.parameter.value].append(step)
        else:
            yield _stays(loop, step.of.record.name, step.trade, no)
    yield from _hoist_taken(loop, list(taken.values()))


class _Step(NamedTuple):
    """A parameter that may be gathered over axes, where it is over those of the step before it."""

    of: StepParameter
    names: frozenset[str]  # of these axes, and those before
    trade: Trade


def _hoist_taken(loop: Loop, taken: Sequence[Sequence[_Step]]) -> Iterator[Remark]:
    """Gathers the parameters, each of which took some steps."""
    groups: defaultdict[tuple[tuple[str, ...], bool], list[Choice]] = defaultdict(list)
    guessed = set[tuple[tuple[str, ...], bool]]()
    renewed = list[tuple[Parameter, ir.Type]]()
    for own in taken:
        each, parameter = own[-1].of, own[-1].of.over(own[-1].names)
        trades = [step.trade for step in own]
        key = tuple(axis.label for axis in dict.fromkeys(parameter.axes)), parameter.is_invariant
        groups[key].append(_choice(each.record.name, saved_by(trades), held_by(trades)))
        guessed |= {key} if parameter.moved else set()
        if parameter.is_invariant:
            hoist(loop, parameter, each.element)
        else:
            renewed.append((parameter, each.element))
    for key, group in groups.items():
        axes, is_invariant = key
        when = "before the loop" if is_invariant else "in the first trip and after each update"
        what = f"gathered{_over(axes)} {when}, not {_in_trips(loop)}"
        yield _applied(loop, group, what, is_guess=key in guessed, most="" if is_invariant else "at most ")
    if renewed:
        loop = hoist_renewed(loop, renewed)
    if groups:
        erase_unread_in_barriers(loop)


def _stays(loop: Loop, name: str, once: Trade, no: Declined) -> Remark:
    """Why the parameter is gathered at use, and the bytes per device that this takes in a step."""
    remark = missed(NAME, loop.op, no)
    choice = _choice(name, once.saved, once.held)
    text = f"{remark.text}; at use, {name} takes {choice.in_loops} bytes in a step"
    return replace(remark, text=text, choices=(choice,))


def _choice(name: str, saved: int, held: int) -> Choice:
    return Choice(name, saved + held, held)


def _applied(loop: Loop, group: list[Choice], what: str, *, is_guess: bool = False, most: str = "") -> Remark:
    held, before = sum(choice.once for choice in group), sum(choice.in_loops for choice in group)
    fewer = before - held
    parameters = "1 parameter is" if len(group) == 1 else f"{len(group)} parameters are"
    text = f"{parameters} {what}; {held} bytes are held, and {most}{fewer} fewer are gathered"
    saved = Saved(len(group), before, 1, len(group), held, is_guess)
    return replace(applied(NAME, loop.op, text, saved=saved, held=held), choices=tuple(group))


def _over(axes: Sequence[str]) -> str:
    return f" over {' and '.join(axes)}" if axes else ""


def _in_trips(loop: Loop) -> str:
    trips = trip_count(loop)
    return "in each trip" if trips is None else f"in each of {trips} trips"
