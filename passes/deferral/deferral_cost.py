"""The cost of a deferral: bytes reduced in the loop and behind it, and bytes held.

Tests: test/passes/defer-sync-costs.mlir, test/passes/defer-sync-duplicates.mlir, test/passes/defer-sync-budget.mlir.
"""

from collections.abc import Mapping
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.dataflow.duplication_cost import PER_BYTE, adds_nothing, joined, multiplications
from paropt.passes.dataflow.execution_bounds import most_executions
from paropt.passes.dataflow.loop_eval import executions, trips_of
from paropt.passes.dataflow.loop_invariants import Varying
from paropt.passes.deferral.analysis import Deferral
from paropt.passes.deferral.branch_reads import BranchSum, branch_reads
from paropt.passes.ir.loops import Loop, is_carried_on, trip_count
from paropt.passes.ir.types import bytes_of, widens
from paropt.passes.sharding.annotations import parts_unreduced
from paropt.passes.support.traversal import op_of, terminator_of

# The extra bytes that may be sent to save one collective: a small part of those sent in the time that it takes to start
# one. On 8 simulated CPU devices to start an all-reduce takes as much CPU time as 160 to 225 kB
# (tools/bench_collectives.py: 100 to 130 us, and 0.6 ns per byte).
BYTES_PER_COLLECTIVE = 4096


