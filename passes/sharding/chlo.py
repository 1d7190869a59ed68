"""Ops of chlo, which JAX writes. XLA lowers them before it asks Shardy, which has no rules for them."""

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from paropt.passes.ir.op_table import ops_with
from paropt.passes.ir.types import tensor_of
from paropt.passes.support.traversal import ops_of

RULE = "sdy.sharding_rule"

# An element of a result is a function of the elements in its place, except along these dimensions.
_APART = {"chlo.top_k": (-1,)}


def add_chlo_rules(module: ir.Operation) -> None:
    """Tells Shardy about the ops of chlo in `module`, so that it does not stop at them where XLA does not."""
    for op in ops_of(module, *ops_with("no-rule")):
        if tensor_of(op.operands[0]) is not None:  # a rule has sizes
            op.attributes[RULE] = _rule(op)


def _rule(op: ir.Operation) -> ir.Attribute:
    """The sharding rule of XLA's expansion of `op`, one of CHLO's."""
    shape = list(ir.RankedTensorType(op.operands[0].type).shape)
    apart = [dimension % len(shape) for dimension in _APART.get(op.name, ())]
    with op.context:
        mapping = sdy.TensorMappingAttr.get([sdy.DimMappingAttr.get([i]) for i in range(len(shape))])
        operands, results = [mapping] * len(op.operands), [mapping] * len(op.results)
        return sdy.OpShardingRuleAttr.get(shape, operands, results, need_replication_factors=apart)
