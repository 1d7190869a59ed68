"""Costs and savings of replicating a sum that a program shards, or of leaving its sharding to its readers.

Tests: test/passes/expose-all-reduces-sharded.mlir, test/numeric/test_pinned_shardings.py.
"""

from collections.abc import Iterable
from itertools import pairwise
from math import prod
from typing import NamedTuple

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from paropt.passes.accumulators.stack_additions import is_added_in_place
from paropt.passes.dataflow.engine import spread
from paropt.passes.dataflow.unreduced import made_unreduced
from paropt.passes.deferral.deferral_cost import BYTES_PER_COLLECTIVE, Cost
from paropt.passes.deferral.holding_plan import are_in_order
from paropt.passes.deferral.policy import Policy
from paropt.passes.ir.loops import WHILE, Loop, loop_around, trip_count
from paropt.passes.ir.types import bytes_of
from paropt.passes.sharding.annotations import shard_bytes
from paropt.passes.sharding.axes import Axes, Axis, names_of
from paropt.passes.sharding.collectives import Reduction, global_reduction
from paropt.passes.sharding.propagation import Propagated
from paropt.passes.sharding.shardings import Sharding, mesh_behind, parts_in, unsplit, without
from paropt.passes.spmd.producers import SCATTER, Producer, producer_of
from paropt.passes.spmd.sharded_sums import is_activation
from paropt.passes.support.remarks import Declined
from paropt.passes.support.traversal import is_within, module_of, op_of, parent_of

_UNKNOWN = 2  # trips of a loop that does not tell: as few as can be worth it


def sums_of(producers: Iterable[Producer]) -> list[list[Producer]]:
    """The producers of each sum, in program order."""
    found: dict[ir.Value, list[Producer]] = {}
    for producer in producers:
        found.setdefault(_carried(producer.value)[-1], []).append(producer)
    return list(found.values())


def _carried(value: ir.Value) -> list[ir.Value]:
    """The accumulator of `value` in each of the loops that linear ops bring it to; at least `value` itself.

    The gradients of a loop over layers are stacked by that, and added up by the loop over micro-batches.
    """
    ends: list[ir.Value] = []

    def made_of(_: ir.Value, use: ir.OpOperand) -> list[ir.Value]:
        user = use.owner.operation
        if user.name == "stablehlo.return" and (loop := loop_around(user.block)) is not None:
            ends.append(loop.op.results[use.operand_number])
        return made_unreduced(use)

    spread({value: None}, made_of)
    return list(dict.fromkeys(ends)) or [value]


