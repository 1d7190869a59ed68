"""The micro-batches of an unrolled training step, rolled into one loop."""

from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple

from jaxlib.mlir import ir

from paropt.passes.dataflow.unreduced import said_unreduced
from paropt.passes.ir.constants import is_zero
from paropt.passes.ir.constraints import CONSTRAINT
from paropt.passes.ir.loops import WHILE
from paropt.passes.ir.op_table import is_collective, says_sharding
from paropt.passes.ir.types import bytes_of
from paropt.passes.sharding.collectives import ADD, MAXIMUM, MINIMUM
from paropt.passes.support.registry import register
from paropt.passes.support.remarks import Declined, Remark, applied, missed, require
from paropt.passes.support.traversal import defining_op, is_within, nested
from paropt.passes.unrolled.live_outs import Order, exits, following, grow, inputs
from paropt.passes.unrolled.packs import Carried, Copies, Each, Group, Inner, Shared, Source, Values
from paropt.passes.unrolled.reduction_chains import Accumulation, accumulations
from paropt.passes.unrolled.roll import Rolling, first_number, ops_of_counts, roll

NAME = "roll-accumulation"
# How many ops may be looked at in vain, as a multiple of those in the block.
_PATIENCE = 16


@register(inlines=True)
def roll_accumulation(
    module: ir.Operation,
    *,
    order: Annotated[
        Literal["kept", "any"], "Which sums may become a loop: those in the order of a loop, or pairwise ones too."
    ] = "kept",
    min_ops: Annotated[int, "Leave copies of fewer ops as they are."] = 8,
    min_share: Annotated[float, "Leave copies that are a smaller part of the ops around them."] = 0.25,
    max_stack_bytes: Annotated[
        int, "Most bytes of values that are stacked only because the loop needs them in one array."
    ] = 1 << 20,
    within_loops: Annotated[
        bool, "Roll copies in the bodies of loops too: layers that each add to a loss look like micro-batches there."
    ] = True,
) -> list[Remark]:
    """Turn the unrolled micro-batches of a training step into one loop.

    Before:

        %a = slice %batch [0:1]
        %b = dot %a, %w
        %c = add %zero, %b
        %d = slice %batch [1:2]
        %e = dot %d, %w
        %f = add %c, %e

    After:

        %f = while (%i = 0, %acc = %zero) {
          %a = dynamic_slice %batch, %i
          %b = dot %a, %w
          %c = add %acc, %b
          %n = add %i, 1
          return %n, %c
        }

    A Python loop over micro-batches is unrolled when JAX traces it. The copies are isomorphic subgraphs, found from
    sums of terms that look alike: their operands are compared op by op, from the last op back, up to values that all
    copies share. Copies may differ in the start of a slice and in constants, which are computed from the induction
    variable or looked up; and may read an argument each, which are stacked. A value that one copy hands to the next is
    loop-carried: sums, maxima, running statistics, keys of random numbers. So are other live-outs of the last copy;
    live-outs of every copy are kept in one array, which is the result of a concatenate where there is one. A sum that
    begins with its first term starts from the identity element (-0.0). Terms that are stacked and summed by a reduce,
    `jnp.mean(jnp.stack(gradients), 0)`, are added to the init operand of the reduce. A first or last copy that differs
    stays outside, when the others are alike.

    Legal when:

    *The copies (isomorphic subgraphs)*

    - they apply the same ops to the same types
    - their attributes are equal, other than starts of slices, constants and channel ids
    - the regions of their ops are equal
    - a value that differs from copy to copy is a constant, a slice, an argument, or computed by the previous copy
    - an op belongs to one copy only
    - their ops have no side effects
    - shapes are static
    - no copy reads a value that is computed outside from another copy

    *The loop*

    - an op that the last copy lacks is no collective (the loop runs it once more)
    - the terms are added in the order of a loop, by a reduce (whose order is open), or `order=any`
    - a sum that begins with its first term has an identity element

    *Unreduced values*

    - they are carried behind the constraint that says so, from an init operand that says so or is zero
    - the copies share none, and none is stacked

    Worth it when:

    - a copy has at least min-ops ops
    - the copies together have at least min-share of the ops around them (else they may be attention heads or experts)
    - the program gets shorter
    - arrays that are stacked for the loop only have at most max-stack-bytes bytes

    Results are the same bit for bit, except with `order=any`, and of a reduce, which the compiler may do in another
    order than a loop. Collectives of the copies are done in the loop, as often as before; `defer-sync` sinks those that
    may leave it.

    Sources: LLVM `LoopReroll`, on data flow instead of instructions in order; Alpa's gradient accumulation. XLA has
    nothing that makes a loop of straight-line code.
    """
    remarks: list[Remark] = []
    limits = _Limits(order == "any", min_ops, min_share, max_stack_bytes)
    while found := _by_block(module, within_loops=within_loops):
        stays: list[Remark] = []
        if not any(_roll_one(block, sums, limits, remarks, stays) for block, sums in found):
            return remarks + stays
    return remarks


