"""The phases of a micro-batch: which ops are free, which the loss needs (forward), and all others (backward).

No marker is needed: a value that is summed over micro-batches and reaches no new parameter is a loss or another metric,
and metrics are computed by the forward pass. Where JAX's names say that an op is of a transposed function, it is not: a
metric that reads such an op, as the norm of a gradient does, is no loss.

Tests: test/passes/cut-stages.mlir, test/unit/passes/test_cut_stages.py.
"""

import re
from dataclasses import dataclass

from jaxlib.mlir import ir

from paropt.passes.ir.op_table import is_cheap, is_cloned
from paropt.passes.outline.stages import DYNAMIC_SLICE, body_of, row
from paropt.passes.pipelining.block_graph import BlockGraph, Through, free_ops
from paropt.passes.pipelining.step_loop import Rows, StepLoop, Sum, gradients
from paropt.passes.support.remarks import require
from paropt.passes.support.sources import source_of

_TRANSPOSED = re.compile(r"\btranspose\(")


@dataclass(frozen=True)
class Phases:
    """The ops of a trip by phase, each in program order; those that add to the loop's sums and rows are in none."""

    through: Through  # the body, seen through free ops
    forward: list[int]
    backward: list[int]
    gradients: set[int]  # positions of the sums that are


def phases_of(step: StepLoop) -> Phases:
    """Raises Declined when nothing tells the loss."""
    carried = {step.argument_of(each) for each in step.carries}
    apart = {n for each in step.sums for n in each.adds}
    apart |= {step.body.maker[each.update.results[0]] for each in step.rows}
    free = _free(step.body, carried) - apart
    found = gradients(step)
    needed = step.body.ancestors(value for each in _losses(step, found) for value in terms_of(each))
    own = [n for n in range(len(step.body.ops)) if n not in free and n not in apart]
    forward = [n for n in own if n in needed]
    backward = [n for n in own if n not in needed]
    return Phases(Through(step.body, free, rows_taken(step)), forward, backward, found)


def rows_taken(step: StepLoop) -> list[ir.Value]:
    """The rows of a micro-batch, which free ops take of arrays from outside."""
    return body_of(step.loop, step.counter, row).taken


def terms_of(carry: Sum | Rows) -> list[ir.Value]:
    """The values that a trip adds, or writes."""
    return carry.terms if isinstance(carry, Sum) else [carry.update.operands[1]]


def _free(body: BlockGraph, carried: set[ir.Value]) -> set[int]:
    def is_free(op: ir.Operation, values: list[ir.Value], free: set[int]) -> bool:
        if any(value in carried for value in values):
            return False
        if is_cloned(op):
            return True
        cheap = is_cheap(op) or op.name == DYNAMIC_SLICE
        return cheap and all(value not in body.maker or body.maker[value] in free for value in values)

    return free_ops(body, is_free)


def _losses(step: StepLoop, gradients: set[int]) -> list[Sum | Rows]:
    """The sums and rows of the loop that tell which ops are forward."""
    metrics = [each for each in step.carries if each.position not in gradients]
    losses = [each for each in metrics if not _reads_transposed(step.body, each)]
    require(bool(losses), "the loop adds up no loss: nothing tells forward from backward", step.loop.op)
    return losses


def _reads_transposed(body: BlockGraph, carry: Sum | Rows) -> bool:
    return any(_TRANSPOSED.search(source_of(body.ops[n].location).scope) for n in body.ancestors(terms_of(carry)))
