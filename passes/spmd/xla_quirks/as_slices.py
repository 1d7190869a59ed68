"""Lookups and updates at one index, and pads that cut, as slices, through which XLA tracks unreduced values.

XLA:TPU and XLA:GPU make slices of them before they partition the program, and reduce the operands and results of these
slices.

Target: TPU, GPU.
Measured with: jaxlib 0.10.2 with libtpu 0.0.42; 0.12.0.1 with libtpu 0.0.50 (TPU, which refuses the program).
Reproducer: test/numeric/test_xla_quirks.py::test_xla_still_does_it.

Tests: test/passes/annotate-unreduced-noted.mlir, test/numeric/test_unreduced_propagation.py.
"""

from collections.abc import Sequence
from math import prod

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from paropt.passes.ir.induction_variable import constant, create
from paropt.passes.sharding.axes import Axes
from paropt.passes.sharding.collectives import combiner_of
from paropt.passes.sharding.explicit_ops import constrained
from paropt.passes.sharding.shardings import closed_sharding, read_sharding

_EDGES = ("edge_padding_low", "edge_padding_high", "interior_padding")
_GATHER, _SCATTER, _PAD = "stablehlo.gather", "stablehlo.scatter", "stablehlo.pad"


def has_slices(op: ir.Operation) -> bool:
    """Whether `op` reads, or writes, one window of its first operand, or cuts an edge off."""
    if op.name == _PAD:
        return any(edge < 0 for name in _EDGES[:2] for edge in _listed(op, name))
    if op.name not in (_GATHER, _SCATTER):
        return False
    vector = _numbers(op).index_vector_dim
    return prod(size for i, size in enumerate(_shape(op.operands[1])) if i != vector) == 1


def write_as_slices(op: ir.Operation) -> None:
    """Replaces `op`, which has slices, and of which a constraint says that it is unreduced.

    Nothing is written where a part of the window is outside of the array, as XLA has it.
    """
    (use,) = op.results[0].uses
    sharding = use.owner.operation.attributes["sharding"]
    write = {_GATHER: _gathered, _SCATTER: _scattered, _PAD: _padded}[op.name]
    with op.context, ir.InsertionPoint(op), op.location:
        made = write(op, sharding)
    op.results[0].replace_all_uses_with(made)
    op.erase()


def _gathered(op: ir.Operation, sharding: ir.Attribute) -> ir.Value:
    numbers = stablehlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    array, indices = op.operands
    sizes = _listed(op, "slice_sizes")
    left_out = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    lies = read_sharding(sharding)
    kept = iter([lies.dimensions[dimension] for dimension in numbers.offset_dims])
    dimensions: list[Axes] = [() if dimension in left_out else next(kept) for dimension in range(len(sizes))]
    starts = _starts(array, _components(indices, numbers.start_index_map))
    window = _window(array, starts, sizes, closed_sharding(lies.mesh, dimensions, lies.unreduced))
    return create("stablehlo.reshape", op.results[0].type, window)


def _scattered(op: ir.Operation, sharding: ir.Attribute) -> ir.Value:
    numbers = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    array, indices, update = op.operands
    left_out = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
    kept = iter([_shape(update)[dimension] for dimension in numbers.update_window_dims])
    sizes = [1 if dimension in left_out else next(kept) for dimension in range(len(_shape(array)))]
    components = _components(indices, numbers.scattered_dims_to_operand_dims)
    starts = _starts(array, components)
    old = _window(array, starts, sizes, sharding)
    new = constrained(create("stablehlo.reshape", old.type, update), sharding)
    if (combiner := combiner_of(op)) is not None:
        new = constrained(create(combiner, old.type, old, new), sharding)
    for dimension, start in components.items():
        for bound, direction in ((0, "GE"), (_shape(array)[dimension] - sizes[dimension], "LE")):
            inside = _compared(start, bound, direction)
            new = constrained(create("stablehlo.select", old.type, inside, new, old), sharding)
    return create("stablehlo.dynamic_update_slice", array.type, array, new, *starts)


