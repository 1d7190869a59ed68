"""Sharding constraints: identities that declare a sharding.

Tests: test/passes/annotate-unreduced-constraints.mlir, test/numeric/test_replicated_constraints.py.
"""

from jaxlib.mlir import ir

from paropt.passes.support.traversal import defining_op

CONSTRAINT = "sdy.sharding_constraint"


def unconstrained(value: ir.Value) -> ir.Value:
    """The value that sharding constraints pass on as `value`.

    JAX constrains everything, scalars too, in a manual computation that leaves axes to the partitioner.
    """
    while (op := defining_op(value)) is not None and op.name == CONSTRAINT:
        value = op.operands[0]
    return value
