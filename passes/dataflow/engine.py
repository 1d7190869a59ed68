"""Work-lists: the values computed from some, or those that these are computed from. test_layout.py lists the few
elsewhere.

A caller says which values are next to one value (the transfer function); the engine says in which order they come, and
that each comes once. Walks are lazy: a value is looked at when the caller asks for the next one, so that
`any(... for value in forward(...))` looks no further than it has to. A transfer function that raises `Declined`, with
the reason why a value goes no further, ends the walk. All orders are deterministic.

Where a value goes through control flow, transfer functions ask `ir/control_flow.py`.
"""

import heapq
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, TypeVar

from jaxlib.mlir import ir

T = TypeVar("T", bound=Hashable)
Fact = TypeVar("Fact")


def forward(values: Iterable[ir.Value], made_by: Callable[[ir.OpOperand], Iterable[ir.Value]]) -> Iterator[ir.Value]:
    """`values`, and all that is made of them, depth first: `made_by` gives the values made at a use, none where the
    walk stops."""
    return depth_first(values, lambda value: (made for use in value.uses for made in made_by(use)))


def backward(values: Iterable[ir.Value], made_of: Callable[[ir.Value], Iterable[ir.Value]]) -> Iterator[ir.Value]:
    """`values`, and all that they are made of: `made_of` gives the values that one is made of, none where the walk
    stops. Depth first, the last operand first.
    """
    return depth_first(values, made_of)


def spread(facts: dict[ir.Value, Fact], made_by: Callable[[ir.Value, ir.OpOperand], Iterable[ir.Value]]) -> None:
    """Gives the fact about each value to all that is made of it, in `facts` itself.

    The first fact that reaches a value stays: the reason why it is among them. `made_by` gets a value and a use of it.
    """
    waiting = list(facts)
    while waiting:
        value = waiting.pop()
        fact = facts[value]
        for use in value.uses:
            for made in made_by(value, use):
                if made not in facts:
                    facts[made] = fact
                    waiting.append(made)


def depth_first(starts: Iterable[T], following: Callable[[T], Iterable[T]]) -> Iterator[T]:
    """`starts` and all that follow from them, once each: the last of those `following` one comes right behind it."""
    waiting, seen = list(starts), set[T]()
    while waiting:
        each = waiting.pop()
        if each not in seen:
            seen.add(each)
            yield each
            waiting += following(each)


def nearest_first(
    starts: Iterable[T], following: Callable[[T], Iterable[T]], *, limit: int | None = None
) -> Iterator[T]:
    """The same in the order of their distance from `starts`. It ends when `limit` are known, if not yet looked at."""
    known = dict.fromkeys(starts)
    waiting = deque(known)
    while waiting and (limit is None or len(known) < limit):
        each = waiting.popleft()
        yield each
        fresh = [after for after in dict.fromkeys(following(each)) if after not in known]
        known.update(dict.fromkeys(fresh))
        waiting += fresh


def in_order(starts: Iterable[T], following: Callable[[T], Iterable[T]], key: Callable[[T], Any]) -> Iterator[T]:
    """The same, that with the least `key` first: in program order, all that one depends on comes before it."""
    known = {each: number for number, each in enumerate(dict.fromkeys(starts))}
    waiting = [(key(each), number, each) for each, number in known.items()]
    heapq.heapify(waiting)
    while waiting:
        *_, each = heapq.heappop(waiting)
        yield each
        for after in following(each):
            if after not in known:
                known[after] = len(known)
                heapq.heappush(waiting, (key(after), known[after], after))


def post_order(starts: Iterable[T], needed: Callable[[T], Iterable[T]]) -> Iterator[T]:
    """`starts` and all that are `needed` for them, each behind those that it needs; there must be no cycle.

    `needed` may itself look at the outcome of one before it gives the next: it goes on when that one is done.
    """
    done: set[T] = set()
    for start in starts:
        path = [(start, iter(needed(start)))] if start not in done else []
        while path:
            each, rest = path[-1]
            missing = next((one for one in rest if one not in done), None)
            if missing is not None:
                path.append((missing, iter(needed(missing))))
                continue
            path.pop()
            done.add(each)
            yield each


def exhaust(walk: Iterator[Any]) -> None:
    """Walks to the end, for the notes that the transfer function makes on the way."""
    deque(walk, maxlen=0)
