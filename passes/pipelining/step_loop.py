"""The loop over micro-batches of a training step, and its carried values: sums, and rows of one array.

Everything else that goes from one micro-batch to the next keeps stages from working on several at once, and is refused.

Tests: test/passes/cut-stages.mlir.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.dataflow.engine import backward, depth_first
from paropt.passes.dataflow.side_effects import require_repeatable
from paropt.passes.ir.loops import WHILE, Counting, Loop, counter_of
from paropt.passes.ir.signature import Signature, signatures
from paropt.passes.ir.types import tensor_of
from paropt.passes.outline.carried_arrays import without_invariants
from paropt.passes.pipelining.block_graph import BlockGraph
from paropt.passes.sharding.collectives import ADD
from paropt.passes.state.alike_shardings import states_of
from paropt.passes.state.updates import accumulates
from paropt.passes.support.remarks import require
from paropt.passes.support.traversal import defining_op, is_read_once, ops_of, parent_of

_CONVERT = "stablehlo.convert"
_UPDATE_SLICE = "stablehlo.dynamic_update_slice"


class Sum(NamedTuple):
    """A loop-carried value that terms are added to."""

    position: int
    terms: list[ir.Value]  # in the order of the program
    adds: list[int]  # the ops of the body that add them, in program order


class Rows(NamedTuple):
    """A loop-carried array in which each trip writes a row of its own."""

    position: int
    update: ir.Operation


@dataclass(frozen=True)
class StepLoop:
    """The loop of a step, without pass-through values. Not to be kept across a rewrite."""

    signature: Signature
    loop: Loop
    counter: int
    counting: Counting
    body: BlockGraph
    around: BlockGraph  # the function's own block; the loop is one of its ops
    sums: list[Sum]
    rows: list[Rows]

    @property
    def number(self) -> int:
        """Where the loop stands in the function."""
        return self.around.maker[self.loop.op.results[0]]

    @property
    def arguments(self) -> list[ir.Value]:
        return [slot.value for slot in self.signature.arguments]

    @property
    def carries(self) -> list[Sum | Rows]:
        return [*self.sums, *self.rows]

    def argument_of(self, carry: Sum | Rows) -> ir.Value:
        return self.loop.body.arguments[carry.position]

    def result_of(self, carry: Sum | Rows) -> ir.Value:
        return self.loop.op.results[carry.position]


def loops_of(signature: Signature) -> list[Loop]:
    """The loops of the function's own block that add something up."""
    block = signature.function.regions[0].blocks[0]
    loops = [Loop(op) for op in ops_of(signature.function, WHILE) if op.block == block]
    return [loop for loop in loops if any(accumulates(loop, i) for i in range(len(loop.op.operands)))]


def step_loop(signature: Signature, loops: Sequence[Loop]) -> StepLoop:
    """The one loop, after its pass-through values have become values from outside. Raises Declined for no such loop."""
    require(len(loops) == 1, f"{len(loops)} loops add up: the loop over micro-batches has to be the only one")
    loop = loops[0]
    require(loop.counting is not None, "the trip count is not known", loop.op)
    _erase_idle_converts(loop.body)
    _require_independent(loop)
    block = signature.function.regions[0].blocks[0]
    for op in (*block.operations, *loop.body.operations):
        require_repeatable(op.operation)
    loop = without_invariants(loop)
    signature = _anew(signature)  # the results of the old loop are gone
    counter, counting = counter_of(loop), loop.counting
    assert counter is not None and counting is not None, "asked above"
    body = BlockGraph(loop.body)
    carries = [_carry(loop, body, i) for i in range(len(loop.op.operands)) if i != counter]
    sums = [each for each in carries if isinstance(each, Sum)]
    rows = [each for each in carries if isinstance(each, Rows)]
    return StepLoop(signature, loop, counter, counting, body, BlockGraph(block), sums, rows)


