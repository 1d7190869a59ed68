"""Results of a manual computation that are sums taken last in it, so that it could return the addends.

    %g = sdy.manual_computation(%x) out_shardings=[<@mesh, [{}]>] manual_axes={"data"} (%a) {
      ...
      %r = all_reduce(%p)
      sdy.return %r
    }

In a `jax.jit` program such a region is one op, as for the gradients of a block under `jax.shard_map`. Its results may
be left unreduced like the result of any op that reduces over devices (`spmd/producers.py`).

Tests: test/passes/expose-all-reduces-manual.mlir, test/numeric/test_shard_map_regions.py.
"""

from collections.abc import Iterable
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.dataflow.duplication_cost import adds_nothing
from paropt.passes.dataflow.partial_values import BlockFacts, PartialValues
from paropt.passes.dataflow.uniformity import Uniformity
from paropt.passes.dataflow.unreduced import made_unreduced
from paropt.passes.ir.types import bytes_of
from paropt.passes.sharding.annotations import is_source
from paropt.passes.sharding.axes import Axes, axes_in, names_of, whole_axes
from paropt.passes.sharding.collectives import ADD, ALL_REDUCE, Reduction, axes_of
from paropt.passes.sharding.meshes import Mesh
from paropt.passes.sharding.shardings import MANUAL, Sharding, is_manual, mesh_behind, result_shardings
from paropt.passes.spmd.producers import Producer
from paropt.passes.support.remarks import Declined, require
from paropt.passes.support.traversal import module_of, op_of, ops_of, terminator_of


class RegionSum(NamedTuple):
    """A result of a manual computation, and the ops that make it a sum over devices."""

    result: ir.Value
    mesh: str
    axes: Axes
    values: PartialValues
    order: tuple[ir.Value, ...]  # the reduced values and the results of linear ops on them, in program order
    ops: tuple[ir.Operation, ...]  # those that make them
    reductions: tuple[ir.Operation, ...]

    @property
    def producer(self) -> Producer:
        return Producer(self.result, self.mesh, self.axes, (), self.reductions[0])


class SummingRegion(NamedTuple):
    """A manual computation that reduces, and the numbers of its results that linear ops read outside."""

    manual: ir.Operation
    positions: tuple[int, ...]


def summing_regions(module: ir.Operation) -> list[SummingRegion]:
    found: list[SummingRegion] = []
    for manual in ops_of(module, MANUAL):
        positions = [i for i, result in enumerate(manual.results) if _is_added_up(result)]
        if not positions or is_manual(manual) or not ops_of(manual, ALL_REDUCE):
            continue
        given = result_shardings(manual)
        positions = [i for i in positions if not given[i].unreduced]
        if positions:
            found.append(SummingRegion(manual, tuple(positions)))
    return found


def region_sums(regions: Iterable[SummingRegion]) -> tuple[list[RegionSum], list[tuple[ir.Operation, Declined]]]:
    """The sums that `regions` return; and the reductions on the way to such results that stay in them, and why."""
    found: list[RegionSum] = []
    declined: list[tuple[ir.Operation, Declined]] = []
    for manual, positions in regions:
        region = Region(manual)
        found += [region.sums[i] for i in positions if i in region.sums]
        declined += [stays for i in positions for stays in region.declined.get(i, ())]
    return found, declined


def taken_out(root: ir.Operation) -> frozenset[ir.Value]:
    """Results of reductions in manual computations under `root` that are declared unreduced outside."""
    found: set[ir.Value] = set()
    for manual in ops_of(root, MANUAL):
        if any(map(_is_source, manual.results)):
            sums = [each for each in Region(manual).sums.values() if _is_source(each.result)]
            found.update(result for each in sums for op in each.reductions for result in op.results)
    return frozenset(found)


