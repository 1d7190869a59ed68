"""The ops of a global-view program whose results have to be reduced over mesh axes.

In a `jax.jit` program with shardings the partitioner adds a reduction after each op that reduces over a sharded
dimension. The reduced dimensions of an op follow from Shardy's sharding rules, their shardings from its propagation.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from paropt.passes.dataflow.linearity import require_sum_from_zero
from paropt.passes.dataflow.xla_tracking import always, require_one_group, require_real
from paropt.passes.ir.constants import is_zero, scalar_of
from paropt.passes.ir.constraints import CONSTRAINT
from paropt.passes.ir.loops import WHILE
from paropt.passes.ir.op_table import ops_with
from paropt.passes.sharding.annotations import is_source, shard_bytes
from paropt.passes.sharding.axes import Axes, has_part, names_of
from paropt.passes.sharding.collectives import ADD, combiner_of, not_a_sum
from paropt.passes.sharding.op_rules import Factors, ShardingRule, parse_rule
from paropt.passes.sharding.propagation import Propagated
from paropt.passes.sharding.shardings import (
    MANUAL,
    Sharding,
    in_mesh_order,
    is_even,
    is_idle,
    is_manual,
    mesh_behind,
    read_sharding,
    result_shardings,
    without,
)
from paropt.passes.spmd.kept_extremes import is_kept_extreme
from paropt.passes.spmd.xla_quirks.exchanges import exchanges, require_not_exchanged
from paropt.passes.spmd.xla_quirks.in_place import Split, require_cut_in_place, require_kept, split_by
from paropt.passes.spmd.xla_quirks.operand_gathers import Gather, gathers
from paropt.passes.support.remarks import Declined, require
from paropt.passes.support.traversal import is_within, module_of, ops_of

_CONVOLUTION, _DOT, SCATTER = "stablehlo.convolution", "stablehlo.dot_general", "stablehlo.scatter"
PRODUCTS = ops_with("contraction")


class Producer(NamedTuple):
    """An op whose result is, on each device, an addend of the value: over `axes` of `mesh`."""

    value: ir.Value
    mesh: str
    axes: Axes
    operands: tuple[tuple[Axes, ...], ...]  # per operand and dimension: the axes that shard a reduced dimension
    op: ir.Operation  # that adds up
    shared: tuple[int, ...] = ()  # the operands that lie so for all that reads them
    gathered: tuple[Gather | None, ...] = ()  # per operand: how it is gathered first, where it is
    closed: tuple[tuple[int, ...], ...] = ()  # per operand: dimensions that may not be split further


class ProducerRow(NamedTuple):
    """An op that reduces over dimensions of its operands, when `require` does not decline."""

    op: str
    require: Callable[[ir.Operation], None]
    reason: str


def _adds_from_zero(op: ir.Operation) -> None:
    require_real(op)
    require_sum_from_zero(op)


def _adds_to_zeros(op: ir.Operation) -> None:
    require_real(op)
    require(len(op.operands) == 3 and combiner_of(op) == ADD, not_a_sum(op), op)
    require(is_zero(op.operands[0]), "a scatter adds to values that are not zero", op)


# Only sums: Shardy's rules call the reduced dimension of a maximum a reduction, too.
_TABLE = (
    ProducerRow(_DOT, always, "a sum of products"),
    ProducerRow(_CONVOLUTION, require_one_group, "a sum of products"),
    ProducerRow("stablehlo.reduce", _adds_from_zero, "a sum; the start value would be counted once per device"),
    ProducerRow(SCATTER, _adds_to_zeros, "sums of rows; what they are added to would be counted once per device"),
)
PRODUCERS = {row.op: row for row in _TABLE}


def producers(module: ir.Operation, propagated: Propagated) -> tuple[list[Producer], list[Declined]]:
    """The ops of `module` whose results have to be reduced, in program order, and why others can't be left to us.

    Of those in manual computations, and of running maxima, `separate-reductions` tells.
    """
    found: list[Producer] = []
    declined: list[Declined] = []
    exchanged = exchanges(module, propagated)
    for op in ops_of(module, *PRODUCERS):
        if is_manual(op) or _is_left_unreduced(op) or is_kept_extreme(op):
            continue
        try:
            producer = producer_of(op, propagated)
            if producer is not None:
                require_not_exchanged(op, producer.operands, exchanged, propagated)
        except Declined as reason:
            declined.append(reason)
            continue
        if producer is not None:
            found.append(producer)
    return found + closed_sums(module), declined


def has_producers(module: ir.Operation) -> bool:
    """Whether some op of `module` may be one, outside of manual computations, be there shardings or not."""
    return bool(closed_sums(module)) or not all(is_manual(op) for op in ops_of(module, *PRODUCERS))


def closed_sums(module: ir.Operation) -> list[Producer]:
    """Values that the program itself declares unreduced, where all readers are constraints that ask for the sum.

    JAX's explicit mode writes that, of parameters that are resharded as `reduced`.
    """
    found: list[Producer] = []
    for op in ops_of(module, CONSTRAINT, MANUAL):
        for value, lies in zip(op.results, () if is_manual(op) else _said(op), strict=False):
            if lies.unreduced and not has_part(lies.unreduced) and _is_asked_for(value):
                found.append(Producer(value, lies.mesh, lies.unreduced, (), op))
    return found


def _said(op: ir.Operation) -> list[Sharding]:
    """How the results of a constraint or manual computation are to lie; nothing where that changes nothing."""
    if op.name == MANUAL:
        return result_shardings(op)
    return [] if is_source(op) or is_idle(op) else [read_sharding(op.attributes["sharding"])]


def _is_asked_for(value: ir.Value) -> bool:
    users = [use.owner.operation for use in value.uses]
    asked = all(user.name == CONSTRAINT and not read_sharding(user.attributes["sharding"]).unreduced for user in users)
    return bool(users) and asked


def _is_left_unreduced(op: ir.Operation) -> bool:
    """Whether the program says already that the result of `op` is unreduced."""
    for use in op.results[0].uses:
        user = use.owner.operation
        if user.name == CONSTRAINT and read_sharding(user.attributes["sharding"]).unreduced:
            return True
    return False


def producer_of(op: ir.Operation, propagated: Propagated) -> Producer | None:
    """The reduction over devices that `op`, one of PRODUCERS, needs, if any. Declines one that can't be left to us."""
    text = propagated.sharding_rule(op)
    return _producer(op, parse_rule(text), propagated) if "reduction=" in text else None


