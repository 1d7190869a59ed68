"""The plan of `policy=auto`: memory for less communication, the best trades first, under one budget.

Each trade is one parameter that is gathered once, or one sum that is reduced once: over all axes, or over slow ones
first. The more may be held, the less is sent: a trade that a larger budget adds fills it, and saves more for each byte
than all those that it keeps out.

Tests: test/passes/hoist-gathers-budget.mlir, test/unit/passes/deferral/test_holding_plan.py.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.deferral.deferral_cost import BYTES_PER_COLLECTIVE
from paropt.passes.sharding.annotations import HELD


class Trade(NamedTuple):
    """Memory for less communication, per device and step."""

    saved: int  # bytes sent less
    held: int  # bytes held more
    fewer: int = 0  # collectives fewer
    link: int = 1  # the cost of a byte on the slowest of the links that it crosses

    @property
    def worth(self) -> float:
        """The cost of the bytes saved for each byte held; to start a collective counts as bytes, too."""
        return (self.link * self.saved + max(self.fewer, 0) * BYTES_PER_COLLECTIVE) / max(self.held, 1)


def are_in_order(steps: Sequence[Trade]) -> bool:
    """Whether a plan that takes one of `steps` takes those before it: each is worth at most as much, and holds at least
    as much."""
    return all(a.worth >= b.worth and a.held <= b.held for a, b in pairwise(steps))


def rooms_short(trades: Sequence[Trade], room: int) -> list[int | None]:
    """For each trade that the plan leaves out, the bytes that were left of `room`; None if it is in.

    The best first, then in their order. A trade that saves nothing is in only if it holds nothing.
    """
    short: list[int | None] = [None] * len(trades)
    left = max(room, 0)
    for i in sorted(range(len(trades)), key=lambda i: (-trades[i].worth, i)):
        worth, held = trades[i].worth, max(trades[i].held, 0)
        if held <= left and (worth > 0 or not held):
            left -= held
        else:
            short[i] = left
    return short


def taken_of(trades: Sequence[Trade], room: int) -> list[Trade]:
    """The trades of the plan."""
    return [trade for trade, short in zip(trades, rooms_short(trades, room), strict=True) if short is None]


def held_by(trades: Iterable[Trade]) -> int:
    return sum(trade.held for trade in trades)


def saved_by(trades: Iterable[Trade]) -> int:
    return sum(trade.saved for trade in trades)


def taken_in(module: ir.Operation) -> list[Trade]:
    """The trades that passes have made."""
    if HELD not in module.attributes:
        return []
    numbers = list(ir.DenseI64ArrayAttr(module.attributes[HELD]))
    size = len(Trade._fields)
    return [Trade(*numbers[i : i + size]) for i in range(0, len(numbers), size)]


def note_taken(module: ir.Operation, trades: Iterable[Trade]) -> None:
    """Notes them on `module`, for later passes."""
    numbers = [number for trade in trades for number in trade]
    module.attributes[HELD] = ir.DenseI64ArrayAttr.get(numbers, module.context)


def forget_taken(module: ir.Operation) -> None:
    if HELD in module.attributes:
        del module.attributes[HELD]
