"""Reasons why a program has no sum over devices: one device, no shardings, or micro-batches sharded, not examples.

Read from arguments alone: where `expose-all-reduces` has found no partial sum, there is no value to ask about.
"""

from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.ir.constraints import CONSTRAINT
from paropt.passes.ir.loops import WHILE, Loop
from paropt.passes.ir.signature import Slot, signatures
from paropt.passes.sharding.axes import Axes, names_of
from paropt.passes.sharding.collectives import partition_count, replica_count
from paropt.passes.sharding.shardings import MANUAL, sharding_of
from paropt.passes.support.traversal import defining_op, ops_of

_SLICE = "stablehlo.dynamic_slice"


class Misplaced(NamedTuple):
    """An argument of which a loop takes one element after the other along a dimension that is sharded."""

    argument: Slot
    dimension: int
    axes: tuple[str, ...]

    def __str__(self) -> str:
        spec = ", ".join(["None"] * (self.dimension + 1) + [_spelled(self.axes)])
        return (
            f"{self.argument} is sharded over {', '.join(self.axes)} along dimension {self.dimension}, of which a loop "
            f"takes one element in each trip: to give each device examples of every micro-batch, shard it as P({spec})"
        )


def reason(module: ir.Operation) -> str:
    """Why there is nothing to synchronise in `module`, as far as its arguments tell."""
    if replica_count(module) * partition_count(module) == 1:
        return "it is for one device: no argument is sharded over several"
    misplaced = misplaced_arguments(module)
    if misplaced:
        return str(misplaced[0])
    is_sharded = any(_axes(slot.value) for each in signatures(module) for slot in each.arguments)
    if not is_sharded and not ops_of(module, CONSTRAINT, MANUAL):
        return "no argument is sharded: each device does all of the work"
    return "no value is a partial sum"


def misplaced_arguments(module: ir.Operation) -> list[Misplaced]:
    """The arguments whose micro-batches, not examples, are sharded."""
    slots = [slot for each in signatures(module) for slot in each.arguments if _axes(slot.value)]
    return [
        Misplaced(slot, dimension, tuple(sorted(names_of(axes))))
        for slot in slots
        for dimension, axes in enumerate(_axes(slot.value))
        if axes and dimension in _taken_one_by_one(slot.value)
    ]


def _axes(value: ir.Value) -> tuple[Axes, ...]:
    """Of each dimension of `value`, the axes over which it is sharded; () when none is."""
    sharding = sharding_of(value)
    return sharding.dimensions if sharding is not None and any(sharding.dimensions) else ()


def _taken_one_by_one(value: ir.Value) -> set[int]:
    """The dimensions of `value` of which one element is read, at an index that is computed."""
    found: set[int] = set()
    for use in value.uses:
        op = use.owner.operation
        if op.name == WHILE:
            found |= _taken_one_by_one(Loop(op).body.arguments[use.operand_number])
        elif op.name == CONSTRAINT:
            found |= _taken_one_by_one(op.results[0])
        elif op.name == _SLICE and use.operand_number == 0:
            sizes = ir.DenseI64ArrayAttr(op.attributes["slice_sizes"])
            indices = list(op.operands)[1:]
            found |= {i for i, index in enumerate(indices) if sizes[i] == 1 and not _is_constant(index)}
    return found


def _is_constant(index: ir.Value) -> bool:
    op = defining_op(index)
    return op is not None and op.name == "stablehlo.constant"


def _spelled(axes: tuple[str, ...]) -> str:
    return f'"{axes[0]}"' if len(axes) == 1 else f"({', '.join(map(repr, axes))})"
