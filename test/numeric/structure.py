"""What a module's collectives cost: counted on the StableHLO text level, before and after a pipeline."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir
from modules import parsed

from paropt.passes.dataflow.execution_bounds import most_executions
from paropt.passes.dataflow.loop_eval import executions, trips_of
from paropt.passes.deferral.deferral_cost import BYTES_PER_COLLECTIVE
from paropt.passes.ir.loops import Loop, trip_count
from paropt.passes.sharding.collectives import DECOMPOSED
from paropt.passes.support.traversal import terminator_of

REDUCTIONS = ("stablehlo.all_reduce", "stablehlo.reduce_scatter")
OTHERS = (
    "stablehlo.all_gather",
    "stablehlo.all_to_all",
    "stablehlo.collective_broadcast",
    "stablehlo.collective_permute",
)
LOOP = "stablehlo.while"
MANUAL = "sdy.manual_computation"
BRANCHES = ("stablehlo.case", "stablehlo.if")
ASSUMED_TRIPS = 2  # of a loop that does not count to a constant: as few as make work in it cost more than after it


@dataclass(frozen=True)
class Collective:
    """One collective op, once per call that reaches it."""

    kind: str
    arrays: int  # results: each is an array of its own on the wire
    bytes: int  # of its operands, per device
    trips: int  # how often the whiles around it run it
    depth: int  # branches around it of which it is not known when they run, and whiles that do not count to a constant


def collectives(text: str) -> list[Collective]:
    """The collectives that the public functions of the module execute, through calls; each region counts once."""
    module = parsed(text)
    functions = {
        ir.StringAttr(op.attributes["sym_name"]).value: op.operation
        for op in module.body.operations
        if op.operation.name == "func.func"
    }
    found: list[Collective] = []
    for name, function in functions.items():
        if _visibility(function) == "public":
            _collect(_ops(function), functions, (name,), 1, 0, found)
    return found


def assert_no_costlier(before: str, after: str) -> None:
    """Fails when a kind of collective is nested deeper than before, or has more bytes, or as many in more arrays.

    More bytes are none where no reduction is left in a loop, and so fewer are done: for each that is, what is sent in a
    small part of the time that it takes to start one. All reductions of a trip may be one, as may those after the loop.

    Reductions (all_reduce and reduce_scatter) are counted together: one may become the other. Where there are more
    reduce_scatters than before, an all_reduce counts twice, because it sends what a reduce_scatter and an all_gather
    send. Arrays and bytes (per device) are multiplied by the trips of each loop around: one array per trip may become
    two after the loop. A loop that counts to a constant is as deep as its copies one after the other would be.
    """
    was, now = collectives(before), collectives(after)
    scatters = _runs(now, "stablehlo.reduce_scatter") > _runs(was, "stablehlo.reduce_scatter")
    for kinds in (REDUCTIONS, *((kind,) for kind in OTHERS)):
        old = [c for c in was if c.kind in kinds]
        new = [c for c in now if c.kind in kinds]
        name = "/".join(kind.removeprefix("stablehlo.") for kind in kinds)
        _at_most(f"depth of {name}", max((c.depth for c in old), default=0), max((c.depth for c in new), default=0))
        sizes = [sum(c.bytes * _weight(c, scatters) for c in found) for found in (old, new)]
        spared = _fewer(old, new) * BYTES_PER_COLLECTIVE if kinds == REDUCTIONS else 0
        _at_most(f"bytes of {name}", sizes[0] + spared, sizes[1])
        if sizes[0] == sizes[1]:
            _at_most(
                f"arrays of {name}", *(sum(c.arrays * _weight(c, scatters) for c in found) for found in (old, new))
            )


def _runs(found: list[Collective], kind: str) -> int:
    return sum(c.trips for c in found if c.kind == kind)


def _fewer(old: list[Collective], new: list[Collective]) -> int:
    """Collectives fewer, at least, when all have left the loops; else 0."""
    most_before, most = (max((c.trips for c in found), default=0) for found in (old, new))
    return max(0, most_before - most) if most <= 1 else 0


def _weight(c: Collective, scatters: bool) -> int:
    return c.trips * (2 if scatters and c.kind == "stablehlo.all_reduce" else 1)


def _at_most(what: str, old: int, new: int) -> None:
    assert new <= old, f"the {what} grew from {old} to {new}"


def _collect(
    ops: Iterable[ir.Operation],
    functions: dict[str, ir.Operation],
    calls: tuple[str, ...],
    trips: int,
    depth: int,
    found: list[Collective],
) -> None:
    for op in ops:
        if op.name in REDUCTIONS or op.name in OTHERS:
            size = sum(_bytes(operand.type) for operand in op.operands)
            steps = _steps(op.name, dict(op.attributes.items()), size)
            found += [Collective(name, len(op.results), size, trips, depth) for name, size in steps]
            continue
        if op.name == "func.call":
            callee = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
            if callee not in calls:  # recursion counts once
                _collect(_ops(functions[callee]), functions, (*calls, callee), trips, depth, found)
            continue
        if op.name == MANUAL and "unreduced" in str(op.attributes["in_shardings"]):
            continue  # it takes a sum that the partitioner would take: only the executable tells what that costs
        known = trip_count(Loop(op)) if op.name == LOOP else 1
        inner = trips * (ASSUMED_TRIPS if known is None else known)
        if op.name not in BRANCHES:
            _collect(_ops(op), functions, calls, inner, depth + (known is None), found)
            continue
        for block in (block for region in op.regions for block in region):
            runs = _share_of_runs(block)
            share = trips if runs is None else trips * runs[0] // runs[1]
            inside = [each.operation for each in block]
            _collect(inside, functions, calls, share, depth + (runs is None), found)


def _entries(dictionary: Any) -> Any:
    """Of a dictionary attribute, which jaxlib's types do not say that it can be iterated over."""
    return ir.DictAttr(dictionary)


