"""Deferral of the reduction of accumulated gradients until after the loop."""

from typing import Annotated

from jaxlib.mlir import ir

from paropt.passes.dataflow.linearity import ConvertPolicy
from paropt.passes.deferral.call_hint import called_sums_missed, kept_sums_missed
from paropt.passes.deferral.guard import reset_sums_skipped
from paropt.passes.deferral.policy import Policy, PolicyName, names_where
from paropt.passes.deferral.rewrite import Options, defer_in
from paropt.passes.ir.types import FloatName, float_type
from paropt.passes.rewrite.wire import set_wire_type
from paropt.passes.sharding.channels import ChannelRanks
from paropt.passes.sharding.collectives import REDUCTIONS
from paropt.passes.sharding.meshes import LinkCosts, MeshAxes, axes_named, meshes_of
from paropt.passes.support.registry import Bytes, OnlyWith, register
from paropt.passes.support.remarks import Remark
from paropt.passes.support.traversal import ops_of

NAME = "defer-sync"


@register
def defer_sync(
    module: ir.Operation,
    *,
    convert: Annotated[
        ConvertPolicy,
        "What a reduction may cross: converts to a wider float type (widening), also from f32 to bf16 and back, which "
        "are left out (excess-precision), or to any float type (any).",
    ] = "excess-precision",
    policy: Annotated[
        PolicyName,
        f"What may cost memory: no sums ({names_where(lambda each: not each.sums and not each.budget)}: a "
        "reduce_scatter stays in the loop, with its sharded accumulator), all sums "
        f"({names_where(lambda each: each.sums)}), or those that save most within memory-budget "
        f"({names_where(lambda each: each.budget)}). An all_reduce of which each device reads its shard becomes a "
        "reduce_scatter, over other axes once, even where that stays in the loop, since it sends less; not with "
        f"{names_where(lambda each: not each.scatters_own_shards)}.",
    ] = "keep-shards",
    memory_budget: Annotated[
        Bytes,
        "With policy=auto, and only then: bytes per device that accumulators may take more.",
        OnlyWith("policy", "auto"),
    ] = 0,
    link_cost: Annotated[
        LinkCosts,
        "With policy=auto: what a byte costs over each of these mesh axes, as in `replica:8,data:1`; over others 1.",
    ] = "",
    accumulate_dtype: Annotated[
        FloatName, "Carry deferred sums in this float type where it is wider than the program's accumulator."
    ] = "program",
    wire_dtype: Annotated[
        FloatName, "Convert to this float type before a deferred reduction, and back after it: fewer bytes, rounded."
    ] = "program",
    finite: Annotated[
        bool,
        "Take 0 times anything for 0, also for infinities and NaNs: an update that is multiplied by 0 in "
        "all but some trips, as by optax.MultiSteps, is computed in these alone.",
    ] = False,
    axes: Annotated[MeshAxes, "Move only reductions over these mesh axes, as in 'data,replica'; default: all."] = "",
) -> list[Remark]:
    """Accumulate on each device and reduce once after the loop, instead of in every iteration.

    Before:

        %r = while (%acc = %start) {
          %g = all_reduce(%x)
          %next = add %acc, %g
          return %next
        }

    After:

        %d = while (%sum = %zero) {
          %next = add %sum, %x
          return %next
        }
        %s = all_reduce(%d)
        %r = add %start, %s

    Inner loops come first, so a reduction leaves a nest of loops one by one; where an inner loop scales the
    accumulator, or selects from it, it carries both parts there, too. The residual of the accumulator (its init
    operand, terms that are not partial sums, or that the body needs reduced) is counted once, not once per device: an
    init operand that is not zero is added after the loop, and is carried beside the sum only if the loop changes it.
    Where the program computes equivalent values, one for the accumulator and one for a reader that needs it reduced,
    the first of both is reduced for both. Maxima and minima are deferred in the same way. An `optimization_barrier`
    holds partial sums as it held the reduced values.

    Reductions in an if or case count as in the body, and its other branches as residuals. A branch that runs in the
    last iteration only ("sync", or update, "on the last micro-batch") moves behind the loop as it is, where the other
    branch does nothing and all that it reads is loop-carried. Another branch that reads the sum, such as an update in
    every fourth iteration, reduces it for itself, first thing in there. Values that the loop selects by its induction
    variable instead, such as an update written with `jax.numpy.where`, become such a branch: ops with readers on one
    side only sink into that side, and so do ops of the body with a branch as their only reader. Several branches on the
    same counter become one with the ops between them, such as Keras's update, of which a branch keeps every fourth.

    Where the last iteration has reset an accumulator, such as in a branch that updates, nothing is reduced after the
    loop; where that depends on the init operand of the caller's counter, the loop carries whether it has, and an if
    asks that.

    Stacks of rows that `accumulate-in-place` adds to the sums of the loop around do not count as held beside these.

    A program that is called for each micro-batch has no loop to leave: a remark names the arguments that it returns
    with reduced sums added, where no other reader needs these in each call.

    Legal when:

    *Reduction and accumulator*

    - the reduction has an identity element to start from: it is a sum, a maximum or a minimum
    - each op between the reduction and the accumulator is linear
    - a convert between them is to a wider float type, or from f32 to bf16 and back, unless a loop carries it or an op
      in between can't be widened; or any with the option `convert=any`
    - the reduction is in the body of the loop, or in a branch there whose predicate is uniform
    - nothing else in the body reads the reduced value, but for branches with uniform predicates
    - nothing else in the body reads the accumulator, but for branches with uniform predicates
    - an inner loop that carries the accumulator computes linear ops of it only
    - an accumulator that is not reduced after the loop is the identity element: the last iteration has reset it

    *Uniformity over the replica groups*

    - factors are uniform
    - predicates are uniform
    - indices are uniform
    - the trip count of the loop is uniform

    *The loop*

    - it has no shardings of its own (they are one per loop-carried value)
    - its condition does not read the accumulator

    *Selects that become a branch*

    - they share one scalar predicate, and none depends on another
    - ops that move into the branch have no side effects and no collectives
    - a multiplication counts as a select only with the option `finite`, and where its factor is 0 or 1

    Worth it when:

    - fewer bytes are reduced after the loop, and in branches that read the sum, than in all iterations (of a loop
      around it, too, if they leave that), or as many in fewer arrays; loop-invariant values count once, as XLA hoists
      them, and a branch as often as it can be taken; or nothing is left to reduce in an iteration, for at most 4 kB
      more for each collective fewer
    - bytes are saved, or at most 4 kB more are held for each collective fewer
    - a scalar, such as a loss, is not reduced beside others that stay: XLA combines all of a kind and element type
    - in a global-view program, a scalar is not computed from sums over the same devices that stay: there XLA shards
      features of activations, and a constraint on the scalar may have it move others
    - a branch made of selects is taken in some iterations only, for any init operand of the counter, and reduces the
      sum (else it stays)
    - an if after the loop reduces more than scalars, and more than 4 kB where others are reduced beside it
    - duplicating ops costs less than the communication saved; 1,000 multiplications count as one byte
    - the accumulator keeps its shard, unless `policy` allows more memory: one before a reduce_scatter is unsharded

    Right for any number of trips, zero included. Floating-point sums are reassociated, so results may differ by
    rounding; of maxima and minima, where there are NaNs, which not all of XLA's reductions pass on. Converts from f32
    to bf16 and back are left out on the way, as XLA does by default. No type becomes narrower than the program's own
    accumulator, unless `wire-dtype` asks for it: that rounds once, before the reduction that follows the outermost
    loop. With `accumulate-dtype`, sums of narrower floats are carried and reduced in that type, whatever bytes that
    takes, and rounded once to the program's; a convert that would narrow them on the way is left out. Contractions,
    windows and scatters work in the type in which they are written.

    Sources: XLA `WhileLoopAllReduceCodeMotion`, without its unsound cases; Alpa's gradient accumulation.
    """
    if not ops_of(module, *REDUCTIONS):
        return []
    allowed = Policy.of(module, policy, memory_budget, axes_named(axes), link_cost)
    meshes = tuple(meshes_of(module).values())
    accumulate, wire = (float_type(name, module.context) for name in (accumulate_dtype, wire_dtype))
    channels = ChannelRanks(module)
    remarks = defer_in(module, Options(NAME, convert, accumulate, allowed, meshes, finite))
    remarks += kept_sums_missed(module, convert, NAME)
    remarks += reset_sums_skipped(module, NAME)
    remarks = remarks or called_sums_missed(module, NAME)
    allowed.note(module)
    set_wire_type(module, wire)
    if any(remark.applied for remark in remarks):
        channels.keep_apart()
    return remarks
