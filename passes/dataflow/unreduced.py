"""The unreduced values of a global-view program, and the proof that no op takes them for reduced.

Found forward from the sources, through linear ops and loops, to the all_reduces. Every op on the way must be linear in
the unreduced values, and read nothing else as an addend but zeros: a half-marked sum is silently wrong.

Where such values may go (`made_unreduced`) `expose-all-reduces` asks, its costs, and sums of `shard_map` blocks;
`annotate-unreduced` and `sums_by_device` ask for the proof (`Unreduced`). `dataflow/partial_values.py` is apart on
purpose: fuse and defer ask it which values of a block *could* be unreduced, and an obstacle only ends one there. Here
they *are*, and an obstacle declines the sum. Both have the laws of `dataflow/linearity.py` and the edges of
`ir/control_flow.py`.

Tests: test/passes/annotate-unreduced.mlir, test/numeric/test_explicit_mode.py.
"""

from collections.abc import Iterator, Sequence

from jaxlib.mlir import ir

from paropt.passes.dataflow.engine import spread
from paropt.passes.dataflow.linearity import Crossing, addends_of
from paropt.passes.ir.barriers import BARRIER, before_barrier
from paropt.passes.ir.branches import BRANCHES
from paropt.passes.ir.constants import is_zero
from paropt.passes.ir.control_flow import RETURNS, Use, predecessors, successors
from paropt.passes.ir.loops import WHILE, Loop, loop_around
from paropt.passes.ir.op_table import is_tracked, is_tracked_on_condition, says_sharding
from paropt.passes.sharding.axes import Axes
from paropt.passes.sharding.collectives import GLOBAL_ALL_REDUCE, GLOBAL_REDUCE_SCATTER, Reduction, reduction_of
from paropt.passes.sharding.shardings import sharding_of
from paropt.passes.support.remarks import require
from paropt.passes.support.traversal import defining_op, op_of


def said_unreduced(value: ir.Value) -> Axes:
    """The axes over which the program declares `value` unreduced; for a loop-carried value, its init operand."""
    op = defining_op(value)
    if op is None:
        argument: ir.BlockArgument = ir.BlockArgument(value)
        loop = loop_around(argument.owner)
        if loop is not None:
            return said_unreduced(loop.op.operands[argument.arg_number])
        op = argument.owner.owner.operation
        said = sharding_of(value) if op.name == "func.func" else None
    else:
        said = sharding_of(value) if says_sharding(op) else None
    return said.unreduced if said is not None else ()


def made_unreduced(use: ir.OpOperand, *, on_condition: bool = False) -> list[ir.Value]:
    """The values made there of an unreduced value that may be unreduced: results of ops that XLA tracks, or the value
    itself in a loop, or behind a branch or barrier. With `on_condition`, results of ops that it tracks on a condition.
    """
    op = use.owner.operation
    made = successors(use, manual=False, conditions=False)
    if made:
        return made
    tracked = is_tracked(op) or op.name == GLOBAL_REDUCE_SCATTER or (on_condition and is_tracked_on_condition(op))
    return list(op.results) if tracked else []


