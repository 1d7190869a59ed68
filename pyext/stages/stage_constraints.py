"""Sharding constraints of the step, in the programs of its stages: over the axes that a stage's devices have.

A stage has no `stage` axis, and a mesh of its own for each place. A constraint never changes values, so its other axes
are left out.

Tests: test/numeric/test_pipeline_framework_steps.py.
"""

from collections.abc import Mapping

from jaxlib.mlir import ir

from paropt.passes.ir.constraints import CONSTRAINT
from paropt.passes.sharding.axes import whole_axes
from paropt.passes.sharding.shardings import open_sharding, read_sharding
from paropt.passes.support.traversal import ops_of


def constrain_within(module: ir.Operation, axes: Mapping[str, int]) -> None:
    """Has the constraints of `module` name a mesh of these `axes` and sizes; erases those that say nothing about it."""
    sizes = ", ".join(f'"{name}"={size}' for name, size in axes.items())
    for op in ops_of(module, CONSTRAINT):
        given = read_sharding(op.attributes["sharding"]).dimensions
        kept = [tuple(axis for axis in dimension if axis in whole_axes(axes)) for dimension in given]
        if any(kept):
            with op.context:
                op.attributes["sharding"] = open_sharding(f"mesh<[{sizes}]>", kept)
            continue
        op.results[0].replace_all_uses_with(op.operands[0])
        op.erase()