class Region:
    """The sums that a manual computation takes and returns. Not to be kept across a rewrite of its block."""

    def __init__(self, manual: ir.Operation) -> None:
        self.sums: dict[int, RegionSum] = {}  # by the number of the result
        self.declined: dict[int, list[tuple[ir.Operation, Declined]]] = {}  # reductions of others; why they stay
        self.mixed: dict[int, RegionSum] = {}  # those of `declined` that would be sums but for other terms
        self._manual = manual
        self._shardings = result_shardings(manual)
        self._uniformity: dict[Reduction, Uniformity] = {}
        self._end = terminator_of(manual.regions[0].blocks[0])
        facts = BlockFacts(manual.regions[0].blocks[0], "widening", with_branches=True)
        for reduction, reductions in facts.reductions.kinds.items():
            values = facts.partial_values(reduction, [result for op in reductions for result in op.results])
            for position, value in enumerate(self._end.operands):
                if value in values.values:
                    self._find(position, values, facts)

    def _find(self, position: int, values: PartialValues, facts: BlockFacts) -> None:
        """Adds this result to `sums`, or to `declined`."""
        result = self._manual.results[position]
        sharding = self._shardings[position]
        mesh = mesh_behind(module_of(self._manual), sharding.mesh)
        assert mesh is not None, "the module verifies"
        members = frozenset(values.made_of(self._end.operands[position]))
        order = tuple(value for value in values.values if value in members)
        reductions = tuple(facts.in_order(filter(values.is_source, order)))
        axes = whole_axes(axes_of(values.reduction, (mesh,)) or ())
        found = RegionSum(result, sharding.mesh, axes, values, order, tuple(facts.in_order(order)), reductions)
        try:
            self._require_sum(found, sharding)
            self._require_apart(found, position, members)
            self._require_fewer_bytes(found, position)
            self._require_replicated(found, mesh, sharding)
        except Declined as declined:
            self.declined[position] = [(op, declined) for op in reductions]
            return
        mixing = next((value for value in order if _has_other_terms(value, values, members)), None)
        if mixing is None:
            self.sums[position] = found
            return
        self.mixed[position] = found
        stays = Declined("a sum of a reduced value and an unreduced one", op_of(mixing))
        self.declined[position] = [(op, stays) for op in reductions]

    def _require_sum(self, found: RegionSum, sharding: Sharding) -> None:
        reduction = found.values.reduction
        adds = reduction.kind == ALL_REDUCE and reduction.combiner == ADD
        require(adds, "the reduction is not an all_reduce that adds")
        require(bool(found.axes), "its replica groups are not those of axes of the mesh")
        split = ", ".join(sorted(names_of(found.axes) & names_of(sharding.axes)))
        require(not split, f"the result is sharded over {split}, over which it is reduced", self._manual)

    def _require_apart(self, found: RegionSum, position: int, members: frozenset[ir.Value]) -> None:
        """Declines unless `members` end in this result and nowhere else."""
        values = found.values
        for use in (use for member in found.order for use in member.uses):
            op = use.owner.operation
            if op == self._end:
                require(use.operand_number == position, "the sum is returned more than once", op)
                continue
            stopped = values.stopped_at(use)
            because = f": {stopped.reason}" if stopped is not None else ""
            require(values.made_by(use) in members, f"the sum is also read by {op.name}{because}", op)

    def _require_fewer_bytes(self, found: RegionSum, position: int) -> None:
        """A sum that leaves a loop, or is added to another one, is reduced at most half as often."""
        returned = bytes_of(ir.RankedTensorType(self._end.operands[position].type))
        reduced = sum(
            bytes_of(ir.RankedTensorType(operand.type))
            for op in found.reductions
            for operand, result in zip(op.operands, op.results, strict=True)
            if result in found.order
        )
        words = f"{returned} bytes are returned, more than twice the {reduced} that are reduced"
        require(returned <= 2 * reduced, words, self._manual)

    def _require_replicated(self, found: RegionSum, mesh: Mesh, sharding: Sharding) -> None:
        """Declines unless devices that are to hold one sum hold one addend, too."""
        manual_axes = names_of(axes_in(self._manual.attributes["manual_axes"]))
        alike = manual_axes - names_of((*found.axes, *sharding.axes))
        groups = mesh.groups([name for name, size in mesh.axes if size > 1 and name in alike])
        assert groups is not None, "they are axes of it"
        if len(groups[0]) == 1:
            return
        over = found.values.reduction._replace(groups=groups)
        if over not in self._uniformity:
            self._uniformity[over] = Uniformity(self._end.block, over)
        facts = self._uniformity[over]
        for op in found.reductions:
            for operand in op.operands:
                facts.require_uniform(operand, "an addend", op)


def _has_other_terms(value: ir.Value, values: PartialValues, members: frozenset[ir.Value]) -> bool:
    return not all(term in members or adds_nothing(term, ADD) for term in values.terms(value))


def _is_added_up(result: ir.Value) -> bool:
    """Whether a user of `result` may read it unreduced, and `result` is not annotated as unreduced."""
    return not _is_source(result) and any(made_unreduced(use) for use in result.uses)


def _is_source(result: ir.Value) -> bool:
    return any(is_source(use.owner.operation) for use in result.uses)