def _steps(name: str, attributes: dict[str, ir.Attribute], size: int) -> list[tuple[str, int]]:
    """The kind and bytes of the collective; of the steps that an all_reduce says it was written in."""
    if DECOMPOSED not in attributes:
        return [(name, size)]
    steps = [{each.name: each.attr for each in _entries(step)} for step in ir.ArrayAttr(attributes[DECOMPOSED])]
    shard = size // ir.ShapedType(ir.DenseElementsAttr(steps[0]["replica_groups"]).type).shape[1]
    sums = [found for step in steps[1:-1] for found in _steps(name, step, shard)]
    return [("stablehlo.reduce_scatter", size), *sums, ("stablehlo.all_gather", shard)]


def _share_of_runs(branch: ir.Block) -> tuple[int, int] | None:
    """How often a branch in a loop's body runs, at most, of how many trips; None if not known, or it is in another.

    The only branch of a case runs whenever the case does. So does, at most, that of an if behind a loop that carries
    the predicate, which takes the sum that the last trip leaves.
    """
    op = branch.owner.operation
    if len(op.regions) == 1 or _is_carried_to(op):
        return 1, 1  # whatever its index, and in a loop or not
    around = op.parent
    if around is None or around.operation.name != LOOP:
        return None
    loop = Loop(around.operation)
    trips = trips_of(loop)
    end = terminator_of(branch)
    runs = executions(end, loop, trips)
    runs = most_executions(end, loop, trips) if runs is None else runs
    return (runs, len(trips)) if trips and runs is not None else None


def _is_carried_to(branch: ir.Operation) -> bool:
    predicate = branch.operands[0]
    return branch.name == "stablehlo.if" and isinstance(predicate, ir.OpResult) and predicate.owner.name == LOOP


def _ops(op: ir.Operation) -> list[ir.Operation]:
    """The ops directly in the regions of `op`."""
    return [inner.operation for region in op.regions for block in region for inner in block]


def _bytes(kind: ir.Type) -> int:
    """Bytes of a tensor; 0 for a token."""
    if not isinstance(kind, ir.RankedTensorType):
        return 0
    elements = 1
    for size in kind.shape:
        elements *= size
    element, numbers = kind.element_type, 1
    if isinstance(element, ir.ComplexType):
        element, numbers = element.element_type, 2
    return int(elements * numbers * getattr(element, "width", 8) // 8)


def _visibility(function: ir.Operation) -> str:
    return (
        ir.StringAttr(function.attributes["sym_visibility"]).value
        if "sym_visibility" in function.attributes
        else "public"
    )
