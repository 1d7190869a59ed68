"""Fusion of sums of reductions: one collective where there were several."""

from collections.abc import Sequence
from typing import Annotated

from jaxlib.mlir import ir

from paropt.passes.dataflow.linearity import ConvertPolicy
from paropt.passes.dataflow.min_cut import Placement, may_move
from paropt.passes.dataflow.partial_values import BlockFacts, PartialValues, blocks_with_reductions, first_source
from paropt.passes.ir.op_table import adds, is_linear
from paropt.passes.ir.types import bytes_of
from paropt.passes.reductions.moved_sums import MovedSums, before_moves, moved_sums, reduced_for
from paropt.passes.rewrite.residual_split import Split, closed, erase_unused, moved_like, split_values
from paropt.passes.sharding.annotations import notes_of_results
from paropt.passes.sharding.channels import ChannelRanks
from paropt.passes.sharding.collectives import Reduction, difference
from paropt.passes.support.registry import register
from paropt.passes.support.remarks import Declined, Remark, Saved, applied, missed, require
from paropt.passes.support.traversal import op_of

NAME = "fuse-all-reduces"


@register
def fuse_all_reduces(
    module: ir.Operation,
    *,
    convert: Annotated[
        ConvertPolicy, "What a reduction may cross: converts to a wider float type, or to any float type."
    ] = "widening",
) -> list[Remark]:
    """Reduce a sum once instead of each of its terms.

    Before:

        %a = all_reduce(%x)
        %b = all_reduce(%y)
        %t = transpose %b
        %s = add %acc, %a
        %r = add %s, %t

    After:

        %u = transpose %y
        %v = add %x, %u
        %a = all_reduce(%v)
        %r = add %acc, %a

    Whole linear combinations are rewritten, of any shape: sums with shared terms, with terms that are not reduced,
    through every op of the linear transfer table; all_reduce and reduce_scatter, one array or several. The reductions
    are placed by a minimum cut over all of them, so a shared sum is reduced where it is shared, and ops are duplicated
    only if that saves bytes, and more than it costs. Where all terms are slices at one index that differs between
    devices, or shards that are transposed alike, the whole sum is reduced, and then sliced or transposed.

    Legal when:

    *Reductions that become one*

    - the reductions are of one kind: all_reduce, or reduce_scatter on one dimension
    - they have the same reducer
    - they have the same replica groups, however these are written
    - they have the same channel mode
    - they carry the same other attributes, but for metadata that only hints
    - their metadata does not bind them to other ops of the block, as scheduling groups do
    - the reducer is one op, in the element type of its operand
    - everything is in one block (a collective never enters or leaves a loop or a branch)

    *Ops between a reduction and the sum*

    - each op is linear, or for a maximum or minimum, only moves data
    - factors are uniform over the replica groups
    - predicates are uniform over the replica groups
    - indices are uniform over the replica groups
    - shapes are static
    - a reduce_scatter crosses elementwise ops only, with scalar factors, and reshapes of each shard alone
    - in a global-view program, no contraction, scatter or gather is crossed (except by a reduction that leaves a loop)
    - in a global-view program, none reduces over axes itself

    *Arithmetic*

    - integers are not divided
    - a difference of floats is not of a sum and one of its terms, which tells how the sum was rounded
    - a convert is to a wider float type, or complex numbers of one, or `convert=any`
    - a pad adds zeros
    - a contraction has the element type of its operand or a wider float type, or `convert=any`
    - a reduce within a device adds, starting from zero
    - a scatter adds, or writes each element once

    *Terms that are sliced or transposed alike*

    - ops that move elements differently on each device, or after a reduce_scatter, are the same op in each term, on one
      type, with the same attributes and other operands
    - moved elements cross elementwise ops only, with scalar factors

    Worth it when:

    - fewer bytes are reduced, or as many in fewer arrays
    - duplicating ops costs less than the communication saved; 1,000 multiplications count as one byte
    - nothing else reads a moved value, nor its operand, and it is no larger than the values reduced for it

    Floating-point sums are reassociated and factors distributed, so results may differ by rounding.

    Sources: XLA `AllReduceReassociate` and `ReduceScatterReassociate`, for pairs of single-use operands; Alpa
    "Style 2"; the placement is a minimum vertex cut (Dinic).
    """
    blocks = blocks_with_reductions(module)
    if not blocks:
        return []
    channels = ChannelRanks(module)
    remarks = [remark for block in blocks for remark in _fuse_block(block, convert)]
    if any(remark.applied for remark in remarks):
        channels.keep_apart()
    return remarks


