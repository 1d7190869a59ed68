"""The sums over devices that the partitioner would reduce in a global-view step: the facts, with nothing decided.

Tests: test/passes/expose-all-reduces-inferred.mlir, test/numeric/test_pinned_shardings.py.
"""

from collections.abc import Sequence
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.decisions.sum_decisions import GradientSum
from paropt.passes.deferral.sharded_sum_costs import are_activations_costlier, rows_outside_loops
from paropt.passes.ir.types import real_of
from paropt.passes.sharding.annotations import LEFT_OUT, place_of
from paropt.passes.sharding.axes import Axis, names_of
from paropt.passes.sharding.propagation import Propagated
from paropt.passes.sharding.shardings import Sharding, mesh_behind, parts_in
from paropt.passes.spmd.inferred_shards import sum_shards
from paropt.passes.spmd.producers import Producer, producers
from paropt.passes.spmd.sharded_sums import are_layers_sharded, sharded_sums
from paropt.passes.support.remarks import Declined
from paropt.passes.support.traversal import module_of


class StepSums(NamedTuple):
    """The producers of a step's sums, the axes that shard each, and the shardings by which they are found."""

    propagated: Propagated
    held: tuple[Propagated, ...]  # the shardings that constraints are not to change; none where they change nothing
    found: list[Producer]
    split: dict[ir.Value, frozenset[Axis]]  # by producer: the axes over which the program keeps its sum sharded
    declined: list[Declined]  # at ops, why no producer is found there

    def record(self, producer: Producer) -> GradientSum:
        """The facts about one sum, as plain values."""
        mesh = mesh_behind(module_of(producer.op), producer.mesh)
        sizes = dict(mesh.axes) if mesh is not None else {}
        axes = names_of(producer.axes)
        over = frozenset(name for name in axes if sizes.get(name, 1) > 1)
        shards = names_of(self.split.get(producer.value, frozenset())) & over
        return GradientSum(axes, over, shards, is_complex=real_of(producer.value) is not None)


def step_sums(module: ir.Operation, regions: Sequence[Producer], *, infers: bool) -> StepSums:
    """The sums of `module`, and those at the ends of manual computations, `regions`.

    With `infers`, sums that only readers shard count as sharded. Raises Declined where Shardy would abort.
    """
    sums = sum_shards(module, infers=infers)
    propagated, found, declined = sums.propagated, sums.found, sums.declined
    has_choices = any(_leaves_choices(producer, propagated) for producer in (*found, *regions))
    alone = sums.alone() if sums.whole and has_choices else propagated
    if alone not in (None, propagated) and (
        are_layers_sharded(module, propagated) or are_activations_costlier(found, propagated, alone)
    ):
        propagated = alone
        found, declined = producers(module, alone)
    split = sharded_sums(module, propagated, sums.inferred) if sums.says or sums.inferred else {}
    found, lost = _without_lost(module, [*found, *regions])
    held = tuple(dict.fromkeys((propagated, alone))) if alone is not None and has_choices else ()
    return StepSums(propagated, held, found, rows_outside_loops(found, propagated) | split, [*lost, *declined])


def _without_lost(module: ir.Operation, found: list[Producer]) -> tuple[list[Producer], list[Declined]]:
    """`found` without those whose constraints the compiler has lost before, as the module says; and why."""
    if LEFT_OUT not in module.attributes:
        return found, []
    places = {ir.StringAttr(place).value for place in ir.ArrayAttr(module.attributes[LEFT_OUT])}
    lost = [producer.op for producer in found if place_of(producer.op) in places]
    kept = [producer for producer in found if producer.op not in lost]
    return kept, [Declined("the compiler lost the constraint of its sum", op) for op in lost]


def _leaves_choices(producer: Producer, propagated: Propagated) -> bool:
    """Whether some axis shards the sum, or could: a constraint may change the shardings of other values."""
    lies, module = propagated.sharding_of(producer.value), module_of(producer.op)
    mesh = mesh_behind(module, producer.mesh)
    summed = parts_in(module, Sharding(producer.mesh, (producer.axes,)))
    return mesh is None or len(mesh.device_ids) > summed or (lies is not None and any(lies.dimensions))
