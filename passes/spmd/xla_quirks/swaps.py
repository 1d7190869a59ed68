"""Contractions that XLA computes where their operands are, and all-to-alls to where their results belong.

Where Shardy shards the gradient of a parameter over the axis of the examples, and an operand shards the same dimension
over another axis of that size, XLA's partitioner does not all-gather the operand: each device computes the part for its
columns, and the partial sums are exchanged by an all-to-all.

Target: CPU, TPU, GPU.
Measured with: jaxlib 0.10.2 with libtpu 0.0.42; 0.12.0.1 with libtpu 0.0.50 (CPU and TPU).
Reproducer: test/numeric/test_xla_quirks.py::test_xla_still_does_it.
"""

from collections.abc import Sequence

from jaxlib.mlir import ir

from paropt.passes.sharding.axes import has_part, names_of
from paropt.passes.sharding.meshes import Mesh
from paropt.passes.sharding.op_rules import parse_rule
from paropt.passes.sharding.propagation import Propagated
from paropt.passes.sharding.shardings import Sharding, mesh_behind
from paropt.passes.spmd.producers import Producer
from paropt.passes.support.traversal import module_of

_PRODUCT = "stablehlo.dot_general"


def as_operands_lie(producer: Producer, whole: Sharding, shard: Sharding, propagated: Propagated) -> Sharding | None:
    """The sharding of a contraction that each device computes of the columns that it has; None: `whole`.

    `whole` is how it would lie if operands were gathered, and `shard` how it is to lie when its sum is taken.
    """
    op = producer.op
    mesh = mesh_behind(module_of(op), whole.mesh)
    if op.name != _PRODUCT or mesh is None:
        return None
    rule = parse_rule(propagated.sharding_rule(op))
    shape = ir.RankedTensorType(producer.value.type).shape
    splits = dict(rule.split(propagated.operand_shardings(op)))
    for dimension, factors in enumerate(rule.results[0]):
        axes = splits.get(factors, ())
        free = names_of(axes).isdisjoint(names_of(shard.axes))
        start = whole._replace(dimensions=(*whole.dimensions[:dimension], axes, *whole.dimensions[dimension + 1 :]))
        if free and is_swap(mesh, shape, start, shard, dimension):
            return start
    return None


def is_swap(mesh: Mesh, shape: Sequence[int], start: Sharding, end: Sharding, dimension: int) -> bool:
    """Whether a value that lies as `start` lies as `end` when its sum is taken over the axis that then splits
    `dimension`, and devices have exchanged their parts along that axis and the one that split it before.
    """
    before, after = start.dimensions[dimension], end.dimensions[dimension]
    if len(before) != 1 or len(after) != 1 or has_part((*before, *after)):
        return False
    summed = after[0] in start.unreduced and after[0] not in end.unreduced
    sizes = dict(mesh.axes)
    count, others = (sizes[name] for axes in (before, after) for name in names_of(axes))
    return summed and count == others and not shape[dimension] % count