class _Limits(NamedTuple):
    """The options of the pass."""

    any_order: bool
    min_ops: int
    min_share: float
    max_stack_bytes: int


def _by_block(module: ir.Operation, *, within_loops: bool) -> list[tuple[ir.Block, list[Accumulation]]]:
    """The sums, and beside them the largest and smallest values: where nothing is added, nothing is rolled."""
    found: dict[ir.Block, list[Accumulation]] = {}
    for sum_ in accumulations(module, ADD, MAXIMUM, MINIMUM) if accumulations(module, ADD) else ():
        if within_loops or not is_within(sum_.ops[0], WHILE):
            found.setdefault(sum_.ops[0].block, []).append(sum_)
    return list(found.items())


def _roll_one(
    block: ir.Block, sums: list[Accumulation], limits: _Limits, remarks: list[Remark], stays: list[Remark]
) -> bool:
    """Rolls the first copies of the block that can be, the last sums first: those are the outermost."""
    order = Order(block)
    sums = sorted(sums, key=lambda sum_: order.position(sum_.ops[-1]), reverse=True)
    patience = _PATIENCE * len(order.ops)
    reasons: dict[str, Remark] = {}  # one remark for each: the sums of one step differ for the same reason
    for sum_ in [each for each in sums if each.combiner == ADD]:
        if patience < 0:
            given_up = Declined("too many sums looked alike at first and were not: the others were not compared")
            reasons[given_up.reason] = missed(NAME, sum_.ops[-1], given_up)
            break
        attempt = _Attempt(sum_, sums, order, limits)
        rolling = next((found for part in _PARTS if (found := attempt.rolling(part)) is not None), None)
        if rolling is not None:
            count, size = rolling.copies.count, len(rolling.copies.groups)
            remarks.append(applied(NAME, sum_.ops[-1], f"{count} copies of {size} ops became the body of a loop"))
            roll(rolling)
            return True
        if attempt.declined is not None:
            reasons.setdefault(attempt.declined.reason, missed(NAME, sum_.ops[-1], attempt.declined))
        patience -= attempt.work
    stays += reasons.values()
    return False


# Which copies to roll: all, all but the first, all but the last.
_PARTS = (slice(None), slice(1, None), slice(None, -1))


