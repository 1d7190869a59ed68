"""The stages of the ops behind the loop: an update is where its parameter and the sum of its gradients are.

Tests: test/passes/cut-stages.mlir, test/unit/passes/test_cut_stages.py.
"""

from collections.abc import Mapping

from jaxlib.mlir import ir

from paropt.passes.ir.op_table import is_cheap, is_cloned, is_elementwise
from paropt.passes.pipelining.block_graph import Through, free_ops
from paropt.passes.pipelining.op_costs import value_bytes
from paropt.passes.pipelining.row_pieces import is_stacked
from paropt.passes.pipelining.step_loop import StepLoop, from_arguments

_SCALAR = 8  # bytes: a value up to this size goes to its readers


def _free_behind(step: StepLoop) -> set[int]:
    """The ops behind the loop that each reader has copies of: cheap functions of values from before it."""
    sums = {step.result_of(each) for each in step.carries}
    maker, counted = step.around.maker, step.loop.op.results[step.counter]

    def is_free(op: ir.Operation, values: list[ir.Value], free: set[int]) -> bool:
        if any(value in sums for value in values):
            return False
        known = all(value == counted or maker.get(value, -1) < step.number or maker[value] in free for value in values)
        return is_cloned(op) or ((is_cheap(op) or is_elementwise(op)) and known)

    return {n for n in free_ops(step.around, is_free) if n > step.number}


def is_joined(step: StepLoop, n: int) -> bool:
    """Whether op `n` does nothing but put a result of the step together of pieces, which stages may keep."""
    op = step.around.ops[n]
    return is_stacked(op) and not step.around.readers(op.results[0])


def update_stages(step: StepLoop, homes: Mapping[ir.Value, int]) -> dict[int, int]:
    """The stages of the ops behind the loop, but free ones; `homes` has those of parameters and of the loop's results.

    An op goes to its largest operand, or to the last of its scalar operands. Arguments that nothing in the loop reads,
    such as momenta, go where they are read first.
    """
    through = Through(step.around, _free_behind(step))
    places, given = dict(homes), from_arguments(step)
    found: dict[int, int] = {}
    for n in range(step.number + 1, len(step.around.ops)):
        if n in through.free or is_joined(step, n):
            continue
        sources = through.sources(n)
        known = [value for value in sources if value in places]
        large = [value for value in known if value_bytes(value) > _SCALAR]
        if large:
            stage = min((-value_bytes(value), places[value]) for value in large)[1]
        else:
            stage = max((places[value] for value in known), default=0)
        found[n] = stage
        for value in (*step.around.ops[n].results, *(v for v in sources if v in given)):
            places.setdefault(value, stage)
    return found
