"""How far the values of one block may stay partial.

A partial value is one device's addend of a sum that has not been taken yet. Here: if the reductions of one kind in a
block were not taken where they stand, which values could be left unreduced, and where must that end?
"""

import heapq
from collections.abc import Iterable
from functools import cached_property
from functools import partial as partial_apply
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.analysis.collectives import REDUCTIONS, Reduction, reduction_of
from paropt.passes.analysis.constants import is_constant
from paropt.passes.analysis.linearity import Addends, ConvertPolicy, Crossing, addends_of
from paropt.passes.analysis.uniformity import Uniformity
from paropt.passes.core.remarks import Declined
from paropt.passes.core.traversal import defining_op, ops_of


class BlockReductions(NamedTuple):
    """The reductions that stand directly in one block, by kind, in program order."""

    kinds: dict[Reduction, list[ir.Operation]]
    declined: list[tuple[ir.Operation, Declined]]  # those that can't be moved, and why


class Partial(NamedTuple):
    """A value that may be partial: a result of a reduction, a carried value, or an op linear in such values."""

    value: ir.Value
    addends: Addends  # the operands of its op in which it is linear; () for a reduction and a carried value


class PartialValues(NamedTuple):
    """The values of a block that may be partial over one reduction, in program order, and what ended the others."""

    reduction: Reduction
    values: dict[ir.Value, Partial]
    stopped: dict[ir.Value, Declined]  # by the first result of the op that is no longer linear

    def stopped_at(self, use: ir.OpOperand) -> Declined | None:
        """Why the op that reads `use` may not be done before the reduction."""
        results = use.owner.operation.results
        return self.stopped.get(results[0]) if len(results) else None

    def is_addend(self, use: ir.OpOperand) -> bool:
        """Whether `use` is by an op that may be done before the reduction, in an operand in which it is linear."""
        op = use.owner.operation
        if len(op.results) != 1 or op.results[0] not in self.values:
            return False
        return use.operand_number in self.values[op.results[0]].addends

    def other_uses(self, value: ir.Value) -> list[ir.OpOperand]:
        """The uses of `value` that need it reduced."""
        return [use for use in value.uses if not self.is_addend(use)]


def blocks_with_reductions(root: ir.Operation) -> list[ir.Block]:
    """The blocks under `root` that hold a reduction; inner blocks first."""
    return list(dict.fromkeys(op.block for op in ops_of(root, *REDUCTIONS)))


class BlockFacts:
    """Program order and uniformity of one block, computed when first asked for. Not to be kept across a rewrite."""

    def __init__(self, block: ir.Block, convert: ConvertPolicy) -> None:
        self.block = block
        self._convert = convert
        self._uniformity: dict[Reduction, Uniformity] = {}

    @cached_property
    def ops(self) -> list[ir.Operation]:
        return [op.operation for op in self.block.operations]

    @cached_property
    def _positions(self) -> dict[ir.Value, int]:
        """Where an op stands, by its first result: MLIR hashes an op by its content, a value by its address."""
        return {op.results[0]: i for i, op in enumerate(self.ops) if len(op.results)}

    def in_order(self, values: Iterable[ir.Value]) -> list[ir.Operation]:
        """The ops of the block that define `values`, once each, in program order."""
        owners = map(defining_op, values)
        return [self.ops[i] for i in sorted({self._positions[op.results[0]] for op in owners if op is not None})]

    @cached_property
    def reductions(self) -> BlockReductions:
        found = BlockReductions({}, [])
        for op in self.ops:
            if op.name not in REDUCTIONS:
                continue
            try:
                found.kinds.setdefault(reduction_of(op), []).append(op)
            except Declined as declined:
                found.declined.append((op, declined))
        return found

    def partial_values(self, reduction: Reduction, sources: Iterable[ir.Value]) -> PartialValues:
        """What may stay partial when `sources` (results of reductions of this kind, carried values) are."""
        found = PartialValues(reduction, {value: Partial(value, ()) for value in sources}, {})
        waiting: list[int] = []
        queued: set[int] = set()

        def await_users(value: ir.Value) -> None:
            for use in value.uses:
                results = use.owner.operation.results
                position = self._positions.get(results[0]) if len(results) else None
                if position is not None and position not in queued:
                    queued.add(position)
                    heapq.heappush(waiting, position)

        for value in list(found.values):
            await_users(value)
        while waiting:  # in program order, so that all operands of an op are known when its turn comes
            op = self.ops[heapq.heappop(waiting)]
            try:
                addends = addends_of(op, self._crossing(op, reduction, found))
            except Declined as declined:
                found.stopped[op.results[0]] = declined
                continue
            found.values[op.results[0]] = Partial(op.results[0], addends)
            await_users(op.results[0])
        return found

    def require_uniform(self, value: ir.Value, what: str, reader: ir.Operation, reduction: Reduction) -> None:
        """Declines unless `value`, which `reader` reads as `what`, is equal on all devices of each group."""
        if reduction.is_global or is_constant(value):  # a global value is one value; constants are the usual case
            return
        if reduction not in self._uniformity:
            self._uniformity[reduction] = Uniformity(self.block, reduction)
        self._uniformity[reduction].require_uniform(value, what, reader)

    def _crossing(self, op: ir.Operation, reduction: Reduction, found: PartialValues) -> Crossing:
        partial = frozenset(i for i, operand in enumerate(op.operands) if operand in found.values)
        return Crossing(reduction, self._convert, partial, partial_apply(self.require_uniform, reduction=reduction))


def first_source(value: ir.Value, values: PartialValues) -> ir.Operation:
    """A reduction that `value` is made of: the first met when going back, the later terms of a sum first."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        op = defining_op(value)
        if op is None:
            continue
        addends = values.values[value].addends
        if not addends:
            return op
        waiting += [op.operands[i] for i in addends if op.operands[i] in values.values]
    raise AssertionError("a partial value is made of a reduction")
