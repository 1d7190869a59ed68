"""The all-gathers that a per-device program repeats in loops although no trip changes their source.

`all_gather(copy(x)) = copy(all_gather(x))`, where `copy` takes all of the dimension that is gathered. So a loop over
layers, each trip of which gathers its slice of a stacked parameter, may read slices of the array that the loop around
it gathers.

Tests: test/passes/hoist-gathers-explicit.mlir, test/numeric/test_shard_map_all_gathers.py.
"""

from collections.abc import Iterator
from math import prod
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.dataflow.loop_invariants import Varying
from paropt.passes.dataflow.uniformity import Uniformity
from paropt.passes.ir.constants import BARRIER
from paropt.passes.ir.control_flow import Use
from paropt.passes.ir.loops import WHILE, Loop, start_of, trip_count
from paropt.passes.ir.metadata import group_of
from paropt.passes.ir.types import is_float, tensor_of
from paropt.passes.sharding.collectives import ALL_GATHER, Reduction, gathering_of
from paropt.passes.sharding.shardings import MANUAL, SHARDING
from paropt.passes.spmd.loop_parameters import CONVERT, DYNAMIC_SLICE, copy_by, is_copy
from paropt.passes.support.remarks import require
from paropt.passes.support.traversal import defining_op, is_defined_in, is_within, ops_of, parent_of

GATHERED = "all_gather_dim"
CHANGED = "the loop changes the parameter"


class Copy(NamedTuple):
    """An op that copies elements of the gathered array, or converts it."""

    use: Use
    dimension: int  # of the copy, along which it is gathered


