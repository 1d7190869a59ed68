"""How a reduction is written in a program for all devices, where none is: as the ops of Shardy's explicit form.

    %p = op(...)                                                      adds up over a dimension split on "data"
    %u = sdy.sharding_constraint %p <@mesh, [...], unreduced={"data"}>  each device holds an addend
    %v = sdy.all_reduce {"data"} %u                                    their sum

Globally all three are the same value, so passes may move the all_reduce, and whatever they leave can be taken back.
"""

from collections.abc import Sequence

from jaxlib.mlir import ir

from paropt.passes.analysis.collectives import GLOBAL_ALL_REDUCE
from paropt.passes.analysis.producers import Producer
from paropt.passes.analysis.shardings import Axes, axes_in, is_manual, open_sharding, read_sharding
from paropt.passes.core.traversal import ops_of

CONSTRAINT = "sdy.sharding_constraint"
_OPERANDS = "paropt.operands"  # of the constraint: how the op before it must split what it adds up


def expose(producer: Producer, axes: Axes) -> ir.Operation:
    """Writes the reduction of `producer` over `axes` behind it; returns the all_reduce."""
    value = producer.value
    op = value.owner.operation
    rank = ir.RankedTensorType(value.type).rank
    with ir.InsertionPoint.after(op), op.location:
        partial = constrained(value, open_sharding(producer.mesh, [()] * rank, axes))
        made = partial.owner.operation
        made.attributes[_OPERANDS] = ir.ArrayAttr.get(
            [open_sharding(producer.mesh, split) if any(split) else ir.UnitAttr.get() for split in producer.operands]
        )
        listed = ir.Attribute.parse(f"#sdy<axis_ref_list{{{', '.join(axes)}}}>")
        reduced = _all_reduce(partial, producer.mesh, listed)
    value.replace_all_uses_except(reduced, made)
    return reduced.owner.operation


def all_reduced(value: ir.Value, like: ir.Operation) -> ir.Value:
    """The sum of what the devices hold of `value`, over the axes of `like`; made at the insertion point."""
    mesh = read_sharding(like.attributes["out_sharding"]).mesh
    return _all_reduce(value, mesh, like.attributes["reduction_axes"])


def constrained(value: ir.Value, sharding: ir.Attribute) -> ir.Value:
    """`value` with that sharding, made at the insertion point."""
    attributes = {"sharding": sharding}
    return ir.Operation.create(CONSTRAINT, results=[value.type], operands=[value], attributes=attributes).results[0]


def is_source(op: ir.Operation) -> bool:
    """Whether `op` says that the value before it is not reduced."""
    return op.name == CONSTRAINT and _OPERANDS in op.attributes


def operand_shardings(source: ir.Operation) -> Sequence[ir.Attribute | None]:
    """How the op before `source` must split its operands; None where it does not matter."""
    listed = ir.ArrayAttr(source.attributes[_OPERANDS])
    return [None if isinstance(attribute, ir.UnitAttr) else attribute for attribute in listed]


def reduced_axes(op: ir.Operation) -> tuple[str, Axes]:
    """The mesh and the axes of the all_reduce or source `op`."""
    if op.name == GLOBAL_ALL_REDUCE:
        return read_sharding(op.attributes["out_sharding"]).mesh, axes_in(op.attributes["reduction_axes"])
    sharding = read_sharding(op.attributes["sharding"])
    return sharding.mesh, sharding.unreduced


def unmark(source: ir.Operation, sharding: ir.Attribute) -> None:
    """Makes `source` a sharding_constraint like any other."""
    source.attributes["sharding"] = sharding
    del source.attributes[_OPERANDS]


def take_back(module: ir.Operation, *, only_unmoved: bool = False) -> None:
    """Erases what `expose` wrote: all of it, or where the all_reduce still stands behind the op."""
    for source in [op for op in ops_of(module, CONSTRAINT) if is_source(op)]:
        users = [use.owner.operation for use in source.results[0].uses]
        if only_unmoved and not all(user.name == GLOBAL_ALL_REDUCE for user in users):
            continue
        for op in (*(user for user in users if user.name == GLOBAL_ALL_REDUCE), source):
            _skip(op)
    if not only_unmoved:
        for op in ops_of(module, GLOBAL_ALL_REDUCE):
            if not is_manual(op):
                _skip(op)


def _skip(op: ir.Operation) -> None:
    op.results[0].replace_all_uses_with(op.operands[0])
    op.erase()


def _all_reduce(value: ir.Value, mesh: str, axes: ir.Attribute) -> ir.Value:
    rank = ir.RankedTensorType(value.type).rank
    attributes = {"reduction_axes": axes, "out_sharding": open_sharding(mesh, [()] * rank)}
    return ir.Operation.create(
        GLOBAL_ALL_REDUCE, results=[value.type], operands=[value], attributes=attributes
    ).results[0]