class _Attempt:
    """Tries to roll the copies that compute the terms of one sum."""

    def __init__(self, sum_: Accumulation, sums: Sequence[Accumulation], order: Order, limits: _Limits) -> None:
        self._sum = sum_
        self._others = [other for other in sums if other is not sum_ and len(other.terms) == len(sum_.terms)]
        self._order = order
        self._limits = limits
        self.work = 0  # how many ops were looked at
        self.declined: Declined | None = None  # why not all copies are rolled, when they had something in common

    def rolling(self, part: slice) -> Rolling | None:
        """The copies that `part` says, when they can be rolled."""
        if part != _PARTS[0] and (not self._sum.has_parts or len(self._sum.terms) < 4):
            return None
        for grown in (True, False):
            copies = Copies(len(self._sum.terms[part]))
            try:
                return self._rolling(copies, part, grown)
            except Declined as declined:
                if part == _PARTS[0] and copies.work >= self._limits.min_share * len(self._order.ops):
                    self.declined = self.declined or declined
                if not copies.groups:
                    return None
            finally:
                self.work += copies.work
        return None

    def _rolling(self, copies: Copies, part: slice, grown: bool) -> Rolling:
        sums = [_part(self._sum, part)]
        copies.align(_members(sums[0]))
        require(bool(copies.groups), "the terms are not computed in this block")
        require(self._is_in_order(sums[0]), "the terms are added in pairs (order=any allows it)")
        for other in self._others:
            if not (self._is_in_order(other) and (other.has_parts or part == _PARTS[0])):
                continue
            if _joins(_part(other, part), copies):
                sums.append(_part(other, part))
        from_terms = tuple(sum_ for sum_ in sums if sum_.start is None)
        without = [op for sum_ in from_terms for op in sum_.ops]
        if grown:
            grow(copies, self._order, without)
        _require_legal(copies, from_terms, self._order)
        rolling = Rolling(copies, self._order, from_terms, tuple(exits(copies, self._order, without)))
        _require_said(rolling)
        _require_worth(rolling, self._limits)
        return rolling

    def _is_in_order(self, sum_: Accumulation) -> bool:
        """Whether a loop may combine the terms one after the other. The largest is the same in any order."""
        return self._limits.any_order or not sum_.is_tree or sum_.combiner != ADD


def _part(sum_: Accumulation, part: slice) -> Accumulation:
    """The sum of some of the terms, in its place in the program, when it has parts."""
    if part == _PARTS[0]:
        return sum_
    if part == _PARTS[1]:
        start = sum_.terms[0] if sum_.start is None else sum_.ops[0].results[0]
        return Accumulation(sum_.ops if sum_.start is None else sum_.ops[1:], sum_.terms[1:], start, is_tree=False)
    return Accumulation(sum_.ops[:-1], sum_.terms[:-1], sum_.start, is_tree=False)


def _members(sum_: Accumulation) -> Values:
    """The part of the sum that copies compute: with a start its values, else its terms."""
    return sum_.terms if sum_.start is None else tuple(op.results[0] for op in sum_.ops)


def _joins(sum_: Accumulation, copies: Copies) -> bool:
    """Adds another sum, if its terms are computed from something that is already in the copies."""
    known = len(copies.groups)
    try:
        copies.align(_members(sum_))
    except Declined:
        return False
    sources = [copies.sources[values] for group in copies.groups[known:] for values in group.operands]
    if len(copies.groups) == known or any(getattr(source, "group", known) < known for source in sources):
        return True
    copies.retract()
    return False


def _require_legal(copies: Copies, sums: Sequence[Accumulation], order: Order) -> None:
    end = max(order.position(op) for group in copies.groups for op in group.present)
    late = {result for op in following(copies, order, end) for result in op.results}
    for value in inputs(copies.sources.values()):
        apart = value not in late and value not in copies.places
        require(apart, "a copy reads a value that depends on another copy", defining_op(value))
    for group in copies.groups:
        lacks = group.ops[-1] is None and any(map(is_collective, (group.first, *nested(group.first))))
        require(not lacks, "the last copy lacks a collective of the others", group.first)
    for sum_ in sums:
        element = ir.RankedTensorType(sum_.terms[0].type).element_type
        known = first_number(sum_) is not None
        require(known, f"no identity element is known for a {sum_.combiner} of {element}", sum_.ops[0])


