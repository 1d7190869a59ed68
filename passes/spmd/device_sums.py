"""Partial sums as arrays with a first dimension that counts the devices which hold an addend each.

    %g = dot_general %x, %y                     adds up 32 examples, sharded over "data"

becomes

    %a = reshape %x; %b = reshape %y            2 x 16 examples, the first dimension sharded over "data"
    %p = dot_general %a, %b                     a batch dimension of 2: each device its own sum
    %g = reduce %p across dimensions = [0]      the sum over devices, wherever that is wanted

Shardy does not let a value be unreduced in a manual computation that leaves other axes to the partitioner. There such
an array stands for it: it takes as many bytes on each device.

Tests: test/passes/separate-reductions-partly-manual.mlir, test/numeric/test_partial_manual_axes.py.
"""

from collections.abc import Callable, Sequence

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy, stablehlo

from paropt.passes.dataflow.unreduced import Unreduced
from paropt.passes.ir.constants import is_zero
from paropt.passes.ir.constraints import CONSTRAINT
from paropt.passes.ir.induction_variable import constant, create
from paropt.passes.ir.loops import WHILE, Loop
from paropt.passes.ir.op_table import is_elementwise
from paropt.passes.rewrite.residual_split import neutral
from paropt.passes.sharding.annotations import OPERANDS, SHARED
from paropt.passes.sharding.axes import Axes, has_part
from paropt.passes.sharding.collectives import ADD
from paropt.passes.sharding.explicit_ops import constrained
from paropt.passes.sharding.shardings import Sharding, open_sharding, parts_in, rank_of
from paropt.passes.spmd.producers import Producer
from paropt.passes.support.remarks import require
from paropt.passes.support.traversal import module_of, op_of

_DOT, _REDUCE, _RESHAPE = "stablehlo.dot_general", "stablehlo.reduce", "stablehlo.reshape"
_BROADCAST, _SLICE, _UPDATE = (
    "stablehlo.broadcast_in_dim",
    "stablehlo.dynamic_slice",
    "stablehlo.dynamic_update_slice",
)


class Devices:
    """The first dimension: the devices along `axes` of `mesh`."""

    def __init__(self, module: ir.Operation, mesh: str, axes: Axes) -> None:
        self.mesh = mesh
        self.axes = axes
        self.count = parts_in(module, Sharding(mesh, (axes,)))

    def type(self, type_: ir.Type) -> ir.RankedTensorType:
        tensor = ir.RankedTensorType(type_)
        loc = ir.Location.unknown(tensor.context)
        return ir.RankedTensorType.get([self.count, *tensor.shape], tensor.element_type, loc=loc)

    def sharding(self, rank: int) -> ir.Attribute:
        """Of an array of that rank with the dimension: other axes are Shardy's business."""
        return open_sharding(self.mesh, (self.axes, *((),) * (rank - 1)), closed=(0,))

    def placed(self, value: ir.Value) -> ir.Value:
        """`value`, with the dimension, constrained at the insertion point."""
        return constrained(value, self.sharding(rank_of(value)))

    def extended(self, sharding: ir.Attribute) -> ir.Attribute:
        """A sharding of a value, for the array that stands for it."""
        said = sdy.TensorShardingAttr(sharding)
        first = sdy.TensorShardingAttr(self.sharding(1)).dimension_shardings
        return sdy.TensorShardingAttr.get(said.mesh_or_ref, [*first, *said.dimension_shardings])


def require_by_device(producer: Producer) -> None:
    """Declines a producer that `place` has no form of."""
    op = producer.op
    require(op.name in _MADE, f"no {op.name} with a dimension for devices is known", op)
    cut = [[i for i, axes in enumerate(split) if axes] for split in producer.operands]
    one = all(len(dimensions) == 1 for dimensions in cut[: 1 if op.name == _REDUCE else 2])
    require(one, "it reduces over several sharded dimensions in a manual computation", op)
    require(not has_part(producer.axes), "it reduces over a part of an axis in a manual computation", op)
    count = Devices(module_of(op), producer.mesh, producer.axes).count
    sizes = [ir.RankedTensorType(op.operands[i].type).shape[d] for i, dims in enumerate(cut) for d in dims]
    require(all(size % count == 0 for size in sizes), "it is sharded into unequal parts", op)


def require_liftable(found: Unreduced) -> None:
    """Declines where an op on the way has no known form with a dimension for devices."""
    for value in found.addends:
        op = op_of(value)
        known = op.name in _LIFTS or is_elementwise(op)
        require(known and len(op.results) == 1, f"no {op.name} with a dimension for devices is known", op)
    for value in found.branches:
        require(False, f"no {op_of(value).name} with a dimension for devices is known", op_of(value))


