"""Arguments with a slice for each slice of their contraction's other operand, as the weights of experts are.

Tokens by expert, (experts, tokens, width), are multiplied with the weights of each expert, (experts, width, out): the
dimension of experts is a batching dimension of the contraction. No name is needed. The operand is the argument itself,
or made of it alone by loops, branches and ops with one operand: a bias that is added before the contraction is none.

Tests: test/unit/pyext/planning/test_experts.py, test/passes/annotate-shardings-exchange.mlir.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.dataflow.engine import depth_first
from paropt.passes.ir.constraints import CONSTRAINT
from paropt.passes.ir.control_flow import predecessors
from paropt.passes.ir.op_table import ops_of_kind
from paropt.passes.ir.types import tensor_of
from paropt.passes.sharding.op_rules import ShardingRule, parse_rule
from paropt.passes.sharding.propagation import Propagated
from paropt.passes.support.traversal import defining_op

CONTROL_FLOW = ops_of_kind("control")
RuleOf = Callable[[ir.Operation], ShardingRule | None]
Dimension = tuple[ir.Value, int]


def rules_of(module: ir.Operation) -> RuleOf:
    """Shardy's rules for the ops that are in `module` now; none for control flow."""
    rules = Propagated(module, rules_only=True)

    def rule_of(op: ir.Operation) -> ShardingRule | None:
        text = "" if op.name in CONTROL_FLOW else rules.sharding_rule(op)
        return parse_rule(text) if text else None

    return rule_of


class Batched(NamedTuple):
    """A dimension of an argument that a contraction takes as a batching dimension."""

    argument: ir.Value
    dimension: int
    position: int  # of the operand that is made of it
    factor: str  # of the rule of the contraction


def batched_arguments(contraction: ir.Operation, rule: ShardingRule, rule_of: RuleOf) -> Iterator[Batched]:
    """Those of values that no op makes."""
    for position, (operand, dimensions) in enumerate(zip(contraction.operands, rule.operands, strict=True)):
        for number, factors in enumerate(dimensions):
            if not _is_batching(factors[:1], rule):
                continue
            for value, dimension in depth_first([(operand, number)], lambda each: _made_of(*each, rule_of)):
                if isinstance(value.owner, ir.Block) and predecessors(value) is None:
                    yield Batched(value, dimension, position, factors[0])


def sources_of(value: ir.Value, number: int, rule_of: RuleOf) -> list[Dimension]:
    """The dimensions of which dimension `number` of `value` is made, index for index, one op or edge before."""
    uses = predecessors(value)
    if uses is not None:
        return [(use.value, number) for use in uses]
    op = defining_op(value)
    if op is not None and op.name == CONSTRAINT:
        return [(op.operands[0], number)]
    rule = rule_of(op) if op is not None else None
    if op is None or rule is None:
        return []
    major = rule.results[ir.OpResult(value).result_number][number][:1]
    operands = zip(op.operands, rule.operands, strict=True)
    return [(operand, i) for operand, dims in operands for i, dim in enumerate(dims) if major and dim[:1] == major]


def _is_batching(major: tuple[str, ...], rule: ShardingRule) -> bool:
    """Whether each operand and result has this factor."""
    return bool(major) and all(major in {dim[:1] for dim in value} for value in (*rule.operands, *rule.results))


def _made_of(value: ir.Value, number: int, rule_of: RuleOf) -> list[Dimension]:
    """The same dimension where `value` comes from, if that is one tensor."""
    uses = predecessors(value)
    if uses is not None:
        return [(use.value, number) for use in uses]
    op = defining_op(value)
    if op is not None and op.name == CONSTRAINT:
        return [(op.operands[0], number)]
    tensors = [position for position, operand in enumerate(op.operands) if _has_dimensions(operand)] if op else []
    rule = rule_of(op) if op is not None and len(tensors) == len(op.results) == 1 else None
    if op is None or rule is None:
        return []
    (position,) = tensors
    major = rule.results[0][number][:1]
    return [(op.operands[position], i) for i, dim in enumerate(rule.operands[position]) if major and dim[:1] == major]


def _has_dimensions(value: ir.Value) -> bool:
    tensor = tensor_of(value)
    return tensor is not None and tensor.rank > 0
