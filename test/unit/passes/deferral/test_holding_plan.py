"""The plan of `policy=auto`: random trades under random budgets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paropt.passes.deferral.holding_plan import Trade, held_by, rooms_short, saved_by, taken_of
from paropt.passes.support.axis_numbers import axis_numbers

TRADES = st.lists(st.builds(Trade, st.integers(0, 100), st.integers(0, 20)), max_size=8)


@given(TRADES, st.integers(0, 100), st.integers(0, 100))
def test_more_room_saves_more(trades: list[Trade], room: int, more: int) -> None:
    less = taken_of(trades, room)
    assert held_by(less) <= room
    assert saved_by(less) <= saved_by(taken_of(trades, room + more))


@given(TRADES, TRADES, st.integers(0, 100))
def test_what_the_first_leave_is_for_the_others(first: list[Trade], others: list[Trade], room: int) -> None:
    """A pass that decides on some of the trades, and one that decides on the others later, make one plan."""
    short = rooms_short([*first, *others], room)
    chosen = [trade for trade, left in zip(first, short, strict=False) if left is None]
    alone = rooms_short(others, room - held_by(chosen))
    assert [left is None for left in alone] == [left is None for left in short[len(first) :]]


def test_the_order() -> None:
    """Bytes saved for each byte held; to start a collective counts as 4 kB."""
    trades = [Trade(90, 10), Trade(100, 10), Trade(0, 10), Trade(0, 0), Trade(0, 10, 3)]
    assert taken_of(trades, 0) == [trades[3]]
    assert taken_of(trades, 10) == [trades[3], trades[4]]
    assert taken_of(trades, 20) == [trades[1], trades[3], trades[4]]
    assert taken_of(trades, 100) == [trades[0], trades[1], trades[3], trades[4]]


def test_bytes_over_slow_links_come_first() -> None:
    fast, slow = Trade(100, 10), Trade(50, 10, link=8)
    assert taken_of([fast, slow], 10) == [slow]
    assert saved_by([slow]) == 50  # bytes, whatever they cost


def test_numbers_of_axes() -> None:
    assert axis_numbers("replica:8, data:1") == {"replica": 8, "data": 1}
    assert axis_numbers("") == {}


@pytest.mark.parametrize("text", ["data", "data:", ":8", "data:0", "data:-1", "data:x", "data:1,data:2"])
def test_what_gives_axes_no_numbers(text: str) -> None:
    with pytest.raises(ValueError, match=text):
        axis_numbers(text)
