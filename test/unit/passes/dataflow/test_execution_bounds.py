"""How often a predicate of a counter holds at most, from whatever number: never fewer times than from any one."""

import numpy as np
import pytest
from jaxlib.mlir import ir
from modules import parsed

from paropt.passes.dataflow.execution_bounds import Slice, most_executions, most_trips
from paropt.passes.dataflow.loop_eval import trips_of
from paropt.passes.ir.loops import Loop
from paropt.passes.support.remarks import Declined
from paropt.passes.support.traversal import ops_of

TRIPS = 8
LEAST, MOST = np.iinfo(np.int32).min, np.iinfo(np.int32).max
STARTS = sorted(
    {
        start
        for near in (LEAST, -1000, -8, 0, 8, 1000, MOST)
        for start in range(max(LEAST, near - 40), min(MOST, near + 40) + 1)
    }
)

# What is made of the carried number `i`, and what it is in the next trip: in text, and for NumPy.
NEXT = {
    "counts": ("%next = stablehlo.add %i, %one : tensor<i32>", lambda i: i + 1),
    "counts down by three": ("%next = stablehlo.subtract %i, %three : tensor<i32>", lambda i: i - 3),
    "begins again": (
        "%m = stablehlo.add %i, %one : tensor<i32>\n%next = stablehlo.remainder %m, %four : tensor<i32>",
        lambda i: np.fmod(i + 1, 4),
    ),
    "stops": (
        "%m = stablehlo.add %i, %one : tensor<i32>\n%next = stablehlo.minimum %m, %eight : tensor<i32>",
        lambda i: np.minimum(i + 1, 8),
    ),
    "stays": ("%next = stablehlo.reshape %i : (tensor<i32>) -> tensor<i32>", lambda i: i),
}
REMAINDER = "%r = stablehlo.remainder %i, %four : tensor<i32>\n"
HOLDS = {
    "every fourth": (REMAINDER + "%p = stablehlo.compare EQ, %r, %three : BOTH", lambda i: np.fmod(i, 4) == 3),
    "every fourth, below zero": (REMAINDER + "%p = stablehlo.compare LT, %r, %zero : BOTH", lambda i: np.fmod(i, 4) < 0),
    "from some number": ("%p = stablehlo.compare GE, %i, %eight : BOTH", lambda i: i >= 8),
    "one number": ("%p = stablehlo.compare EQ, %i, %three : BOTH", lambda i: i == 3),
    "two remainders": (
        REMAINDER
        + "%s = stablehlo.remainder %i, %three : tensor<i32>\n%t = stablehlo.add %r, %s : tensor<i32>\n"
        + "%p = stablehlo.compare EQ, %t, %zero : BOTH",
        lambda i: np.fmod(i, 4) + np.fmod(i, 3) == 0,
    ),
    "by the trip, too": (
        "%j = stablehlo.add %i, %trip : tensor<i32>\n%r = stablehlo.remainder %j, %four : tensor<i32>\n"
        "%p = stablehlo.compare EQ, %r, %zero : BOTH",
        None,
    ),
}  # fmt: skip


def loop(following: str, predicate: str, start: str = "%start") -> tuple[ir.Module, Loop, ir.Operation]:
    """A program, its loop, and an op in the branch that it takes where the predicate holds."""
    numbers = {"zero": 0, "one": 1, "three": 3, "four": 4, "eight": 8}
    constants = "\n".join(f"%{name} = stablehlo.constant dense<{n}> : tensor<i32>" for name, n in numbers.items())
    holds = predicate.replace("BOTH", "(tensor<i32>, tensor<i32>) -> tensor<i1>")
    text = f"""func.func public @main(%start: tensor<i32>, %other: tensor<i32>, %x: tensor<2xi32>, %flag: tensor<i1>) -> tensor<i32> {{
      {constants}
      %w:3 = stablehlo.while(%trip = %zero, %i = {start}, %o = %other) : tensor<i32>, tensor<i32>, tensor<i32>
      cond {{
        %more = stablehlo.compare LT, %trip, %eight : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %more : tensor<i1>
      }} do {{
        {holds}
        %y = "stablehlo.if"(%p) ({{
          %z = stablehlo.negate %o : tensor<i32>
          stablehlo.return %z : tensor<i32>
        }}, {{ stablehlo.return %o : tensor<i32> }}) : (tensor<i1>) -> tensor<i32>
        {following}
        %n = stablehlo.add %trip, %one : tensor<i32>
        stablehlo.return %n, %next, %y : tensor<i32>, tensor<i32>, tensor<i32>
      }}
      return %w#2 : tensor<i32>
    }}"""
    module = parsed(text)
    (op,) = ops_of(module.operation, "stablehlo.while")
    (inner,) = ops_of(module.operation, "stablehlo.negate")
    return module, Loop(op), inner


