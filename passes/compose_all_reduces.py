"""Hierarchies of reductions, by shards or over one mesh axis after the other, as one all_reduce."""

from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.dataflow.unreduced import said_unreduced
from paropt.passes.ir.constraints import CONSTRAINT
from paropt.passes.rewrite.erase import erase_unread
from paropt.passes.rewrite.reduce_scatter import groups_attribute
from paropt.passes.rewrite.residual_split import reduction
from paropt.passes.rewrite.scale import scale_of, scaled
from paropt.passes.sharding.collectives import (
    ALL_GATHER,
    ALL_REDUCE,
    DECOMPOSED,
    IDEMPOTENT,
    REDUCE_SCATTER,
    Groups,
    Reduction,
    difference,
    reduction_of,
    replica_groups,
    works_like,
)
from paropt.passes.sharding.shardings import SHARDING
from paropt.passes.support.registry import register
from paropt.passes.support.remarks import Declined, Remark, applied, missed, require
from paropt.passes.support.traversal import defining_op, is_read_once, ops_of

NAME = "compose-all-reduces"

_UNLIKE = "shards of a group are summed over unlike groups"
_UNITED = "the sums of a group's devices are added to unlike others"


class _Sums(NamedTuple):
    """A sum over some devices, and the sum of that over others."""

    first: ir.Operation
    between: list[ir.Operation]  # ops that constrain, multiply or divide it, in program order
    last: ir.Operation


class _Steps(NamedTuple):
    """A reduction by hand."""

    scatter: ir.Operation
    between: list[ir.Operation]  # all_reduces and constraints of shards, and products of these, in program order
    gather: ir.Operation

    @property
    def sums(self) -> list[ir.Operation]:
        return [op for op in self.between if op.name == ALL_REDUCE]


@register
def compose_all_reduces(module: ir.Operation) -> list[Remark]:
    """Write a hierarchy of collectives, or sums over axes in turn, as one all_reduce.

    Steps that spare a slow network reduce in a hierarchy: a reduce_scatter over the devices of a host, an all_reduce of
    the shards between hosts, and an all_gather. None of these ops alone can leave a loop, as the next one is no sum.
    `decompose-all-reduces` writes the all_reduce as the steps of the program again, wherever it is then. In a
    global-view program, the partitioner reduces an all_reduce that leaves a block under `jax.shard_map` at once,
    instead of in the steps of all blocks.

    Before:

        %s = reduce_scatter(%x)                     over the devices of a host
        %t = all_reduce(%s)                         over hosts
        %r = all_gather(%t)                         over the devices of a host

        %u = all_reduce(%y)                         over one axis
        %v = all_reduce(%u)                         over another one

    After:

        %r = all_reduce(%x) {paropt.decomposed}     over all

        %v = all_reduce(%y)                         over both

    From inner to outer steps: a shard may be summed in steps of its own. Multiplications, divisions (as of `lax.pmean`)
    and constraints of shards are applied to the whole. Whole arrays that are summed over one axis after the other, such
    as `psum(psum(g, "data"), "replica")`, spare no network: they stay one all_reduce, which sends less.

    Legal when:

    *Scattered, summed and gathered shards*

    - shards are gathered in the dimension and the order in which they are scattered
    - a shard is summed with the same shard of other groups, and all shards of a group over the same groups
    - shards are multiplied or divided by constant scalars only, and before a sum, by powers of two
    - no constraint says that a shard is unreduced
    - nothing else reads a shard, and all steps are in one block

    *All steps*

    - all reductions have the same reducer, and all steps the same channel mode
    - each step has one operand, and lists the devices of its replica groups

    *Whole arrays, summed in turn*

    - each sum is over other devices, over each once, and the same ones for all devices of a group; a maximum, minimum,
      and, or may be over devices several times
    - the sums differ in their groups only, and nothing else reads the first one

    Sources: Shardy `remove_ag_rs_for_cmv1`; XLA `ReduceScatterCreator`, the other way round.
    """
    remarks: list[Remark] = []
    if not ops_of(module, ALL_GATHER, ALL_REDUCE):
        return remarks
    for gather in ops_of(module, ALL_GATHER):
        steps = _steps(gather)
        if steps is None:
            continue
        try:
            over = _composed(steps)
        except Declined as declined:
            remarks.append(missed(NAME, gather, declined))
            continue
        count = len(steps.sums) + 2
        remarks.append(applied(NAME, gather, f"{count} steps are one all_reduce over {len(over[0])} devices"))
        _compose(steps, over)
    for op in ops_of(module, ALL_REDUCE):  # in program order: one that has been made may be the first of two
        sums = _sums(op)
        if sums is None:
            continue
        try:
            over = _summed_over(sums)
        except Declined as declined:
            remarks.append(missed(NAME, op, declined))
            continue
        at_once = f"one all_reduce over {len(over[0])} devices"
        remarks.append(applied(NAME, sums.first, f"{at_once} does this and the next one"))
        remarks.append(applied(NAME, op, f"2 sums in turn are {at_once}"))
        _sum_at_once(sums, over)
    return remarks


