"""A loop lifted out of a manual computation: each stage around it, and each iteration, becomes one of its own.

Between two of them, values of one device are carried with a first dimension that counts devices; arguments of the
manual computation are read where it reads them.

Tests: test/passes/outline-accumulation.mlir, test/numeric/test_accumulate.py.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from paropt.passes.ir.induction_variable import constant
from paropt.passes.ir.loops import Loop
from paropt.passes.outline.clone import Copies, loop_like
from paropt.passes.outline.stages import Body, Stages, body_of, inputs_of
from paropt.passes.sharding.axes import whole_axes
from paropt.passes.sharding.device_dimension import Placed, Result, computed, packed, packed_type, unpacked
from paropt.passes.sharding.meshes import meshes_of
from paropt.passes.sharding.shardings import closed_sharding, open_sharding
from paropt.passes.support.remarks import require
from paropt.passes.support.traversal import captured, module_of, op_of, terminator_of


class Lifting:
    """The rewrite of one manual computation. Raises Declined, before anything is changed, when it is not possible."""

    def __init__(self, manual: ir.Operation) -> None:
        self._manual = manual
        self._axes = manual.attributes["manual_axes"]
        names: Any = sdy.ManualAxesAttr(self._axes)
        self._names = [str(name) for name in names]
        self._mesh, self._sizes = self._found_mesh()
        self._devices = prod(self._sizes.get(name, 1) for name in self._names)
        arguments = manual.regions[0].blocks[0].arguments
        given = sdy.TensorShardingPerValueAttr(manual.attributes["in_shardings"]).shardings
        self._placed = {
            argument: Placed(operand, sharding, False)
            for argument, operand, sharding in zip(arguments, manual.operands, given, strict=True)
        }

    def _found_mesh(self) -> tuple[str, dict[str, int]]:
        meshes = meshes_of(module_of(self._manual))
        for name, mesh in meshes.items():
            if self._names and set(self._names) <= set(mesh.names):
                return f"@{name}", dict(mesh.axes)
        require(False, "the manual computation is over no axes of a mesh of the module", self._manual)
        raise AssertionError

    def _sharding(self, rank: int) -> ir.Attribute:
        """Of a value with a first dimension that counts devices, of this rank without it."""
        axes = whole_axes(self._names)
        is_all = all(name in self._names or size == 1 for name, size in self._sizes.items())
        spelled = closed_sharding if is_all else open_sharding  # the partitioner splits over the others as it likes
        return spelled(self._mesh, (axes, *((),) * rank))

    def row_of(self, slice_: ir.Operation) -> ir.Value | None:
        """The result of `slice_`, if it can be taken outside: all that devices hold in the dimensions that are
        split."""
        source = slice_.operands[0]
        whole = self._whole_shape(source)
        sizes, held = (
            list(ir.DenseI64ArrayAttr(slice_.attributes["slice_sizes"])),
            ir.RankedTensorType(source.type).shape,
        )
        even = all(size == here or here == all_ for size, here, all_ in zip(sizes, held, whole, strict=True))
        return slice_.results[0] if even else None

    def _whole_shape(self, value: ir.Value) -> list[int]:
        """Of all devices, without the dimension that counts them."""
        placed = self._placed.get(value)
        if placed is None or placed.is_packed:
            return list(ir.RankedTensorType(value.type).shape)
        return list(ir.RankedTensorType(placed.value.type).shape)

    def lift(self, loop: Loop, counter: int, stages: Stages) -> Loop:
        """Puts the loop and its stages in place of the manual computation; returns the loop."""
        returned = list(terminator_of(self._manual.regions[0].blocks[0]).operands)
        with ir.InsertionPoint(self._manual), self._manual.location:
            starts = [value for i, value in enumerate(loop.op.operands) if i != counter]
            later = {
                *captured(loop.op),
                *inputs_of(stages.closing),
                *inputs_of(stages.update, returned),
            }
            kept = [result for op in stages.start for result in op.results if result in later]
            made = self._computed(stages.start, [*starts, *kept])
            self._place(kept, made[len(starts) :])
            new = self._loop(loop, counter, made[: len(starts)])
            self._place(loop.op.results, new.op.results)
            if stages.closing:
                read = set(inputs_of(stages.update, returned))
                closed = [result for op in stages.closing for result in op.results if result in read]
                self._place(closed, self._computed(stages.closing, closed))
            given = sdy.TensorShardingPerValueAttr(self._manual.attributes["out_shardings"]).shardings
            results = [Result(each.type, s) for each, s in zip(self._manual.results, given, strict=True)]
            ends = self._computed(stages.update, returned, results)
        for old, value in zip(self._manual.results, ends, strict=True):
            old.replace_all_uses_with(value)
        self._manual.erase()
        return new

    def _place(self, values: Sequence[ir.Value], outside: Sequence[ir.Value]) -> None:
        for value, made in zip(values, outside, strict=True):
            self._placed[value] = Placed(made, self._sharding(ir.RankedTensorType(value.type).rank), True)

    def _computed(
        self, ops: Sequence[ir.Operation], wanted: Sequence[ir.Value], results: Sequence[Result] | None = None
    ) -> list[ir.Value]:
        """A manual computation of `ops` that returns `wanted`, packed unless `results` says how else."""
        read = inputs_of(ops, wanted)
        placed = [self._placed[value] for value in read]
        locals_ = [
            packed_type(value.type, 1) if each.is_packed else value.type
            for value, each in zip(read, placed, strict=True)
        ]

        def make(arguments: list[ir.Value]) -> list[ir.Value]:
            here = [unpacked(a) if each.is_packed else a for a, each in zip(arguments, placed, strict=True)]
            copies = Copies(dict(zip(read, here, strict=True)))
            copies.copy_all(ops)
            found = [copies.of(value) for value in wanted]
            return found if results is not None else [packed(value) for value in found]

        returned = results if results is not None else [self._result(value) for value in wanted]
        return computed(placed, locals_, returned, self._axes, make) if returned else []

    def _result(self, value: ir.Value) -> Result:
        rank = ir.RankedTensorType(value.type).rank
        return Result(packed_type(value.type, self._devices), self._sharding(rank))

    def _loop(self, loop: Loop, counter: int, starts: Sequence[ir.Value]) -> Loop:
        """The loop outside: it carries the counter, and all else packed."""
        new = loop_like(loop, counter, starts)
        with ir.InsertionPoint(new.body):
            self._body(loop, counter, list(new.body.arguments))
        return new

    def _body(self, loop: Loop, counter: int, arguments: list[ir.Value]) -> None:
        parts = body_of(loop, counter, self.row_of)
        count = loop.body.arguments[counter]
        self._place(loop.body.arguments, arguments)
        self._placed[count] = Placed(arguments[counter], closed_sharding(self._mesh, ()), False)
        counting = Copies({count: arguments[counter]})
        self._take(parts, counting)
        following = op_of(loop.next_values.operands[counter])
        counting.copy(following)
        nexts = [value for i, value in enumerate(loop.next_values.operands) if i != counter]
        made = self._computed(parts.trip, nexts)
        made.insert(counter, counting.of(following.results[0]))
        ir.Operation.create("stablehlo.return", operands=made)

    def _take(self, parts: Body, counting: Copies) -> None:
        """Takes the rows of this trip outside, of arrays of all devices."""
        rows = set(parts.taken)
        for op in parts.slices:
            if op.results[0] not in rows:
                counting.copy(op)
                continue
            source, *starts = op.operands
            placed, held = self._placed[source], ir.RankedTensorType(source.type).shape
            first = int(placed.is_packed)
            whole = ir.RankedTensorType(placed.value.type)
            shape = list(whole.shape)
            indices = [counting.of(start) for start in starts]
            zero = _zero_like(indices[0])
            for d, (size, here) in enumerate(
                zip(list(ir.DenseI64ArrayAttr(op.attributes["slice_sizes"])), held, strict=True)
            ):
                if size == here:
                    indices[d] = zero
                else:
                    shape[first + d] = size
            taken = ir.Operation.create(
                op.name,
                results=[ir.RankedTensorType.get(shape, whole.element_type)],
                operands=[placed.value, *[zero] * first, *indices],
                attributes={"slice_sizes": ir.DenseI64ArrayAttr.get(shape)},
            )
            self._placed[op.results[0]] = placed._replace(value=taken.results[0])


def _zero_like(index: ir.Value) -> ir.Value:
    tensor = ir.RankedTensorType(index.type)
    return constant(tensor, ir.IntegerAttr.get(tensor.element_type, 0))
