"""A scan over layers as a pipeline in one program, on the devices along one axis of the mesh."""

from typing import Annotated

from jaxlib.mlir import ir

from paropt.passes.ir.control_flow import MANUAL
from paropt.passes.ir.loops import WHILE, Loop
from paropt.passes.ir.op_table import is_collective, is_exposed
from paropt.passes.ir.signature import Signature, signatures
from paropt.passes.outline.carried_arrays import counter_known, without_invariants
from paropt.passes.pipelining.block_graph import BlockGraph
from paropt.passes.pipelining.layer_loops import LayerLoop, layer_loop
from paropt.passes.pipelining.layer_ticks import ticks
from paropt.passes.pipelining.loop_fission import split
from paropt.passes.pipelining.loop_places import Places
from paropt.passes.pipelining.stage_line import Line, can_mask
from paropt.passes.pipelining.step_loop import StepLoop, loops_of, step_loop
from paropt.passes.sharding.axes import Axis, axes_in, names_of
from paropt.passes.sharding.collectives import replica_count
from paropt.passes.sharding.meshes import MeshAxes, axes_named, meshes_of
from paropt.passes.sharding.shardings import sharding_of
from paropt.passes.support.registry import register
from paropt.passes.support.remarks import Declined, Remark, applied, missed, require
from paropt.passes.support.traversal import defining_op, nested, ops_of

NAME = "pipeline-layer-loop"
_UNREDUCED = "unreduced={"  # XLA aborts at a sharding that has unreduced axes and is inside a manual computation


@register(inlines=True)
def pipeline_layer_loop(
    module: ir.Operation,
    *,
    axis: Annotated[MeshAxes, "The mesh axis along which the layers are divided into stages."] = "stage",
    circular: Annotated[
        int, "Chunks of layers on each device; micro-batches go round the devices, once for each chunk."
    ] = 1,
) -> list[Remark]:
    """Run loops over layers as pipelines along one axis of the mesh, in one program.

    Before:

        %acc, %loss = while (%m < M) {
          %x = dot %xs[%m], %embedding
          %y, %hs = while (%i < L) { %h = dot %x, %ws[%i] ... }
          %l, %dy = ... %y ...
          %dx, %dws = while (%i < L) { ... %ws[L - 1 - %i], %hs[L - 1 - %i] ... }
          return %acc + %dws, %loss + %l
        }

    After:

        %x_of = while (%m < M) { dot %xs[%m], %embedding }
        %y_of, %hs_of = manual_computation over the axis, of S devices (%ws, %x_of) {
          while (%t < M + S - 1) {
            %m = %t - %stage
            %x = select %stage == 0, %x_of[%m], %received
            %y, %hs = while (%i < L / S) { ... }
            %received = collective_permute %y, to the next stage
          }
        }
        %loss, %dy_of = while (%m < M) { ... %y_of[%m] ... }
        %acc = manual_computation over the axis (%ws, %hs_of, %dy_of) { the same, from the last stage to the first }

    The loop over micro-batches is split before and behind each loop over layers. A value that a part makes for a later
    one is stacked, a row for each micro-batch. Stages hold the rows of their layers: of parameters, of residuals that
    the backward loop reads, and of sums of gradients. All stages work in each tick, on a micro-batch or, before their
    first and behind their last one, on values that are masked or written once more as they were. The result of the last
    stage is sent to all once per step, because the ops between the loops are done on all devices along the axis. Ops
    that are the same in each trip are hoisted. The order is that of GPipe: all micro-batches forward, then all
    backward, so residuals of all are held at once.

    With `circular=v`, each of the S devices has v chunks of layers: device s has the chunks s, s + S, s + 2 S and so
    on. Micro-batches go round the devices v times, from the last to the first, where they wait M - S ticks for their
    turn. Then v M + S - 1 ticks take a v-th as long each, so devices wait (S - 1) / (v M) of the time that they work.
    Activations are sent v times. Layers that are stacked in the order of the program are sent to the devices that they
    belong to once per step, and their gradients back.

    Give arrays that are stacked by layer the sharding of the axis in their first dimension: then none of their rows is
    sent. Other axes stay with the partitioner. `grad-sync` has to follow, because XLA leaves no value unreduced in a
    computation with manual axes. It sinks the sums over other axes: those of layers, in arrays with a dimension for the
    devices, behind the ticks.

    Legal when:

    *The loop over micro-batches*

    - one loop adds something up, and counts its trips from 0 in i32, a known number of times
    - it carries sums, and arrays of which each trip writes its own row, and nothing else from trip to trip
    - its ops have no side effects, and shapes are static
    - it holds no collectives, and no computations of single devices

    *The loops over layers*

    - a loop in it takes a row of an array of parameters in each trip
    - its trips are a multiple of the stages (of all chunks, in a circular pipeline), and arrays have a row for each
    - loops within a layer have known trip counts
    - what layers hand on, and the terms of sums that they make, are floats or integers
    - all rows of what layers write are read by other layers only row by row

    *The axis*

    - one mesh has the axis, with two devices or more, and there is one replica
    - what reaches the loop is not sharded over the axis, but arrays of layers in their first dimension
    - nothing in the loop is sharded over the axis, or left unreduced

    *A circular pipeline*

    - each device has at least one chunk
    - there are at least as many micro-batches as stages

    Worth it when:

    - what other ops read of all layers is no more than what a layer hands on, because it is all-gathered

    Sums keep the order of their additions, but for one whose terms are made in several parts: it is reassociated.

    Sources: GPipe; the collective pipelining of GSPMD (section 3.3) and praxis' `LayerwiseShardablePipelined` and
    `CircularLayerwiseShardablePipelined`, which models are written for.
    """
    return [remark for signature in signatures(module) for remark in _pipelined(module, signature, axis, circular)]