def _producer(op: ir.Operation, rule: ShardingRule, propagated: Propagated) -> Producer | None:
    lies = propagated.operand_shardings(op)
    splits = _splits(lies, rule)
    if not any(map(any, splits)):
        return None
    gathered = gathers(op, propagated)
    if any(gathered):
        lies = [own if first is None else first.after for own, first in zip(lies, gathered, strict=True)]
    result = propagated.sharding_of(op.results[0])
    given = lies
    lies = _cut_alike(op, given, rule, result) if op.name in PRODUCTS else given
    splits = _splits(lies, rule)
    axes = _added_up(splits, rule)
    mesh = next((s.mesh for s, split in zip(lies, splits, strict=True) if s is not None and any(split)), None)
    if mesh is None:
        return None
    PRODUCERS[op.name].require(op)
    _require_whole_window(op, lies)
    even = result is None or is_even(op.results[0], result, module_of(op))
    require(even, "its result is sharded into unequal parts", op)
    require(axes is not None, "its operands are sharded in different ways", op)
    meshes = {sharding.mesh for sharding in (*lies, result) if sharding is not None and sharding.axes}
    require(meshes == {mesh}, "its operands and its result are sharded on different meshes", op)
    together = in_mesh_order(module_of(op), mesh, [axis for over in (axes or {}).values() for axis in over])
    if has_part(together):
        _require_whole(op, together, propagated)
    partial = [own if any(split) else None for own, split in zip(lies, splits, strict=True)]
    left = result._replace(dimensions=without(result.dimensions, together)) if result is not None else None
    _require_in_place(op, rule, partial, left)
    if left is not None and op.name in PRODUCTS:
        require_cut_in_place(op, rule, lies, left, together)
    _require_rows_in_place(op, rule, partial, result)
    read = [i for i, split in enumerate(splits) if any(split) and gathered[i] is None and lies[i] == given[i]]
    shared = [i for i in read if _is_shared(op, i, propagated)]
    return Producer(op.results[0], mesh, together, splits, op, tuple(shared), gathered, _closed_dims(rule, gathered))