class Cost(NamedTuple):
    """The bytes reduced per device: in all trips of one execution of the loop, and after it."""

    inside: dict[ir.Value, int]  # bytes of each array that is reduced in the loop
    runs: dict[ir.Value, int | None]  # how often each is; None: not known
    shared: dict[ir.Value, int]  # for how many that may leave each is, as XLA merges them; 0: for others, too
    after: list[int]  # bytes of each array that is reduced after it
    within: list[BranchSum]  # sums that branches in the loop reduce for themselves
    unwidened: int  # bytes of all of these in the program's own types: the user asked for wider ones at any price
    held: int  # bytes that the loop carries more than before
    joined: int  # bytes that XLA moves more than before, to assemble sharded values that are now duplicated
    repeated: int = 0  # multiplications more that a device makes, of products that are then there twice
    lifted: frozenset[ir.Value] = frozenset()  # loop-invariant values reduced in the loop: XLA does it once
    around: int = 1  # trips of the loop around it, where that need not reduce it either, and holds as much again
    held_by_sums: int = (
        0  # bytes that the loop around will hold more, to whose sums the stack of this one is added in place
    )
    again: bool = False  # it has left a loop in there, and the bytes held here were counted then

    @property
    def saved_around(self) -> int:
        """Bytes that are reduced less in all trips of the loop around it, if it leaves that, too."""
        return self.around * (self._in_all(self.inside) - self.in_branches) - sum(self.after)

    @property
    def held_around(self) -> int:
        """Bytes held more, by the loop around it, too."""
        return self.held if self.around == 1 else self.held_by_sums or 2 * self.held

    @property
    def saved(self) -> int:
        """Bytes that are reduced less."""
        return self._in_all(self.inside) - sum(self.after) - self.in_branches

    @property
    def in_branches(self) -> int:
        """Bytes that branches in the loop reduce, in all its trips."""
        return sum(each.size * each.often for each in self.within)

    def _in_all(self, each: Mapping[ir.Value, int]) -> int:
        """The sum over all that is reduced inside."""
        return sum(each[v] * self.often(v) // share for v, share in self.shared.items() if share)

    def often(self, value: ir.Value) -> int:
        """How often XLA alone reduces `value`. An unknown count is taken as 2: the fewest that can be worth it."""
        runs = self.runs[value]
        return 1 if value in self.lifted else 2 if runs is None else runs

    def is_less(self, times: int = 1) -> bool:
        """Than is reduced inside, that many times. Bytes decide, then arrays; where XLA hoists some, as much will
        do."""
        size, arrays = (self._in_all(each) for each in (self.inside, dict.fromkeys(self.inside, 1)))
        often = times * sum(each.often for each in self.within)
        after = (self.unwidened + times * self.in_branches, len(self.after) + often)
        before = (times * size, times * arrays)
        return after < before or (bool(self.lifted) and after == before)

    @property
    def more(self) -> int:
        """Bytes that are reduced more."""
        return self.unwidened + self.in_branches - self._in_all(self.inside)

    @property
    def fewer(self) -> int:
        """Collectives fewer, at least: the reductions of one trip, or after the loop, may be one collective."""
        often = max((self.often(value) for value, share in self.shared.items() if share), default=0)
        return often - sum(each.often for each in self.within) - bool(self.after)

    def moves_less(self, times: int = 1) -> bool:
        """Whether duplicating ops costs less than the communication saved, each byte of which is sent twice.

        Multiplications count as the bytes that could be sent in that time.
        """
        more = self.joined + self.repeated // PER_BYTE
        return not more or more < 2 * self._saved_in(times)

    def holds_for_little(self, times: int = 1) -> bool:
        """Whether no byte is saved, and more is held than the collectives saved are worth.

        Loop-invariant values are left out: XLA hoists their reduction, and holds as much.
        """
        worth = max(self.fewer, 0) * BYTES_PER_COLLECTIVE
        return self._saved_in(times) <= 0 and not self.lifted and self.held > worth

    def _saved_in(self, times: int) -> int:
        """Bytes that are reduced less where those inside are reduced that many times; types are the program's own."""
        return times * (self._in_all(self.inside) - self.in_branches) - self.unwidened

    def in_place(self) -> "Cost":
        """The cost where the loop around adds the array stacked here to its sums row by row: only that loop holds
        it."""
        return self._replace(held=0, held_by_sums=self.held)


def cost_of(part: Deferral, loop: Loop, shared: Mapping[ir.Value, int], varying: Varying) -> Cost:
    """A branch whose predicate is unknown counts as taken in every trip; a loop-invariant value, as reduced once.

    A value reduced for several parts counts once for all of them, or not at all: `shared` has the number of those that
    may leave.
    """
    trips = trip_count(loop)
    reads = branch_reads(part.values, part.order, loop.body)
    in_branches = any(op.block != loop.body for op in part.reductions)
    known = trips_of(loop) if in_branches or reads else None
    parts = {i: parts_unreduced(loop.op.results[i], part.values.reduction) for i in part.positions}
    after = {i: -(-bytes_of(carried_type(part, loop, i)) // parts[i]) for i in part.positions}
    before = {i: -(-bytes_of(ir.RankedTensorType(loop.op.results[i].type)) // parts[i]) for i in part.positions}
    rest = _rests(part, loop)
    held = sum(after.values()) - sum(before.values()) + sum(before[i] for i in _changed_apart(part, loop, rest))
    made = [value for value, own in rest.items() if own == value]
    often = 2 if trips is None else trips
    moved, repeated = often * sum(map(joined, rest)), often * sum(map(multiplications, made))
    widened = part.values.accumulate is not None
    read = [i for i in part.positions if next(loop.op.results[i].uses, None) is not None]
    unwidened = sum(-(-_unwidened(part, loop, i) // parts[i]) if widened else after[i] for i in read)
    cost = Cost({}, {}, {}, [after[i] for i in read], [], unwidened, held, moved, repeated)
    for within in reads:
        end = terminator_of(within.block)
        runs = executions(end, loop, known)
        most = most_executions(end, loop, known) if runs is None else runs
        often = next(count for count in (most, trips, 2) if count is not None)
        size = -(
            -bytes_of(ir.RankedTensorType(within.value.type)) // parts_unreduced(within.value, part.values.reduction)
        )
        cost.within.append(BranchSum(within.block.owner.operation, size, runs, often))
    lifted: set[ir.Value] = set()
    for op in part.reductions:
        runs = executions(op, loop, known) if op.block != loop.body else None
        for operand, result in zip(op.operands, op.results, strict=True):
            if result in part.members:
                size = bytes_of(ir.RankedTensorType(operand.type))
                cost.inside[result] = -(-size // parts_unreduced(operand, part.values.reduction))
                cost.shared[result] = shared[operand]
                cost.runs[result] = trips if runs is None else runs
                if op.block == loop.body and trips not in (0, 1) and operand not in varying:
                    lifted.add(result)
    return cost._replace(lifted=frozenset(lifted))


def carried_type(part: Deferral, loop: Loop, position: int) -> ir.RankedTensorType:
    """The type of loop-carried value `position` when it is partial: unscattered, if a reduce_scatter closes it."""
    tensor = ir.RankedTensorType(loop.op.operands[position].type)
    wide, dimension = part.values.accumulate, part.values.reduction.scatter_dimension
    if wide is not None and widens(tensor.element_type, wide):
        tensor = ir.RankedTensorType.get(tensor.shape, wide, loc=loop.op.location)
    if dimension is None:
        return tensor
    scatter = part.reductions[0]
    whole, shard = (ir.RankedTensorType(v.type).shape[dimension] for v in (scatter.operands[0], scatter.results[0]))
    shape = list(tensor.shape)
    shape[dimension] *= whole // shard
    return ir.RankedTensorType.get(shape, tensor.element_type, loc=loop.op.location)


def _unwidened(part: Deferral, loop: Loop, position: int) -> int:
    """Bytes of loop-carried value `position` when it is partial, in the program's own type."""
    own = ir.RankedTensorType(loop.op.operands[position].type).element_type
    shape = carried_type(part, loop, position).shape
    return bytes_of(ir.RankedTensorType.get(shape, own, loc=loop.op.location))


def kept_apart(part: Deferral, loop: Loop) -> list[int]:
    """The loop-carried values with a residual: from the init operand, or from terms that are not partial."""
    combiner = part.values.reduction.combiner
    arguments = {i: loop.body.arguments[i] for i in part.positions}
    nexts = loop.next_values.operands
    rest = {arguments[i] for i in part.positions if not adds_nothing(loop.op.operands[i], combiner)}
    before = -1
    while len(rest) > before:
        before = len(rest)
        for value in part.order:
            if any(
                term in rest or (term not in part.members and not adds_nothing(term, combiner))
                for term in part.values.terms(value)
            ):
                rest.add(value)
        rest |= {arguments[i] for i in part.positions if nexts[i] in rest}
    return [i for i in part.positions if arguments[i] in rest]


def _rests(part: Deferral, loop: Loop) -> dict[ir.Value, ir.Value]:
    """The members with a part that was never partial, and the value that is this part; itself: it is to be made."""
    apart = kept_apart(part, loop)
    combiner = part.values.reduction.combiner
    rest = {loop.body.arguments[i]: loop.body.arguments[i] for i in apart}
    for value in (value for value in part.order if apart and value not in rest):
        terms = [
            t for t in part.values.terms(value) if t in rest or not (t in part.members or adds_nothing(t, combiner))
        ]
        kept = list(dict.fromkeys(rest.get(term, term) for term in terms))
        if kept:
            alike = op_of(value).name == combiner or part.values.values[value].choices
            same = len(kept) == 1 and (alike or is_carried_on(op_of(value), kept[0]))
            rest[value] = kept[0] if same else value
    return rest


def _changed_apart(part: Deferral, loop: Loop, rest: dict[ir.Value, ir.Value]) -> list[int]:
    """Those of `kept_apart` that the loop changes, so that it has to carry them beside the partial value."""
    nexts = loop.next_values.operands
    apart = [i for i in part.positions if loop.body.arguments[i] in rest]
    return [i for i in apart if nexts[i] not in rest or rest[nexts[i]] != loop.body.arguments[i]]
