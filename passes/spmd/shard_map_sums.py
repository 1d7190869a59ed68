"""Takes a sum out of a manual computation, which then returns each device's addend:

%g = sdy.manual_computation(%x) out_shardings=[<@mesh, [{}], unreduced={"data"}>] manual_axes={"data"} (%a) {
  ...
  sdy.return %p
}

Another addend of such a sum in there, as an L2 penalty of a gradient, is returned beside it first, and added outside.

Tests: test/passes/annotate-unreduced-regions.mlir, test/numeric/test_shard_map_regions.py.
"""

from collections.abc import Sequence
from typing import NamedTuple

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from paropt.passes.ir.loops import WHILE
from paropt.passes.rewrite.residual_split import Split, erase_unused, split_values
from paropt.passes.sharding.axes import Axes
from paropt.passes.sharding.collectives import ADD
from paropt.passes.sharding.shardings import MANUAL, mesh_behind, read_sharding, sharding_of
from paropt.passes.spmd.close_sum import summed
from paropt.passes.spmd.region_sums import Region, RegionSum, SummingRegion
from paropt.passes.support.remarks import require
from paropt.passes.support.traversal import defining_op, is_within, module_of, op_of, terminator_of


class Opening(NamedTuple):
    """A sum that is to be taken out of its manual computation, for `source`, which says that it is unreduced."""

    source: ir.Operation
    sum: RegionSum
    from_branches: bool  # so that to open another of its manual computation may remake the ops that it is made of


def openings(sources: Sequence[ir.Operation], regions: dict[ir.Value, Region]) -> list[Opening]:
    """Those that `sources` need. Raises Declined where a manual computation does not take such a sum.

    `regions`, by their first results, are those that are known; others are added.
    """
    found: list[Opening] = []
    for source in sources:
        result, unreduced = source.operands[0], read_sharding(source.attributes["sharding"]).unreduced
        manual = defining_op(result)
        if manual is None or manual.name != MANUAL or _returns(result, unreduced):
            continue
        if manual.results[0] not in regions:
            regions[manual.results[0]] = Region(manual)
        sum_ = regions[manual.results[0]].sums.get(ir.OpResult(result).result_number)
        fits = sum_ is not None and set(unreduced) <= set(sum_.axes)
        require(fits, "the manual computation does not take the sum that is exposed", manual)
        assert sum_ is not None, "or it does not fit"
        from_branches = any(sum_.values.values[value].choices for value in sum_.order)
        found.append(Opening(source, sum_, from_branches))
    return found


def terms_apart(region: SummingRegion) -> list[ir.Operation]:
    """Frees the sums that `region` returns of other addends, which it returns, too. Returns the reductions of these.

    Only in loops, which may then accumulate both: each for itself, and reduce the first once. Other addends stay
    together, be one of them a sum over other axes: each one apart would be one more accumulator on each device.
    """
    apart: list[ir.Operation] = []
    manual, positions = region
    while is_within(manual, WHILE):
        found = Region(manual)
        mixed = {i: each for i, each in found.mixed.items() if i not in found.sums}
        position = next((i for i in positions if i in mixed), None)
        if position is None:
            break
        apart.append(mixed[position].reductions[0])
        manual = _with_rest(mixed[position], position)
    return apart


def _with_rest(found: RegionSum, position: int) -> ir.Operation:
    """The manual computation made anew, with a result for the residual of result `position`, beside the sum."""
    old = op_of(found.result)
    block = old.regions[0].blocks[0]
    end = terminator_of(block)
    reduced: dict[ir.Value, Split] = {result: Split(result, None) for op in found.reductions for result in op.results}
    split = split_values(found.values, reduced, found.order)[end.operands[position]]
    assert split.rest is not None, "it is mixed"
    returned = [*end.operands, split.rest]
    returned[position] = split.partial
    with ir.InsertionPoint(end), end.location:
        ir.Operation.create(end.name, operands=returned)
    end.erase()
    erase_unused(found.ops)
    shardings = list(sdy.TensorShardingPerValueAttr(old.attributes["out_shardings"]).shardings)
    types = [result.type for result in old.results]
    with old.context, ir.InsertionPoint(old), old.location:
        said = {"out_shardings": sdy.TensorShardingPerValueAttr.get([*shardings, shardings[position]])}
        new = ir.Operation.create(
            old.name,
            results=[*types, types[position]],
            operands=list(old.operands),
            attributes=dict(old.attributes) | said,
            regions=1,
        )
        block.append_to(new.regions[0])
        whole = ir.Operation.create(ADD, results=[types[position]], operands=[new.results[-1], new.results[position]])
    for i, result in enumerate(old.results):
        result.replace_all_uses_with(whole.results[0] if i == position else new.results[i])
    old.erase()
    return new


def _returns(result: ir.Value, unreduced: Axes) -> bool:
    """Whether a manual computation says itself that this result is unreduced over these axes."""
    lies = sharding_of(result)
    return lies is not None and set(unreduced) <= set(lies.unreduced)


def open_sum(opening: Opening, sharding: ir.Attribute) -> None:
    """Gives the returned value `sharding`, with its unreduced axes; over others, the block still reduces it."""
    found, unreduced = opening.sum, read_sharding(sharding).unreduced
    manual, position = op_of(found.result), ir.OpResult(found.result).result_number
    if opening.from_branches:
        found = Region(manual).sums[position]
    taken: dict[ir.Value, Split] = {
        result: Split(operand, None)
        for op in found.reductions
        for operand, result in zip(op.operands, op.results, strict=True)
    }
    end = terminator_of(manual.regions[0].blocks[0])
    part = split_values(found.values, taken, found.order)[end.operands[position]].partial
    left = tuple(axis for axis in found.axes if axis not in unreduced)
    if left:
        mesh = mesh_behind(module_of(manual), found.mesh)
        assert mesh is not None, "the module verifies"
        with ir.InsertionPoint(end), found.reductions[0].location:
            part = summed(part, mesh, left)
    end.operands[position] = part
    erase_unused(found.ops)
    shardings = list(sdy.TensorShardingPerValueAttr(manual.attributes["out_shardings"]).shardings)
    shardings[position] = sharding
    manual.attributes["out_shardings"] = sdy.TensorShardingPerValueAttr.get(shardings)
