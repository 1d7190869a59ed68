"""The data-flow edges of control flow: which values an operand becomes, and which operands a value may be.

As MLIR's `RegionBranchOpInterface` and Shardy's data-flow edges have them, in one table:

| operand                                          | becomes                                                   |
|--------------------------------------------------|-----------------------------------------------------------|
| i of a while; i of its body's terminator         | argument i of its condition and its body, and result i    |
| i of the terminator of an if's or case's branch  | result i                                                  |
| i of an optimization_barrier                     | result i                                                  |
| i of a manual_computation                        | argument i of its body                                    |
| i of a manual_computation's terminator           | result i                                                  |
| a while's, an if's predicate, the index of a case | nothing: it decides where control goes                   |

Regions of other ops, such as the reducer of a reduce, are no control flow: the op calls them as often as it likes.
"""

from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.ir.barriers import BARRIER
from paropt.passes.ir.branches import BRANCHES, ends_of
from paropt.passes.ir.loops import WHILE, Loop
from paropt.passes.support.traversal import parent_of, terminator_of

MANUAL = "sdy.manual_computation"
RETURNS = ("stablehlo.return", "sdy.return")
_CONTROL_FLOW = frozenset({WHILE, *BRANCHES, BARRIER, MANUAL, *RETURNS})


class Use(NamedTuple):
    """Operand number `position` of `op`. It outlives edits of the operands; not to be hashed: MLIR hashes an op by its
    content.
    """

    op: ir.Operation
    position: int

    @property
    def value(self) -> ir.Value:
        return self.op.operands[self.position]


def uses_of(value: ir.Value) -> list[Use]:
    """The ops that read `value`, and where."""
    return [Use(use.owner.operation, use.operand_number) for use in value.uses]


def successors(use: ir.OpOperand | Use, *, manual: bool = True, conditions: bool = True) -> list[ir.Value] | None:
    """The values that the operand `use` becomes; none of a predicate or index. None where it is no control flow.

    Without `manual`, a manual_computation is no control flow, but an op that computes its results. Without
    `conditions`, arguments of the conditions of loops are left out: nothing computed of them leaves the condition.
    """
    op, position = use if isinstance(use, Use) else (use.owner.operation, use.operand_number)
    name = op.name
    if name not in _CONTROL_FLOW:  # the usual case
        return None
    if name == WHILE:
        return carried(op, position, conditions=conditions)
    if name in BRANCHES:
        return []
    if name == BARRIER:
        return [op.results[position]]
    if name == MANUAL:
        return [op.regions[0].blocks[0].arguments[position]] if manual else None
    return _behind(op, position, manual, conditions)


def carried(loop: ir.Operation, position: int, *, conditions: bool = True) -> list[ir.Value]:
    """Carried value `position` of the while `loop`, where it shows: in the condition, in the body, after the loop."""
    regions = list(loop.regions)[0 if conditions else 1 :]
    return [*(region.blocks[0].arguments[position] for region in regions), loop.results[position]]


def _behind(end: ir.Operation, position: int, manual: bool, conditions: bool) -> list[ir.Value] | None:
    """The values that the operand of the terminator `end` becomes."""
    op = parent_of(end)
    if op.name == WHILE:
        is_body = end.block == Loop(op).body
        return carried(op, position, conditions=conditions) if is_body else []
    crossed = op.name in BRANCHES or (op.name == MANUAL and manual)
    return [op.results[position]] if crossed else None


def predecessors(value: ir.Value, *, manual: bool = True, back_edges: bool = True) -> list[Use] | None:
    """The operands that `value` may be: those of which it is a successor. None where no control flow makes it.

    Of a loop-carried value, first the init operand, then with `back_edges` the body's result; of an if or case, the
    result of each branch.
    """
    owner = value.owner
    is_argument = isinstance(owner, ir.Block)
    op = owner.owner.operation if isinstance(owner, ir.Block) else owner.operation
    position = ir.BlockArgument(value).arg_number if is_argument else ir.OpResult(value).result_number
    if op.name == WHILE:
        entry = Use(op, position)
        return [entry, Use(terminator_of(Loop(op).body), position)] if back_edges else [entry]
    if op.name == MANUAL and manual:
        return [Use(op if is_argument else terminator_of(op.regions[0].blocks[0]), position)]
    if op.name in BRANCHES:
        return [Use(end, position) for end in ends_of(op)]
    return [Use(op, position)] if op.name == BARRIER else None
