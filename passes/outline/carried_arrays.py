"""Loop-carried values as arguments and results of programs: arrays of all devices, each fully reduced.

A sum that is not taken yet is carried with a first dimension that counts the devices that hold its addends.

Tests: test/passes/outline-accumulation.mlir, test/numeric/test_accumulate.py.
"""

from math import prod

from jaxlib.mlir import ir

from paropt.passes.ir.constraints import CONSTRAINT
from paropt.passes.ir.induction_variable import constant
from paropt.passes.ir.loops import Loop
from paropt.passes.rewrite.loop_edits import rebuilt, uncarry
from paropt.passes.sharding.axes import has_part
from paropt.passes.sharding.device_dimension import Placed, Result, all_axes, computed, packed, packed_type, unpacked
from paropt.passes.sharding.explicit_ops import constrained
from paropt.passes.sharding.shardings import Sharding, closed_sharding, mesh_behind, read_sharding
from paropt.passes.support.remarks import require
from paropt.passes.support.traversal import defining_op, module_of, op_of


def without_invariants(loop: Loop) -> Loop:
    """The loop without its pass-through values: it reads their init operands."""
    same = [i for i, value in enumerate(loop.next_values.operands) if value == loop.body.arguments[i]]
    if not same:
        return loop
    for i in same:
        start = loop.op.operands[i]
        for value in (loop.condition.arguments[i], loop.body.arguments[i], loop.op.results[i]):
            value.replace_all_uses_with(start)
    kept = [i for i in range(len(loop.op.operands)) if i not in same]
    starts, nexts = [loop.op.operands[i] for i in kept], [loop.next_values.operands[i] for i in kept]
    for i in reversed(same):
        uncarry(loop, i)
    new = rebuilt(loop, starts, nexts)
    for i, result in zip(kept, new.op.results, strict=True):
        loop.op.results[i].replace_all_uses_with(result)
    loop.op.erase()
    return new


class Packing:
    """The form of sums over some axes of a mesh as arrays that are sharded over them."""

    def __init__(self, value: ir.Value, sharding: Sharding, op: ir.Operation) -> None:
        """Raises Declined when the devices do not hold parts of one size. `op` is in the module."""
        mesh = mesh_behind(module_of(op), sharding.mesh)
        assert mesh is not None, "the verifier asks for it"
        sizes = dict(mesh.axes)
        used = [*sharding.axes, *sharding.unreduced]
        require(not has_part(used), "an unreduced value is sharded over a part of a mesh axis")
        cuts = [prod(sizes[axis.name] for axis in axes) for axes in sharding.dimensions]
        self._whole = ir.RankedTensorType(value.type)
        even = all(size % cut == 0 for size, cut in zip(self._whole.shape, cuts, strict=True))
        require(even, "an unreduced value is sharded into unequal parts")
        shape = [size // cut for size, cut in zip(self._whole.shape, cuts, strict=True)]
        self._local = ir.RankedTensorType.get(shape, self._whole.element_type, loc=op.location)
        self._row = ir.RankedTensorType.get([1, *shape], self._whole.element_type, loc=op.location)
        with op.context, op.location:
            devices = prod(sizes[axis.name] for axis in sharding.unreduced)
            self.type = packed_type(self._whole, devices)
            self._partial = closed_sharding(sharding.mesh, sharding.dimensions, sharding.unreduced)
            self._split = closed_sharding(sharding.mesh, (sharding.unreduced, *sharding.dimensions))
            self._axes = all_axes(mesh)

    def pack(self, value: ir.Value) -> ir.Value:
        """The array that holds the addends of `value`, at the insertion point."""
        given, made = Placed(value, self._partial, False), Result(self.type, self._split)
        return computed([given], [self._local], [made], self._axes, lambda values: [packed(values[0])])[0]

    def unpack(self, value: ir.Value) -> ir.Value:
        given, made = Placed(value, self._split, True), Result(self._whole, self._partial)
        (partial,) = computed([given], [self._row], [made], self._axes, lambda values: [unpacked(values[0])])
        return constrained(partial, self._partial)  # like all others that are unreduced


def packings_of(loop: Loop) -> dict[int, Packing]:
    """The forms in which unreduced values are carried."""
    found = {}
    for i, value in enumerate(loop.next_values.operands):
        op = defining_op(value)
        if op is not None and op.name == CONSTRAINT and read_sharding(op.attributes["sharding"]).unreduced:
            found[i] = Packing(value, read_sharding(op.attributes["sharding"]), loop.op)
    return found


def packed_in(loop: Loop, packings: dict[int, Packing]) -> Loop:
    """The loop that carries these values packed, in place of `loop`."""
    starts, nexts = list(loop.op.operands), list(loop.next_values.operands)
    for i, packing in packings.items():
        with ir.InsertionPoint(loop.op), loop.op.location:
            starts[i] = packing.pack(starts[i])
        with ir.InsertionPoint(loop.next_values), loop.op.location:
            nexts[i] = packing.pack(nexts[i])
        for block in (loop.condition, loop.body):
            block.arguments[i].set_type(packing.type)
        argument = loop.body.arguments[i]
        with ir.InsertionPoint.at_block_begin(loop.body), loop.op.location:
            value = packing.unpack(argument)
        argument.replace_all_uses_except(value, op_of(op_of(value).operands[0]))
    new = rebuilt(loop, starts, nexts)
    for i, (old, result) in enumerate(zip(loop.op.results, new.op.results, strict=True)):
        with ir.InsertionPoint(loop.op), loop.op.location:
            old.replace_all_uses_with(packings[i].unpack(result) if i in packings else result)
    loop.op.erase()
    return new


def counter_known(loop: Loop, counter: int, last: int) -> None:
    """Replaces the counter, after the loop, by the constant `last`."""
    result = loop.op.results[counter]
    tensor = ir.RankedTensorType(result.type)
    if next(result.uses, None) is not None:
        with ir.InsertionPoint(loop.op), loop.op.location:
            result.replace_all_uses_with(constant(tensor, ir.IntegerAttr.get(tensor.element_type, last)))