def _erase_idle_converts(body: ir.Block) -> None:
    """Erases converts to the type that their operand has: jax makes one of a sum that starts from a Python number."""
    for op in (op.operation for op in list(body.operations)):
        if op.name == _CONVERT and op.operands[0].type == op.results[0].type and not len(op.attributes):
            op.results[0].replace_all_uses_with(op.operands[0])
            op.erase()


def _anew(signature: Signature) -> Signature:
    function = signature.function
    return next(each for each in signatures(parent_of(function)) if each.function == function)


def _require_independent(loop: Loop) -> None:
    """Declines where a micro-batch needs more of the one before it than its sums."""
    counter, body = counter_of(loop), BlockGraph(loop.body)
    for i, (last, following) in enumerate(zip(loop.body.arguments, loop.next_values.operands, strict=True)):
        if i == counter or last == following or _carry(loop, body, i) is not None:
            continue
        what = f"loop-carried value {i}, {tensor_of(last)}, goes from one micro-batch to the next and is no sum"
        require(False, what, defining_op(following) or loop.op)


def _carry(loop: Loop, body: BlockGraph, position: int) -> Sum | Rows | None:
    return _sum(loop, body, position) or _rows(loop, position)


def _sum(loop: Loop, body: BlockGraph, position: int) -> Sum | None:
    """The sum that loop-carried value `position` is: additions of it and of others, each read once."""
    carried, following = loop.body.arguments[position], loop.next_values.operands[position]

    def added(value: ir.Value) -> int | None:
        n = body.maker.get(value)
        return n if n is not None and body.ops[n].name == ADD and is_read_once(value) else None

    def addends(n: int) -> list[int]:
        return [add for value in body.ops[n].operands if (add := added(value)) is not None]

    first = added(following)
    if first is None or not is_read_once(carried):
        return None
    adds = sorted(depth_first([first], addends))
    terms = [value for n in adds for value in body.ops[n].operands if added(value) is None]
    if carried not in terms:
        return None
    terms.remove(carried)
    return Sum(position, terms, adds)


def _rows(loop: Loop, position: int) -> Rows | None:
    """The rows that each trip writes at its own number."""
    carried, following = loop.body.arguments[position], loop.next_values.operands[position]
    op, counter = defining_op(following), counter_of(loop)
    if op is None or op.name != _UPDATE_SLICE or op.operands[0] != carried:
        return None
    if counter is None or not is_read_once(carried) or not is_read_once(following):
        return None
    _, row, *starts = op.operands
    at = [d for d, start in enumerate(starts) if start == loop.body.arguments[counter]]
    shape = ir.RankedTensorType(row.type).shape
    return Rows(position, op) if any(shape[d] == 1 for d in at) else None


def gradients(step: StepLoop) -> set[int]:
    """The positions of sums that new values of arguments are computed from; of state, where names tell which is."""
    number, signature = step.number, step.signature
    news = [state.new.value for state in states_of(signature)]
    news = news or [slot.value for slot in signature.results if _is_update(step, slot.value)]
    reaching = {value for n in step.around.ancestors(news) if n > number for value in step.around.reads[n]} | {*news}
    return {each.position for each in step.sums if step.result_of(each) in reaching}


def _is_update(step: StepLoop, value: ir.Value) -> bool:
    """Whether `value` is computed from an argument of its type otherwise than through the loop."""
    around = step.around

    def made_of(each: ir.Value) -> list[ir.Value]:
        n = around.maker.get(each)
        return around.reads[n] if n is not None and n != step.number else []

    arguments = set(step.arguments)
    return any(each in arguments and each.type == value.type for each in backward([value], made_of))


def from_arguments(step: StepLoop) -> set[ir.Value]:
    """The values from before the loop that arguments are needed for."""
    found = set(step.arguments)
    for n in range(step.number):
        if any(value in found for value in step.around.reads[n]):
            found.update(step.around.ops[n].results)
    return found