def _fuse_block(block: ir.Block, convert: ConvertPolicy) -> list[Remark]:
    """Fuses one kind of reduction after the other, until nothing changes: one may free a sum of another kind."""
    remarks: list[Remark] = []
    while True:
        facts = BlockFacts(block, convert)  # made anew: facts do not outlive a rewrite
        found = [_partial_values(facts, reduction) for reduction in facts.reductions.kinds]
        fused = next((done for partial in found if (done := _fuse(partial, None, facts))), None)
        if fused is None:
            moved = moved_sums(found, facts)
            fused = next((done for sums in moved if (done := _fuse(sums.values, sums, facts))), None)
            found += [sums.values for sums in moved]
        if fused is None:
            return remarks + _explain(facts, found)
        remarks.append(fused)


def _partial_values(facts: BlockFacts, reduction: Reduction) -> PartialValues:
    return facts.partial_values(
        reduction, [result for op in facts.reductions.kinds[reduction] for result in op.results]
    )


def _fuse(partial: PartialValues, sums: MovedSums | None, facts: BlockFacts) -> Remark | None:
    """Moves the reductions of one kind to where they cost least; None when they are there.

    `sums`: how their results are moved before these are added up.
    """
    if not may_move(partial):
        return None
    placement = Placement(partial)
    moved = [value for value in placement.closed if not partial.is_source(value)]
    if not moved:
        return None
    members = frozenset(each for value in moved for each in partial.made_of(value))
    used = [value for value in partial.values if value in members and partial.is_source(value)]
    replaced = [source for value in used if value not in placement.closed for source in reduced_for(value, sums)]
    old = facts.in_order([*placement.split, *before_moves(used, sums)])
    likes = [_reduced_like(value, partial, sums) for value in moved]  # asked first: one may be made of another

    splits = split_values(partial, _sources(used, sums), [value for value in placement.split if value in members])
    becomes = [_reduced(value, splits[value], sums) for value in moved]
    saved = Saved(len(replaced), _bytes(replaced), 1, len(becomes), _bytes(becomes))
    remark = applied(NAME, op_of(moved[-1]), f"{_sizes(replaced)} became {_sizes(becomes)}", saved=saved)
    for value, (like, moves) in zip(moved, likes, strict=True):
        at = ir.InsertionPoint(op_of(value))
        reduced = closed(splits[value], like, partial.reduction.combiner, at, moves=moves)
        if splits[value].rest is not None:
            _note_as(op_of(reduced), value)
        value.replace_all_uses_with(reduced)
    erase_unused(old)
    return remark


def _sources(used: Sequence[ir.Value], sums: MovedSums | None) -> dict[ir.Value, Split]:
    """The splits of `used`: of results of reductions, or of ops that move values before."""
    if sums is None:
        return {value: Split(op_of(value).operands[ir.OpResult(value).result_number], None) for value in used}
    values, order = sums.read, before_moves(used, sums, deep=False)
    splits = split_values(values, _sources([v for v in order if values.is_source(v)], sums.before), order)
    found: dict[ir.Value, Split] = {}
    for value in used:
        op = op_of(value)
        partial, rest = splits[op.operands[0]]
        with ir.InsertionPoint(op), op.location:
            found[value] = Split(partial, rest if rest is None else moved_like(rest, op))
    return found


