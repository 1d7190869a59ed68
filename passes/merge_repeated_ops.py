"""Equivalent ops, merged as XLA would."""

from collections.abc import Iterable

from jaxlib.mlir import ir

from paropt.passes.dataflow.equivalent_ops import twins
from paropt.passes.dataflow.unreduced import said_unreduced
from paropt.passes.ir.op_table import pads
from paropt.passes.sharding.meshes import has_mesh
from paropt.passes.sharding.propagation import Propagated, run_natively
from paropt.passes.spmd.producers import PRODUCTS
from paropt.passes.support.registry import register
from paropt.passes.support.remarks import Declined, Remark, applied, missed, require
from paropt.passes.support.traversal import op_of, ops_of, reads, users_of

NAME = "merge-repeated-ops"


@register
def merge_repeated_ops(module: ir.Operation) -> list[Remark]:
    """Merge equivalent contractions of a block, and the equivalent ops that they read.

    A step that calls its model for the loss and once more for a metric, or for two losses that it differentiates
    separately, has the same forward pass twice. XLA merges them after partitioning. Once values of one of them are
    constrained, XLA:TPU does not, and reduces the activations of tensor parallel layers for both.

    Before:

        %a = dot_general %x, %w
        %b = dot_general %x, %w
        %r = add %a, %b

    After:

        %a = dot_general %x, %w
        %r = add %a, %a

    Legal when:

    - both are the same op on the same values, in one block, with the same regions and attributes (hints aside)
    - the op has no side effects, and is no barrier (`jax.checkpoint` recomputes behind barriers)
    - no constraint says of it, or of an equivalent op, that it is unreduced (XLA aborts where these share zeros)
    - nothing pads it along a sharded dimension (XLA:CPU does that once, for windows and pads with other values, too)

    Worth it when:

    - the program has a mesh of Shardy's, and computes a contraction twice
    - Shardy shards both alike (XLA does not merge others)

    Sources: MLIR's `cse`, which tells whether there is anything to merge, on a copy; XLA `HloCSE`.
    """
    if not has_mesh(module) or not _repeats_products(module):
        return []
    try:
        propagated = Propagated(module)
    except Declined as reason:
        return [missed(NAME, reason.op or module, reason)]
    blocks: list[ir.Block] = []
    for op in ops_of(module, *PRODUCTS):
        if op.block not in blocks:
            blocks.append(op.block)
    return [remark for block in blocks for remark in _merge(block, propagated)]


def _repeats_products(module: ir.Operation) -> bool:
    """Whether MLIR's `cse`, which is much faster than `twins` of each block, leaves fewer products."""
    copy = module.operation.clone()
    run_natively(copy, "builtin.module(any(cse))")
    return len(ops_of(copy, *PRODUCTS)) < len(ops_of(module, *PRODUCTS))


def _merge(block: ir.Block, propagated: Propagated) -> list[Remark]:
    remarks: list[Remark] = []
    first = twins(block)
    again = [op for op in (view.operation for view in block.operations) if op.results and op.results[0] in first]
    for op in _behind_products(again, first):
        one = op_of(first[op.results[0]])
        try:
            require(reads(one) == reads(op), "its operands are sharded differently than those of the first")
            require(_is_split_alike(one, op, propagated), "it is sharded differently than the first")
            require(not _is_said_unreduced(one, op), "a constraint says that it is unreduced")
            require(not _is_padded(one, op, propagated), "it is padded along a sharded dimension, which XLA does once")
        except Declined as reason:
            remarks += _of_products([missed(NAME, op, reason)])
            continue
        remarks += _of_products([applied(NAME, op, "an equivalent op precedes it")])
        for result, as_first in zip(op.results, one.results, strict=True):
            result.replace_all_uses_with(as_first)
        op.erase()
    return remarks


def _behind_products(again: list[ir.Operation], first: dict[ir.Value, ir.Value]) -> list[ir.Operation]:
    """The contractions among the ops `again`, in program order, and the operands of these and of the `first` ones."""
    needed: set[ir.Value] = set()
    for op in reversed(again):
        if op.name in PRODUCTS or not needed.isdisjoint(op.results):
            needed.update((*op.results, *reads(op), *reads(op_of(first[op.results[0]]))))
    return [op for op in again if not needed.isdisjoint(op.results)]


def _is_split_alike(one: ir.Operation, op: ir.Operation, propagated: Propagated) -> bool:
    if not (propagated.knows(one) and propagated.knows(op)):
        return True  # a value of constants only is sharded as each of its users asks
    pairs = zip(one.results, op.results, strict=True)
    return all(propagated.sharding_of(a) == propagated.sharding_of(b) for a, b in pairs)


def _is_said_unreduced(*ops: ir.Operation) -> bool:
    """Whether one of `ops`, or a user of it, says that it is unreduced."""
    return any(said_unreduced(value) for op in ops for each in (op, *users_of(op)) for value in each.results)


def _is_padded(one: ir.Operation, op: ir.Operation, propagated: Propagated) -> bool:
    """Whether something pads a result that is split, perhaps not with zeros: devices need the elements around their
    part."""
    padded = any(pads(user) for each in (one, op) for user in users_of(each))
    return padded and any(lies is not None and any(lies.dimensions) for lies in map(propagated.sharding_of, op.results))


def _of_products(remarks: Iterable[Remark]) -> list[Remark]:
    """Nobody wants to read of each op on elements."""
    return [remark for remark in remarks if remark.op in PRODUCTS]
