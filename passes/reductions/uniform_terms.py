"""Uniform terms of sums that are reduced, as where a program carries a mean on.

In `acc = pmean(acc + g)` the accumulator is uniform, hence its own mean: `acc + pmean(g)`.

Tests: test/passes/simplify-all-reduces.mlir, test/numeric/test_shard_map_loops.py.
"""

import math
from fractions import Fraction
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.ir.loops import loop_around
from paropt.passes.ir.op_table import adds, is_extreme
from paropt.passes.rewrite.scale import scale_of
from paropt.passes.sharding.collectives import ALL_REDUCE
from paropt.passes.support.traversal import defining_op, op_of

SUBTRACT = "stablehlo.subtract"


class UniformTerm(NamedTuple):
    """A term of the operand of an all_reduce, if it turns out to be uniform. Nothing else reads it."""

    term: ir.Value
    made_by: ir.Operation | None  # the all_reduce of which it is made; None: the loop carries it
    addition: ir.Operation  # the first op that combines it with something
    combined_by: frozenset[str]  # that op, and those that combine their result with something before it is reduced
    all_reduce: ir.Operation
    factor: Fraction  # by which the term is multiplied from there on
    end: ir.Value  # its last form


def uniform_terms(block: ir.Block) -> list[UniformTerm]:
    """The terms that `block` reduces again and again, those first that others are made of.

    They are loop-carried values, where the loop carries the result on in their place, and results of all_reduces; of
    two in one addition, the first.
    """
    reductions = [view.operation for view in block.operations if view.operation.name == ALL_REDUCE]
    if not reductions:
        return []
    loop = loop_around(block)
    carried = [*map(_term_from, loop.body.arguments)] if loop is not None and loop.body == block else []
    again = [_term_from(result) for op in reductions for result in op.results]
    found = {each.term: each for each in (*carried, *again) if each is not None}
    left_out = {each.term for i, each in enumerate(carried) if each is not None and not _is_carried_on(each, i, found)}
    kept: dict[ir.Value, UniformTerm] = {}  # by the result of its addition
    for each in (each for term, each in found.items() if term not in left_out):
        kept.setdefault(each.addition.results[0], each)
    return list(kept.values())


def _term_from(origin: ir.Value) -> UniformTerm | None:
    """The term that is `origin`, multiplied by numbers perhaps; None if it is not reduced in a sum."""
    term, _ = _scaled(origin)
    factor, value = Fraction(1), term
    combined: list[ir.Operation] = []
    while (use := _only_use(value)) is not None and _combines(use.owner.operation):
        op = use.owner.operation
        combined.append(op)
        is_subtracted = op.name == SUBTRACT and use.operand_number == 1
        value, number = _scaled(op.results[0])
        factor *= -number if is_subtracted else number
    if not combined or use is None or use.owner.operation.name != ALL_REDUCE:
        return None
    reduction = use.owner.operation
    end, number = _scaled(reduction.results[use.operand_number])
    made = defining_op(origin)
    names = frozenset(op.name for op in combined)
    return UniformTerm(term, made, combined[0], names, reduction, factor * number, end)


def _combines(op: ir.Operation) -> bool:
    return adds(op) or is_extreme(op)


def _scaled(value: ir.Value) -> tuple[ir.Value, Fraction]:
    """The last of the products of `value` by constant numbers, each the only user of the one before; and their
    factor."""
    factor = Fraction(1)
    while (use := _only_use(value)) is not None and (number := _number(use)) is not None:
        factor *= number
        value = use.owner.operation.results[0]
    return value, factor


def _number(use: ir.OpOperand) -> Fraction | None:
    """The exact factor by which the reader of `use` multiplies it; None when it does something else."""
    scale = scale_of(use.owner.operation)
    if scale is None or scale.operand != use.operand_number or not isinstance(scale.number, ir.FloatAttr):
        return None
    number = scale.number.value
    if not math.isfinite(number) or not number:
        return None
    return 1 / Fraction(number) if scale.op.name == "stablehlo.divide" else Fraction(number)


def _only_use(value: ir.Value) -> ir.OpOperand | None:
    """The one use of `value`, by an op of the block that it is in."""
    uses = list(value.uses)
    block = value.owner if isinstance(value.owner, ir.Block) else op_of(value).block
    return uses[0] if len(uses) == 1 and uses[0].owner.operation.block == block else None


def _is_carried_on(first: UniformTerm, position: int, found: dict[ir.Value, UniformTerm]) -> bool:
    """Whether the loop carries on, in the place of `first`, the value made of it so, and by adding other terms."""
    value = first.end
    while (use := _only_use(value)) is not None:
        op = use.owner.operation
        if op.name == "stablehlo.return":
            return use.operand_number == position
        if value in found:
            value = found[value].end
        elif _combines(op) or _number(use) is not None:
            value = op.results[0]
        else:
            return False
    return False