def place(source: ir.Operation, producer: Producer, devices: Devices) -> None:
    """Has `source`, which says that the result of `producer` is unreduced, read each device's addend instead."""
    op = producer.op
    cut = [next((i for i, axes in enumerate(split) if axes), None) for split in producer.operands]
    with op.context, ir.InsertionPoint(op), op.location:
        operands = [
            operand if dimension is None else _parted(operand, dimension, devices)
            for operand, dimension in zip(op.operands, cut, strict=True)
        ]
        result = devices.type(op.results[0].type)
        source.operands[0] = _MADE[op.name](op, operands, cut, result)
    for name in (OPERANDS, SHARED):
        if name in source.attributes:
            del source.attributes[name]
    source.attributes["sharding"] = devices.sharding(rank_of(source.operands[0]))
    source.results[0].set_type(result)
    op.erase()


def _parted(value: ir.Value, dimension: int, devices: Devices) -> ir.Value:
    """`value` with the dimension cut in parts, one for each device: before it, a dimension for these."""
    tensor = ir.RankedTensorType(value.type)
    shape = list(tensor.shape)
    shape[dimension : dimension + 1] = [devices.count, shape[dimension] // devices.count]
    made = create(_RESHAPE, ir.RankedTensorType.get(shape, tensor.element_type), value)
    split = tuple(devices.axes if i == dimension else () for i in range(len(shape)))
    return constrained(made, open_sharding(devices.mesh, split, closed=(dimension, dimension + 1)))


def _dot(op: ir.Operation, operands: list[ir.Value], cut: Sequence[int | None], result: ir.Type) -> ir.Value:
    numbers = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    left, right = cut
    assert left is not None and right is not None, "its operands shard what it adds up alike"
    with_devices = stablehlo.DotDimensionNumbers.get(
        [left, *_behind(numbers.lhs_batching_dimensions, left)],
        [right, *_behind(numbers.rhs_batching_dimensions, right)],
        _behind(numbers.lhs_contracting_dimensions, left),
        _behind(numbers.rhs_contracting_dimensions, right),
    )
    others = {name: op.attributes[name] for name in ("precision_config", "algorithm") if name in op.attributes}
    return create(_DOT, result, *operands, dot_dimension_numbers=with_devices, **others)


def _behind(dimensions: Sequence[int], new: int) -> list[int]:
    """These dimensions after another one is inserted at `new`, before the one that was there."""
    return [dimension + (dimension >= new) for dimension in dimensions]


def _reduce(op: ir.Operation, operands: list[ir.Value], cut: Sequence[int | None], result: ir.Type) -> ir.Value:
    dimension = cut[0]
    assert dimension is not None
    reduced = list(ir.DenseI64ArrayAttr(op.attributes["dimensions"]))
    new = op.clone()
    for i, operand in enumerate(operands):
        new.operands[i] = operand
    new.attributes["dimensions"] = ir.DenseI64ArrayAttr.get(_behind(reduced, dimension))
    kept = [i for i in range(rank_of(op.operands[0])) if i not in reduced]
    place = sum(i < dimension for i in kept)  # of the new dimension, in the result
    tensor = ir.RankedTensorType(op.results[0].type)
    count = ir.RankedTensorType(result).shape[0]
    shape = list(tensor.shape)
    shape.insert(place, count)
    new.results[0].set_type(ir.RankedTensorType.get(shape, tensor.element_type))
    if not place:
        return new.results[0]
    order = [place, *(i for i in range(len(shape)) if i != place)]
    return create("stablehlo.transpose", result, new.results[0], permutation=ir.DenseI64ArrayAttr.get(order))


_MADE: dict[str, Callable[[ir.Operation, list[ir.Value], Sequence[int | None], ir.Type], ir.Value]] = {
    _DOT: _dot,
    _REDUCE: _reduce,
}


def lift(found: Unreduced, devices: Devices) -> None:
    """Gives all values of `found` the dimension, but for its sources, which have it."""
    for value in list(found.values):  # some of them are remade
        if isinstance(value.owner, ir.Block):
            value.set_type(devices.type(value.type))
        elif (op := op_of(value)).name == WHILE:
            number = ir.OpResult(value).result_number
            Loop(op).condition.arguments[number].set_type(devices.type(value.type))
            value.set_type(devices.type(value.type))
        elif value in found.addends:
            _lift(op, found, value, devices)
    for result, use in found.entries():
        if use.value not in found.values:
            with ir.InsertionPoint(use.op), use.op.location:
                use.op.operands[use.position] = devices.placed(neutral(result.type))


def _lift(op: ir.Operation, found: Unreduced, value: ir.Value, devices: Devices) -> None:
    with op.context, ir.InsertionPoint(op), op.location:
        for i, operand in enumerate(op.operands):
            if operand in found.values:
                continue
            if i in found.addends[value]:
                assert is_zero(operand), "it is proven"
                op.operands[i] = devices.placed(neutral(devices.type(operand.type)))
            elif is_elementwise(op) and not _is_one_predicate(op, i):
                op.operands[i] = _repeated(operand, devices)
        new = (op if is_elementwise(op) else _LIFTS[op.name](op, devices)).results[0]
    if new == value:
        value.set_type(devices.type(value.type))
        return
    found.values[new] = found.values.pop(value)
    value.replace_all_uses_with(new)
    op.erase()


def _is_one_predicate(op: ir.Operation, position: int) -> bool:
    """Whether this operand of `op` is the predicate for all elements of a select, in whatever shape these are."""
    return op.name == "stablehlo.select" and position == 0 and not rank_of(op.operands[position])


def _repeated(value: ir.Value, devices: Devices) -> ir.Value:
    """A factor, or predicates, for each device."""
    dimensions = ir.DenseI64ArrayAttr.get(list(range(1, rank_of(value) + 1)))
    return create(_BROADCAST, devices.type(value.type), value, broadcast_dimensions=dimensions)


def _lift_constraint(op: ir.Operation, devices: Devices) -> ir.Operation:
    op.attributes["sharding"] = devices.extended(op.attributes["sharding"])
    return op


def _lift_transpose(op: ir.Operation, _: Devices) -> ir.Operation:
    order = list(ir.DenseI64ArrayAttr(op.attributes["permutation"]))
    op.attributes["permutation"] = ir.DenseI64ArrayAttr.get([0, *(i + 1 for i in order)])
    return op


def _lift_broadcast(op: ir.Operation, _: Devices) -> ir.Operation:
    dimensions = list(ir.DenseI64ArrayAttr(op.attributes["broadcast_dimensions"]))
    op.attributes["broadcast_dimensions"] = ir.DenseI64ArrayAttr.get([0, *(i + 1 for i in dimensions)])
    return op


def _lift_reduce(op: ir.Operation, _: Devices) -> ir.Operation:
    dimensions = list(ir.DenseI64ArrayAttr(op.attributes["dimensions"]))
    op.attributes["dimensions"] = ir.DenseI64ArrayAttr.get([i + 1 for i in dimensions])
    return op


def _lift_update(op: ir.Operation, devices: Devices) -> ir.Operation:
    """Writes the addends of all devices: where the first dimension starts is one more operand."""
    stack, part, *starts = op.operands
    return op_of(create(_UPDATE, devices.type(op.results[0].type), stack, part, *_all_devices(starts)))


def _lift_slice(op: ir.Operation, devices: Devices) -> ir.Operation:
    stack, *starts = op.operands
    sizes = ir.DenseI64ArrayAttr.get([devices.count, *ir.DenseI64ArrayAttr(op.attributes["slice_sizes"])])
    return op_of(create(_SLICE, devices.type(op.results[0].type), stack, *_all_devices(starts), slice_sizes=sizes))


def _all_devices(starts: Sequence[ir.Value]) -> list[ir.Value]:
    """Where a part of an array starts that has the first dimension, too."""
    number = ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))
    kind = ir.RankedTensorType(starts[0].type) if starts else number
    return [constant(kind, ir.IntegerAttr.get(kind.element_type, 0)), *starts]


