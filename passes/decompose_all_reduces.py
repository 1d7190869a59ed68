"""All_reduces as the hierarchy of collectives that the program has written."""

from collections.abc import Mapping, Sequence

from jaxlib.mlir import ir

from paropt.passes.rewrite.erase import erase_unread
from paropt.passes.rewrite.residual_split import reduction
from paropt.passes.rewrite.scale import Scale, scale_of, scaled
from paropt.passes.sharding.collectives import ALL_GATHER, ALL_REDUCE, DECOMPOSED, REDUCE_SCATTER, combiner_of
from paropt.passes.support.registry import register
from paropt.passes.support.remarks import Declined, Remark, applied, missed, require
from paropt.passes.support.traversal import is_read_once, ops_of

NAME = "decompose-all-reduces"


@register
def decompose_all_reduces(module: ir.Operation) -> list[Remark]:
    """Write an all_reduce that `compose-all-reduces` has made as the steps of the program again.

    A sum that has moved is reduce-scattered, summed by shards and all-gathered as the program did it, once. Where the
    whole is multiplied or divided by a constant scalar, the shards are.

    Before:

        %r = all_reduce(%x) {paropt.decomposed}     over all

    After:

        %s = reduce_scatter(%x)                     over the devices of a host
        %t = all_reduce(%s)                         over hosts
        %r = all_gather(%t)                         over the devices of a host

    Legal when:

    - the all_reduce has the steps as an attribute (else it stays, without a remark)
    - a dimension can be cut into as many shards: that of the program, else the first one (else the all_reduce stays)

    Sources: the program itself.
    """
    remarks: list[Remark] = []
    while found := [op for op in ops_of(module, ALL_REDUCE) if DECOMPOSED in op.attributes]:
        for op in found:  # a step may be one, too
            try:
                remarks.append(_decompose(op))
            except Declined as declined:
                remarks.append(missed(NAME, op, declined))
                del op.attributes[DECOMPOSED]
    return remarks


def _decompose(op: ir.Operation) -> Remark:
    steps = [_named(step) for step in ir.ArrayAttr(op.attributes[DECOMPOSED])]
    scatter, *_ = steps
    count = ir.RankedTensorType(ir.DenseElementsAttr(scatter["replica_groups"]).type).shape[1]
    dimensions = [_dimension(value, scatter, count) for value in op.operands]
    for value, result, dimension in zip(op.operands, op.results, dimensions, strict=True):
        shape = list(ir.RankedTensorType(value.type).shape)
        shape[dimension] //= count
        scales = _scales(result)
        whole = _stepwise(value, op, steps, dimension, shape, scales)
        (scales[-1].op.results[0] if scales else result).replace_all_uses_with(whole)
        factors = [scale.op.operands[1 - scale.operand] for scale in scales]
        for scale in reversed(scales):
            scale.op.erase()
        erase_unread(factors)
    remark = applied(NAME, op, f"scattered over {count} devices, and gathered, as in the program")
    op.erase()
    return remark


def _stepwise(
    value: ir.Value,
    op: ir.Operation,
    steps: Sequence[dict[str, ir.Attribute]],
    dimension: int,
    shape: Sequence[int],
    scales: Sequence[Scale],
) -> ir.Value:
    """The result of `op` on `value`, scaled by `scales`, by shards of this shape."""
    scatter, *sums, gather = steps
    combiner = combiner_of(op)
    assert combiner is not None, "it was one of a reduce_scatter"
    with ir.InsertionPoint(op), op.location:
        shard = ir.RankedTensorType.get(shape, ir.RankedTensorType(value.type).element_type)
        number = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), dimension)
        part = reduction(REDUCE_SCATTER, value, shard, {**scatter, "scatter_dimension": number}, combiner)
        for step in sums:
            part = reduction(ALL_REDUCE, part, shard, step, combiner)
        for scale in scales:
            part = scaled(part, scale)
        attributes = {**gather, "all_gather_dim": number}
        return ir.Operation.create(ALL_GATHER, results=[value.type], operands=[part], attributes=attributes).results[0]


def _scales(value: ir.Value) -> list[Scale]:
    """The only readers of `value` that multiply or divide it: on shards, that is less work."""
    scales: list[Scale] = []
    while is_read_once(value):
        reader = next(value.uses).owner.operation
        scale = scale_of(reader)
        if scale is None or reader.operands[scale.operand] != value:
            break
        scales.append(scale)
        value = reader.results[0]
    return scales


def _named(step: ir.Attribute) -> dict[str, ir.Attribute]:
    attributes = ir.DictAttr(step)
    return {attributes[i].name: attributes[i].attr for i in range(len(attributes))}


def _dimension(value: ir.Value, scatter: Mapping[str, ir.Attribute], count: int) -> int:
    """The dimension in which `value` is scattered."""
    shape = ir.RankedTensorType(value.type).shape
    own = ir.IntegerAttr(scatter["scatter_dimension"]).value
    found = [i for i in (own, *range(len(shape))) if i < len(shape) and shape[i] > 0 and shape[i] % count == 0]
    require(bool(found), f"no dimension can be cut into {count} shards")
    return found[0]
