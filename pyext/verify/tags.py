"""The check that the sharding constraints of unreduced values fit together.

A constraint never changes a value: where one is missing, a compiler has to reduce. XLA does not always, and a chain of
such values with a gap is then reduced twice or not at all. So every value that is made of one that is not reduced has
to say so itself, up to the constraint that asks for the sum.

This checks the output of the passes, and is independent of their analyses on purpose: it goes through loops and
branches by itself, one step from each constraint, and neither by `ir/control_flow.py` nor by `dataflow/engine.py`. A
wrong edge there must not hide its own effects.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from jaxlib.mlir import ir

from paropt.passes.dataflow.linearity import Crossing, addends_of
from paropt.passes.dataflow.unreduced import said_unreduced
from paropt.passes.inline_calls import inline_calls
from paropt.passes.ir.barriers import BARRIER, before_barrier, made_of
from paropt.passes.ir.branches import BRANCHES, ends_of, is_end
from paropt.passes.ir.constants import is_zero
from paropt.passes.ir.constraints import CONSTRAINT
from paropt.passes.ir.loops import WHILE, Loop, loop_around
from paropt.passes.sharding.axes import Axes
from paropt.passes.sharding.collectives import global_reduction
from paropt.passes.sharding.shardings import MANUAL, Sharding, is_manual, operand_sharding, read_sharding, sharding_of
from paropt.passes.spmd.global_form import sources
from paropt.passes.spmd.producers import PRODUCERS
from paropt.passes.support.remarks import Declined
from paropt.passes.support.sources import Source, source_of
from paropt.passes.support.traversal import defining_op, op_of, ops_of, parent_of

_RETURN = "stablehlo.return"


class VerificationError(RuntimeError):
    """A rewritten module, or its executable, is wrong; the message is one line."""

    def __init__(self, message: str, mismatches: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.mismatches = mismatches  # of the executable, as `paropt.verify.verification` tells them


def tags_of(module: ir.Operation) -> list[ir.Operation]:
    """The constraints that say that a value is unreduced."""
    return [op for op in ops_of(module, CONSTRAINT) if sharding_by(op).unreduced and not is_manual(op)]


def sharding_by(constraint: ir.Operation) -> Sharding:
    return read_sharding(constraint.attributes["sharding"])


def gaps(module: ir.Operation, known: Collection[str] = ()) -> list[str]:
    """In words, where a value is unreduced, but a value made of it is not declared so; empty when there is no gap.

    Those that are `known` are left out: a program may have come with them.
    """
    search = _Search()
    lines = dict.fromkeys(line for tag in tags_of(module) for line in search.gaps(tag))
    return [line for line in lines if line not in known]


class Known(NamedTuple):
    """The tags and gaps of a program before the passes, with its functions inlined: there, its values meet."""

    number: int = 0  # of tags
    tags: frozenset[tuple[Source, str]] = frozenset()  # where each is, and its text
    gaps: frozenset[str] = frozenset()


def known_of(module: ir.Operation) -> Known:
    tags = tags_of(module)
    if not tags:
        return Known()
    inlined = module.clone(ip=False).operation
    inline_calls(inlined)
    named = frozenset(map(_named, [*tags, *tags_of(inlined)]))
    return Known(len(tags), named, frozenset((*gaps(module), *gaps(inlined))))


def adds_tags(module: ir.Operation, known: Known) -> bool:
    """Whether the passes that made `module` of a program noted that values are unreduced, of others than it did."""
    tags = tags_of(module)
    return len(tags) > known.number or any(_named(tag) not in known.tags for tag in tags)


def gap_behind_passes(module: ir.Operation, known: Known) -> str | None:
    """A gap that the passes that made `module` of a program left, in words.

    None in the form between `expose-all-reduces` and `annotate-unreduced`, in which ops ask for the sums.
    """
    wrong = gaps(module, known.gaps)
    return wrong[0] if wrong and not sources(module) else None


def _named(tag: ir.Operation) -> tuple[Source, str]:
    return source_of(tag.location), str(tag.attributes["sharding"])


class _Search:
    def __init__(self) -> None:
        self._loops: dict[ir.Value, Loop] = {}  # by their first result: finding a terminator takes as long as the block
        self._seen: set[tuple[ir.Value, int]] = set()  # loop-carried values

    def gaps(self, tag: ir.Operation) -> Iterator[str]:
        axes = sharding_by(tag).unreduced
        for use in tag.results[0].uses:
            yield from self._behind(use, axes)
        op = defining_op(tag.operands[0])
        if op is None or op.name == CONSTRAINT or is_zero(tag.operands[0]):
            # Zeros add up to zero. Behind a constraint that asks for the sum, it is on one device, zero on the others.
            return
        if op.name == WHILE:
            yield from self._around(op, ir.OpResult(tag.operands[0]).result_number, axes)
        elif op.name in BRANCHES:
            position = ir.OpResult(tag.operands[0]).result_number
            if not all(said_unreduced(end.operands[position]) == axes for end in ends_of(op)):
                yield _at(op, "its result is declared unreduced, and a branch is not")
        elif op.name == BARRIER:
            if said_unreduced(op.operands[before_barrier(tag.operands[0])]) != axes:
                yield _at(op, "its result is declared unreduced, and its operand is not")
        elif op.name == MANUAL:
            if sharding_of(tag.operands[0]) != sharding_by(tag):
                yield _at(op, "its result is not what a constraint says that it is")
        elif op.name not in PRODUCERS or any(said_unreduced(operand) == axes for operand in op.operands):
            yield from _before(op, axes)

    def _behind(self, use: ir.OpOperand, axes: Axes) -> Iterator[str]:
        """The gaps behind `use`, which reads a value unreduced over `axes`."""
        op, position = use.owner.operation, use.operand_number
        if _crosses_loop(use):
            yield _at(op, "it reads an unreduced value that its loop does not carry")
        if op.name == CONSTRAINT:
            if not set(sharding_by(op).unreduced) <= set(axes):  # fewer: it is reduced over the others
                yield _at(op, "it changes the unreduced axes of the value")
        elif op.name == MANUAL:
            if operand_sharding(op, position).unreduced != axes:
                yield _at(op, "it takes the value with other unreduced axes")
        elif op.name == WHILE:
            yield from self._around(op, position, axes)
        elif is_end(op):
            if not _says(parent_of(op).results[position], axes):
                yield _at(parent_of(op), "a branch returns an unreduced value, and its result is not declared so")
        elif op.name == _RETURN and loop_around(op.block) is not None:
            yield from self._around(parent_of(op), position, axes)
        elif not op.results:
            yield _at(op, "it reads an unreduced value")
        elif not all(_says(result, axes) for result in ([made_of(op, position)] if op.name == BARRIER else op.results)):
            yield _at(op, "an operand is unreduced, and its result is not declared so")

    def _around(self, op: ir.Operation, position: int, axes: Axes) -> Iterator[str]:
        """The gaps in the way of loop-carried value `position` of the loop `op`, which is unreduced."""
        if (op.results[0], position) in self._seen:
            return
        self._seen.add((op.results[0], position))
        loop = self._loops.setdefault(op.results[0], Loop(op))
        ends = (op.operands[position], loop.next_values.operands[position])
        if not all(said_unreduced(end) == axes for end in ends) or not _says(op.results[position], axes):
            yield _at(op, f"loop-carried value {position} is unreduced in some places, and not declared so in others")
        if next(loop.condition.arguments[position].uses, None) is not None:
            yield _at(op, "its condition reads an unreduced value")
        for use in loop.body.arguments[position].uses:
            yield from self._behind(use, axes)


def _before(op: ir.Operation, axes: Axes) -> Iterator[str]:
    """The gaps before `op`, whose result says that it is unreduced."""
    partial = frozenset(i for i, operand in enumerate(op.operands) if said_unreduced(operand) == axes)
    crossing = Crossing(
        reduction=global_reduction("", axes),
        convert="any",
        accumulate=None,
        partial=partial,
        require_uniform=lambda *_: None,
    )
    try:
        addends = addends_of(op, crossing) if partial else ()
    except Declined as declined:
        yield _at(op, declined.reason)
        return
    if not partial or partial != set(addends):
        yield _at(op, "its result is declared unreduced, and its addends are not")


def _crosses_loop(use: ir.OpOperand) -> bool:
    """Whether `use` is in a loop that does not carry its operand: XLA takes that for reduced."""
    op = use.owner.operation
    value = op.operands[use.operand_number]
    block = value.owner if isinstance(value.owner, ir.Block) else op_of(value).block
    while op.block != block:
        op = parent_of(op)
        if op.name == WHILE:
            return True
    return False


def _says(value: ir.Value, axes: Axes) -> bool:
    """Whether nothing but a constraint that says that it is unreduced reads `value`."""
    users = [use.owner.operation for use in value.uses]
    return all(user.name == CONSTRAINT and sharding_by(user).unreduced == axes for user in users)


def _at(op: ir.Operation, what: str) -> str:
    return f"{op.name} at {source_of(op.location)}: {what}"
