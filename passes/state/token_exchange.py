"""Contractions whose parameter stays sharded: its other operand is exchanged, and so is the result.

Tests: test/passes/annotate-shardings-exchange.mlir.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.ir.op_table import is_contraction
from paropt.passes.sharding.axes import Axis
from paropt.passes.sharding.explicit_ops import constrained
from paropt.passes.sharding.op_rules import Factors, ShardingRule
from paropt.passes.sharding.shardings import open_sharding
from paropt.passes.state.batched_arguments import Batched, RuleOf, batched_arguments
from paropt.passes.support.traversal import all_ops_of, defining_op, op_of


class Exchange(NamedTuple):
    """A value that a parameter is multiplied with, or the product, and the axes that it is to be sharded over as
    well."""

    value: ir.Value
    dimension: int
    axes: Sequence[str]


def exchanges_for(
    function: ir.Operation, parameter: ir.Value, axes: Mapping[int, Sequence[str]], rule_of: RuleOf
) -> list[Exchange]:
    """Of contractions of `function` that have a dimension of `parameter`, one with `axes`, as a batching dimension."""
    found = []
    for op in all_ops_of(function):
        rule = rule_of(op) if is_contraction(op) else None
        for batched in batched_arguments(op, rule, rule_of) if rule is not None else ():
            if rule is not None and batched.argument == parameter and batched.dimension in axes:
                over = axes[batched.dimension]
                found += [Exchange(value, dimension, over) for value, dimension in _beside(op, rule, batched)]
    return found


def constrain_exchanges(exchanges: Iterable[Exchange], mesh: str) -> None:
    """All that reads such a value reads it with that dimension over its axes, the others as Shardy likes."""
    for value, same in {each.value: each for each in exchanges}.items():
        _constrain(value, same.dimension, same.axes, mesh)


def _beside(op: ir.Operation, rule: ShardingRule, batched: Batched) -> list[tuple[ir.Value, int]]:
    """The other operand and the result, with the dimension that goes with the parameter's."""
    values = [*zip(op.operands, rule.operands, strict=True), *zip(op.results, rule.results, strict=True)]
    others = [each for position, each in enumerate(values) if position != batched.position]
    return [(value, _dimension_of(batched.factor, factors)) for value, factors in others]


def _dimension_of(factor: str, dimensions: Sequence[Factors]) -> int:
    return next(number for number, factors in enumerate(dimensions) if factors[:1] == (factor,))


def _constrain(value: ir.Value, dimension: int, axes: Sequence[str], mesh: str) -> None:
    rank, over = ir.RankedTensorType(value.type).rank, tuple(map(Axis, axes))
    op = defining_op(value)
    if op is None:
        point = ir.InsertionPoint.at_block_begin(ir.BlockArgument(value).owner)
    else:
        point = ir.InsertionPoint.after(op)
    with point, value.location:
        sharding = open_sharding(f"@{mesh}", [over if number == dimension else () for number in range(rank)])
        pinned = constrained(value, sharding)
    value.replace_all_uses_except(pinned, op_of(pinned))
