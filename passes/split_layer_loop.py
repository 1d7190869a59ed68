"""A scan over layers as several loops, one for each pipeline stage."""

from typing import Annotated

from jaxlib.mlir import ir

from paropt.passes.dataflow.side_effects import require_repeatable
from paropt.passes.ir.loops import WHILE, Loop
from paropt.passes.ir.signature import Signature, signatures
from paropt.passes.outline.carried_arrays import without_invariants
from paropt.passes.pipelining.layer_loops import SPLIT_ROWS, LayerLoop, layer_loop, split_loop
from paropt.passes.pipelining.row_pieces import Pieces
from paropt.passes.pipelining.step_loop import loops_of
from paropt.passes.support.pipeline import PipelineError
from paropt.passes.support.registry import register
from paropt.passes.support.remarks import Declined, Remark, applied, missed
from paropt.passes.support.traversal import nested, ops_of

NAME = "split-layer-loop"


@register(inlines=True)
def split_layer_loop(
    module: ir.Operation,
    *,
    stages: Annotated[int, "How many loops each loop over layers becomes."] = 2,
) -> list[Remark]:
    """Split each loop over layers by trips, with the rows that they read and write.

    Before:

        %y, %hs = while (%i = 0, %x, %zeros) {
          %w = dynamic_slice %ws, %i
          %h = dot %x, %w
          return %i + 1, %h, dynamic_update_slice(%hs, %h, %i)
        }

    After:

        %y0, %hs0 = while (%i = 0, %x, %zeros[0:2]) { ... dynamic_slice %ws[0:2], %i ... }
        %y1, %hs1 = while (%i = 0, %y0, %zeros[2:4]) { ... dynamic_slice %ws[2:4], %i ... }
        %hs = concatenate %hs0, %hs1

    A `lax.scan` over layers is one op, which no stage boundary can cut. Of stacked arrays, each of the loops has its
    rows: of parameters and of values that the backward loop reads. Elementwise ops on a stacked result (sums over
    micro-batches, an optimizer) are done on each piece, so that each stage can have its own; other readers have the
    pieces put together. Cuts are at the same rows in forward and backward loops.

    Legal when:

    - the loop is in a loop that adds something up, and counts from 0 by 1 to a constant
    - it takes or writes a row of an array in each trip: that of its number, or counted from the last one
    - all of its arrays go in one direction
    - it has as many trips as there are stages, and counts them in i32
    - its ops have no side effects, and shapes are static

    Values do not change; a sum of all elements of a stacked array is taken row by row.

    Sources: LLVM's index set splitting; Shardy's and PartIR's schedules unroll such loops instead.
    """
    if stages < 1:
        raise PipelineError(f"{NAME}{{stages={stages}}}: a loop becomes one loop or more")
    return [remark for signature in signatures(module) for remark in _split_all(signature, stages)]


def _split_all(signature: Signature, stages: int) -> list[Remark]:
    outers = [loop for loop in loops_of(signature) if any(_may_split(each, stages) for each in _inner(loop))]
    if len(outers) != 1:
        return []
    outer = without_invariants(outers[0])
    remarks: list[Remark] = []
    found: dict[ir.Value, LayerLoop] = {}
    for loop in [without_invariants(each) for each in _inner(outer) if _may_split(each, stages)]:
        try:
            layers = layer_loop(loop)
            if layers is not None:
                for op in (loop.op, *nested(loop.op)):
                    require_repeatable(op)
        except Declined as declined:
            remarks.append(missed(NAME, loop.op, declined))
            continue
        if layers is not None:
            found[loop.op.results[0]] = layers
            remarks.append(_done(layers, stages))
    if found:
        _rewrite(outer, found, stages)
    return remarks


def _inner(loop: Loop) -> list[Loop]:
    return [Loop(op) for op in ops_of(loop.op, WHILE) if op.block == loop.body]


def _may_split(loop: Loop, stages: int) -> bool:
    """Whether its trips are known, and enough for all stages; one that was split is not again."""
    counting = loop.counting if SPLIT_ROWS not in loop.op.attributes else None
    return counting is not None and counting.trips >= stages > 1


def _done(layers: LayerLoop, stages: int) -> Remark:
    text = f"{layers.trips} trips became {stages} loops, the {'last' if layers.backward else 'first'} row first"
    return applied(NAME, layers.loop.op, text)


def _rewrite(outer: Loop, found: dict[ir.Value, LayerLoop], stages: int) -> None:
    pieces = Pieces(outer)

    def split(op: ir.Operation) -> bool:
        layers = found.get(op.results[0]) if op.name == WHILE else None
        if layers is not None:
            split_loop(layers, stages, pieces)
        return layers is not None

    block = outer.op.block
    pieces.sink([op.operation for op in outer.body.operations][:-1], split)
    pieces.carry_pieces()
    ops = [op.operation for op in block.operations]
    pieces.sink(ops[ops.index(outer.op) + 1 :])
    pieces.erase_replaced()
