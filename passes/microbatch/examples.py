"""How one op treats the examples of a batch: one by one, summed, or across each other.

Shardy's sharding rules say which dimensions belong together. The batch is split like over devices: an op that treats
each part on its own may treat one part after the other.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from paropt.passes.ir.op_table import is_deterministic, kind_of
from paropt.passes.ir.types import is_number, tensor_of
from paropt.passes.sharding.collectives import IDEMPOTENT, combiner_of
from paropt.passes.sharding.op_rules import Factors, ShardingRule, parse_rule, plain_rule
from paropt.passes.sharding.propagation import Propagated
from paropt.passes.spmd.producers import PRODUCERS
from paropt.passes.support.remarks import require


class Batch(NamedTuple):
    """Which dimension of a value counts examples; each example has `inner` elements of it, in a row."""

    dimension: int
    inner: int = 1


class Treatment(NamedTuple):
    """The behaviour of an op on one part of the examples."""

    operands: dict[int, Batch]  # the operands that have to carry the batch
    results: tuple[Batch, ...]  # empty when the op reduces over the examples


def _numbers(*names: str) -> Callable[[ir.Operation], list[int]]:
    return lambda op: [ir.IntegerAttr(op.attributes[name]).value for name in names]


# Ops that Shardy has no rules for: each element is computed from those in its place, except along these dimensions.
# Devices that exchange elements are all at the same part, of their own examples.
_PLAIN: dict[str, Callable[[ir.Operation], list[int]]] = {
    "sdy.sharding_constraint": lambda op: [],
    "stablehlo.all_reduce": lambda op: [],
    "stablehlo.collective_permute": lambda op: [],
    "stablehlo.all_gather": _numbers("all_gather_dim"),
    "stablehlo.reduce_scatter": _numbers("scatter_dimension"),
    "stablehlo.all_to_all": _numbers("split_dimension", "concat_dimension"),
}
# Ops that run another program, or draw numbers, are out of scope here.
_NOT_TREATED = ("control", "source", "barrier", "random")
# Ops that write somewhere into their first operand: which operand is written. Elsewhere they count from its start.
_WRITTEN = {"stablehlo.dynamic_update_slice": 1, "stablehlo.scatter": 2}


class Examples:
    """The ops of `module`, for a batch of `size` examples."""

    def __init__(self, module: ir.Operation, size: int) -> None:
        self.size = size
        self._rules = Propagated(module, rules_only=True)

    def of_operands(self, op: ir.Operation, carried: Mapping[int, Batch]) -> Treatment:
        """When these operands carry the batch. Raises Declined when the examples can't be told apart."""
        rule = self._rule(op)
        place, batch = next(iter(carried.items()))
        factor = self._factor(rule, rule.operands[place][batch.dimension], op)
        treatment = self._treatment(op, rule, factor)
        alike = all(treatment.operands.get(i) == batch for i, batch in carried.items())  # all along one factor
        require(alike, f"{op.name} combines each example with all others", op)
        return treatment

    def of_result(self, op: ir.Operation, wanted: Batch) -> Treatment:
        """When the one result has to carry the batch. Raises Declined."""
        rule = self._rule(op)
        return self._treatment(op, rule, self._factor(rule, rule.results[0][wanted.dimension], op))

    def _rule(self, op: ir.Operation) -> ShardingRule:
        hint = " (inline-calls replaces it)" if op.name == "func.call" else ""
        require(_is_treated(op), f"{op.name} is not known to treat the examples one by one{hint}", op)
        shapes = [tensor_of(value) for value in (*op.operands, *op.results)]
        require(None not in shapes, f"{op.name} has a dynamic shape", op)
        if op.name in _PLAIN:
            alike = len({tuple(ir.RankedTensorType(value.type).shape) for value in op.operands}) == 1
            require(alike, f"{op.name} has operands of several shapes", op)
            return plain_rule(op, _PLAIN[op.name](op))
        text = self._rules.sharding_rule(op) if len(op.results) else ""
        require(bool(text), f"Shardy has no sharding rule for {op.name}", op)
        return parse_rule(text)

    def _factor(self, rule: ShardingRule, dimension: Factors, op: ir.Operation) -> str:
        """The factor of the dimension that counts examples: its most major one."""
        factor = _major(rule, dimension)
        whole = factor is not None and rule.sizes[factor] % self.size == 0
        require(whole, f"{op.name} splits the dimension of the examples into several", op)
        assert factor is not None
        return factor

    def _treatment(self, op: ir.Operation, rule: ShardingRule, factor: str) -> Treatment:
        written = _WRITTEN.get(op.name)  # asked first: jaxlib 0.12 has a rule that ties such a factor
        counts = written is not None and not any(factor in dimension for dimension in rule.operands[written])
        require(not counts, f"{op.name} writes at places that count all examples", op)
        require(factor not in rule.tied, f"{op.name} works across the examples", op)
        operands = {i: at for i, dims in enumerate(rule.operands) if (at := self._place(rule, dims, factor, op))}
        results = [self._place(rule, dims, factor, op) for dims in rule.results]
        if op.name in _CHECKED:
            _CHECKED[op.name](op, operands)
        if factor in rule.reduced:
            if is_extreme(op):
                return Treatment(operands, ())
            require(op.name in PRODUCERS, f"{op.name} works across the examples", op)
            PRODUCERS[op.name].require(op)
            numbers = is_number(ir.RankedTensorType(op.results[0].type).element_type)
            require(numbers, f"{op.name} of truth values is no sum", op)
            return Treatment(operands, ())
        carried = tuple(batch for batch in results if batch is not None)
        require(len(carried) == len(results), f"{op.name} has a result without the dimension of the examples", op)
        return Treatment(operands, carried)

    def _place(self, rule: ShardingRule, dims: tuple[Factors, ...], factor: str, op: ir.Operation) -> Batch | None:
        """Where a value with these dimensions has the factor; None where it lacks it."""
        having = [i for i, dim in enumerate(dims) if factor in dim]
        if not having:
            return None
        (dimension,) = having
        is_major = _major(rule, dims[dimension]) == factor
        require(is_major, f"{op.name} puts another dimension before that of the examples", op)
        length = 1
        for each in dims[dimension]:
            length *= rule.sizes[each]
        return Batch(dimension, length // self.size)


def _is_treated(op: ir.Operation) -> bool:
    """Whether it is known how `op` treats examples, if Shardy or `_PLAIN` has a rule for it."""
    return op.name in _PLAIN or (is_deterministic(op) and kind_of(op) not in _NOT_TREATED)


def is_extreme(op: ir.Operation) -> bool:
    """Whether `op` finds the largest or smallest of many, or whether any or all are true."""
    return op.name == "stablehlo.reduce" and len(op.operands) == 2 and combiner_of(op) in IDEMPOTENT


def _require_unpadded(op: ir.Operation, operands: Mapping[int, Batch]) -> None:
    """Shardy's rule sees the sizes only: one more element before and one less behind is no change to it."""
    amounts = (op.attributes[name] for name in ("edge_padding_low", "edge_padding_high", "interior_padding"))
    is_kept = not any(ir.DenseI64ArrayAttr(amount)[operands[0].dimension] for amount in amounts)
    require(is_kept, "stablehlo.pad works across the examples", op)


def _require_no_group(op: ir.Operation, operands: Mapping[int, Batch]) -> None:
    """Shardy's rule may take a group of channels for a factor; their number is an attribute, which counts examples."""
    numbers = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    groups = {
        numbers.input_batch_dimension: op.attributes["batch_group_count"],
        numbers.input_feature_dimension: op.attributes["feature_group_count"],
    }
    group = groups.get(operands[0].dimension) if 0 in operands else None
    is_one = group is not None and ir.IntegerAttr(group).value == 1
    require(is_one, "stablehlo.convolution has examples as groups of channels, filters, or places in an image", op)


# Conditions beside the rule.
_CHECKED: dict[str, Callable[[ir.Operation, Mapping[int, Batch]], None]] = {
    "stablehlo.pad": _require_unpadded,
    "stablehlo.convolution": _require_no_group,
}


def _major(rule: ShardingRule, dimension: Factors) -> str | None:
    return next((factor for factor in dimension if rule.sizes[factor] > 1), None)