def _sums(last: ir.Operation) -> _Sums | None:
    """The two sums of which `last` is the second, if it is."""
    between: list[ir.Operation] = []
    value = last.operands[0]
    while (op := defining_op(value)) is not None and op.name != ALL_REDUCE:
        scale = scale_of(op)
        if scale is None and op.name != CONSTRAINT:
            return None
        between.insert(0, op)
        value = op.operands[scale.operand if scale else 0]
    return _Sums(op, between, last) if op is not None else None


def _summed_over(sums: _Sums) -> Groups:
    """The groups of the all_reduce that `sums` are."""
    first, between, last = sums
    for op in (first, *between):
        require(is_read_once(op.results[0]), "the first sum is also read by another op", op)
        require(op.block == last.block, "the sums are in several blocks", op)
    for op in (first, last):
        require(len(op.operands) == 1, "a sum has several operands", op)
    one, other = reduction_of(first), reduction_of(last)
    unlike = difference(one._replace(groups=other.groups), other)
    require(not unlike, unlike, last)
    listed = one.global_ids or not one.crosses_partitions
    require(bool(one.groups and other.groups) and listed, "its replica groups do not list devices", last)
    for op in between:
        scale = scale_of(op)
        require(
            scale is None or (one.is_sum and scale.is_exact), "a sum is multiplied before the next, and that rounds", op
        )
        require(scale is not None or not said_unreduced(op.results[0]), "a constraint says that a sum is unreduced", op)
    return _united(one.groups, other.groups, last, repeats=one.combiner in IDEMPOTENT)


def _united(over: Groups, summed: Groups, op: ir.Operation, *, repeats: bool) -> Groups:
    """Groups that are each several of `over`, of which `op` adds the sums up, in its groups `summed`.

    The sum of a group may be added several times if `repeats`.
    """
    owner = {device: i for i, group in enumerate(over) for device in group}
    require(sorted(owner) == sorted(device for group in summed for device in group), _UNITED, op)
    together: dict[int, frozenset[int]] = {}  # by the number of one of `over`: which of them are added up with it
    for group in summed:
        owners = frozenset(owner[device] for device in group)
        require(repeats or len(owners) == len(group), "a sum is added to itself", op)
        for i in owners:
            require(together.setdefault(i, owners) == owners, _UNITED, op)
    found = sorted({min(owners): owners for owners in together.values()}.items())
    return tuple(tuple(sorted(device for i in owners for device in over[i])) for _, owners in found)


def _sum_at_once(sums: _Sums, over: Groups) -> None:
    first, between, last = sums
    with ir.InsertionPoint(last), last.location:
        attributes = {**_described(last), "replica_groups": groups_attribute(over)}
        whole = reduction(ALL_REDUCE, first.operands[0], first.results[0].type, attributes, reduction_of(last).combiner)
    whole, factors = _as_between(whole, between, last)
    last.results[0].replace_all_uses_with(whole)
    for op in (last, *reversed(between), first):
        op.erase()
    erase_unread(factors)


def _steps(gather: ir.Operation) -> _Steps | None:
    """The steps that end in `gather`, if they begin with a reduce_scatter."""
    between: list[ir.Operation] = []
    value = gather.operands[0]
    while (op := defining_op(value)) is not None and op.name != REDUCE_SCATTER:
        scale = scale_of(op)
        if scale is None and op.name not in (ALL_REDUCE, CONSTRAINT):
            return None
        between.insert(0, op)
        value = op.operands[scale.operand if scale else 0]
    return _Steps(op, between, gather) if op is not None else None


