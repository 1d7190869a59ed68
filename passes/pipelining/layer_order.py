"""Rows of layers in the order of the devices that have them, in a circular pipeline.

With S stages of v chunks, stage s has the chunks s, s + S and so on, where an array that is sharded over the stages has
v chunks in a row on each. So devices exchange chunks, once per step:

    %r = sdy.manual_computation(%rows) manual_axes={"stage"} (%own) {
      v times:
        %chunk = dynamic_slice %own, ...
        %came = collective_permute %chunk
        %new = dynamic_update_slice %new, %came, ...
    }

Each device sends and gets one chunk a time, none twice. For the same as a transpose, XLA all-gathers in some sizes.

Tests: test/passes/pipeline-layer-loop-circular.mlir, test/unit/passes/pipelining/test_layer_order.py.
"""

from collections.abc import Sequence
from math import gcd
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.ir.constants import scalar_of
from paropt.passes.ir.induction_variable import create
from paropt.passes.pipelining.micro_batch_rows import part_of, with_part, zeros_like
from paropt.passes.pipelining.stage_line import Line
from paropt.passes.sharding.device_dimension import Placed, Result, computed, reshaped


class Move(NamedTuple):
    """A chunk that goes to the stage that works on it. Places count the chunks of a stage."""

    source: int
    place: int  # on the source
    target: int
    new_place: int


def exchange(stages: int, chunks: int) -> list[list[Move]]:
    """Which chunks go where, in rounds: in each, each stage sends one chunk, and gets one.

    In round j, stage s sends its chunk number j - s // (S / g) modulo v, where g is the greatest common divisor of S
    and v: stages of which equally numbered chunks are for the same stage differ by a multiple of S / g.
    """
    rounds = []
    apart = stages // gcd(stages, chunks)
    for number in range(chunks):
        places = [(number - stage // apart) % chunks for stage in range(stages)]
        counts = [stage * chunks + place for stage, place in enumerate(places)]
        moves = enumerate(zip(places, counts, strict=True))
        rounds.append([Move(stage, place, count % stages, count // stages) for stage, (place, count) in moves])
    return rounds


class LayerOrder:
    """Arrays in the other order, made at the insertion point; sharded over the stages where layers are counted."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._rounds = exchange(line.stages, line.chunks)
        self._made: dict[tuple[ir.Value, int], ir.Value] = {}

    def of_devices(self, rows: ir.Value, dimension: int = 0) -> ir.Value:
        """`rows`, which `dimension` counts in the order of layers; made once for all loops that read them."""
        key = rows, dimension
        if key not in self._made:
            self._made[key] = self._exchanged(rows, dimension, self._rounds)
        return self._made[key]

    def of_layers(self, rows: ir.Value) -> ir.Value:
        """`rows`, which the first dimension counts in the order of devices."""
        back = [[Move(m.target, m.new_place, m.source, m.place) for m in moves] for moves in self._rounds]
        return self._exchanged(rows, 0, back)

    def _exchanged(self, rows: ir.Value, dimension: int, rounds: list[list[Move]]) -> ir.Value:
        line, tensor = self._line, ir.RankedTensorType(rows.type)
        if line.chunks == 1 or scalar_of(rows) is not None:
            return rows
        shape = list(tensor.shape)
        shape[dimension] //= line.stages
        local = ir.RankedTensorType.get(shape, tensor.element_type)
        stage, sharding = line.numbers(), line.sharding(tensor.rank, dimension)
        number = ir.RankedTensorType.get([1], ir.RankedTensorType(stage.type).element_type)
        return computed(
            [Placed(stage, line.sharding(1, 0), False), Placed(rows, sharding, False)],
            [number, local],
            [Result(tensor, sharding)],
            line.manual_axes,
            lambda arguments: [self._on_device(arguments[1], reshaped(arguments[0], []), dimension, rounds)],
        )[0]

    def _on_device(self, own: ir.Value, stage: ir.Value, dimension: int, rounds: list[list[Move]]) -> ir.Value:
        shape = list(ir.RankedTensorType(own.type).shape)
        shape[dimension] //= self._line.chunks
        new = zeros_like(own)
        for moves in rounds:
            taken, put = [0] * self._line.stages, [0] * self._line.stages
            for move in moves:
                taken[move.source] = move.place * shape[dimension]
                put[move.target] = move.new_place * shape[dimension]
            chunk = part_of(own, shape, self._line.entry(taken, stage), dimension)
            if any(move.source != move.target for move in moves):
                chunk = self._line.sent(chunk, [(move.source, move.target) for move in moves])
            new = with_part(new, chunk, self._line.entry(put, stage), dimension)
        return new


def in_layer_order(rows: ir.Value, dimension: int, line: Line) -> ir.Value:
    """`rows` of all layers on each device, which `dimension` counts in the order of devices, at the insertion point."""
    if line.chunks == 1:
        return rows
    tensor = ir.RankedTensorType(rows.type)
    before, count, after = _around(tensor.shape, dimension)
    chunk = count // (line.stages * line.chunks)
    apart = reshaped(rows, [*before, line.stages, line.chunks, chunk, *after])
    order = list(range(tensor.rank + 2))
    order[dimension], order[dimension + 1] = dimension + 1, dimension
    kind = ir.RankedTensorType.get([*before, line.chunks, line.stages, chunk, *after], tensor.element_type)
    swapped = create("stablehlo.transpose", kind, apart, permutation=ir.DenseI64ArrayAttr.get(order))
    return reshaped(swapped, tensor.shape)


def _around(shape: Sequence[int], dimension: int) -> tuple[Sequence[int], int, Sequence[int]]:
    return shape[:dimension], shape[dimension], shape[dimension + 1 :]