def _pipelined(module: ir.Operation, signature: Signature, axis: str, circular: int) -> list[Remark]:
    loops = loops_of(signature)
    if not loops:
        return []
    try:
        line = _line(module, axis, circular)
        step, layers = _layers(signature, [loop for loop in loops if _inner(loop)] or loops)
        _require_plain(step, axis)
        _require_stages(step, layers, line)
        _require_axis_free(step, layers, axis)
        places = Places(step, layers)
        _require_masks(places)
    except Declined as declined:
        return [missed(NAME, loops_of(signature)[0].op, declined)]  # the loop may be another one by now
    remark = applied(NAME, step.loop.op, _done(places, line))
    split(places, ticks(line))
    return [remark]


def _line(module: ir.Operation, axis: str, circular: int) -> Line:
    names = axes_named(axis)
    require(len(names) == 1, f"stages are along one axis of the mesh, not {len(names)}")
    found = [(name, mesh) for name, mesh in meshes_of(module).items() if names[0] in mesh.names]
    require(len(found) == 1, f"{len(found)} meshes of the module have an axis `{names[0]}`")
    (name, mesh), (only,) = *found, names
    line = Line(module, f"@{name}", mesh, only, circular)
    require(replica_count(module) <= 1, "the module is for several replicas")
    require(line.stages > 1, f"`{only}` has one device: there is nothing to divide")
    require(circular > 0, f"each device has {circular} chunks of layers: one is the least")
    return line


def _inner(loop: Loop) -> list[Loop]:
    return [Loop(op) for op in ops_of(loop.op, WHILE) if op.block == loop.body]


def _layers(signature: Signature, loops: list[Loop]) -> tuple[StepLoop, list[LayerLoop]]:
    """The loop over micro-batches, and the loops over layers in it, after pass-through values are gone."""
    require(len(loops) == 1, f"{len(loops)} loops add up: the loop over micro-batches has to be the only one")
    outer = without_invariants(loops[0])
    inner = [without_invariants(each) for each in _inner(outer)]
    body, found = BlockGraph(outer.body), list[LayerLoop]()
    for layers in (each for each in map(layer_loop, inner) if each is not None):
        counter_known(layers.loop, layers.counter, layers.trips)
        written = {each.loop.op.results[i] for each in found for i in each.updates}
        if any(_is_fixed(op.operands[0], outer, body) or op.operands[0] in written for op in layers.slices):
            found.append(layers)
    require(bool(found), "no loop in it takes a row of an array of parameters in each trip: no loop over layers")
    return step_loop(signature, [outer]), found


