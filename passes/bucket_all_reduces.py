"""Buckets of reductions: fewer, larger collectives."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Literal

from jaxlib.mlir import ir

from paropt.passes.dataflow.partial_values import BlockFacts, blocks_with_reductions
from paropt.passes.dataflow.side_effects import is_repeatable
from paropt.passes.ir.types import bytes_of
from paropt.passes.reductions.buckets import merge_contiguous, merge_variadic
from paropt.passes.reductions.loop_sums import LoopSums, loop_sums
from paropt.passes.sharding.channels import ChannelRanks
from paropt.passes.sharding.collectives import ALL_REDUCE, Reduction
from paropt.passes.sharding.shardings import is_all_manual, manual_around
from paropt.passes.support.registry import Bytes, register
from paropt.passes.support.remarks import Declined, Remark, applied, missed, require
from paropt.passes.support.traversal import captured

NAME = "bucket-all-reduces"
Form = Literal["contiguous", "variadic"]


@register
def bucket_all_reduces(
    module: ir.Operation,
    *,
    max_bytes: Annotated[Bytes, "Close a bucket before it grows past this many bytes per device."] = 32 << 20,
    form: Annotated[
        Form, "One array made of all, or one all_reduce of several arrays (a reduce_scatter takes one array only)."
    ] = "contiguous",
    flat: Annotated[
        bool, "With form=contiguous: a loop that accumulates the arrays of a bucket accumulates the one array."
    ] = False,
) -> list[Remark]:
    """Combine reductions into buckets of up to max-bytes bytes, each reduced at once.

    Before:

        %a = all_reduce(%x)
        %b = all_reduce(%y)

    After:

        %u = reshape %x
        %v = reshape %y
        %w = concatenate %u, %v
        %r = all_reduce(%w)
        %s = slice %r
        %a = reshape %s
        %t = slice %r
        %b = reshape %t

    Buckets are filled in the order in which the program computes their operands, which is the same on all devices, and
    are reduced when the last array is there. Readers of an array of the bucket that stand before that are moved behind
    it. In a reduce_scatter, the shards of one device are put side by side.

    Legal when:

    *The reductions of a bucket*

    - they are of one kind, with the same reducer, replica groups, channel mode and other attributes
    - they have the same element type
    - they are in one block
    - none is computed from another one
    - each can be moved: its reducer is one op, its groups are known, its shape is static

    *The bucket*

    - ops that have to move behind the bucket have no side effects
    - no mesh axis is left to the partitioner around the one array (it may have sharded the arrays differently)
    - an all_reduce of several arrays is outside of manual computations (XLA does not compile one there)
    - with `flat`, one loop accumulates arrays of the bucket, from zero, and nothing else reads these sums

    Worth it when:

    - the bucket stays within max-bytes
    - there are at least two arrays, or with `form=variadic`, two all_reduces

    Values do not change: each element is reduced as before.

    Sources: PyTorch DDP's gradient buckets; XLA `AllReduceCombiner`, which stops at the first reduction that depends on
    another, and `AllReduceContiguous`.
    """
    blocks = blocks_with_reductions(module)
    if not blocks:
        return []
    channels = ChannelRanks(module)
    remarks = [remark for block in blocks for remark in _fill(block, max_bytes, form, flat)]
    if any(remark.applied for remark in remarks):
        channels.keep_apart()
    return remarks


@dataclass
class Bucket:
    """Reductions that become one, and ops to be moved behind them."""

    reduction: Reduction
    members: list[ir.Operation] = field(default_factory=list)
    bytes: int = 0
    end: int = 0  # where the last member stands
    read: set[ir.Value] = field(default_factory=set)  # the results, and all that is computed from them
    behind: list[ir.Operation] = field(default_factory=list)
    moved: int = 0  # how many of `behind` stand before the last member

    @property
    def arrays(self) -> int:
        return sum(len(op.operands) for op in self.members)

    def add(self, op: ir.Operation, position: int, size: int) -> None:
        self.members.append(op)
        self.end = position
        self.bytes += size
        self.read.update(op.results)
        self.moved = len(self.behind)


def _fill(block: ir.Block, max_bytes: int, form: Form, flat: bool) -> list[Remark]:
    """Merges one bucket after the other; each is found anew, because merging moves ops."""
    remarks: list[Remark] = []
    while True:
        facts = BlockFacts(block, "widening")
        stays = [missed(NAME, op, declined) for op, declined in facts.reductions.declined]
        bucket = next((found for found in _closed(facts, max_bytes, form, stays) if _is_worth(found, form)), None)
        if bucket is None:
            return remarks + stays
        kept = f"{bucket.arrays} arrays ({bucket.bytes} bytes per device) are reduced at once"
        remarks.append(applied(NAME, bucket.members[-1], kept))
        remarks += _merge(bucket, facts, form, flat)


def _is_worth(bucket: Bucket, form: Form) -> bool:
    parts = bucket.arrays if form == "contiguous" else len(bucket.members)
    return parts > 1


def _closed(facts: BlockFacts, max_bytes: int, form: Form, stays: list[Remark]) -> Iterator[Bucket]:
    """The buckets of a block, each when nothing more fits."""
    kinds = _candidates(facts, form, stays)
    buckets: dict[Key, Bucket] = {}
    for position, op in enumerate(facts.ops):
        key = kinds.get(op.results[0]) if len(op.results) else None
        if key is None and not buckets:
            continue
        reads = _reads(op)
        own = buckets.get(key) if key is not None else None
        if key is not None:
            size = sum(bytes_of(ir.RankedTensorType(operand.type)) for operand in op.operands)
            try:
                _require_fits(own, size, reads, max_bytes)
            except Declined as declined:
                stays.append(missed(NAME, op, declined))
                yield buckets.pop(key)
                own = None
            own = own or buckets.setdefault(key, Bucket(key[0]))
            own.add(op, position, size)
        for bucket in buckets.values():
            if bucket is not own and any(value in bucket.read for value in reads):
                bucket.behind.append(op)
                bucket.read.update(op.results)
    yield from buckets.values()


Key = tuple[Reduction, ir.Type]


def _candidates(facts: BlockFacts, form: Form, stays: list[Remark]) -> dict[ir.Value, Key]:
    """The reductions that may go into a bucket, and with which others."""
    found: dict[ir.Value, Key] = {}
    for reduction, ops in facts.reductions.kinds.items():
        for op in ops:
            try:
                _require_form(op, form)
            except Declined as declined:
                stays.append(missed(NAME, op, declined))
                continue
            found[op.results[0]] = (reduction, ir.RankedTensorType(op.results[0].type).element_type)
    return found


def _require_form(op: ir.Operation, form: Form) -> None:
    """Declines a reduction that may not be part of a bucket of this `form`."""
    around = manual_around(op)
    if around is None:
        return
    if form == "variadic" and op.name == ALL_REDUCE:
        require(False, "XLA compiles no all_reduce of several arrays here (form=contiguous)", around)
    require(is_all_manual(around), "a mesh axis is left to the partitioner here", around)


def _reads(op: ir.Operation) -> list[ir.Value]:
    return [*op.operands, *(captured(op) if len(op.regions) else ())]


def _require_fits(bucket: Bucket | None, size: int, reads: list[ir.Value], max_bytes: int) -> None:
    """Declines to put a reduction of `size` bytes that reads `reads` into the bucket, if there is one."""
    if bucket is None:
        return
    depends = any(value in bucket.read for value in reads)
    require(not depends, "it is computed from another reduction of the bucket", bucket.members[-1])
    for op in bucket.behind:
        require(is_repeatable(op), f"{op.name}, which reads the bucket, may have side effects", op)
    full = bucket.bytes + size
    require(full <= max_bytes, f"the bucket would grow to {full} bytes (option max-bytes)", bucket.members[-1])


def _merge(bucket: Bucket, facts: BlockFacts, form: Form, flat: bool) -> list[Remark]:
    next_op = facts.ops[bucket.end + 1]  # there is one: a block ends with a terminator
    remarks: list[Remark] = []
    sums: LoopSums | None = None
    if form == "variadic" and bucket.reduction.kind == ALL_REDUCE:
        merge_variadic(bucket.members)
    else:
        try:
            sums = loop_sums([operand for op in bucket.members for operand in op.operands]) if flat else None
        except Declined as declined:
            remarks.append(missed(NAME, bucket.members[-1], declined))
        merge_contiguous(bucket.members, sums)
    for op in bucket.behind[: bucket.moved]:
        op.move_before(next_op)
    for op in reversed(bucket.members):
        op.erase()
    if sums is not None:
        sums.loop.op.erase()
    return remarks