def _retyped(op: ir.Operation, _: Devices) -> ir.Operation:
    """Its types say all."""
    return op


_LIFTS: dict[str, Callable[[ir.Operation, Devices], ir.Operation]] = {
    CONSTRAINT: _lift_constraint,
    "stablehlo.transpose": _lift_transpose,
    _BROADCAST: _lift_broadcast,
    _RESHAPE: _retyped,
    _REDUCE: _lift_reduce,
    _UPDATE: _lift_update,
    _SLICE: _lift_slice,
}


def summed(value: ir.Value, devices: Devices) -> ir.Value:
    """The sum over devices of `value`, made at the insertion point."""
    tensor = ir.RankedTensorType(value.type)
    result = ir.RankedTensorType.get(list(tensor.shape)[1:], tensor.element_type)
    scalar = ir.RankedTensorType.get([], tensor.element_type)
    op = ir.Operation.create(
        _REDUCE,
        results=[result],
        operands=[devices.placed(value), neutral(scalar)],
        attributes={"dimensions": ir.DenseI64ArrayAttr.get([0])},
        regions=1,
    )
    block = op.regions[0].blocks.append(scalar, scalar)
    with ir.InsertionPoint(block):
        ir.Operation.create("stablehlo.return", operands=[create(ADD, scalar, *block.arguments)])
    return op.results[0]


def returned_by_device(manual: ir.Operation, position: int, devices: Devices, location: ir.Location) -> ir.Value:
    """Has result `position` of `manual`, which has the dimension in there, returned with it; the sum, behind it.

    `location` is that of the sum in there: behind outer loops, remarks still tell of it.
    """
    result = manual.results[position]
    shardings = list(sdy.TensorShardingPerValueAttr(manual.attributes["out_shardings"]).shardings)
    shardings[position] = devices.extended(shardings[position])
    manual.attributes["out_shardings"] = sdy.TensorShardingPerValueAttr.get(shardings)
    readers = [(use.owner.operation, use.operand_number) for use in result.uses]
    result.set_type(devices.type(result.type))
    with ir.InsertionPoint.after(manual), location:
        whole = summed(result, devices)
    for reader, number in readers:
        reader.operands[number] = whole
    return whole