def _composed(steps: _Steps) -> Groups:
    """The groups of the all_reduce that `steps` are."""
    scatter, between, gather = steps
    for op in (scatter, *between):
        require(is_read_once(op.results[0]), "a shard is also read by another op", op)
        require(op.block == gather.block, "the steps are in several blocks", op)
    for op in (scatter, *steps.sums, gather):
        require(len(op.operands) == 1, "a step has several operands", op)
    scattered = reduction_of(scatter)
    require(bool(scattered.groups), "its replica groups are not known", scatter)
    listed = scattered.global_ids or not scattered.crosses_partitions
    require(listed, "each id in its replica groups stands for several devices", scatter)
    require(_undoes(gather, scatter, scattered), "shards are not gathered as they are scattered", scatter)
    over = scattered.groups
    for number, op in enumerate(between):
        if op.name == ALL_REDUCE:
            over = _summed(op, over, scattered)
        elif scale := scale_of(op):
            last = all(later.name != ALL_REDUCE for later in between[number:])
            exact = scattered.is_sum and scale.is_exact
            require(exact or last, "shards are multiplied before they are summed, and that rounds", op)
        else:
            require(not said_unreduced(op.results[0]), "a constraint says that shards are unreduced", op)
    return over


def _summed(op: ir.Operation, over: Groups, scattered: Reduction) -> Groups:
    """The groups over which all is summed when `op` has summed shards that were summed over `over`."""
    summed = reduction_of(op)
    require(summed.combiner == scattered.combiner, "shards are reduced in another way", op)
    require(works_like(op, scattered), "shards are reduced in another channel mode", op)
    return _joined(over, scattered.groups, summed.groups, op)


def _undoes(gather: ir.Operation, scatter: ir.Operation, scattered: Reduction) -> bool:
    """Whether `gather` puts shards where `scatter` has cut them off."""
    groups = replica_groups(gather)
    alike = groups is not None and tuple(sorted(groups)) == scattered.groups and works_like(gather, scattered)
    dimension = ir.IntegerAttr(gather.attributes["all_gather_dim"]).value
    return alike and dimension == scattered.scatter_dimension and gather.results[0].type == scatter.operands[0].type


def _joined(over: Groups, scattered: Groups, summed: Groups, op: ir.Operation) -> Groups:
    """Groups that are each one of `over`, or several of which `op` adds shard by shard, in its groups `summed`.

    The devices of each of the groups `scattered` hold shards in the order of these.
    """
    shard = {device: number for group in scattered for number, device in enumerate(group)}
    owner = {device: i for i, group in enumerate(over) for device in group}
    require(sorted(shard) == sorted(device for group in summed for device in group), _UNLIKE, op)
    together: dict[int, set[frozenset[int]]] = {}  # by the number of a shard: which of `over` add theirs
    for group in summed:
        require(len({shard[device] for device in group}) == 1, "shards are summed with other ones", op)
        owners = frozenset(owner[device] for device in group)
        require(len(owners) == len(group), "a shard is summed with itself", op)
        together.setdefault(shard[group[0]], set()).add(owners)
    first, *others = together.values()
    apart = sum(map(len, first)) == len(over)
    require(apart and all(other == first for other in others), _UNLIKE, op)
    return tuple(tuple(device for i in sorted(owners) for device in over[i]) for owners in sorted(first, key=min))


def _compose(steps: _Steps, over: Groups) -> None:
    scatter, gather = steps.scatter, steps.gather
    combiner = reduction_of(scatter).combiner
    with ir.InsertionPoint(gather), scatter.location:
        mark = ir.ArrayAttr.get([ir.DictAttr.get(_described(op)) for op in (scatter, *steps.sums, gather)])
        attributes = {**_described(scatter), "replica_groups": groups_attribute(over), DECOMPOSED: mark}
        del attributes["scatter_dimension"]
        whole = reduction(ALL_REDUCE, scatter.operands[0], gather.results[0].type, attributes, combiner)
    whole, factors = _as_between(whole, steps.between, gather)
    gather.results[0].replace_all_uses_with(whole)
    for op in (gather, *reversed(steps.between), scatter):
        op.erase()
    erase_unread(factors)


def _as_between(whole: ir.Value, between: list[ir.Operation], at: ir.Operation) -> tuple[ir.Value, list[ir.Value]]:
    """`whole` scaled and constrained as parts of it are in `between`, made before `at`; and the factors there."""
    factors: list[ir.Value] = []
    for op in between:
        with ir.InsertionPoint(at), op.location:
            if scale := scale_of(op):
                whole = scaled(whole, scale)
                factors.append(op.operands[1 - scale.operand])
            elif op.name == CONSTRAINT:  # on axes that are left to the partitioner: the same dimensions are split
                attributes = dict(op.attributes.items())
                whole = ir.Operation.create(CONSTRAINT, [whole.type], [whole], attributes).results[0]
    return whole, factors


def _described(op: ir.Operation) -> dict[str, ir.Attribute]:
    """The attributes of a step, its groups spelled out."""
    groups = replica_groups(op)
    assert groups is not None, "it is asked first"
    kept = {name: op.attributes[name] for name in op.attributes if name != SHARDING}
    return {**kept, "replica_groups": groups_attribute(groups)}
