"""The values of one block that may stay partial sums, in the branches within it too.

A partial value is one device's addend of a sum that has not been taken yet. Here: if the reductions of one kind in a
block were not taken where they stand, which values could be left unreduced, and where must that end? The values of a
global-view program that already are unreduced: `dataflow/unreduced.py`.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from functools import partial as partial_apply
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.dataflow.engine import backward, exhaust, forward, in_order
from paropt.passes.dataflow.linearity import Addends, ConvertPolicy, Crossing, addends_of
from paropt.passes.dataflow.uniformity import Uniformity
from paropt.passes.ir.barriers import BARRIER, made_of
from paropt.passes.ir.branches import BRANCHES, branch_around, is_end
from paropt.passes.ir.constants import is_constant
from paropt.passes.ir.control_flow import predecessors, successors
from paropt.passes.ir.loops import WHILE, Loop
from paropt.passes.ir.program_order import Place
from paropt.passes.sharding.collectives import REDUCE_SCATTER, REDUCTIONS, Reduction, reduction_of
from paropt.passes.sharding.shardings import SHARDING
from paropt.passes.support.certificate import Uniform
from paropt.passes.support.remarks import Declined, refusal, require
from paropt.passes.support.sources import source_of
from paropt.passes.support.traversal import defining_op, op_of, ops_of, parent_of


class BlockReductions(NamedTuple):
    """The reductions of one block, by kind, in program order."""

    kinds: dict[Reduction, list[ir.Operation]]
    declined: list[tuple[ir.Operation, Declined]]  # those that can't be moved, and why


class Carried(NamedTuple):
    """A loop in the block that starts with a partial value, which stays partial in each trip."""

    facts: "BlockFacts"  # of the body
    values: "PartialValues"  # there, of all that starts partial
    order: tuple[ir.Value, ...]  # those that the next value is made of, in program order
    other_terms: tuple[ir.Value, ...]  # addends of these that are not partial

    @classmethod
    def of(cls, end: ir.Value, values: "PartialValues", facts: "BlockFacts") -> "Carried":
        """For the next value `end`."""
        members = frozenset(values.made_of(end))
        order = tuple(value for value in values.values if value in members)
        return cls(facts, values, order, tuple(t for value in order for t in values.terms(value) if t not in members))


class ThroughLoop(NamedTuple):
    """Which loop-carried values with a partial init operand stay partial in a loop, by position."""

    carried: dict[int, Carried]  # those that stay partial
    stopped: dict[int, Declined]  # why others do not


class Partial(NamedTuple):
    """A value that may be partial: a source (a result of a reduction, a loop-carried value), an op linear in such
    values, a result of an if or case that returns one in some branch, or of a loop that starts with one.
    """

    value: ir.Value
    addends: Addends = ()  # the operands of its op in which it is linear
    choices: tuple[ir.Value, ...] = ()  # the results of the branches
    carried: Carried | None = None  # of a loop's result


class PartialValues(NamedTuple):
    """The values of a block that may be partial over one reduction, in program order, and why the others are not."""

    reduction: Reduction
    values: dict[ir.Value, Partial]
    stopped: dict[ir.Value, Declined]  # by the first result of the op that is no longer linear
    accumulate: ir.Type | None  # see Crossing
    convert: ConvertPolicy = "widening"

    def is_source(self, value: ir.Value) -> bool:
        made = self.values[value]
        return not made.addends and not made.choices

    def terms(self, value: ir.Value) -> list[ir.Value]:
        """The values in which `value` is linear, partial or not; none for a source."""
        made = self.values[value]
        operands = op_of(value).operands if made.addends else ()
        within = made.carried.other_terms if made.carried is not None else ()
        return [*(operands[i] for i in made.addends), *made.choices, *within]

    def parts(self, value: ir.Value) -> list[ir.Value]:
        """The partial values that `value` is made of directly; none for a source."""
        return [term for term in self.terms(value) if term in self.values]

    def made_of(self, value: ir.Value) -> list[ir.Value]:
        """The partial values that `value` is computed from, itself first; none when it is not partial."""
        return list(backward([value], self.parts)) if value in self.values else []

    def stopped_at(self, use: ir.OpOperand) -> Declined | None:
        """Why the op that reads `use` may not be done before the reduction."""
        result = _result_of(use)
        return self.stopped.get(result) if result is not None else None

    def made_by(self, use: ir.OpOperand) -> ir.Value | None:
        """The partial value that is linear in `use`; None when the reader needs it reduced."""
        op, result = use.owner.operation, _result_of(use)
        if result not in self.values:
            return None
        linear = is_end(op) or use.operand_number in self.values[result].addends
        return result if linear else None

    def is_unread(self, value: ir.Value) -> bool:
        """Whether nobody reads it, or only linear ops whose results are unread: XLA drops them before it partitions."""
        reached = forward([value], lambda use: use.owner.operation.results)
        uses = (use for each in reached for use in each.uses)
        return not any(is_end(use.owner.operation) or self.made_by(use) is None for use in uses)

    def other_uses(self, value: ir.Value) -> list[ir.OpOperand]:
        """The uses of `value` that need it reduced."""
        return [use for use in value.uses if self.made_by(use) is None]


def _reader(use: ir.OpOperand) -> ir.Operation:
    """The op that makes something of `use`: that which reads it, or when that ends a branch, the if or case."""
    op = use.owner.operation
    return parent_of(op) if is_end(op) else op


def _result_of(use: ir.OpOperand) -> ir.Value | None:
    """The value that the reader of `use` makes of it: its first result, or that of a loop that starts with it or a
    barrier that holds it; or when it ends a branch, the if's or case's result.
    """
    op = use.owner.operation
    if not len(op.results) and not is_end(op):
        return None
    made = successors(use, manual=False)
    return made[-1] if made else op.results[0]


def blocks_with_reductions(root: ir.Operation) -> list[ir.Block]:
    """The blocks under `root` that hold a reduction; inner blocks first."""
    return list(dict.fromkeys(op.block for op in ops_of(root, *REDUCTIONS)))


class BlockFacts:
    """Program order and uniformity of one block, computed when first asked for. Not to be kept across a rewrite."""

    def __init__(
        self,
        block: ir.Block,
        convert: ConvertPolicy,
        *,
        with_branches: bool = False,
        leaves_loop: bool = False,
        accumulate: ir.Type | None = None,
    ) -> None:
        self.block = block
        self._accumulate = accumulate
        self._convert = convert
        self._leaves_loop = leaves_loop  # see Crossing
        self._with_branches = with_branches  # take the ops in the block's branches for the block's own
        self._uniformity: dict[Reduction, Uniformity] = {}
        self._proven: dict[tuple[ir.Value, Reduction], dict[ir.Value, str]] = {}
        self._partial: dict[tuple[Reduction, tuple[ir.Value, ...]], PartialValues] = {}
        # Of the loops in the block, by their first results.
        self._within: dict[ir.Value, BlockFacts] = {}
        self._through_loops: dict[tuple[ir.Value, Reduction, tuple[int, ...]], ThroughLoop] = {}

    @cached_property
    def ops(self) -> list[ir.Operation]:
        """In program order; those in branches before the if or case that they are in."""
        if not self._with_branches:
            return [view.operation for view in self.block.operations]
        return list(self._ops(self.block))

    def _ops(self, block: ir.Block) -> Iterator[ir.Operation]:
        for op in (view.operation for view in block.operations):
            if op.name in BRANCHES:
                for region in op.regions:
                    yield from self._ops(region.blocks[0])
            yield op

    def _is_own(self, op: ir.Operation) -> bool:
        """Whether `op` is one of `ops`."""
        while op.block != self.block:
            op = parent_of(op)
            if not (self._with_branches and op.name in BRANCHES):
                return False
        return True

    def sums(self) -> set[ir.Value]:
        """The values that are linear in reductions of the block."""
        found: set[ir.Value] = set()
        for reduction, ops in self.reductions.kinds.items():
            found.update(self.partial_values(reduction, [result for op in ops for result in op.results]).values)
        return found

    def in_order(self, values: Iterable[ir.Value]) -> list[ir.Operation]:
        """The ops of the block that define `values`, once each, in program order."""
        owners = {op.results[0]: op for op in map(defining_op, values) if op is not None}
        return [place.op for place in sorted(Place(op, self.block) for op in owners.values())]

    @cached_property
    def reductions(self) -> BlockReductions:
        found = BlockReductions({}, [])
        for op in filter(self._is_own, ops_of(self.block.owner.operation, *REDUCTIONS)):
            try:
                reduction = reduction_of(op)
                self.require_same_branch(op, reduction)
            except Declined as declined:
                found.declined.append((op, declined))
                continue
            found.kinds.setdefault(reduction, []).append(op)
        return found

    def require_same_branch(self, op: ir.Operation, reduction: Reduction) -> None:
        """Declines unless all devices of a group take the branches that lead to `op`."""
        while (branch := branch_around(op, self.block)) is not None:
            self.require_uniform(branch.operands[0], "a predicate", branch, reduction)
            op = branch

    def partial_values(self, reduction: Reduction, sources: Iterable[ir.Value]) -> PartialValues:
        """The values that may stay partial when `sources` (results of reductions of this kind, loop-carried values)
        are."""
        key = (reduction, tuple(sources))
        if key not in self._partial:  # asked again for parts of a deferral, and for the others
            self._partial[key] = self._partial_values(*key)
        return self._partial[key]

    def _partial_values(self, reduction: Reduction, sources: tuple[ir.Value, ...]) -> PartialValues:
        found = PartialValues(
            reduction, {value: Partial(value) for value in sources}, {}, self._accumulate, self._convert
        )

        def reached(op: ir.Operation) -> list[ir.Value]:
            if self._with_branches and op.name in BRANCHES:
                return self._join(op, reduction, found)
            if self._leaves_loop and op.name == WHILE:
                return self._carry(op, reduction, found)
            if op.name == BARRIER:
                return self._hold(op, reduction, found)
            try:
                addends = addends_of(op, self._crossing(op, reduction, found))
            except Declined as declined:
                found.stopped.update(dict.fromkeys(op.results, declined))
                return []
            found.values[op.results[0]] = Partial(op.results[0], addends)
            return [op.results[0]]

        self.follow(list(found.values), reached)
        return found

    def follow(self, values: Iterable[ir.Value], reached: Callable[[ir.Operation], Iterable[ir.Value]]) -> None:
        """Calls `reached` once for each op that reads one of `values`, or of the values that it returns.

        In program order, so that all operands of an op are known when its turn comes.
        """

        def readers(values: Iterable[ir.Value]) -> Iterator[ir.Value]:
            """By their first results: MLIR hashes an op by its content."""
            for op in (_reader(use) for value in values for use in value.uses):
                if len(op.results) and self._is_own(op):
                    yield op.results[0]

        def place(first: ir.Value) -> Place:
            return Place(op_of(first), self.block)

        exhaust(in_order(readers(values), lambda first: readers(reached(op_of(first))), place))

    def readers(self, values: Iterable[ir.Value], fits: Callable[[ir.Operation], bool]) -> list[ir.Operation]:
        """The ops of the block, in program order, that read one of `values` and fit."""
        found: dict[ir.Value, ir.Operation] = {}
        for op in (_reader(use) for value in values for use in value.uses):
            if len(op.results) and op.results[0] not in found and fits(op) and self._is_own(op):
                found[op.results[0]] = op
        return self.in_order(found)

    def _hold(self, op: ir.Operation, reduction: Reduction, found: PartialValues) -> list[ir.Value]:
        """The results of the barrier `op` that may be partial because the operands in their places are."""
        crossing = self._crossing(op, reduction, found)
        held: list[ir.Value] = []
        for i in sorted(crossing.partial):
            result = made_of(op, i)
            try:
                addends = addends_of(op, crossing._replace(partial=frozenset([i])))
            except Declined as declined:
                found.stopped[result] = declined
                continue
            found.values[result] = Partial(result, addends)
            held.append(result)
        return held

    def _join(self, op: ir.Operation, reduction: Reduction, found: PartialValues) -> list[ir.Value]:
        """The results of the if or case `op` that may be partial because a branch returns a partial value."""
        joined: list[ir.Value] = []
        for result in op.results:
            choices = tuple(use.value for use in predecessors(result) or ())
            if not any(choice in found.values for choice in choices):
                continue
            try:
                self._require_joinable(op, reduction)
            except Declined as declined:
                found.stopped[result] = declined
                continue
            found.values[result] = Partial(result, choices=choices)
            joined.append(result)
        return joined

    def _require_joinable(self, op: ir.Operation, reduction: Reduction) -> None:
        self.require_uniform(op.operands[0], "a predicate", op, reduction)
        require(SHARDING not in op.attributes, f"the {op.name} says how its results are sharded", op)

    def _carry(self, op: ir.Operation, reduction: Reduction, found: PartialValues) -> list[ir.Value]:
        """The results of the loop `op` that may be partial because it starts with partial values."""
        starts = tuple(i for i, start in enumerate(op.operands) if start in found.values)
        key = (op.results[0], reduction, starts)
        if key not in self._through_loops:  # asked again for each loop-carried value, and by each loop around
            self._through_loops[key] = self._through_loop(op, reduction, starts)
        carried, stopped = self._through_loops[key]
        found.values.update({op.results[i]: Partial(op.results[i], (i,), carried=carried[i]) for i in carried})
        found.stopped.update({op.results[i]: stopped[i] for i in stopped})
        return [op.results[i] for i in carried]

    def _through_loop(self, op: ir.Operation, reduction: Reduction, starts: tuple[int, ...]) -> ThroughLoop:
        """Which loop-carried values at `starts`, whose init operands are partial, stay so, and why others do not."""
        loop, stopped = Loop(op), dict[int, Declined]()
        facts = self._within.setdefault(
            op.results[0], BlockFacts(loop.body, self._convert, with_branches=True, leaves_loop=True)
        )
        while True:
            positions = [i for i in starts if i not in stopped]
            values = facts.partial_values(reduction, [loop.body.arguments[i] for i in positions])
            carried = {i: Carried.of(loop.next_values.operands[i], values, facts) for i in positions}
            refused = {i: why for i in positions if (why := refusal(self._require_carried, loop, i, carried[i]))}
            if not refused:
                return ThroughLoop(carried, stopped)
            stopped |= refused

    def _require_carried(self, loop: Loop, position: int, carried: Carried) -> None:
        """Declines where `loop` may not carry a partial value at `position`."""
        values = carried.values
        own_type = self._accumulate is None and values.reduction.kind != REDUCE_SCATTER
        require(own_type, "an inner loop carries it on, in a type that would change", loop.op)
        require(SHARDING not in loop.op.attributes, "the loop says how its values are sharded", loop.op)
        carried.facts.require_uniform(loop.predicate, "the trip count", loop.op, values.reduction)
        for use in loop.condition.arguments[position].uses:
            require(False, "the condition reads the accumulator", use.owner.operation)
        argument, end = loop.body.arguments[position], loop.next_values
        members = carried.order
        sources = [value for value in members if values.is_source(value)]
        if sources != [argument]:
            alone = carried.facts.partial_values(values.reduction, [argument])
            raise next(iter(alone.stopped.values()), Declined("an inner loop carries on another value", end))
        for use in (use for member in members for use in member.uses):
            op, stopped = use.owner.operation, values.stopped_at(use)
            if stopped is not None:
                raise stopped
            on = use.operand_number == position if op == end else values.made_by(use) in members
            require(on, f"an inner loop reads it in {op.name}, too", op)

    def require_uniform(self, value: ir.Value, what: str, reader: ir.Operation, reduction: Reduction) -> None:
        """Declines unless `value`, which `reader` reads as `what`, is equal on all devices of each group."""
        if reduction.is_global:
            return  # a value of a global-view program is one value
        if not is_constant(value):  # the usual case, and free
            self._facts(reduction).require_uniform(value, what, reader)
        if not len(reader.results):
            return  # nothing that it makes moves
        proven = self._proven.setdefault((reader.results[0], reduction), {})
        proven[value] = what

    def uniform_in(self, reader: ir.Operation, reduction: Reduction) -> list[Uniform]:
        """The proofs of `require_uniform` about the values that `reader` reads: why they are uniform."""
        proven = self._proven.get((reader.results[0], reduction), {})
        where = source_of(reader.location)
        facts = self._facts(reduction) if proven else None
        return [Uniform(what, reader.name, where, facts.why(value)) for value, what in proven.items() if facts]

    def _facts(self, reduction: Reduction) -> Uniformity:
        reduction = reduction._replace(moved=())
        if reduction not in self._uniformity:
            self._uniformity[reduction] = Uniformity(self.block, reduction)
        return self._uniformity[reduction]

    def _crossing(self, op: ir.Operation, reduction: Reduction, found: PartialValues) -> Crossing:
        partial = frozenset(i for i, operand in enumerate(op.operands) if operand in found.values)
        uniform = partial_apply(self.require_uniform, reduction=reduction)
        return Crossing(reduction, self._convert, self._accumulate, partial, uniform, self._leaves_loop)


def first_source(value: ir.Value, values: PartialValues) -> ir.Operation | None:
    """A reduction that `value` is made of: the first met when going back, the later terms of a sum first.

    None where it is made of loop-carried values only.
    """
    made_of = map(defining_op, filter(values.is_source, backward([value], values.parts)))
    return next((op for op in made_of if op is not None), None)
