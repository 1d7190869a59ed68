"""Builders of ops of Shardy's explicit form.

Tests: test/passes/expose-all-reduces.mlir, test/passes/annotate-unreduced.mlir.
"""

from jaxlib.mlir import ir

from paropt.passes.ir.constraints import CONSTRAINT
from paropt.passes.sharding.collectives import GLOBAL_ALL_REDUCE
from paropt.passes.sharding.shardings import open_sharding, read_sharding, unsplit


def all_reduced(value: ir.Value, like: ir.Operation) -> ir.Value:
    """The sum of the devices' addends of `value`, over the axes of `like`; made at the insertion point."""
    mesh = read_sharding(like.attributes["out_sharding"]).mesh
    return all_reduce(value, mesh, like.attributes["reduction_axes"])


def constrained(value: ir.Value, sharding: ir.Attribute) -> ir.Value:
    """`value` with that sharding, made at the insertion point."""
    attributes = {"sharding": sharding}
    return ir.Operation.create(CONSTRAINT, results=[value.type], operands=[value], attributes=attributes).results[0]


def all_reduce(value: ir.Value, mesh: str, axes: ir.Attribute) -> ir.Value:
    attributes = {"reduction_axes": axes, "out_sharding": open_sharding(mesh, unsplit(value, mesh).dimensions)}
    return ir.Operation.create(
        GLOBAL_ALL_REDUCE, results=[value.type], operands=[value], attributes=attributes
    ).results[0]
