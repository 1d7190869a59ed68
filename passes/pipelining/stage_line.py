"""The devices along one axis of the mesh, as the stages of a pipeline, and the values that they send each other.

Tests: test/passes/pipeline-layer-loop.mlir, test/numeric/test_layer_pipeline.py.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from paropt.passes.ir.induction_variable import constant, create
from paropt.passes.ir.types import is_float, is_number
from paropt.passes.sharding.axes import Axis, spelled
from paropt.passes.sharding.channels import NewChannels
from paropt.passes.sharding.collectives import ADD, ALL_REDUCE
from paropt.passes.sharding.device_dimension import reshaped
from paropt.passes.sharding.explicit_ops import constrained
from paropt.passes.sharding.meshes import Mesh
from paropt.passes.sharding.shardings import open_sharding


class Line(NamedTuple):
    """The devices along an axis. Ops are made at the insertion point."""

    module: ir.Operation
    mesh_name: str  # `@mesh`
    mesh: Mesh
    axis: str
    chunks: int  # of layers, on each device: micro-batches go round, once for each

    @property
    def stages(self) -> int:
        return dict(self.mesh.axes)[self.axis]

    @property
    def manual_axes(self) -> ir.Attribute:
        return ir.Attribute.parse(f"#sdy<manual_axes{spelled([Axis(self.axis)])}>")

    def sharding(self, rank: int, dimension: int | None = None) -> ir.Attribute:
        """Sharded over the axis in that dimension only; other axes are left to Shardy."""
        return open_sharding(self.mesh_name, [(Axis(self.axis),) if d == dimension else () for d in range(rank)])

    def numbers(self) -> ir.Value:
        """The number of each stage, to be sharded over the axis."""
        dimension = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)
        return create("stablehlo.iota", _number_type(self.stages), iota_dimension=dimension)

    def entry(self, table: Sequence[int], stage: ir.Value) -> ir.Value:
        """The number that `table` has for a stage."""
        if len(set(table)) == 1:
            kind = ir.RankedTensorType(stage.type)
            return constant(kind, ir.IntegerAttr.get(kind.element_type, table[0]))
        numbers: Any = np.array(table, np.int32)
        kind = _number_type(len(table))
        rows = create("stablehlo.constant", kind, value=ir.DenseElementsAttr.get(numbers, type=kind.element_type))
        sizes = ir.DenseI64ArrayAttr.get([1])
        return reshaped(create("stablehlo.dynamic_slice", _number_type(1), rows, stage, slice_sizes=sizes), [])

    def gathered(self, rows: ir.Value) -> ir.Value:
        """The rows with those of all layers, in dimension 1, on each device."""
        rank = ir.RankedTensorType(rows.type).rank
        return constrained(rows, open_sharding(self.mesh_name, [()] * rank, closed=[1]))

    def handed_on(self, value: ir.Value, *, backward: bool) -> ir.Value:
        """The `value` of the stage before; of the stage behind, in a backward pipeline.

        The first stage gets zeros, or in a circular pipeline the value of the last one.
        """
        order = range(self.stages)[::-1] if backward else range(self.stages)
        return self.sent(value, pairwise([*order, order[0]] if self.chunks > 1 else order))

    def sent(self, value: ir.Value, pairs: Iterable[tuple[int, int]]) -> ir.Value:
        """The `value` of another stage: of the source, on the target of each pair."""
        moves, groups = list(pairs), self._groups()
        pairs = [(group[source], group[target]) for group in groups for source, target in moves]
        return create(
            "stablehlo.collective_permute",
            value.type,
            value,
            source_target_pairs=_table(pairs),
            channel_handle=self._channel(),
        )

    def from_last(self, value: ir.Value, is_last: ir.Value) -> ir.Value:
        """The `value` of the last stage, for all: the others add nothing to it."""
        tensor = ir.RankedTensorType(value.type)
        masked = create("stablehlo.select", tensor, is_last, value, neutral_element(tensor))
        attributes = {
            "replica_groups": _table(self._groups()),
            "channel_handle": self._channel(),
            "use_global_device_ids": ir.UnitAttr.get(),
        }
        op = ir.Operation.create(ALL_REDUCE, results=[tensor], operands=[masked], attributes=attributes, regions=1)
        scalar = ir.RankedTensorType.get([], tensor.element_type)
        block = op.regions[0].blocks.append(scalar, scalar)
        with ir.InsertionPoint(block):
            ir.Operation.create("stablehlo.return", operands=[create(ADD, scalar, *block.arguments)])
        return op.results[0]

    def _groups(self) -> Sequence[Sequence[int]]:
        """The devices that differ only in the axis, in its order."""
        groups = self.mesh.groups([self.axis])
        assert groups is not None, "the pass asks first"
        return groups

    def _channel(self) -> ir.Attribute:
        return stablehlo.ChannelHandle.get(NewChannels(self.module).next(), 1, self.module.context)


def can_mask(element: ir.Type) -> bool:
    """Whether `neutral_element` has a number that an addition leaves all others as they are."""
    return is_number(element) and not isinstance(element, ir.ComplexType)


def neutral_element(tensor: ir.RankedTensorType) -> ir.Value:
    """Of a sum: minus zero for floats, because zero added to minus zero is zero."""
    element = tensor.element_type
    number = ir.FloatAttr.get(element, -0.0) if is_float(element) else ir.IntegerAttr.get(element, 0)
    return constant(tensor, number)


def _number_type(count: int) -> ir.RankedTensorType:
    return ir.RankedTensorType.get([count], ir.IntegerType.get_signless(32))


def _table(ids: Sequence[Sequence[int]]) -> ir.Attribute:
    rows: Any = np.array(ids, np.int64)
    kind = ir.RankedTensorType.get(list(rows.shape), ir.IntegerType.get_signless(64))
    return ir.DenseElementsAttr.get(rows, type=kind)