def _require_whole_window(op: ir.Operation, lies: Sequence[Sharding | None]) -> None:
    """Declines a convolution that XLA reduces over the devices of a window itself, whatever the constraints."""
    if op.name != _CONVOLUTION:
        return
    numbers = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    for sharding, window in zip(
        lies, (numbers.input_spatial_dimensions, numbers.kernel_spatial_dimensions), strict=True
    ):
        split = sharding is not None and any(sharding.dimensions[dimension] for dimension in window)
        require(not split, "XLA reduces a convolution with a sharded window itself, whatever the constraints", op)


def _require_in_place(
    op: ir.Operation, rule: ShardingRule, lies: Sequence[Sharding | None], left: Sharding | None
) -> None:
    """Declines where the addends are sharded differently than `left`: the result, without the axes it reduces over."""
    before: Split = {}
    for sharding, dims in zip(lies, rule.operands, strict=True):
        if sharding is not None:
            kept = (() if _is_added_up(of, rule) else over for of, over in zip(dims, sharding.dimensions, strict=True))
            before |= split_by(sharding._replace(dimensions=tuple(kept)), dims, rule, module_of(op))
    after = split_by(left, rule.results[0], rule, module_of(op)) if left is not None else {}
    require_kept(before, after, op)


def _require_rows_in_place(
    op: ir.Operation, rule: ShardingRule, lies: Sequence[Sharding | None], result: Sharding | None
) -> None:
    """Declines a scatter to rows that are split where an axis of the mesh has no part in it, before one that has.

    XLA numbers the devices anew to cut the rows, and brings its result back to where it belongs: of an unreduced value,
    with parts from devices that have other addends.
    """
    if op.name != SCATTER or result is None:
        return
    updated = {factor for dims in rule.operands[1:] for factors in dims for factor in factors}
    rows = [axes for factors, axes in zip(rule.results[0], result.dimensions, strict=True) if not updated & {*factors}]
    mesh = mesh_behind(module_of(op), result.mesh)
    if mesh is None or not any(rows):
        return
    used = names_of(axis for sharding in (result, *lies) if sharding is not None for axis in sharding.axes)
    names = [name for name, size in mesh.axes if size > 1]
    behind = [{*names[i:]} if mesh.is_in_order else {*names} for i in range(len(names))]  # XLA goes by the devices
    idle = next((name for name, others in zip(names, behind, strict=True) if name not in used and used & others), None)
    require(idle is None, f"its rows are sharded, and nothing of it over `{idle}`: XLA would add wrong parts", op)


def _is_shared(op: ir.Operation, position: int, propagated: Propagated) -> bool:
    """Whether operand `position` lies for `op` as for all else: of scalars, Shardy makes a copy for each reader."""
    return scalar_of(op.operands[position]) is None and propagated.is_read_as_made(op, position)


def _require_whole(op: ir.Operation, axes: Axes, propagated: Propagated) -> None:
    """Declines where XLA would move examples to leave a sum over `axes`, one of them a part of an axis, for later."""
    require(
        is_within(op, WHILE),
        "it reduces over a part of an axis, and for that XLA would move examples outside of loops",
        op,
    )
    result = propagated.sharding_of(op.results[0])
    apart = result is None or not names_of(result.axes) & names_of(axis for axis in axes if has_part([axis]))
    require(apart, "it reduces over a part of an axis, and another part shards its result", op)


