"""A function of the trips of one loop, whose sums are arrays that hold the addends of each device.

    %acc = while (%i = 0, %sum = %zero) {           func @trip(%x, %sum: tensor<4x8xf32>) {   4 devices
      %d = contract %x      unreduced                 %s = unpack %sum      unreduced
      %n = add %sum, %d     unreduced       ->        %d = contract %x      unreduced
      return %i + 1, %n                               %n = add %s, %d       unreduced
    }                                                 return pack(%n)
    %r = all_reduce %acc                            }

So the caller of a function makes each trip, and reduces the sums behind the last one.

Tests: test/numeric/test_stage_reductions.py.
"""

from collections.abc import Sequence
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.ir.constraints import unconstrained
from paropt.passes.ir.loops import WHILE, Loop, counter_of
from paropt.passes.outline.carried_arrays import packed_in, packings_of, without_invariants
from paropt.passes.outline.clone import Copies
from paropt.passes.outline.functions import FUNCTION, RETURN, sharding_of
from paropt.passes.outline.stages import needed
from paropt.passes.support.remarks import require
from paropt.passes.support.traversal import captured, defining_op, ops_of, terminator_of


class TripFunction(NamedTuple):
    """A function that takes the arguments of the entry, which the loop carries, then its sums; it returns as that."""

    function: ir.Operation
    packed: dict[int, ir.Attribute]  # of results that have a dimension for devices: their shardings


def trip_function(entry: ir.Operation, symbol: str, sums: int) -> TripFunction:
    """The trips of the only loop of `entry`, the last `sums` of whose results are sums that start from zero.

    Raises Declined where the results are not those of the loop; `entry` is rewritten either way.
    """
    block = entry.regions[0].blocks[0]
    loops = [op for op in ops_of(entry, WHILE) if op.block == block]
    require(len(loops) == 1, f"{len(loops)} loops are where one was")
    loop = without_invariants(Loop(loops[0]))
    counter, returned = counter_of(loop), list(terminator_of(block).operands)
    positions = [_position(loop, value) for value in returned]
    arguments = [i for i, start in enumerate(loop.op.operands) if unconstrained(start) in list(block.arguments)]
    known = sorted([*positions, *arguments, counter if counter is not None else -1])
    require(known == [*range(len(loop.op.operands))], "the loop carries more than sums and arguments", loop.op)
    alone = all(next(loop.body.arguments[i].uses, None) is None for i in positions[: len(positions) - sums])
    require(alone, "a trip reads what the one before it has made", loop.op)
    packings = packings_of(loop)
    loop = packed_in(loop, packings)
    function = _outlined(entry, loop, symbol, positions, positions[len(positions) - sums :])
    shardings = {n: sharding_of(loop.next_values.operands[i]) for n, i in enumerate(positions) if i in packings}
    return TripFunction(function, {n: each for n, each in shardings.items() if each is not None})


def changed_after(entry: ir.Operation) -> list[int]:
    """The results of `entry` that are computed from results of its loop by more than a reduction.

    So it is of a sum to which something reduced is added: the loop carries a residual beside it.
    """
    returned = terminator_of(entry.regions[0].blocks[0]).operands
    makers = [defining_op(unconstrained(value)) for value in returned]
    return [n for n, op in enumerate(makers) if op is None or op.name != WHILE]


def _position(loop: Loop, value: ir.Value) -> int:
    """Which result of the loop `value` is, reduced perhaps."""
    value = unconstrained(value)
    require(defining_op(value) == loop.op, "more is done with a sum than to reduce it", defining_op(value))
    return ir.OpResult(value).result_number


def _outlined(
    entry: ir.Operation, loop: Loop, symbol: str, positions: Sequence[int], sums: Sequence[int]
) -> ir.Operation:
    block = entry.regions[0].blocks[0]
    taken = [unconstrained(start) for start in loop.op.operands]
    now = [loop.body.arguments[taken.index(each)] if each in taken else each for each in block.arguments]
    inputs = [*now, *(loop.body.arguments[i] for i in sums)]
    wanted = [loop.next_values.operands[i] for i in positions]
    before = [op.operation for op in block.operations]
    before = needed(before[: before.index(loop.op)], captured(loop.op))
    ops = needed([op.operation for op in loop.body.operations][:-1], wanted)
    types = [value.type for value in inputs]
    with entry.context, entry.location:
        with ir.InsertionPoint.after(entry):
            kind = ir.FunctionType.get(types, [value.type for value in wanted])
            attributes = {"sym_name": ir.StringAttr.get(symbol), "function_type": ir.TypeAttr.get(kind)}
            function = ir.Operation.create(FUNCTION, attributes=attributes, regions=1)
        body = function.regions[0].blocks.append(*types)
        with ir.InsertionPoint(body):
            given = dict(zip([*block.arguments, *inputs], [*body.arguments[: len(now)], *body.arguments], strict=True))
            copies = Copies(given)
            copies.copy_all([*before, *ops])
            ir.Operation.create(RETURN, operands=[copies.of(value) for value in wanted])
    return function
