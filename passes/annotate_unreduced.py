"""Tells XLA which values are not reduced yet."""

from jaxlib.mlir import ir

from paropt.passes.analysis.collectives import GLOBAL_ALL_REDUCE, global_reduction
from paropt.passes.analysis.propagation import Propagated
from paropt.passes.analysis.loops import WHILE
from paropt.passes.analysis.shardings import Axes, Sharding, closed_sharding, is_manual, names_of, open_sharding
from paropt.passes.analysis.types import bytes_of
from paropt.passes.analysis.unreduced import Unreduced
from paropt.passes.core.global_form import (
    CONSTRAINT,
    constrained,
    is_source,
    operand_shardings,
    reduced_axes,
    take_back,
    unmark,
)
from paropt.passes.core.registry import register
from paropt.passes.core.remarks import Declined, Remark, applied, missed
from paropt.passes.core.split import neutral
from paropt.passes.core.traversal import defining_op, op_of, ops_of

NAME = "annotate-unreduced"


@register
def annotate_unreduced(module: ir.Operation) -> list[Remark]:
    """doc"""
    take_back(module, only_unmoved=True)
    sources = [op for op in ops_of(module, CONSTRAINT) if is_source(op)]
    if not sources:
        return []
    try:
        found = Unreduced({op.results[0]: global_reduction(*reduced_axes(op)) for op in sources})
    except Declined as declined:
        take_back(module)
        return [missed(NAME, module, declined)]
    propagated = Propagated(module, take_back)
    with module.context:
        return _annotate(module, sources, found, propagated)


def _annotate(
    module: ir.Operation, sources: list[ir.Operation], found: Unreduced, propagated: Propagated
) -> list[Remark]:
    remarks: list[Remark] = []
    shardings = {value: _sharding(value, *_place(value, found), propagated) for value in found.values if defining_op(value)}
    closings = [op for op in ops_of(module, GLOBAL_ALL_REDUCE) if not is_manual(op)]
    after = {op.results[0]: _closing(op, propagated) for op in closings}
    for source in sources:
        _pin(source, shardings[source.results[0]])
    _zeros(found, shardings)
    for value, sharding in shardings.items():
        _tag(value, sharding)
    for op in closings:
        remarks.append(_close(op, after[op.results[0]]))
    return remarks


def _place(value: ir.Value, found: Unreduced) -> tuple[str, Axes]:
    reduction = found.values[value]
    mesh, _, listed = reduction.axes.partition(" {")
    return mesh, tuple(listed.rstrip("}").split(", "))


def _sharding(value, mesh, axes, propagated) -> ir.Attribute:
    split = _dimensions(value, propagated)
    unreduced = names_of(axes)
    dims = [tuple(a for a in of if not names_of([a]) & unreduced) for of in split]
    return closed_sharding(mesh, dims, axes)


def _dimensions(value, propagated):
    op = op_of(value)
    if is_source(op) or op.name == GLOBAL_ALL_REDUCE:
        return _dimensions(op.operands[0], propagated)
    sharding = propagated.sharding_of(value)
    rank = ir.RankedTensorType(value.type).rank
    return sharding.dimensions if sharding is not None else ((),) * rank


def _closing(op, propagated) -> ir.Attribute:
    mesh, _ = reduced_axes(op)
    return closed_sharding(mesh, _dimensions(op.results[0], propagated))


def _pin(source: ir.Operation, sharding: ir.Attribute) -> None:
    producer = op_of(source.operands[0])
    with ir.InsertionPoint(producer), producer.location:
        for i, split in enumerate(operand_shardings(source)):
            if split is not None:
                producer.operands[i] = constrained(producer.operands[i], split)
    unmark(source, sharding)


def _zeros(found: Unreduced, shardings) -> None:
    for value, addends in found.addends.items():
        for i in addends:
            _zero(op_of(value), i, found, shardings[value])
    for loop in found.loops.values():
        for i, r in enumerate(loop.op.results):
            if r in found.values:
                _zero(loop.op, i, found, shardings[r])
                _zero(loop.next_values, i, found, shardings[r])


def _zero(op: ir.Operation, i: int, found: Unreduced, like: ir.Attribute) -> None:
    operand = op.operands[i]
    if operand in found.values:
        return
    from paropt.passes.analysis.shardings import read_sharding
    like = read_sharding(like)
    rank = ir.RankedTensorType(operand.type).rank
    dims = like.dimensions if len(like.dimensions) == rank else ((),) * rank
    with ir.InsertionPoint(op), op.location:
        fresh = neutral(operand.type)
        fresh = constrained(fresh, closed_sharding(like.mesh, [()]*rank))
        op.operands[i] = constrained(fresh, closed_sharding(like.mesh, dims, like.unreduced))


def _tag(value: ir.Value, sharding: ir.Attribute) -> None:
    op = op_of(value)
    if op.name == CONSTRAINT:
        op.attributes["sharding"] = sharding
        return
    with ir.InsertionPoint.after(op), op.location:
        if op.name == "stablehlo.broadcast_in_dim":
            new = ir.Operation.create("stablehlo.reshape", results=[value.type], operands=[op.operands[0]]).results[0]
            value.replace_all_uses_with(new)
            op.erase()
            value = new
        tagged = constrained(value, sharding)
    value.replace_all_uses_except(tagged, tagged.owner.operation)


def _close(op: ir.Operation, sharding: ir.Attribute) -> Remark:
    with ir.InsertionPoint(op), op.location:
        reduced = constrained(op.operands[0], sharding)
    remark = applied(NAME, op, f"{bytes_of(ir.RankedTensorType(reduced.type))} bytes")
    op.results[0].replace_all_uses_with(reduced)
    op.erase()
    return remark
