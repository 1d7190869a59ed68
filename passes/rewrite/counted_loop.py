"""A loop that counts its iterations from 0, built from a body.

Tests: test/passes/roll-accumulation.mlir, test/passes/split-microbatches.mlir.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.ir.induction_variable import constant, create
from paropt.passes.ir.loops import WHILE
from paropt.passes.sharding.collectives import ADD


class Carry(NamedTuple):
    """A value that the loop carries."""

    start: ir.Value
    following: Callable[[ir.Value], ir.Value]  # the value for the next trip, made at the end of the body
    finish: Callable[[ir.Value], None]  # lets users outside read the result; makes ops after the loop


def counter_carry() -> Carry:
    """The number of the trip: the first carried value of a counted loop."""
    return Carry(_number(0), lambda i: create(ADD, i.type, i, _number(1)), lambda result: None)


def counted_loop(carries: Sequence[Carry], count: int, fill: Callable[[ir.Block, ir.Operation], None]) -> ir.Operation:
    """A loop of `count` trips at the insertion point; `fill` writes its body, given that and the loop."""
    loop = ir.Operation.create(
        WHILE, results=[carry.start.type for carry in carries], operands=[carry.start for carry in carries], regions=2
    )
    condition, body = (region.blocks.append(*[c.start.type for c in carries]) for region in loop.regions)
    _count_to(count, condition)
    fill(body, loop)
    with ir.InsertionPoint(body):
        nexts = [carry.following(argument) for carry, argument in zip(carries, body.arguments, strict=True)]
        ir.Operation.create("stablehlo.return", operands=nexts)
    with ir.InsertionPoint.after(loop):
        for carry, result in zip(carries, loop.results, strict=True):
            carry.finish(result)
    return loop


def _count_to(count: int, condition: ir.Block) -> None:
    truth = ir.RankedTensorType.get([], ir.IntegerType.get_signless(1))
    index = condition.arguments[0]
    with ir.InsertionPoint(condition):
        bound = _number(count)
        direction = ir.Attribute.parse("#stablehlo<comparison_direction LT>")
        kind = ir.Attribute.parse("#stablehlo<comparison_type SIGNED>")
        again = create("stablehlo.compare", truth, index, bound, comparison_direction=direction, compare_type=kind)
        ir.Operation.create("stablehlo.return", operands=[again])


def _number(number: int) -> ir.Value:
    index = ir.IntegerType.get_signless(32)
    return constant(ir.RankedTensorType.get([], index), ir.IntegerAttr.get(index, number))
