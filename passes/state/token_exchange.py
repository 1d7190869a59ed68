"""Contractions whose parameter stays sharded: its other operand is exchanged, and so is the result.

Tokens come with their examples sharded, and by expert they are sharded over experts. Before such contractions, and
behind them, they are pinned both ways, so XLA exchanges them in between. Else it computes the sums that collect tokens
by expert, and those that bring them back, with experts sharded: it all-gathers all tokens, and all-reduces the sums.

Tests: test/passes/annotate-shardings-exchange.mlir, test/passes/annotate-shardings-exchange-examples.mlir.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.dataflow.engine import depth_first
from paropt.passes.ir.op_table import is_contraction
from paropt.passes.sharding.axes import Axes, Axis
from paropt.passes.sharding.explicit_ops import constrained
from paropt.passes.sharding.op_rules import Factors, ShardingRule
from paropt.passes.sharding.shardings import open_sharding, rank_of
from paropt.passes.state.batched_arguments import Batched, Dimension, RuleOf, batched_arguments, sources_of
from paropt.passes.support.traversal import all_ops_of, defining_op, op_of


class Exchange(NamedTuple):
    """A value that a parameter is multiplied with, or the product, and the axes that it is to be sharded over as
    well."""

    value: ir.Value
    dimension: int
    axes: Sequence[str]
    is_product: bool


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
                found += _beside(op, rule, batched, over)
    return found


def constrain_exchanges(
    exchanges: Iterable[Exchange], mesh: str, of_examples: Collection[str], rule_of: RuleOf
) -> None:
    """All that reads such a value reads it with that dimension over its axes, the others as Shardy likes.

    Where these axes are some of those `of_examples`, a value that no other product goes into is made with the dimension
    replicated, and so is one read that goes into no other product: `rule_of` tells where the dimension goes.
    """
    found = {each.value: each for each in exchanges}
    products = {(each.value, each.dimension) for each in found.values() if each.is_product}
    inner = {each for value in found.values() for each in _between(value, products, rule_of)}
    for value, each in found.items():
        is_outer = set(each.axes) <= set(of_examples) and (value, each.dimension) not in inner
        over = (tuple(map(Axis, each.axes)), *([()] if is_outer else []))
        _constrain(value, each.dimension, over if each.is_product else over[::-1], mesh)


def _between(each: Exchange, products: Collection[Dimension], rule_of: RuleOf) -> Iterator[Dimension]:
    """The value itself and the products that it is made of, where it is made of some, along its dimension."""
    start = (each.value, each.dimension)
    if each.is_product:
        return
    made_of = [found for found in depth_first([start], lambda each: sources_of(*each, rule_of)) if found in products]
    if made_of:
        yield from (start, *made_of)


def _beside(op: ir.Operation, rule: ShardingRule, batched: Batched, axes: Sequence[str]) -> list[Exchange]:
    """The other operand and the result, with the dimension that goes with the parameter's."""
    operands = zip(op.operands, rule.operands, strict=True)
    others = [(*each, False) for position, each in enumerate(operands) if position != batched.position]
    results = [(*each, True) for each in zip(op.results, rule.results, strict=True)]
    return [
        Exchange(value, _dimension_of(batched.factor, factors), axes, is_product)
        for value, factors, is_product in (*others, *results)
    ]


def _dimension_of(factor: str, dimensions: Sequence[Factors]) -> int:
    return next(number for number, factors in enumerate(dimensions) if factors[:1] == (factor,))


def _constrain(value: ir.Value, dimension: int, steps: Iterable[Axes], mesh: str) -> None:
    """All that reads `value` reads it behind constraints one after the other: of `dimension` over these axes, exactly
    if they are none, and of others as Shardy likes."""
    op = defining_op(value)
    if op is None:
        point = ir.InsertionPoint.at_block_begin(ir.BlockArgument(value).owner)
    else:
        point = ir.InsertionPoint.after(op)
    pins = [value]
    with point, value.location:
        for over in steps:
            dimensions = [over if number == dimension else () for number in range(rank_of(value))]
            sharding = open_sharding(f"@{mesh}", dimensions, closed=() if over else (dimension,))
            pins.append(constrained(pins[-1], sharding))
    value.replace_all_uses_except(pins[-1], op_of(pins[1]))