def _reduced_like(
    value: ir.Value, partial: PartialValues, sums: MovedSums | None
) -> tuple[ir.Operation, list[ir.Operation]]:
    """A reduction that `value` is made of, and the ops that move its result."""
    like = first_source(value, partial)
    assert like is not None, "it is made of reductions of this block"
    if sums is None:
        return like, []
    reduction, moves = _reduced_like(like.operands[0], sums.read, sums.before)
    return reduction, [*moves, like]


def _reduced(value: ir.Value, split: Split, sums: MovedSums | None) -> ir.Value:
    """A value as large as the result of the reduction at `value`."""
    return split.partial if sums is not None and sums.values.reduction.is_whole else value


def _note_as(op: ir.Operation, value: ir.Value) -> None:
    """Copies the annotations of `value` to the result of `op`, which replaces it."""
    for name, noted in notes_of_results(op_of(value), [ir.OpResult(value).result_number]).items():
        op.attributes[name] = noted


def _sizes(values: Sequence[ir.Value]) -> str:
    return f"{len(values)} reduced array{'s' * (len(values) != 1)} ({_bytes(values)} bytes per device)"


def _bytes(values: Sequence[ir.Value]) -> int:
    return sum(bytes_of(ir.RankedTensorType(value.type)) for value in values)


Origin = Reduction | Declined


def _explain(facts: BlockFacts, found: list[PartialValues]) -> list[Remark]:
    """A remark for each sum of two reduced terms that is not fused."""
    origins = _origins(facts, found)
    remarks: list[Remark] = []

    def is_sum(op: ir.Operation) -> bool:
        if len(op.operands) != 2 or any(operand not in origins for operand in op.operands):
            return False
        terms = [origin for operand in op.operands for origin in origins[operand]]
        combiners = {origin.combiner for origin in terms if isinstance(origin, Reduction)}
        return op.name in combiners or adds(op)

    for op in facts.readers(origins, is_sum):
        lhs, rhs = (origins[operand] for operand in op.operands)
        try:
            _require_worth(op, lhs, rhs)
        except Declined as declined:
            remarks.append(missed(NAME, op, declined))
    return remarks


def _require_worth(op: ir.Operation, lhs: list[Origin], rhs: list[Origin]) -> None:
    """Declines with the reason why the terms of `op` were not fused."""
    for origin in lhs + rhs:
        if isinstance(origin, Declined):
            raise origin
    unlike = difference(_last(lhs), _last(rhs)) if _last(lhs) not in rhs else ""
    require(not unlike, unlike, op)
    require(False, "a reduced term has another use: fusing would not reduce fewer bytes", op)


def _last(origins: list[Origin]) -> Reduction:
    assert isinstance(origins[-1], Reduction)
    return origins[-1]


def _origins(facts: BlockFacts, found: list[PartialValues]) -> dict[ir.Value, list[Origin]]:
    """For each value made of reductions by known ops: their kinds, or why it is not linear in them."""
    origins: dict[ir.Value, list[Origin]] = {}
    for partial in found:
        for value in partial.values:
            origins.setdefault(value, []).append(partial.reduction)
    for op, declined in facts.reductions.declined:
        for result in op.results:
            origins.setdefault(result, []).append(declined)
    for partial in found:
        for value, declined in partial.stopped.items():
            if is_linear(op_of(value)):
                origins.setdefault(value, []).append(declined)

    def reached(op: ir.Operation) -> list[ir.Value]:
        reasons = [o for operand in op.operands for o in origins.get(operand, []) if isinstance(o, Declined)]
        if not is_linear(op) or op.results[0] in origins or not reasons:
            return []
        origins[op.results[0]] = [reasons[0]]
        return [op.results[0]]

    not_linear = [value for value, known in origins.items() if any(isinstance(o, Declined) for o in known)]
    facts.follow(not_linear, reached)
    return origins