def _is_fixed(value: ir.Value, loop: Loop, body: BlockGraph) -> bool:
    """Whether `value` is the same in each trip of `loop`."""
    changing = set(loop.body.arguments)
    return value not in changing and not any(v in changing for n in body.ancestors([value]) for v in body.reads[n])


def _require_plain(step: StepLoop, axis: str) -> None:
    counts = step.counting.start == 0 and step.counting.step == 1 and step.counting.trips > 0
    counter = ir.RankedTensorType(step.loop.body.arguments[step.counter].type).element_type
    require(counts and str(counter) == "i32", "the loop does not count its trips from 0, in i32")
    for op in nested(step.loop.op):
        manual = op.name == MANUAL or is_collective(op) or is_exposed(op)
        require(not manual, "it holds what each device does by itself", op)
        names = [name for name in op.attributes if "shard" in name]
        used = names_of(axis for name in names for axis in axes_in(op.attributes[name]))
        require(axis not in used, f"`{axis}` shards a value in the loop", op)
        unreduced = any(_UNREDUCED in str(op.attributes[name]) for name in names)
        require(not unreduced, "a value in the loop is left unreduced: do that after this pass", op)


def _require_stages(step: StepLoop, layers: list[LayerLoop], line: Line) -> None:
    micro_batches, count = step.counting.trips, line.stages * line.chunks
    fewer = f"{micro_batches} micro-batches are fewer than {line.stages} stages"
    require(line.chunks == 1 or micro_batches >= line.stages, f"{fewer}: they would wait in each round")
    for each in layers:
        for op in (op for op in nested(each.loop.op) if op.name == WHILE):
            ends = Loop(op).counting is not None
            require(ends, "a loop in a layer might not end on values that no micro-batch has", op)
        chunks = f"the size of `{line.axis}`" + (f" times {line.chunks} chunks" if line.chunks > 1 else "")
        require(each.trips % count == 0, f"{each.trips} layers are no multiple of {count}, {chunks}", each.loop.op)
        arrays = [*(op.operands[0] for op in each.slices), *(op.operands[0] for op in each.updates.values())]
        rows = {ir.RankedTensorType(value.type).shape[0] for value in arrays}
        require(rows == {each.trips}, "an array has another number of rows than the loop has trips", each.loop.op)


def _require_axis_free(step: StepLoop, layers: list[LayerLoop], axis: str) -> None:
    """Declines where something that reaches the loop is sharded over the axis otherwise than layer by layer."""
    trips, around = {each.trips for each in layers}, step.around
    ops = around.ancestors(around.reads[step.number])
    values = [value for n in (*ops, step.number) for value in around.reads[n]]
    for value in dict.fromkeys(values):
        sharding = sharding_of(value)
        if sharding is None or axis not in names_of(sharding.axes):
            continue
        first, *others = sharding.dimensions
        by_layer = first == (Axis(axis),) and ir.RankedTensorType(value.type).shape[0] in trips
        free = axis not in names_of(each for axes in others for each in axes)
        slot = next((str(slot) for slot in step.signature.arguments if slot.value == value), "a value that it reads")
        require(by_layer and free, f"{slot} is sharded over `{axis}`, otherwise than by layers", defining_op(value))


def _require_masks(places: Places) -> None:
    for value in places.crossing:
        handed = places.made_at(value) % 2 == 1 and value not in places.stacked
        element = ir.RankedTensorType(value.type).element_type
        known = not handed or can_mask(element)
        require(known, f"layers make a value of {element}, which no sum over devices sends", defining_op(value))
    for sum_ in places.step.sums:
        for value in (value for value in sum_.terms if value in places.stacked):
            element = ir.RankedTensorType(value.type).element_type
            require(can_mask(element), f"a sum of {element} cannot be masked", defining_op(value))


def _done(places: Places, line: Line) -> str:
    count, micro_batches = len(places.layers), places.step.counting.trips
    ticks = micro_batches * line.chunks + line.stages - 1
    loops = "loop over layers runs" if count == 1 else "loops over layers run"
    chunks = f" with {line.chunks} chunks of layers each" if line.chunks > 1 else ""
    spread = f"{line.stages} stages along `{line.axis}`{chunks}"
    return f"{count} {loops} in {ticks} ticks of {spread}, {micro_batches} micro-batches one after the other"
