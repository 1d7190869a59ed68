"""How a reduction is written in a program for all devices, where none is: as ops of Shardy's explicit form.

    %p = op(...)                                                        adds up over a dimension split on "data"
    %u = sdy.sharding_constraint %p <@mesh, [...], unreduced={"data"}>  each device holds an addend
    %v = sdy.all_reduce {"data"} %u                                     their sum

Globally all three are one value: passes may move the all_reduce, and `take_back` can undo what was exposed.
"""

from collections.abc import Iterable, Sequence

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from paropt.passes.analysis.collectives import GLOBAL_ALL_REDUCE
from paropt.passes.analysis.linearity import TRACKED
from paropt.passes.analysis.loops import WHILE
from paropt.passes.analysis.producers import ROWS as PRODUCERS
from paropt.passes.analysis.producers import Producer
from paropt.passes.analysis.propagation import Propagated
from paropt.passes.analysis.shardings import (
    CONSTRAINT,
    Axes,
    Sharding,
    axes_in,
    is_manual,
    open_sharding,
    read_sharding,
)
from paropt.passes.core.traversal import defining_op, op_of, ops_of, parent_of

_OPERANDS = "paropt.operands"  # of the constraint: how the op before it must split what it adds up
_SHARDINGS = "paropt.shardings"  # of an op behind it: how XLA alone would split its results


def expose(producer: Producer, axes: Axes) -> None:
    """Writes the reduction of `producer` over `axes` behind it."""
    value = producer.value
    op = op_of(value)
    with op.context, ir.InsertionPoint.after(op), op.location:
        unsplit = ((),) * ir.RankedTensorType(value.type).rank
        partial = constrained(value, open_sharding(producer.mesh, unsplit, axes))
        source = op_of(partial)
        source.attributes[_OPERANDS] = ir.ArrayAttr.get(
            [open_sharding(producer.mesh, split) if any(split) else ir.UnitAttr.get() for split in producer.operands]
        )
        listed = ir.Attribute.parse(f"#sdy<axis_ref_list{{{', '.join(axes)}}}>")
        reduced = _all_reduce(partial, producer.mesh, listed)
    value.replace_all_uses_except(reduced, source)


def note_shardings(values: Iterable[ir.Value], propagated: Propagated) -> None:
    """Notes how `values`, and all that linear ops make of them, are split; it outlives moves and clones of ops."""
    waiting, seen = list(values), set[ir.Value]()
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        noted = propagated.attribute_of(op_of(value))
        if noted is not None:
            op_of(value).attributes[_SHARDINGS] = noted
        for use in value.uses:
            user = use.owner.operation
            if user.name == "stablehlo.return":
                user = parent_of(user)
            if user.name == WHILE or user.name in TRACKED:
                waiting += user.results


def noted_sharding(value: ir.Value) -> Sharding | None:
    """How XLA alone would split `value`; None: not at all, or not noted."""
    op = defining_op(value)
    if op is None:
        return None
    if op.name == GLOBAL_ALL_REDUCE or is_source(op):
        return noted_sharding(op.operands[0])
    if op.name == CONSTRAINT:
        return read_sharding(op.attributes["sharding"])
    if _SHARDINGS not in op.attributes:
        return None
    listed = sdy.TensorShardingPerValueAttr(op.attributes[_SHARDINGS]).shardings
    position = ir.OpResult(value).result_number
    return read_sharding(listed[position]) if position < len(listed) else None


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


def sources(module: ir.Operation) -> list[ir.Operation]:
    return [op for op in ops_of(module, CONSTRAINT) if is_source(op)]


def global_all_reduces(module: ir.Operation) -> list[ir.Operation]:
    return [op for op in ops_of(module, GLOBAL_ALL_REDUCE) if not is_manual(op)]


def reduced_axes(op: ir.Operation) -> tuple[str, Axes]:
    """The mesh and the axes of the all_reduce or source `op`."""
    if op.name == GLOBAL_ALL_REDUCE:
        return read_sharding(op.attributes["out_sharding"]).mesh, axes_in(op.attributes["reduction_axes"])
    sharding = read_sharding(op.attributes["sharding"])
    return sharding.mesh, sharding.unreduced


def pin_operands(source: ir.Operation) -> None:
    """Makes the op before `source` split what it adds up the way Shardy found, and `source` a plain constraint."""
    producer = op_of(source.operands[0])
    with producer.context, ir.InsertionPoint(producer), producer.location:
        for i, split in enumerate(ir.ArrayAttr(source.attributes[_OPERANDS])):
            if not isinstance(split, ir.UnitAttr):
                producer.operands[i] = constrained(producer.operands[i], split)
    del source.attributes[_OPERANDS]


def take_back_unmoved(module: ir.Operation) -> None:
    """Erases the reductions that still stand behind the op that needs them."""
    for source in sources(module):
        users = [use.owner.operation for use in source.results[0].uses]
        if all(user.name == GLOBAL_ALL_REDUCE for user in users):
            _erase((*users, source))


def take_back(module: ir.Operation) -> None:
    """Erases all that was exposed, wherever it has moved: the program computes the same without it."""
    _erase((*global_all_reduces(module), *sources(module)))


def erase_notes(module: ir.Operation) -> None:
    for op in ops_of(module, *sorted({*TRACKED, *PRODUCERS, WHILE})):
        if _SHARDINGS in op.attributes:
            del op.attributes[_SHARDINGS]


def _erase(ops: Sequence[ir.Operation]) -> None:
    for op in ops:
        op.results[0].replace_all_uses_with(op.operands[0])
        op.erase()


def _all_reduce(value: ir.Value, mesh: str, axes: ir.Attribute) -> ir.Value:
    unsplit = ((),) * ir.RankedTensorType(value.type).rank
    attributes = {"reduction_axes": axes, "out_sharding": open_sharding(mesh, unsplit)}
    return ir.Operation.create(
        GLOBAL_ALL_REDUCE, results=[value.type], operands=[value], attributes=attributes
    ).results[0]
