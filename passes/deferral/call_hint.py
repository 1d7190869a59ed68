"""Remarks on sums that a program reduces in each call, such as accumulators that it returns, with a way to avoid that.

Tests: test/passes/defer-sync-calls.mlir, test/numeric/test_accumulate_calls.py.
"""

from typing import Any

from jaxlib.mlir import ir

from paropt.passes.dataflow.linearity import ConvertPolicy
from paropt.passes.dataflow.partial_values import BlockFacts, blocks_with_reductions
from paropt.passes.deferral.call_accumulators import KeptSum, is_called_by_user, kept_sums, name_of
from paropt.passes.ir.loops import WHILE
from paropt.passes.ir.types import bytes_of
from paropt.passes.sharding.annotations import noted_sharding, shard_bytes
from paropt.passes.sharding.collectives import DEFERRED, REDUCTIONS
from paropt.passes.support.locations import is_name
from paropt.passes.support.remarks import Declined, Remark, missed
from paropt.passes.support.traversal import is_within, ops_of


def kept_sums_missed(module: ir.Operation, convert: ConvertPolicy, pass_name: str) -> list[Remark]:
    """One remark for each program, or manual part of one, that returns arguments with reduced sums added to them."""
    blocks = [block for block in blocks_with_reductions(module) if is_called_by_user(block)]
    found = [kept_sums(BlockFacts(block, convert, with_branches=True)) for block in blocks]
    return [missed(pass_name, kept[0].reductions[0], Declined(_text(kept))) for kept in found if kept]


def called_sums_missed(module: ir.Operation, pass_name: str) -> list[Remark]:
    """One remark on all arrays that a program reduces, if none is reduced in a loop."""
    sums = [op for op in ops_of(module, *REDUCTIONS) if DEFERRED not in op.attributes]
    arrays = [result for op in sums for result in op.results if ir.RankedTensorType(result.type).rank]
    if not arrays or any(is_within(op, WHILE) for op in sums):
        return []
    size = sum(shard_bytes(array, noted_sharding(array)) for array in arrays)
    listed = "1 array is" if len(arrays) == 1 else f"{len(arrays)} arrays are"
    text = (
        f"{listed} reduced in each call, {size} bytes per device, which no loop repeats: a reduction cannot leave a "
        "call. Where an update takes several calls, a loop over the micro-batches in one program, or paropt.accumulate("
        "compute_grad=..., apply_grad=..., microbatches=...), reduces gradients once per update"
    )
    return [missed(pass_name, module, Declined(text))]


def _text(kept: list[KeptSum]) -> str:
    location: Any = name_of(kept[0].argument).location
    name = location.name_str if is_name(location) else "an argument"
    others = len(kept) - 1
    come = (
        f"and {others} more argument{'s' if others > 1 else ''} come in reduced and go"
        if others
        else "comes in reduced and goes"
    )
    size = sum(bytes_of(ir.RankedTensorType(each.argument.type)) for each in kept)
    return (
        f"{name} {come} out reduced, with sums over devices added: {size} bytes in each call. Where an update follows "
        "several calls, paropt.accumulate(compute_grad=..., apply_grad=..., microbatches=...) reduces once per update"
    )
