"""The batch of a training step, split into micro-batches that a loop accumulates over."""

import difflib
from typing import Annotated, Literal, NamedTuple

from jaxlib.mlir import ir

from paropt.passes.ir.signature import Signature, Slot, signatures
from paropt.passes.ir.types import tensor_of
from paropt.passes.microbatch.accumulation_loop import split
from paropt.passes.microbatch.batch_sums import sums_of
from paropt.passes.microbatch.batching import Batching
from paropt.passes.microbatch.examples import Batch, Examples
from paropt.passes.sharding.axes import names_of
from paropt.passes.sharding.meshes import meshes_of
from paropt.passes.sharding.shardings import MANUAL, sharding_of
from paropt.passes.state.alike_shardings import states_of
from paropt.passes.state.argument_roles import plain_path
from paropt.passes.support.pipeline import PipelineError
from paropt.passes.support.registry import register
from paropt.passes.support.remarks import Declined, Remark, applied, missed, require

NAME = "split-microbatches"


@register(inlines=True)
def split_microbatches(
    module: ir.Operation,
    *,
    count: Annotated[int, "How many micro-batches; it has to be given."] = 0,
    arguments: Annotated[
        str, "Names or numbers of the arguments with the examples, `a,b`; else all that are no state."
    ] = "",
    dimension: Annotated[int, "Which dimension of these arguments counts examples."] = 0,
    random: Annotated[
        Literal["refuse", "before"], "Random numbers that are drawn for all examples at once: decline, or draw them so."
    ] = "refuse",
) -> list[Remark]:
    """Split the batch of a training step, and accumulate over its micro-batches in a loop.

    Before:

        func main(%w, %x: tensor<64x8xf32>) {
          %h = dot %x, %w
          %g = dot %x, %h  // contracts the examples
          return %w - %g
        }

    After:

        func main(%w, %x: tensor<64x8xf32>) {
          %rows = reshape %x : tensor<16x4x8xf32>
          %sum = while (%i = 0, %acc = -0.0) {  // to 4
            %part = dynamic_slice %rows, %i  // tensor<16x8xf32>
            %h = dot %part, %w
            %g = dot %part, %h
            %n = add %acc, %g
            return %i + 1, %n
          }
          return %w - %sum
        }

    The activations of one micro-batch are alive at a time, not those of all examples. The dimension of each value that
    counts examples is followed from the arguments, through Shardy's sharding rules. A sum over examples (a gradient, a
    loss) is accumulated in the loop, and so are linear functions of it; the first op that is not linear belongs to the
    update, after the loop. Divisors are those of the whole batch, so a mean stays the mean. A sum that is computed from
    inputs alone at little cost, like the number of tokens that count, is taken before the loop. A maximum or minimum,
    and `any` or `all`, are combined from those of the parts. Results for each example are put together again. Example
    numbers, and random numbers that are computed from these (threefry), stay the same.

    Micro-batch i of M has the examples i, M + i, 2 M + i and so on: with the examples sharded over devices, each device
    keeps its own. Calls are inlined first. Run `grad-sync` after it; the pipeline `split` is both.

    Legal when:

    *The batch*

    - the arguments with examples are known, and have equally many
    - the number of micro-batches divides the examples, and devices divide those of a micro-batch
    - the examples are the major part of one dimension
    - shapes are static
    - random numbers are not drawn for all examples at once, or `random=before`

    *Ops on examples*

    - each op treats examples one by one, sums them from zero, or takes their maximum or minimum
    - no op combines an example with others
    - an op that writes into an array does not count from the first example
    - no example depends on a sum over all of them, unless that is computed from inputs at little cost
    - no example depends on the maximum or minimum of all, with the same exception
    - ops of a micro-batch have no side effects

    *Loops in the step*

    - none takes the maximum or minimum of the examples
    - a maximum or minimum starts from no value that such a loop computes
    - a loop carries the examples in one way
    - a loop sums from zero

    Worth it when:

    - something is summed over the examples

    Sums are reassociated, so results may differ by rounding.

    Sources: Alpa's `num_micro_batches`; the batch dimension is followed as Shardy follows a mesh axis.
    """
    if count < 2:
        raise PipelineError(f"{NAME} needs a number of micro-batches, two or more: {NAME}{{count=4}}")
    if dimension < 0:
        raise PipelineError(f"{NAME}{{dimension={dimension}}}: dimensions are counted from 0")
    remarks: list[Remark] = []
    for signature in signatures(module):
        try:
            remarks.append(_split(module, signature, count, arguments, dimension, random == "before"))
        except Declined as declined:
            remarks.append(missed(NAME, declined.op or signature.function, declined))
    return remarks