def _require_said(rolling: Rolling) -> None:
    """Declines where a loop would carry an unreduced value without a constraint: XLA takes it for reduced."""
    copies, sources = rolling.copies, rolling.copies.sources.values()
    partial = _unreduced(rolling)
    carried = [source for source in sources if isinstance(source, Carried)]
    left = [(each.group, each.result) for each in carried] + [(each.group, each.result) for each in rolling.exits]
    for group, result in dict.fromkeys(left):
        op = copies.groups[group].first
        late = op.name != CONSTRAINT and (group in partial or _is_said_later(copies.groups[group], result))
        require(not late, "a loop would carry a value before the constraint that says that it is unreduced", op)
    for source in carried:
        value = copies.groups[source.group].first.results[source.result]
        said = said_unreduced(source.start)
        fits = said == said_unreduced(value) or (not said and is_zero(source.start))
        require(fits, "a loop-carried value is unreduced, and its init operand does not say so", defining_op(value))
    shared = [source.value for source in sources if isinstance(source, Shared) and said_unreduced(source.value)]
    require(not shared, "an unreduced value would be a live-in of the loop", _first_op(shared))
    kept = [each.group for each in rolling.exits if rolling.is_kept(each)]
    terms = [copies.places[sum_.terms[0]].group for sum_ in rolling.sums if sum_.terms[0] in copies.places]
    parts = [copies.groups[group].first for group in (*kept, *terms) if group in partial]
    require(not parts, "a sum or an array of unreduced values would not say so", next(iter(parts), None))
    arguments = [value for source in sources if isinstance(source, Each) for value in source.values]
    require(not any(map(said_unreduced, arguments)), "unreduced arguments would be stacked")


def _unreduced(rolling: Rolling) -> set[int]:
    """The groups whose results are unreduced: a constraint says so, or an operand is unreduced."""
    groups, sources = rolling.copies.groups, rolling.copies.sources
    found: set[int] = set()
    for number in sorted(range(len(groups)), key=lambda i: rolling.order.position(groups[i].first)):
        op, operands = groups[number].first, [sources[values] for values in groups[number].operands]
        if says_sharding(op):
            partial = any(map(said_unreduced, op.results))
        else:
            partial = any(_is_partial(source, groups, found) for source in operands)
        if partial:
            found.add(number)
    return found


def _is_partial(source: Source, groups: Sequence[Group], partial: set[int]) -> bool:
    match source:
        case Inner(group, _):
            return group in partial
        case Carried(_, group, result):
            return bool(said_unreduced(groups[group].first.results[result]))
        case _:
            return False


def _is_said_later(group: Group, result: int) -> bool:
    """Whether a constraint says that the result of one of the copies is unreduced."""
    readers = [use.owner.operation for op in group.present for use in op.results[result].uses]
    return any(op.name == CONSTRAINT and said_unreduced(op.results[0]) for op in readers)


def _require_worth(rolling: Rolling, limits: _Limits) -> None:
    copies = rolling.copies
    size = len(copies.groups)
    require(size >= limits.min_ops, f"a copy has only {size} ops (option min-ops)")
    before = sum(len(group.present) for group in copies.groups) + len(rolling.replaced)
    around = len(rolling.order.ops)
    large = before >= limits.min_share * around
    require(large, f"the copies have only {before} of the {around} ops around them (option min-share)")
    kept = [each for each in rolling.exits if rolling.is_kept(each)]
    stacks = [copies.groups[each.group].first.results[each.result] for each in kept if each.joined is None]
    arguments = [source.values[0] for source in copies.sources.values() if isinstance(source, Each)]
    stacked = copies.count * sum(bytes_of(ir.RankedTensorType(value.type)) for value in stacks + arguments)
    fits = stacked <= limits.max_stack_bytes
    require(fits, f"{stacked} bytes would be stacked (option max-stack-bytes)", _first_op(stacks))
    after = size + _LOOP + 2 * len(rolling.sums) + len(rolling.exits) + (copies.count + 3) * len(arguments)
    after += ops_of_counts(copies) + sum(2 + 2 * len(each.apart) for each in kept)
    require(after < before, f"the loop would have about {after} ops, the copies have {before}")


_LOOP = 8  # ops that count, and the loop


def _first_op(values: Sequence[ir.Value]) -> ir.Operation | None:
    return next((op for value in values if (op := defining_op(value)) is not None), None)
