"""A training step with an accumulation loop as functions that may be separate programs."""

from typing import Annotated, Literal

from jaxlib.mlir import ir

from paropt.passes.dataflow.unreduced import said_unreduced
from paropt.passes.ir.constraints import CONSTRAINT
from paropt.passes.ir.gradient_marks import marked_gradients
from paropt.passes.ir.loops import WHILE, Counting, Loop, counter_of
from paropt.passes.ir.signature import Signature, signatures
from paropt.passes.ir.types import tensor_of
from paropt.passes.outline.carried_arrays import counter_known, packed_in, packings_of, without_invariants
from paropt.passes.outline.functions import Outlining
from paropt.passes.outline.lift_loop import Lifting
from paropt.passes.outline.manifest import MANIFEST, Manifest, written
from paropt.passes.outline.stages import Stages, body_of, inputs_of, row, stages_of
from paropt.passes.sharding.shardings import MANUAL, SHARDING
from paropt.passes.state.alike_shardings import gradients_of, states_of
from paropt.passes.state.updates import accumulates, ancestors
from paropt.passes.support.registry import register
from paropt.passes.support.remarks import Declined, Remark, applied, missed, require
from paropt.passes.support.traversal import captured, defining_op, ops_of, parent_of, terminator_of

NAME = "outline-accumulation"

Sync = Literal["apart", "last", "apply"]


@register
def outline_accumulation(
    module: ir.Operation,
    *,
    sync: Annotated[
        Sync,
        "Where the reductions after the loop go: into a function of their own (sync_grad), into one that also "
        "accumulates the last micro-batch (accumulate_grad_and_sync), or into apply_grad.",
    ] = "apart",
) -> list[Remark]:
    """Outline a training step as functions: one accumulates a micro-batch's gradients, one applies the sum.

    Before:

        func main(%w, %xs) -> %new {
          %g = while (%i = 0, %acc = %zero) {
            %x = dynamic_slice %xs, %i
            %d = dot %x, %w
            %n = add %acc, %d
            return %i + 1, %n
          }
          %s = all_reduce(%g)
          %new = subtract %w, %s
          return %new
        }

    After:

        func main(%w, %xs) -> %new {
          %zero = call @start_grad()
          %g = while (%i = 0, %acc = %zero) {
            %x = call @micro_batch(%xs, %i)
            %n = call @accumulate_grad(%w, %x, %acc)
            return %i + 1, %n
          }
          %s = call @sync_grad(%g)
          %new = call @apply_grad(%w, %s)
          return %new
        }
        func private @accumulate_grad(%w, %x, %acc) -> %n ...

    `main` still is the whole step. Its attribute `paropt.manifest` names the arguments and results of each function, so
    that they can be compiled separately and called from a program of another kind, as `paropt.accumulate` does. Each
    argument and result is a legal array: an unreduced sum has a first dimension that counts the devices that hold its
    addends, and is sharded over them; so have values that a manual computation hands from one function to the next.

    It comes last, after the passes that sink reductions out of the loop (`grad-sync`): `accumulate_grad` does the
    reductions that are still in the loop.

    Legal when:

    - there is one loop that accumulates, in the function or in a manual computation of it, or the marked gradients tell
      which (`paropt.mark_gradient`)
    - the loop counts from a constant by a constant to a constant
    - the loop has no shardings of its own (they are one per loop-carried value)
    - the loop carries arrays only (a token, which orders callbacks, does not go from program to program)
    - the manual computation is over axes of a mesh of the module
    - unreduced values are sharded over whole axes of the mesh, into parts of one size
    - unreduced values go from the loop to what follows it only

    Values do not change.

    Sources: Alpa's `accumulate_grad` and `apply_grad`; PyTorch DDP's `no_sync`.
    """
    remarks: list[Remark] = []
    if not ops_of(module, WHILE):
        return remarks
    for signature in signatures(module):
        if MANIFEST not in signature.function.attributes:
            remarks += _outlined(signature, sync)
    return remarks