def cost_of_whole(
    producers: list[Producer], kept: frozenset[str], propagated: Propagated, beside: frozenset[str] = frozenset()
) -> Cost:
    """Of the sum of `producers`, which stays sharded over the axes `kept`, when it is left unreduced over them.

    Then each loop holds it whole: also one over layers, for the gradients of a micro-batch, if these are not added in
    place. Or a shard along `beside`, over which it stays sharded.
    """
    sizes = {}
    first = producers[0]
    mesh = mesh_behind(module_of(op_of(first.value)), first.mesh)
    shards, others = (
        prod(count for name, count in mesh.axes if name in each) if mesh else 1 for each in (kept, beside)
    )
    for producer in producers:
        lies = propagated.sharding_of(producer.value) or unsplit(producer.value, producer.mesh)
        whole = Sharding(producer.mesh, without(lies.dimensions, producer.axes))
        sizes[producer.value] = shard_bytes(producer.value, whole) // others
    parts = _carried(first.value)
    scale = sizes[first.value] / max(_bytes(first.value), 1)
    whole_parts = [round(_bytes(part) * scale) for part in parts]
    own = [size for part, size in zip(parts, whole_parts, strict=True) if not is_added_in_place(part)]
    held = sum(size - size // shards for size in own)
    runs = {value: executions(op_of(value)) for value in sizes}
    return Cost(sizes, dict(runs), dict.fromkeys(sizes, 1), [whole_parts[-1]], [], whole_parts[-1], held, 0)


class Step(NamedTuple):
    """A sum that may be left unreduced over some of the axes that shard it."""

    parts: list[Producer]
    axes: frozenset[str]
    reduction: Reduction
    cost: Cost


def steps_of(parts: list[Producer], kept: frozenset[str], propagated: Propagated, policy: Policy) -> list[Step]:
    """Over slow axes first, where that is worth more for each byte; else over all of `kept` that option axes allows."""
    allowed = kept & frozenset(policy.axes) if policy.axes else kept
    levels = policy.levels(sorted(allowed))
    steps = list[Step]()
    for axes in levels:
        faster = kept - axes - frozenset().union(*(step.axes for step in steps))
        steps.append(Step(parts, axes, _over_kept(parts[0], axes), cost_of_whole(parts, axes, propagated, faster)))
    if are_in_order([policy.trade_of(step.reduction, step.cost) for step in steps]):
        return steps
    cost = cost_of_whole(parts, allowed, propagated, kept - allowed)
    return [Step(parts, allowed, _over_kept(parts[0], allowed), cost)]


def _over_kept(producer: Producer, kept: frozenset[str]) -> Reduction:
    """The reduction over the axes `kept`, which is in each iteration: over the others the shards are summed once."""
    return global_reduction(producer.mesh, tuple(axis for axis in producer.axes if axis.name in kept))


def _bytes(value: ir.Value) -> int:
    return bytes_of(ir.RankedTensorType(value.type))


def are_activations_costlier(found: Iterable[Producer], propagated: Propagated, alone: Propagated) -> bool:
    """Whether loops would reduce more bytes of activations than with the shardings that XLA would infer `alone`.

    So it may be where the ops after a loop, such as experts that the axis of the examples shards, are not to decide the
    shardings in the loop: with those that are left, a contraction may reduce over devices.
    """
    gradients: set[ir.Value] = set()
    added = 0.0
    for producer in found:
        change = _sent(producer, propagated) - _sent_alone(producer, alone) if is_within(producer.op, WHILE) else 0
        if change and is_activation(producer.value, frozenset(), gradients):
            added += change * executions(producer.op)
    return added > 0


def _sent_alone(producer: Producer, alone: Propagated) -> float:
    """The bytes that XLA alone sends per device for the same op; none, where it all-gathers operands."""
    try:
        same = producer_of(producer.op, alone)
    except Declined:
        return 0
    return _sent(same, alone) if same is not None else 0


def _sent(producer: Producer, propagated: Propagated) -> float:
    """The bytes that a device sends for the reduction of `producer`."""
    lies = propagated.sharding_of(producer.value) or unsplit(producer.value, producer.mesh)
    whole = Sharding(producer.mesh, without(lies.dimensions, producer.axes))
    devices = parts_in(module_of(producer.op), Sharding(producer.mesh, (producer.axes,)))
    return 2 * shard_bytes(producer.value, whole) * (1 - 1 / devices)


def rows_outside_loops(found: Iterable[Producer], propagated: Propagated) -> dict[ir.Value, frozenset[Axis]]:
    """The axes that shard a scatter's sum outside of loops, where rows are cheaper: XLA alone sends these, as in loops.

    Of micro-batches that Python unrolls the sum could be reduced once, which may send less, and holds whole tables.
    """
    axes: dict[ir.Value, frozenset[Axis]] = {}
    for each in found:
        table = propagated.sharding_of(each.value) if loop_around(each.op.block) is None else None
        if table is not None and are_rows_cheaper(each, propagated):
            axes[each.value] = frozenset(table.axes) & frozenset(each.axes)
    return axes


def are_rows_cheaper(producer: Producer, propagated: Propagated) -> bool:
    """Whether a device gets fewer bytes of a scatter's rows than of its sum, as XLA alone sends them to split sums."""
    op = producer.op
    if op.name != SCATTER:
        return False
    table, *rows = (propagated.sharding_of(op.results[0]), *propagated.operand_shardings(op)[1:])
    left = (
        lies._replace(dimensions=without(lies.dimensions, producer.axes)) if lies else None for lies in (table, *rows)
    )
    values = (op.results[0], *op.operands[1:])
    whole, indices, added = (shard_bytes(value, lies) for value, lies in zip(values, left, strict=True))
    return indices + added // _parts_of_rows(producer, table) < whole


def _parts_of_rows(producer: Producer, table: Sharding | None) -> int:
    """Into how many parts each row is cut where the sum is split within rows, over axes that shard the updates.

    Devices exchange these parts then, and none has a whole row.
    """
    if table is None:
        return 1
    numbers = stablehlo.ScatterDimensionNumbers(producer.op.attributes["scatter_dimension_numbers"])
    of_rows = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
    within = [axes for i, axes in enumerate(table.dimensions) if i not in of_rows]
    split = tuple(tuple(axis for axis in axes if axis in producer.axes) for axes in within)
    return parts_in(module_of(producer.op), Sharding(table.mesh, split))


def with_rows_gathered(producer: Producer, kept: frozenset[str], propagated: Propagated) -> Producer:
    """A scatter whose sum stays sharded over `kept`, as XLA alone does it: the rows are gathered over these axes first.

    Each device then adds to its part of the sum, and only other axes are left to reduce over.
    """
    if not kept or not are_rows_cheaper(producer, propagated):
        return producer

    def left(axes: Axes) -> Axes:
        return tuple(axis for axis in axes if not names_of([axis]) & kept)

    operands = tuple(tuple(map(left, split)) for split in producer.operands)
    return producer._replace(axes=left(producer.axes), operands=operands, shared=())


def executions(op: ir.Operation) -> int:
    """How often `op` runs in one step."""
    runs = 1
    while op.parent is not None:
        op = parent_of(op)
        if op.name == WHILE:
            trips = trip_count(Loop(op))
            runs *= _UNKNOWN if trips is None else trips
    return runs


# Bytes per device of a sum that is reduced whole. On 8 CPU devices a reduce_scatter takes longer than an all_reduce of
# 128 kB, and less long than one of 1 MB (tools/bench_collectives.py); XLA:CPU combines all_reduces, moreover.
SCATTERS_FROM = 1 << 19


def is_large(producer: Producer, whole: Sharding) -> bool:
    """Whether a reduce_scatter of the sum, which is sharded like `whole` before it, costs less than an all_reduce."""
    return shard_bytes(producer.value, whole) >= SCATTERS_FROM


def is_sunk(producer: Producer) -> bool:
    """Whether XLA:TPU sinks a reduce_scatter of the sum out of its loop, which is in no other one and adds it up.

    In width 128 on tpu:v5e:2x4 that halves the bytes sent (plain_mlp_p6, plain_transformer_p6, experts_p20). A loop
    over layers stacks its gradients, and the reduce_scatters stay. XLA:TPU makes one of all that it makes itself there;
    each one that is written runs by itself: as many bytes, and 109 collectives for 97 (blocks_p17, half_blocks_p17),
    110 for 98 (blocks_p18, half_blocks_p18), 313 for 277 (llama_p19), counted with scatters=written and scatters=left.
    But of the rest of a sum whose other axes leave the loop, it reduces all in layouts that it chooses by sizes:
    69,244,444 bytes for 59,807,260 (half_blocks_p18 in width 512). So those are written.
    test/numeric/test_baseline_comparison.py compares them with the baseline.
    """
    loop = loop_around(producer.op.block)
    return loop is None or (not is_within(loop.op, WHILE) and not is_only_stacked(producer.value))


def is_only_stacked(value: ir.Value) -> bool:
    """Whether loops put `value` into arrays, as those over layers, and none adds it up.

    Then as many bytes are reduced after them as in all their iterations.
    """
    sizes = [prod(ir.RankedTensorType(each.type).shape) for each in (value, *_carried(value))]
    return all(size < larger for size, larger in pairwise(sizes))


def why_beside(producer: Producer, staying: list[Producer], *, leaves_little: bool) -> str:
    """Why the sum of `producer` had better stay in the loop with those `staying`; "" where it had not.

    With `leaves_little`, also where it is a small part of these.
    """
    alike = [each for each in staying if each.op.block == producer.op.block and _axes_of(each) == _axes_of(producer)]
    combined = [each for each in alike if _element(each) == _element(producer)]
    if combined and _reduced(producer) <= BYTES_PER_COLLECTIVE:
        return "it is reduced together with larger sums, which stay in the loop"
    if leaves_little and _reduced(producer) < LITTLE_BESIDE * sum(map(_reduced, alike)):
        return "beside the sums that stay in the loop it is less than a thousandth"
    return ""


# In fully sharded training, the loss, and the gradients of norms: of 1 G parameters on tpu:v5e:8x8, taking 0.5 MB of
# these out of 23 GB saves nothing, and XLA:TPU then takes 0.26 GB more, for the loss alone (tools/bench_scale.py).
LITTLE_BESIDE = 1 / 1000


def _axes_of(producer: Producer) -> frozenset[str]:
    return names_of(producer.axes)


def _element(producer: Producer) -> ir.Type:
    return ir.RankedTensorType(producer.value.type).element_type


def _reduced(producer: Producer) -> int:
    """Bytes in all runs of a step, of the whole array."""
    return bytes_of(ir.RankedTensorType(producer.value.type)) * executions(producer.op)