def _splits(lies: Sequence[Sharding | None], rule: ShardingRule) -> tuple[tuple[Axes, ...], ...]:
    """Per operand and dimension, the axes that shard reduced dimensions; () for the other dimensions."""
    return tuple(
        ((),) * len(dims)
        if sharding is None
        else tuple(axes if _is_added_up(of, rule) else () for of, axes in zip(dims, sharding.dimensions, strict=True))
        for sharding, dims in zip(lies, rule.operands, strict=True)
    )


def _cut_alike(
    op: ir.Operation, lies: Sequence[Sharding | None], rule: ShardingRule, result: Sharding | None
) -> list[Sharding | None]:
    """`lies`, where an operand that holds all of a reduced dimension is cut along it as the other one is sharded.

    XLA may all-gather the other one instead, in each iteration: where the sum is larger, that may send less.
    """
    over: dict[Factors, Axes] = {}
    for dims, split in zip(rule.operands, _splits(lies, rule), strict=True):
        for of, axes in zip(dims, split, strict=True):
            over[of] = over.get(of) or axes
    taken = names_of(result.axes) if result is not None else frozenset[str]()
    over = {of: axes if not names_of(axes) & taken else () for of, axes in over.items()}
    mesh = next(sharding.mesh for sharding in lies if sharding is not None)
    cut = [_cut(sharding, dims, over, mesh) for sharding, dims in zip(lies, rule.operands, strict=True)]
    size = shard_bytes(op.results[0], result)
    for i, (own, after) in enumerate(zip(lies, cut, strict=True)):
        if after != own and size > _gathered_bytes(op.operands[1 - i], lies[1 - i], own, after):
            return list(lies)
    return cut


def _cut(sharding: Sharding | None, dims: Sequence[Factors], over: dict[Factors, Axes], mesh: str) -> Sharding | None:
    """`sharding` with dimensions cut `over` axes; as it is where there are none, or other dimensions need these."""
    own = sharding or Sharding(mesh, ((),) * len(dims))
    cut = tuple(before or over.get(of, ()) for of, before in zip(dims, own.dimensions, strict=True))
    axes = [axis for each in cut for axis in each]
    apart = len(names_of(axes)) == len(axes)
    return own._replace(dimensions=cut) if cut != own.dimensions and apart else sharding


def _gathered_bytes(value: ir.Value, lies: Sharding | None, before: Sharding | None, after: Sharding | None) -> int:
    """The bytes of `value` on a device, all-gathered over the axes that `after` has and `before` has not."""
    added = after.axes - (before.axes if before is not None else frozenset()) if after is not None else frozenset()
    left = lies._replace(dimensions=without(lies.dimensions, tuple(added))) if lies is not None else None
    return shard_bytes(value, left)


def _closed_dims(rule: ShardingRule, gathered: Sequence[Gather | None]) -> tuple[tuple[int, ...], ...]:
    """Per operand, the reduced dimensions where the other operand is all-gathered."""
    return tuple(tuple(i for i, of in enumerate(dims) if _is_added_up(of, rule)) for dims in rule.operands)


def _added_up(splits: Sequence[Sequence[Axes]], rule: ShardingRule) -> dict[Factors, Axes] | None:
    """The axes that shard each reduced dimension; None where the operands differ."""
    axes: dict[Factors, Axes] = {}
    for dims, split in zip(rule.operands, splits, strict=True):
        for of, over in zip(dims, split, strict=True):
            if _is_added_up(of, rule) and axes.setdefault(of, over) != over:
                return None
    return axes


def _is_added_up(dimension: Factors, rule: ShardingRule) -> bool:
    return bool(dimension) and rule.reduced.issuperset(dimension)