def _outlined(signature: Signature, sync: Sync) -> list[Remark]:
    loops = _loops(signature)
    if not loops:
        return []
    try:
        loop = _only(loops, signature)
        counting = loop.counting
        require(counting is not None, "the trip count is not known", loop.op)
        require(SHARDING not in loop.op.attributes, "the loop says how its values are sharded", loop.op)
        arrays = all(tensor_of(value) is not None for value in loop.op.operands)
        require(arrays, "the loop carries a token, which orders callbacks", loop.op)
        assert counting is not None
        manual = parent_of(loop.op)
        lifting = Lifting(manual) if manual.name == MANUAL else None
        packings_of(loop)
        _require_reduced(stages_of(loop, with_closing=sync != "apply"), loop)
    except Declined as declined:
        return [missed(NAME, loops[0].op, declined)]
    remark = applied(
        NAME, loop.op, f"the step became functions: {counting.trips} calls accumulate gradients, one applies them"
    )
    module = parent_of(signature.function)
    with module.context:
        _rewrite(signature, loop, counting, lifting, sync)
    return [remark]


def _rewrite(signature: Signature, loop: Loop, counting: Counting, lifting: Lifting | None, sync: Sync) -> None:
    states = [(state.old.number, state.new.number) for state in states_of(signature)]
    loop = without_invariants(loop)
    counter = counter_of(loop)
    assert counter is not None, "it counts"
    counter_known(loop, counter, counting.start + counting.trips * counting.step)
    with_closing = sync != "apply"
    if lifting is not None:
        loop = lifting.lift(loop, counter, stages_of(loop, with_closing=with_closing))
    else:
        loop = packed_in(loop, packings_of(loop))
    outlining = Outlining(signature, loop, counter)
    outlining.outline(stages_of(loop, with_closing=with_closing), body_of(loop, counter, row), sync_last=sync == "last")
    made = Manifest(outlining.stages, counting, outlining.shardings, _paths(signature), outlining.rows, states)
    signature.function.attributes[MANIFEST] = written(made)


def _loops(signature: Signature) -> list[Loop]:
    """The loops that accumulate, in the function and in the manual computations in it."""
    function = signature.function
    blocks = [op.regions[0].blocks[0] for op in (function, *ops_of(function, MANUAL))]
    found = [Loop(op) for op in ops_of(function, WHILE) if op.block in blocks]
    return [loop for loop in found if any(accumulates(loop, i) for i in range(len(loop.op.operands)))]


def _only(loops: list[Loop], signature: Signature) -> Loop:
    """The one loop whose sums the update takes."""
    marked = {value for gradient in marked_gradients(signature.function) for value, _ in ancestors(gradient)}
    if marked:
        loops = [loop for loop in loops if any(result in marked for result in loop.op.results)]
    elif len(loops) > 1:
        known = [gradient.loop for gradient in gradients_of(signature, states_of(signature))]
        loops = [loop for loop in loops if loop.op in known] or loops
    what = "no loop adds up the marked gradients" if not loops else f"{len(loops)} loops add up (mark the gradients)"
    require(len(loops) == 1, what)
    return loops[0]


def _require_reduced(stages: Stages, loop: Loop) -> None:
    """Declines where a part of the step reads a value that another one has not reduced, other than of the loop."""
    end = terminator_of(loop.op.block)
    read = [*captured(loop.op), *inputs_of(stages.closing), *inputs_of(stages.update, end.operands)]
    for value in dict.fromkeys(read):
        op = defining_op(value)
        if op is not None and op != loop.op:
            readers = [use.owner.operation for use in value.uses] if op.name == WHILE else []  # they say it of results
            said = [value, *(reader.results[0] for reader in readers if reader.name == CONSTRAINT)]
            whole = not any(map(said_unreduced, said))
            require(whole, "an unreduced value goes from one stage of the step to another", op)


def _paths(signature: Signature) -> dict[str, str]:
    """JAX's names of the arguments and results."""
    slots = (*signature.arguments, *signature.results)
    return {f"{slot.kind}{slot.number}": slot.path for slot in slots if slot.path}