def _split(
    module: ir.Operation, signature: Signature, count: int, arguments: str, dimension: int, random: bool
) -> Remark:
    state = {each.old.number for each in states_of(signature)}
    slots = _named(signature, arguments) if arguments else _inferred(signature, state)
    _require_alike(slots, dimension)
    step = _step(signature, slots)
    batches = {step.inside[slot.value]: Batch(dimension) for slot in slots}
    size = _size(list(batches), dimension)
    each = "" if step.block == signature.end.block else " on each device"
    require(size % count == 0, f"{count} micro-batches do not divide {size} examples{each}")
    _require_even(module, slots, dimension, count)
    kept = frozenset(step.inside[slot.value] for slot in signature.arguments if slot.number in state)
    batching = Batching(step.block, batches, Examples(module, size), kept, random=random)
    sums = sums_of(batching)
    require(bool(sums.carried), "nothing is summed over the examples")
    loop = split(batching, sums, count)
    return applied(NAME, loop, f"a loop over {count} micro-batches of {size // count} examples{each}")


class _Step(NamedTuple):
    """Where the step is computed: in the function, or on each device for itself."""

    block: ir.Block
    inside: dict[ir.Value, ir.Value]  # the replacements of the function's arguments there


def _step(signature: Signature, slots: list[Slot]) -> _Step:
    values = {slot.value: slot.value for slot in signature.arguments}
    readers = {use.owner.operation for slot in slots for use in slot.value.uses}
    if len(readers) != 1 or (manual := next(iter(readers))).name != MANUAL:
        return _Step(signature.end.block, values)
    block = manual.regions[0].blocks[0]
    return _Step(block, values | dict(zip(manual.operands, block.arguments, strict=True)))


def _named(signature: Signature, arguments: str) -> list[Slot]:
    """The arguments that the option names: by number, path, or the beginning of a path."""
    found: list[Slot] = []
    paths = {plain_path(slot.path): slot for slot in signature.arguments if slot.path}
    for name in arguments.split(","):
        name = plain_path(name.strip())
        if name.isdecimal() and int(name) < len(signature.arguments):
            found.append(signature.arguments[int(name)])
            continue
        fitting = [slot for path, slot in paths.items() if path == name or path.startswith(f"{name}/")]
        if not fitting:
            near = difflib.get_close_matches(name, paths, n=1, cutoff=0)
            hint = f"; did you mean `{near[0]}`?" if near else ""
            raise PipelineError(f"{NAME}{{arguments={arguments}}}: no argument called `{name}`{hint}")
        found += fitting
    return list({slot.number: slot for slot in found}.values())


def _inferred(signature: Signature, state: set[int]) -> list[Slot]:
    return [slot for slot in signature.arguments if slot.number not in state and _rank(slot) and not _is_key(slot)]


def _rank(slot: Slot) -> int:
    tensor = tensor_of(slot.value)
    return tensor.rank if tensor is not None else 0


def _is_key(slot: Slot) -> bool:
    """Whether the argument looks like a key of random numbers."""
    return str(slot.type) in ("tensor<2xui32>", "tensor<4xui32>")


def _size(values: list[ir.Value], dimension: int) -> int:
    return ir.RankedTensorType(values[0].type).shape[dimension]


def _require_alike(slots: list[Slot], dimension: int) -> None:
    """Declines unless all have as many examples."""
    require(bool(slots), "no argument has examples (option arguments says which)")
    for slot in slots:
        require(_rank(slot) > dimension, f"{slot} has no dimension {dimension}")
    sizes = [ir.RankedTensorType(slot.type).shape[dimension] for slot in slots]
    odd = next((i for i, size in enumerate(sizes) if size != sizes[0]), None)
    if odd is not None:
        differ = f"{slots[0]} has {sizes[0]} examples and {slots[odd]} has {sizes[odd]}"
        raise Declined(f"{differ} (option arguments says which count)")


def _require_even(module: ir.Operation, slots: list[Slot], dimension: int, count: int) -> None:
    """Declines unless all devices have as many examples of each micro-batch."""
    for slot in slots:
        size = ir.RankedTensorType(slot.type).shape[dimension]
        sharding = sharding_of(slot.value)
        if sharding is None:
            continue
        mesh = meshes_of(module).get(sharding.mesh.removeprefix("@"))
        parts = 1
        for axis in names_of(sharding.dimensions[dimension]):
            parts *= dict(mesh.axes)[axis] if mesh is not None else 1
        what = f"a micro-batch has {size // count} examples"
        require(size // count % parts == 0, f"{what}, which {parts} devices do not divide")
