"""Which micro-batch a stage works on in a tick, and with which of its chunks of layers.

Stage number s of S has chunk s of the layers; in a circular pipeline, it has the chunks s, s + S, s + 2 S and so on.
Micro-batches then go round the devices, once for each: the first M turns of a device are with its first chunk, the next
M with its second one. So M micro-batches take v M + S - 1 ticks of v chunks per device, a v-th as long each.

Tests: test/passes/pipeline-layer-loop-circular.mlir.
"""

from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.ir.induction_variable import constant, create


class Turn(NamedTuple):
    """The turn of a stage in a tick. All values are scalars."""

    micro_batch: ir.Value
    round: ir.Value | None  # None where there is only one
    is_early: ir.Value  # before its first turn
    is_done: ir.Value  # in its last turn, or behind it
    is_late: ir.Value


def turn_at(tick: ir.Value, place: ir.Value, micro_batches: int, rounds: int) -> Turn:
    """That of the stage at `place` of the pipeline, made at the insertion point."""
    turns = micro_batches * rounds
    behind = create("stablehlo.subtract", tick.type, tick, place)
    is_early = compared("LT", behind, 0)
    is_done = compared("GE", behind, turns - 1)  # no micro-batch comes next
    is_late = compared("GE", behind, turns)
    low, high = (number_like(behind, n) for n in (0, turns - 1))
    turn = create("stablehlo.clamp", behind.type, low, behind, high)
    if rounds == 1:
        return Turn(turn, None, is_early, is_done, is_late)
    count = number_like(turn, micro_batches)
    micro_batch = create("stablehlo.remainder", turn.type, turn, count)
    return Turn(micro_batch, create("stablehlo.divide", turn.type, turn, count), is_early, is_done, is_late)


def compared(how: str, value: ir.Value, number: int) -> ir.Value:
    truth = ir.RankedTensorType.get([], ir.IntegerType.get_signless(1))
    direction = ir.Attribute.parse(f"#stablehlo<comparison_direction {how}>")
    kind = ir.Attribute.parse("#stablehlo<comparison_type SIGNED>")
    other = number_like(value, number)
    return create("stablehlo.compare", truth, value, other, comparison_direction=direction, compare_type=kind)


def number_like(like: ir.Value, number: int) -> ir.Value:
    tensor = ir.RankedTensorType(like.type)
    return constant(tensor, ir.IntegerAttr.get(tensor.element_type, number))
