"""Where one parameter is gathered, by the facts about it and its loop."""

from dataclasses import replace
from typing import Any

import pytest
from jaxlib.mlir import ir

from paropt.passes.decisions.parameter_decisions import Level, ParameterRecord, steps_once
from paropt.passes.support.remarks import Declined

DATA, REPLICA = frozenset({"data"}), frozenset({"replica"})
BOTH = DATA | REPLICA
# 8 shards of 100 bytes, over 4 devices of `data` in each of 2 hosts; four micro-batches, a forward and a backward pass.
SLOW_FIRST = (Level(REPLICA, 8, 200, 200), Level(DATA, 1, 800, 800))
PARAMETER = ParameterRecord("w", 800, 800, SLOW_FIRST, trips=4, gathers=2)


@pytest.fixture
def reader() -> ir.Operation:
    with ir.Context() as context, ir.Location.unknown():
        context.allow_unregistered_dialects = True
        return ir.Operation.create("test.reader")


def test_slow_axes_come_first() -> None:
    (names, slow), (all_names, fast) = steps_once(PARAMETER)
    assert (names, all_names) == (REPLICA, BOTH)
    assert (slow.saved, slow.held, slow.link) == (4 * 2 * 200 - 200, 200, 8)
    assert (fast.saved, fast.held, fast.link) == (4 * 2 * 600 - 600, 600, 1)


def test_steps_that_are_worth_more_later_become_one() -> None:
    levels = (Level(REPLICA, 1, 200_000, 200_000), Level(DATA, 8, 800_000, 800_000))
    ((names, trade),) = steps_once(replace(PARAMETER, held=800_000, at_use=800_000, levels=levels))
    assert names == BOTH
    assert (trade.saved, trade.held, trade.link) == (4 * 2 * 800_000 - 800_000, 800_000, 8)


def test_activations_that_move_in_its_place_are_saved() -> None:
    each = ParameterRecord("w", 800, 0, (Level(DATA, 1, 800, 0),), trips=4, gathers=0, moved=300)
    ((_, trade),) = steps_once(each)
    assert (trade.saved, trade.held, trade.fewer) == (4 * 300 - 800, 800, 3)


def test_experts_are_gathered_over_one_axis_and_tokens_are_exchanged_over_the_other() -> None:
    """At use XLA gathers 200 bytes over `data`, and moves 300 of tokens, where each device has other experts."""
    each = replace(PARAMETER, at_use=200, levels=(Level(BOTH, 1, 800, 200),), gathers=1, moved=300)
    ((_, trade),) = steps_once(each)
    assert (trade.saved, trade.held) == (4 * (200 + 300) - 800, 800)


def test_an_unknown_number_of_trips_counts_as_two() -> None:
    assert sum(trade.saved for _, trade in steps_once(replace(PARAMETER, trips=None))) == (2 * 2 - 1) * 800


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"unknown": "it may be examples"}, "it may be examples"),
        ({"not_allowed": "option axes is x"}, "option axes is x"),
        ({"varies": "the loop changes the parameter (w)"}, "the loop changes the parameter (w)"),
        ({"is_nested": True}, "the loop is in another one, where XLA would shard the gathered array"),
        ({"trips": 0}, "the loop makes no more than one trip"),
        ({"trips": 1}, "the loop makes no more than one trip"),
        (
            {"gathers": 0, "moved": 199},
            "XLA moves activations in place of the parameter, and to gather it takes 800 bytes",
        ),
        (
            {"gathers": 0, "moved": 799, "renews": True},
            "XLA moves activations in place of the parameter, and to gather it takes 800 bytes after each update",
        ),
        ({"unknown": "it may be examples", "trips": 1}, "it may be examples"),
    ],
)
def test_gathered_at_use(facts: dict[str, Any], reason: str) -> None:
    with pytest.raises(Declined) as declined:
        steps_once(replace(PARAMETER, **facts))
    assert declined.value.reason == reason


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        ("kept_by", "a reader in the loop keeps the parameter (w) sharded"),
        ("constrained_by", "a constraint in the loop shards the parameter (w) over the same axes otherwise"),
    ],
)
def test_an_op_keeps_it_sharded(field: str, reason: str, reader: ir.Operation) -> None:
    facts: dict[str, Any] = {field: (reader,)}
    with pytest.raises(Declined) as declined:
        steps_once(replace(PARAMETER, **facts))
    assert declined.value.reason == reason
    assert declined.value.op == reader


def test_what_all_trips_may_change_is_gathered_where_a_trip_takes_as_much() -> None:
    assert steps_once(replace(PARAMETER, gathers=1, renews=True))
    assert steps_once(replace(PARAMETER, gathers=0, moved=800, renews=True))


def test_as_many_bytes_of_activations_are_gathered_once() -> None:
    ((_, trade),) = steps_once(replace(PARAMETER, levels=(Level(DATA, 1, 800, 800),), gathers=0, moved=200))
    assert trade.saved == 0
