"""Accumulators of a program that is called once per micro-batch: arguments that come back with reduced sums added.

Where nothing else needs them in each call, they might be handed on unreduced. Ops that need them in some calls only are
computed under a mask: in a branch, for a select, or for a product by 0 or 1, as by `optax.MultiSteps`.

Tests: test/passes/defer-sync-calls.mlir, test/numeric/test_accumulate_calls.py.
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.dataflow.engine import depth_first
from paropt.passes.dataflow.partial_values import BlockFacts, PartialValues
from paropt.passes.dataflow.scalar_masks import mask_under, scalar_under
from paropt.passes.deferral.counter_selects import MULTIPLY, SELECT
from paropt.passes.ir.constants import is_constant
from paropt.passes.ir.op_table import is_branch, keeps_sum, scales
from paropt.passes.sharding.collectives import DEFERRED, REDUCTIONS
from paropt.passes.support.traversal import defining_op, op_of, terminator_of

_ADD = "stablehlo.add"


class KeptSum(NamedTuple):
    """An argument of a block that it returns with sums added, and the reductions that take these."""

    argument: ir.BlockArgument
    reductions: tuple[ir.Operation, ...]


def kept_sums(facts: BlockFacts) -> list[KeptSum]:
    """The accumulators of the block of `facts`, a program or a manual part of one."""
    found: dict[ir.Value, KeptSum] = {}  # of a momentum, too, an accumulator may be a part
    end = terminator_of(facts.block)
    for reduction, ops in facts.reductions.kinds.items():
        if reduction.combiner != _ADD:
            continue
        sources = [result for op in ops if DEFERRED not in op.attributes for result in op.results]
        values = facts.partial_values(reduction, sources)
        for position, value in enumerate(end.operands):
            if value in values.values and ir.RankedTensorType(value.type).shape:
                for kept in _kept(value, position, values, facts.block):
                    found.setdefault(kept.argument, kept)
    return list(found.values())


def _kept(value: ir.Value, position: int, values: PartialValues, block: ir.Block) -> list[KeptSum]:
    """The accumulator whose new value is `value`, which the block returns at `position`; none if it is none."""
    made = set(values.made_of(value))
    order = [each for each in values.values if each in made]
    for term in dict.fromkeys(term for each in order for term in values.terms(each)):
        argument = _argument_behind(term, block)
        if argument is None or argument.type != value.type or value not in _carried_on(term, order, values):
            continue
        if _is_masked([argument, *order], position, values, block):
            sources = {op_of(each).results[0]: op_of(each) for each in order if values.is_source(each)}
            return [KeptSum(ir.BlockArgument(argument), tuple(sources.values()))]
    return []


def _argument_behind(term: ir.Value, block: ir.Block) -> ir.Value | None:
    """The argument of the block that `term` is, in some calls at least: `optax.apply_every` multiplies it by 0 or 1."""
    while (op := defining_op(term)) is not None:
        kept = [
            i for i in range(len(op.operands)) if op.name == MULTIPLY and mask_under(op.operands[1 - i]) is not None
        ]
        if not kept:
            return None
        term = op.operands[kept[0]]
    return term if term.owner == block else None


def _carried_on(argument: ir.Value, order: Collection[ir.Value], values: PartialValues) -> set[ir.Value]:
    """`argument`, and the values of `order` of which it is a part: none where it decays, or becomes something else."""
    found = {argument}
    for value in order:
        if found.isdisjoint(values.terms(value)):
            continue
        op = op_of(value)
        scaled = scales(op) and not any(map(is_constant, op.operands))  # by a value that differs between calls
        if not scaled and not keeps_sum(op) and not is_branch(op):
            return set()
        found.add(value)
    return found


def _is_masked(read: Collection[ir.Value], position: int, values: PartialValues, block: ir.Block) -> bool:
    """Whether the values `read` have no other readers than each other, masks, and the result `position`."""
    members, end = set(read), terminator_of(block)

    def readers(value: ir.Value) -> Iterator[ir.Operation]:
        """The ops that compute something else of `value`, in each call."""
        for use in value.uses:
            op = use.owner.operation
            if op.block != block or _masks(op, use.operand_number) or (op == end and use.operand_number == position):
                continue
            if not (value in members and values.made_by(use) in members):
                yield op

    def made_of(value: ir.Value) -> Iterator[ir.Value]:
        return (result for op in readers(value) for result in op.results)

    return not any(
        op.name in REDUCTIONS or op == end or members.intersection(op.results)
        for value in depth_first(read, made_of)
        for op in readers(value)
    )


def _masks(op: ir.Operation, number: int) -> bool:
    """Whether `op` keeps its operand in some calls only."""
    if op.name == SELECT:
        return number > 0 and scalar_under(op.operands[0]) is not None
    return op.name == MULTIPLY and mask_under(op.operands[1 - number]) is not None


def is_called_by_user(block: ir.Block) -> bool:
    """Whether `block` is a function's, or a manual computation's right in there."""
    holder = block.owner.operation
    if holder.name == "sdy.manual_computation":
        holder = holder.block.owner.operation
    return bool(holder.name == "func.func")


def name_of(argument: ir.BlockArgument) -> ir.Value:
    """The argument of the function that `argument` is, in a manual computation or not."""
    holder = argument.owner.owner.operation
    outside = holder.operands[argument.arg_number] if holder.name == "sdy.manual_computation" else argument
    return outside if defining_op(outside) is None else argument