class LoopGather(NamedTuple):
    """An all_gather that may be done in front of a loop around it."""

    op: ir.Operation
    loop: Loop
    value: ir.Value  # the source of the gather, outside of the loop
    copies: tuple[Copy, ...]  # its copies in the loop, in program order
    dimension: int  # of `value`, along which it is gathered
    over: Reduction  # who takes part
    repeats: bool = True  # whether trips of the loop gather the same; or else another slice each
    is_changed: bool = False  # by a loop around this one

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for those that gather the same, in loops of one block."""
        kept = {name: self.op.attributes[name] for name in self.op.attributes if name not in (GATHERED, SHARDING)}
        return self.loop.op.block, self.value, self.dimension, tuple(sorted((name, str(kept[name])) for name in kept))

    @property
    def element(self) -> ir.Type:
        """The element type that all readers need: that of `value`, or the narrower one to which it is converted."""
        own, needed = (ir.RankedTensorType(v.type).element_type for v in (self.value, self.op.results[0]))
        readers = [use.owner.operation for use in self.op.results[0].uses]
        types = {
            ir.RankedTensorType(op.results[0].type).element_type if op.name == CONVERT else needed for op in readers
        }
        converts = [copy for copy in self.copies if copy.use.op.name == CONVERT]
        last = types.pop() if len(types) == 1 and not converts else needed
        is_narrower = isinstance(last, ir.FloatType) and isinstance(own, ir.FloatType) and last.width < own.width
        return last if is_narrower and len(converts) <= 1 else own

    @property
    def executions(self) -> int:
        """How often it is done in all trips of the loop. An unknown trip count is taken as 2: the fewest that can be
        worth it."""
        around = loops_around(self.op)
        repeating = around[around.index(self.loop) :]
        return prod(2 if (trips := trip_count(loop)) is None else trips for loop in repeating)


def loops_around(op: ir.Operation) -> list[Loop]:
    """The loops in which `op` is, outermost first."""
    found: list[Loop] = []
    while op.parent is not None:
        op = op.parent.operation
        if op.name == WHILE:
            found.append(Loop(op))
    return found[::-1]


def gathered_before(module: ir.Operation) -> list[ir.Operation]:
    """The all_gathers in front of loops of which a loop reads the results: they are where they should be."""
    gathers = [op for op in ops_of(module, ALL_GATHER) if not is_within(op, WHILE)]
    return [op for op in gathers if any(_is_read_in_loop(result) for result in op.results)]


def _is_read_in_loop(value: ir.Value) -> bool:
    readers = [(use.owner.operation, use.operand_number) for use in value.uses]
    return any(
        is_within(op, WHILE) or (op.name == WHILE and start_of(op.results[position]) is not None)
        for op, position in readers
    )


class LoopGathers:
    """Tells of each all_gather of a module whether it may be done less often. Not to be kept across a rewrite."""

    def __init__(self) -> None:
        self._uniform: dict[tuple[ir.Block, Reduction], Uniformity] = {}

    def of(self, op: ir.Operation) -> LoopGather | None:
        """Where the all_gather `op` may be done instead; None where each loop around it defines the source.

        Raises Declined where one has, or might.
        """
        behind = list(_behind(op.operands[0]))
        end = behind[-1][0]
        outside = [loop for loop in loops_around(op) if not is_defined_in(end, loop.op)]
        repeating = [loop for loop in outside if not _is_another_slice(loop, behind)]
        is_changed = _is_changed_parameter(end)
        require(bool(outside) or not is_changed, CHANGED, op)
        often = [loop for loop in repeating or outside if trip_count(loop) not in (0, 1)]
        require(bool(often) or not outside, "the loop makes no more than one trip", op)
        if not often:
            return None
        found = self._in_front_of(often[0], op, behind)
        return found._replace(repeats=bool(repeating), is_changed=is_changed)

    def _in_front_of(self, loop: Loop, op: ir.Operation, behind: list[tuple[ir.Value, Use | None]]) -> LoopGather:
        require(len(op.operands) == 1, "it gathers several arrays", op)
        static = tensor_of(op.operands[0]) is not None and tensor_of(op.results[0]) is not None
        require(
            static and 0 not in ir.RankedTensorType(op.operands[0].type).shape, "it gathers arrays of no fixed size", op
        )
        over = gathering_of(op)
        group = group_of(op)
        require(not group, f"its metadata binds it to other ops of its block: {group}", op)
        dimension = ir.IntegerAttr(op.attributes[GATHERED]).value
        value, copies = op.operands[0], list[Copy]()
        for before, use in behind:
            if not is_defined_in(value, loop.op):
                break
            value = before
            if use is not None:
                copies.insert(0, Copy(use, dimension))
                dimension = _dimension_before(use, dimension)
                self._require_same_slice(use, over)
        return LoopGather(op, loop, value, tuple(copies), dimension, over)

    def _require_same_slice(self, use: Use, over: Reduction) -> None:
        """Declines a slice that is another one on each device."""
        for index in _indices(use):
            block = _per_device_block(use.op)
            if (block, over) not in self._uniform:
                self._uniform[block, over] = Uniformity(use.op.block, over)
            self._uniform[block, over].require_uniform(index, "an index", use.op)


def _behind(value: ir.Value) -> Iterator[tuple[ir.Value, Use | None]]:
    """The values that `value` is a copy of, as far back as they are known: each value, and the op that copies it, if
    any.

    Loops carry a value from trip to trip without an op. First comes `value` itself.
    """
    use: Use | None = None
    yield value, None
    while True:
        op = defining_op(value)
        if (start := start_of(value)) is not None:
            value, use = start, None
        elif op is not None and (use := _copying(op, value)) is not None:
            value = op.operands[use.position]
        else:
            return
        yield value, use


def _copying(op: ir.Operation, result: ir.Value) -> Use | None:
    """The operand of which `op` copies elements, or which it converts, to make `result`."""
    use = Use(op, ir.OpResult(result).result_number if op.name == BARRIER else 0)
    static = all(tensor_of(value) is not None for value in (result, *op.operands[use.position : use.position + 1]))
    return use if static and (op.name == CONVERT or is_copy(use)) else None


def _is_changed_parameter(value: ir.Value) -> bool:
    """Whether a loop changes `value`, a float that it carries, and starts with an argument of the program."""
    if not isinstance(value.owner, ir.Block) or value.owner.owner.operation.name != WHILE:
        return False
    start = value.owner.owner.operation.operands[ir.BlockArgument(value).arg_number]
    while (before := start_of(start)) is not None:
        start = before
    tensor = tensor_of(start)
    is_argument = isinstance(start.owner, ir.Block) and _holds_program(start.owner.owner.operation)
    return is_argument and tensor is not None and is_float(tensor.element_type)


def _is_another_slice(loop: Loop, behind: list[tuple[ir.Value, Use | None]]) -> bool:
    """Whether each trip of `loop` itself gathers another slice, as a loop over layers does."""
    slices = [use for _, use in behind if use is not None and is_defined_in(copy_by(use), loop.op)]
    indices = [index for use in slices for index in _indices(use)]
    varying = Varying(loop) if indices else None
    return varying is not None and any(_carried_in(index, loop) in varying for index in indices)


def _indices(use: Use) -> list[ir.Value]:
    return list(use.op.operands)[1:] if use.op.name == DYNAMIC_SLICE else []


def _carried_in(value: ir.Value, loop: Loop) -> ir.Value:
    """The same value, in the body of `loop` if loops in there carry it as it is."""
    while (start := start_of(value)) is not None and is_defined_in(start, loop.op):
        value = start
    return value


def _per_device_block(op: ir.Operation) -> ir.Block:
    """The block of the per-device program that `op` is in."""
    while not _holds_program(around := parent_of(op)):
        op = around
    return op.block


def _holds_program(around: ir.Operation) -> bool:
    """Whether the block of `around` is a per-device program: a function's, or a manual computation's."""
    return around.name == "func.func" or around.name == MANUAL


def _dimension_before(use: Use, dimension: int) -> int:
    """Which dimension of the operand dimension number `dimension` of its copy is, all of it."""
    op = use.op
    before, after = (ir.RankedTensorType(v.type).shape for v in (op.operands[use.position], copy_by(use)))
    match op.name:
        case "stablehlo.slice" | "stablehlo.dynamic_slice":
            whole = before[dimension] == after[dimension]
            require(whole, "a slice takes a part of the dimension that is gathered", op)
            return dimension
        case "stablehlo.transpose":
            return int(ir.DenseI64ArrayAttr(op.attributes["permutation"])[dimension])
        case "stablehlo.reshape":
            return _reshaped_dimension(op, before, after, dimension)
        case _:
            return dimension


def _reshaped_dimension(op: ir.Operation, before: list[int], after: list[int], dimension: int) -> int:
    """The dimension before it that is gathered alike: as many places are in front, at each of which are the shards."""
    places = prod(after[:dimension])
    found = [i for i in range(len(before)) if prod(before[:i]) == places]
    require(bool(found) and 0 not in before, "a reshape mixes the dimension that is gathered with others", op)
    return next((i for i in reversed(found) if before[i] == after[dimension]), found[-1])


def gathered_type(gather: LoopGather, element: ir.Type) -> ir.RankedTensorType:
    """The type of the array gathered in front of the loop, in that element type."""
    dimension = ir.IntegerAttr(gather.op.attributes[GATHERED]).value
    shard, whole = (ir.RankedTensorType(v.type).shape for v in (gather.op.operands[0], gather.op.results[0]))
    shape = list(ir.RankedTensorType(gather.value.type).shape)
    shape[gather.dimension] *= whole[dimension] // shard[dimension]
    return ir.RankedTensorType.get(shape, element, loc=gather.op.location)