@pytest.mark.parametrize("following", NEXT)
@pytest.mark.parametrize("predicate", [name for name in HOLDS if HOLDS[name][1] is not None])
def test_as_often_as_from_the_start_that_holds_most_often(following: str, predicate: str) -> None:
    (next_text, step), (holds_text, holds) = NEXT[following], HOLDS[predicate]
    assert holds is not None
    counts, now = np.zeros(len(STARTS), int), np.array(STARTS, np.int32)
    with np.errstate(over="ignore"):
        for _ in range(TRIPS):
            counts += holds(now)
            now = step(now).astype(np.int32)
    _program, found, inner = loop(next_text, holds_text)
    assert most_executions(inner, found, trips_of(found)) == counts.max()
    value = inner.block.owner.operation.operands[0]
    assert most_trips(value, found, trips_of(found), lambda number: number == 0) == TRIPS - counts.min()


def test_what_is_known_in_each_trip_may_be_added() -> None:
    _program, found, inner = loop(NEXT["stays"][0], HOLDS["by the trip, too"][0])
    assert most_executions(inner, found, trips_of(found)) == 2


UNKNOWN = {
    "a product": ("%m = stablehlo.multiply %i, %three : tensor<i32>\n", "%m"),
    "two starts": ("%m = stablehlo.add %i, %o : tensor<i32>\n", "%m"),
    "a quotient": ("%m = stablehlo.divide %i, %three : tensor<i32>\n", "%m"),
    "a narrower number": ("%b = stablehlo.convert %i : (tensor<i32>) -> tensor<i8>\n%m = stablehlo.convert %b : (tensor<i8>) -> tensor<i32>\n", "%m"),
    "a divisor": ("%m = stablehlo.remainder %four, %i : tensor<i32>\n", "%m"),
    "a difference from it": ("%m = stablehlo.subtract %three, %i : tensor<i32>\n", "%m"),
    "an element": ("%s = stablehlo.slice %x [0:1] : (tensor<2xi32>) -> tensor<1xi32>\n%e = stablehlo.reshape %s : (tensor<1xi32>) -> tensor<i32>\n%m = stablehlo.add %e, %i : tensor<i32>\n", "%m"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNKNOWN)
def test_not_known(name: str) -> None:
    made, value = UNKNOWN[name]
    _program, found, inner = loop(NEXT["counts"][0], f"{made}%p = stablehlo.compare EQ, {value}, %zero : BOTH")
    assert most_executions(inner, found, trips_of(found)) is None


DECLINED = {
    "several starts are unknown": "%a = stablehlo.compare EQ, %i, %zero : BOTH\n%b = stablehlo.compare EQ, %other, %zero : BOTH\n%v = stablehlo.and %a, %b : tensor<i1>\n",
    "it is no integer": "%v = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>\n",
    "it is not known in each trip": "%v = stablehlo.popcnt %i : tensor<i32>\n",
    "it is known at first": "%v = stablehlo.add %i, %one : tensor<i32>\n",
    "what is not known": "%r = stablehlo.remainder %i, %four : tensor<i32>\n%v = stablehlo.compare LT, %i, %r : BOTH\n",
    "two starts are compared": "%j = stablehlo.add %i, %one : tensor<i32>\n%v = stablehlo.compare LT, %i, %j : BOTH\n",
    "a start is a divisor": "%v = stablehlo.remainder %four, %i : tensor<i32>\n",
    "a divisor is not positive": "%v = stablehlo.remainder %i, %zero : tensor<i32>\n",
    "a start is a predicate": "%v = stablehlo.select %flag, %one, %zero : tensor<i1>, tensor<i32>\n",
    "it is no number": "%v = stablehlo.reshape %flag : (tensor<i1>) -> tensor<i1>\n",
}  # fmt: skip


@pytest.mark.parametrize("why", DECLINED)
def test_declined(why: str) -> None:
    """What it is computed from would not be known, either: but no number is to be taken for another."""
    known_first = why == "it is known at first"
    following = "%next = stablehlo.add %i, %other : tensor<i32>" if known_first else NEXT["stays"][0]
    predicate = DECLINED[why] + "%p = stablehlo.compare EQ, %i, %zero : BOTH"
    _program, found, _inner = loop(following, predicate, start="%zero" if known_first else "%start")
    names = [op.operation.name for op in found.body.operations]
    made = found.body.operations[names.index("stablehlo.if") - 2].operation  # before the predicate
    slice_ = Slice(found, trips_of(found) or [])
    with pytest.raises(Declined, match=why):
        slice_.require_followed(made.results[0])
        slice_.starts()


def test_too_many_starts_are_not_tried() -> None:
    far = "%far = stablehlo.constant dense<100000> : tensor<i32>\n%j = stablehlo.add %i, %far : tensor<i32>\n"
    _program, found, inner = loop(NEXT["counts"][0], far + "%p = stablehlo.compare EQ, %j, %zero : BOTH")
    assert most_executions(inner, found, trips_of(found)) is None