def _padded(op: ir.Operation, sharding: ir.Attribute) -> ir.Value:
    """Pads before it cuts: the edges may lose padding between elements."""
    array, filling = op.operands
    low, high, interior = (_listed(op, name) for name in _EDGES)
    starts, ends = ([max(-edge, 0) for edge in edges] for edges in (low, high))
    added = [[max(edge, 0) for edge in edges] for edges in (low, high)]
    sizes = [sum(sides) for sides in zip(_shape(op.results[0]), starts, ends, strict=True)]
    edges = dict(zip(_EDGES, map(ir.DenseI64ArrayAttr.get, (*added, interior)), strict=True))
    whole = constrained(
        create(_PAD, ir.RankedTensorType.get(sizes, _element(array)), array, filling, **edges), sharding
    )
    limits = [size - end for size, end in zip(sizes, ends, strict=True)]
    return _cut(whole, starts, limits)


def _listed(op: ir.Operation, name: str) -> list[int]:
    return list(ir.DenseI64ArrayAttr(op.attributes[name]))


def _cut(value: ir.Value, starts: Sequence[int], limits: Sequence[int]) -> ir.Value:
    kind = ir.RankedTensorType.get([b - a for a, b in zip(starts, limits, strict=True)], _element(value))
    first, last, step = map(ir.DenseI64ArrayAttr.get, (starts, limits, [1] * len(starts)))
    return create("stablehlo.slice", kind, value, start_indices=first, limit_indices=last, strides=step)


def _window(array: ir.Value, starts: Sequence[ir.Value], sizes: Sequence[int], sharding: ir.Attribute) -> ir.Value:
    window = ir.RankedTensorType.get(sizes, _element(array))
    made = create("stablehlo.dynamic_slice", window, array, *starts, slice_sizes=ir.DenseI64ArrayAttr.get(sizes))
    return constrained(made, sharding)


def _components(indices: ir.Value, dimensions: Sequence[int]) -> dict[int, ir.Value]:
    """The index along each of `dimensions`, in which `indices` has them, as a scalar."""
    row = create("stablehlo.reshape", ir.RankedTensorType.get([len(dimensions)], _element(indices)), indices)
    return {dimension: _component(row, number) for number, dimension in enumerate(dimensions)}


def _component(row: ir.Value, number: int) -> ir.Value:
    cut = _cut(row, [number], [number + 1])
    return create("stablehlo.convert", _scalar(), create("stablehlo.reshape", _scalar(_element(row)), cut))


def _starts(array: ir.Value, components: dict[int, ir.Value]) -> list[ir.Value]:
    zero = _number(0)
    return [components.get(dimension, zero) for dimension in range(len(_shape(array)))]


def _compared(index: ir.Value, bound: int, direction: str) -> ir.Value:
    how = ir.Attribute.parse(f"#stablehlo<comparison_direction {direction}>")
    bit = _scalar(ir.IntegerType.get_signless(1))
    return create("stablehlo.compare", bit, index, _number(bound), comparison_direction=how)


def _number(number: int) -> ir.Value:
    kind = _scalar()
    return constant(kind, ir.IntegerAttr.get(kind.element_type, number))


def _scalar(element: ir.Type | None = None) -> ir.RankedTensorType:
    """Of type `element`; by default one that holds every index."""
    return ir.RankedTensorType.get([], element or ir.IntegerType.get_signless(64))


def _numbers(op: ir.Operation) -> stablehlo.GatherDimensionNumbers | stablehlo.ScatterDimensionNumbers:
    if op.name == _GATHER:
        return stablehlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    return stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])


def _shape(value: ir.Value) -> list[int]:
    return ir.RankedTensorType(value.type).shape


def _element(value: ir.Value) -> ir.Type:
    return ir.RankedTensorType(value.type).element_type
