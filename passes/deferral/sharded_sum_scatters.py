"""Reduce_scatters of sums that stay sharded: where each stands, and whether it is written or left to the compiler.

Tests: test/passes/expose-all-reduces-outermost.mlir, test/numeric/test_sharded_optimizer_state.py.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Literal

from jaxlib.mlir import ir

from paropt.passes.deferral.sharded_sum_costs import are_rows_cheaper, is_large, is_only_stacked, is_sunk
from paropt.passes.ir.types import tensor_of
from paropt.passes.sharding.annotations import shard_bytes
from paropt.passes.sharding.axes import Axes, names_of
from paropt.passes.sharding.propagation import Propagated
from paropt.passes.sharding.shardings import Sharding, sharding_of, unsplit, without
from paropt.passes.spmd.close_sum import scatter_steps
from paropt.passes.spmd.global_form import Scattering
from paropt.passes.spmd.producers import Producer
from paropt.passes.spmd.sharded_sums import Cut, cut_of, is_activation, turned
from paropt.passes.spmd.xla_quirks.swaps import as_operands_lie
from paropt.passes.support.remarks import require
from paropt.passes.support.traversal import ops_of

Scatters = Literal["written", "large", "outermost", "left"]

# Bytes per device of the whole sums of a program that XLA:TPU still holds in the memory of the core, which has 128 MiB,
# beside arrays: with 59 MB on tpu:v5e the temporary memory of a program does not grow, with 113 MB it does.
ON_CHIP = 48 << 20
ROOM = 50  # by default, unsharded sums may take one part in so many of a program's arguments more


def scattering_of(
    module: ir.Operation,
    producer: Producer,
    kept: frozenset[str],
    propagated: Propagated,
    gradients: defaultdict[frozenset[str], set[ir.Value]],
) -> Scattering | None:
    """Place and form of a reduce_scatter of the result of `producer` over the axes `kept`; None without one.

    `gradients` are values known to be no activations where sums stay sharded over these axes, and grow.
    """
    cut = cut_of(producer.value, propagated, kept) if kept else None
    if cut is None or is_activation(cut.value, kept, gradients[kept]) or are_rows_cheaper(producer, propagated):
        return None
    found = _scattered_at(cut, module, producer, kept, propagated)
    if found is None or found.computed is not None:
        return found
    return _scattered_at(turned(cut, propagated), module, producer, kept, propagated) or found


def _scattered_at(
    cut: Cut, module: ir.Operation, producer: Producer, kept: frozenset[str], propagated: Propagated
) -> Scattering | None:
    """The reduce_scatter at `cut`, if there is one that is equivalent to the cut."""
    others = tuple(axis for axis in producer.axes if not names_of([axis]) & kept)
    shard = Sharding(producer.mesh, without(cut.shard.dimensions, others))
    whole, before = (
        Sharding(producer.mesh, without(lies.dimensions, producer.axes), producer.axes)
        for lies in (propagated.sharding_of(v) or unsplit(v, producer.mesh) for v in (producer.value, cut.value))
    )
    shape = ir.RankedTensorType(cut.value.type).shape
    if names_of(whole.axes) - names_of(before.axes) or not scatter_steps(module, shape, before, shard):
        return None
    computed = as_operands_lie(producer, whole, shard, propagated) if cut.value == producer.value else None
    return Scattering(cut, whole, shard, computed)


def held_where_sunk(producers: Iterable[Producer], scatterings: Iterable[Scattering | None]) -> int:
    """Bytes per device of the whole sums that XLA:TPU would hold, as it sinks their reduce_scatters out of loops."""
    sums = {
        scattering.cut.value: shard_bytes(producer.value, scattering.whole)
        for producer, scattering in zip(producers, scatterings, strict=True)
        if scattering is not None and is_sunk(producer)
    }
    return sum(sums.values())


def room_for_sums(module: ir.Operation) -> int:
    """Bytes per device that XLA:TPU may hold more for sums whose reduce_scatters it sinks: few beside the arguments."""
    blocks = [block for function in ops_of(module, "func.func") for block in function.regions[0]]
    arrays = [argument for block in blocks for argument in block.arguments if tensor_of(argument) is not None]
    return min(ON_CHIP, sum(shard_bytes(array, sharding_of(array)) for array in arrays) // ROOM)


def require_fewer_bytes(scatters: Scatters, producer: Producer, scattering: Scattering | None) -> None:
    """Declines to take some axes of a sum out of loops that only stack it, where the compiler combines the others."""
    combines = scatters == "outermost" and scattering is not None and scattering.computed is None
    few = (
        "a loop over layers reduces it in as many bytes as could be after it, and XLA:TPU combines its reduce_scatters"
    )
    require(not combines or not is_only_stacked(producer.value), few)


def written(
    scatters: Scatters, producer: Producer, scattering: Scattering | None, moved: Axes, *, fits: bool
) -> Scattering | None:
    """`scattering` where the reduce_scatter is written out; over the axes `moved` the sum is reduced once.

    It is where it leaves a loop, and where devices exchange sums of columns for it, whatever the option. With `fits`,
    there is room for the whole sums that XLA:TPU would hold.
    """
    if scattering is None or scatters == "written" or scattering.computed or scattering.leaves_loop(producer):
        return scattering
    match scatters:
        case "large":
            is_written = is_large(producer, scattering.whole)
        case "outermost":
            is_written = fits if is_sunk(producer) else bool(moved)
        case _:
            is_written = False
    return scattering if is_written else None