class Unreduced:
    """The unreduced values computed from `sources` (with their axes), and the ops that compute them, with addends.

    Raises Declined when such a value reaches an op that needs it reduced.
    """

    def __init__(self, sources: dict[ir.Value, Reduction]) -> None:
        self.values: dict[ir.Value, Reduction] = dict(sources)
        self.addends: dict[ir.Value, tuple[int, ...]] = {}  # by the value that they make
        self.loops: dict[ir.Value, Loop] = {}  # by the loop's first result
        self.branches: dict[ir.Value, list[ir.Operation]] = {}  # by the result of an if or case: its ends
        self.found_from = {source: source for source in sources}  # by the value: from which source it was reached
        self._sources = sources
        spread(self.values, self._made_by)
        for value in self.values:
            self._check(value)

    def entries(self) -> Iterator[tuple[ir.Value, Use]]:
        """The results of loops, ifs and cases among the values, each with the operands that it may be, one by one."""
        carried = [result for loop in self.loops.values() for result in loop.op.results if result in self.values]
        for result in (*carried, *self.branches):
            for use in predecessors(result) or ():
                yield result, use

    def _made_by(self, value: ir.Value, use: ir.OpOperand) -> list[ir.Value]:
        """The values that `use` makes of the unreduced `value`."""
        reduction = self.values[value]
        made = self._made(use, reduction)
        clash = [v for v in made if self.values.get(v, reduction) != reduction]
        require(not clash, "values that are unreduced over different axes meet", use.owner.operation)
        self.found_from |= {v: self.found_from[value] for v in made if v not in self.found_from}
        return made

    def _made(self, use: ir.OpOperand, reduction: Reduction) -> list[ir.Value]:
        op = use.owner.operation
        if op.name == GLOBAL_ALL_REDUCE:
            require(reduction_of(op) == reduction, "it reduces over other axes than its operand is unreduced over", op)
            return []
        if op.name == GLOBAL_REDUCE_SCATTER:
            return []  # it ends here; another source has the axes left to reduce
        carried_on = successors(use, manual=False, conditions=False)
        if not carried_on:
            require(len(op.results) == 1, f"{op.name} does not commute with the reduction", op)
            return [op.results[0]]
        loop = Loop(op) if op.name == WHILE else loop_around(op.block) if op.name in RETURNS else None
        if loop is not None:
            self._enter(loop, use.operand_number)
        return carried_on

    def _enter(self, loop: Loop, position: int) -> None:
        self.loops[loop.op.results[0]] = loop
        for use in loop.condition.arguments[position].uses:
            require(False, "the condition of a loop reads an unreduced value", use.owner.operation)

    def _check(self, value: ir.Value) -> None:
        """Declines unless `value` is made of unreduced values, and of zeros."""
        if value in self._sources or isinstance(value.owner, ir.Block):
            return
        op = op_of(value)
        if op.name == WHILE or op.name in BRANCHES:
            uses = predecessors(value) or []
            if op.name in BRANCHES:
                self.branches[value] = [use.op for use in uses]
            for use in uses:
                self._check_addend(use)
            return
        partial = frozenset(i for i, operand in enumerate(op.operands) if operand in self.values)
        if op.name == BARRIER:
            partial = frozenset([before_barrier(value)])
        crossing = Crossing(self.values[value], "any", None, partial, lambda *_: None)
        self.addends[value] = addends_of(op, crossing)
        require(partial <= set(self.addends[value]), f"{op.name} is not linear in an unreduced value", op)
        for operand in self.addends[value]:
            self._check_addend(Use(op, operand))

    def _check_addend(self, use: Use) -> None:
        fits = use.value in self.values or is_zero(use.value)
        require(fits, "a sum of an unreduced value and a reduced one", use.op)


def merged(parts: Sequence[Unreduced], sources: Sequence[ir.Value]) -> Unreduced:
    """The result of one search from all `sources`, in its order, where `parts` have no value in common."""
    joined = Unreduced({})
    reductions = {value: reduction for part in parts for value, reduction in part.values.items()}
    number = {source: i for i, source in enumerate(sources)}
    for part in parts:
        joined.found_from |= part.found_from
        joined.loops |= part.loops
    reached = [value for value in reductions if value not in number]
    reached.sort(key=lambda value: -number[joined.found_from[value]])  # the last source is followed first
    joined.values = {value: reductions[value] for value in (*sources, *reached)}
    addends = {value: each for part in parts for value, each in part.addends.items()}
    branches = {value: each for part in parts for value, each in part.branches.items()}
    joined.addends = {value: addends[value] for value in joined.values if value in addends}
    joined.branches = {value: branches[value] for value in joined.values if value in branches}
    return joined
