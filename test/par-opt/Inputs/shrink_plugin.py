"""Reduces what linear ops leave of an array, in place of the whole array: the example of docs/writing-a-pass.md."""

from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.dataflow.partial_values import BlockFacts, PartialValues, blocks_with_reductions
from paropt.passes.ir.types import bytes_of, tensor_of
from paropt.passes.rewrite.residual_split import Split, closed, erase_unused, split_values
from paropt.passes.support.registry import register
from paropt.passes.support.remarks import Remark, applied, missed
from paropt.passes.support.traversal import is_read_once, op_of

NAME = "shrink-all-reduces"


class Chain(NamedTuple):
    """The values that linear ops make of a reduction's result, each read by the next op only."""

    reduction: ir.Operation
    partial: PartialValues  # what the analysis has found
    values: list[ir.Value]  # the reduction's result first

    @property
    def smallest(self) -> ir.Value:
        return min(self.values, key=size)


@register(inlines=True)
def shrink_all_reduces(module: ir.Operation) -> list[Remark]:
    """Reduce what linear ops leave of an array, in place of the whole array.

    Before:

        %a = all_reduce(%x)
        %s = slice %a

    After:

        %p = slice %x
        %s = all_reduce(%p)

    Legal when:

    - the ops between them are linear, with uniform factors, predicates and indices

    Worth it when:

    - fewer bytes are reduced
    - nothing else reads what is reduced

    Sources: a sum over devices commutes with linear ops.
    """
    return [remark for block in blocks_with_reductions(module) for remark in shrink_block(block)]


def shrink_block(block: ir.Block) -> list[Remark]:
    remarks: list[Remark] = []
    while True:
        found = chains(block)  # anew: facts do not outlive a rewrite
        shrinking = next((chain for chain in found if size(chain.smallest) < size(chain.values[0])), None)
        if shrinking is None:
            return remarks + [remark for chain in found for remark in explained(chain)]
        remarks.append(shrink(shrinking))


def chains(block: ir.Block) -> list[Chain]:
    """The facts: nothing is changed here."""
    facts = BlockFacts(block, "widening")
    return [
        chain_of(op, facts.partial_values(reduction, op.results))
        for reduction, ops in facts.reductions.kinds.items()
        for op in ops
        if reduction.is_whole and len(op.results) == 1
    ]


def chain_of(reduction: ir.Operation, partial: PartialValues) -> Chain:
    values = [reduction.results[0]]
    while is_read_once(values[-1]):
        (use,) = values[-1].uses
        made = partial.made_by(use)
        if made is None:  # the reader needs it reduced
            break
        values.append(made)
    return Chain(reduction, partial, values)


def explained(chain: Chain) -> list[Remark]:
    """Why the chain ends before an op whose result would be smaller."""
    last = chain.values[-1]
    readers = [use for use in last.uses if any(size(result) < size(last) for result in use.owner.operation.results)]
    reasons = [declined for use in readers if (declined := chain.partial.stopped_at(use)) is not None]
    return [missed(NAME, chain.reduction, declined) for declined in reasons]


def shrink(chain: Chain) -> Remark:
    """The edit: nothing is asked here."""
    reduced, end = chain.values[0], chain.smallest
    wanted = chain.values[: chain.values.index(end) + 1]
    remark = applied(NAME, chain.reduction, f"{size(end)} bytes per device are reduced, not {size(reduced)}")
    sources = {reduced: Split(chain.reduction.operands[0], None)}
    split = split_values(chain.partial, sources, wanted)[end]
    at = ir.InsertionPoint(op_of(end))
    end.replace_all_uses_with(closed(split, chain.reduction, chain.partial.reduction.combiner, at))
    erase_unused([op_of(value) for value in wanted])
    return remark


def size(value: ir.Value) -> int:
    """Bytes per device."""
    tensor = tensor_of(value)
    return bytes_of(tensor) if tensor is not None else 0
