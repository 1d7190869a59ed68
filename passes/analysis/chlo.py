"""Ops of chlo, which JAX writes. XLA makes other ops of them before it asks Shardy, which has no rules for them."""

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

# Each element of the result is a function of the elements in its place.
ELEMENTWISE = frozenset(
    f"chlo.{name}"
    for name in "acos acosh asin asinh atan atanh bessel_i1e conj cosh digamma erf erf_inv erfc is_inf lgamma "
    "next_after polygamma sinh square tan zeta".split()
)


def elementwise_rule(op: ir.Operation) -> ir.Attribute:
    """The sharding rule of all ops that XLA makes of `op`, one of ELEMENTWISE."""
    shape = list(ir.RankedTensorType(op.results[0].type).shape)
    with op.context:
        mapping = sdy.TensorMappingAttr.get([sdy.DimMappingAttr.get([i]) for i in range(len(shape))])
        return sdy.OpShardingRuleAttr.get(shape, [mapping] * len(op.operands), [mapping] * len(op.results))
