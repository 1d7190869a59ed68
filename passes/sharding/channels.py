"""Channel handles: new ones, and all_reduces that may share one.

Tests: test/passes/channels.mlir.
"""

from collections import defaultdict

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from paropt.passes.ir.op_table import ops_with
from paropt.passes.sharding.collectives import ALL_REDUCE, partition_count
from paropt.passes.support.traversal import ops_of

_HANDLE = "channel_handle"


class NewChannels:
    """Handles that no op of the module has."""

    def __init__(self, module: ir.Operation) -> None:
        used = [_handle(op) for op in ops_of(module, *ops_with("channel")) if _HANDLE in op.attributes]
        self._last = max((channel.handle for channel in used), default=0)

    def next(self) -> int:
        self._last += 1
        return self._last


class ChannelRanks:
    """The ranks of the operands of each channel's all_reduces, before a pass moves them.

    In a module of one partition, XLA (that of jaxlib 0.10) gives all of a channel one layout, and refuses those of
    other ranks. Where there is a partitioner, it does not.
    """

    def __init__(self, module: ir.Operation) -> None:
        self._module = module
        self._before = {channel: set(by_rank) for channel, by_rank in _by_rank(module).items()}

    def keep_apart(self) -> None:
        """Gives the all_reduces of a channel that now have another rank than others one of their own."""
        new: NewChannels | None = None
        for channel, by_rank in _by_rank(self._module).items():
            first, *_ = by_rank
            kept = self._before.get(channel, set()) & set(by_rank) or {first}
            for rank in (rank for rank in by_rank if rank not in kept):
                new = new or NewChannels(self._module)
                number = new.next()
                for op in by_rank[rank]:
                    op.attributes[_HANDLE] = stablehlo.ChannelHandle.get(number, _handle(op).channel_type, op.context)


def _by_rank(module: ir.Operation) -> dict[int, dict[int, list[ir.Operation]]]:
    """The all_reduces of each channel, by the rank of their operands; none where there are partitions."""
    found: defaultdict[int, defaultdict[int, list[ir.Operation]]] = defaultdict(lambda: defaultdict(list))
    for op in ops_of(module, ALL_REDUCE) if partition_count(module) <= 1 else ():
        if _HANDLE in op.attributes:
            found[_handle(op).handle][ir.RankedTensorType(op.operands[0].type).rank].append(op)
    return {channel: dict(by_rank) for channel, by_rank in found.items()}


def _handle(op: ir.Operation) -> stablehlo.ChannelHandle:
    return stablehlo.ChannelHandle(op.attributes[_HANDLE])
