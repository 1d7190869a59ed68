"""The orders in which the work-lists of `dataflow/engine.py` come, that each comes once, and what ends a walk early."""

import functools
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import pytest
from jaxlib.mlir import ir
from modules import parsed

from paropt.passes.dataflow.engine import (
    backward,
    depth_first,
    exhaust,
    forward,
    in_order,
    nearest_first,
    post_order,
    spread,
)
from paropt.passes.support.remarks import Declined, require
from paropt.passes.support.traversal import defining_op, ops_of

# Two ways from a to f, one longer; c is met from a and from b.
GRAPH = {"a": "bc", "b": "cd", "c": "e", "d": "f", "e": "f", "f": ""}
WALKS: dict[str, tuple[Callable[[Iterable[str], Callable[[str], Iterable[str]]], Iterator[str]], str]] = {
    "depth_first": (depth_first, "acefbd"),
    "nearest_first": (nearest_first, "abcdef"),
    "in_order": (functools.partial(in_order, key=lambda each: -ord(each)), "acefbd"),
    "post_order": (post_order, "fecdba"),
}


@pytest.mark.parametrize("name", WALKS)
def test_each_comes_once_and_in_order(name: str) -> None:
    walk, expected = WALKS[name]
    assert "".join(walk("a", GRAPH.__getitem__)) == expected
    assert sorted(walk("aa", GRAPH.__getitem__)) == sorted(expected)
    assert list(walk("", GRAPH.__getitem__)) == []


@pytest.mark.parametrize("name", ["depth_first", "nearest_first", "in_order"])
def test_circles_end_and_starts_may_be_several(name: str) -> None:
    walk, _ = WALKS[name]
    assert sorted(walk("ac", {"a": "ba", "b": "a", "c": "b"}.__getitem__)) == ["a", "b", "c"]


@pytest.mark.parametrize("name", WALKS)
def test_nothing_is_looked_at_before_it_is_asked_for(name: str) -> None:
    looked_at: list[str] = []

    def following(each: str) -> str:
        looked_at.append(each)
        return GRAPH[each]

    walk, expected = WALKS[name]
    first = next(walk("a", following))
    assert first == expected[0] and looked_at == ([] if name != "post_order" else ["a", "b", "c", "e", "f"])


def test_what_is_equal_by_its_key_comes_as_it_was_found() -> None:
    assert "".join(in_order("a", {"a": "cb", "b": "", "c": ""}.__getitem__, key=lambda _: 0)) == "acb"


def test_a_limit_on_what_is_known() -> None:
    assert "".join(nearest_first("a", GRAPH.__getitem__, limit=3)) == "a"  # b and c are known then
    assert "".join(nearest_first("a", GRAPH.__getitem__, limit=7)) == "abcdef"


def test_what_is_needed_may_depend_on_what_came_of_it() -> None:
    """As in the search for something that varies, which the first thing found ends."""
    varies = {"c": True, "f": False}

    def needed(each: str) -> Iterator[str]:
        for one in GRAPH[each]:
            if one not in varies:
                yield one
            if varies[one]:
                break
        varies[each] = any(varies.get(one) for one in GRAPH[each])

    exhaust(post_order("a", needed))
    assert varies == {"a": True, "b": True, "c": True, "f": False}  # d and e were never looked at


TEXT = """
func.func @main(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.negate %x : tensor<f32>
  %1 = stablehlo.add %0, %x : tensor<f32>
  %2 = stablehlo.add %y, %0 : tensor<f32>
  %3 = stablehlo.multiply %1, %2 : tensor<f32>
  return %3 : tensor<f32>
}
"""


@pytest.fixture
def values() -> Iterator[dict[str, ir.Value]]:
    module = parsed(TEXT)
    (function,) = ops_of(module.operation, "func.func")
    block = function.regions[0].blocks[0]
    results = {str(i): op.results[0] for i, op in enumerate(list(block.operations)[:-1])}
    yield {**dict(zip("xy", block.arguments, strict=True)), **results}  # while there is the module


def names(found: Iterable[ir.Value], values: dict[str, ir.Value]) -> str:
    return "".join(next(name for name, value in values.items() if value == each) for each in found)


def results(use: ir.OpOperand) -> list[ir.Value]:
    return list(use.owner.operation.results)


def operands(value: ir.Value) -> list[ir.Value]:
    op = defining_op(value)
    return list(op.operands) if op is not None else []


def test_forward_and_backward(values: dict[str, ir.Value]) -> None:
    assert sorted(names(forward([values["x"]], results), values)) == list("0123x")
    assert names(backward([values["3"]], operands), values) == "320xy1"
    assert names(islice(forward([values["y"]], results), 2), values) == "y2"


def test_the_first_fact_that_comes_stays(values: dict[str, ir.Value]) -> None:
    facts = {values["x"]: "x varies", values["y"]: "y varies"}
    spread(facts, lambda _, use: results(use))
    assert names(facts, values) == "xy2310"
    assert {name: facts[value] for name, value in values.items()} == {
        **dict.fromkeys("x01", "x varies"),
        **dict.fromkeys("y23", "y varies"),
    }


def test_a_transfer_function_may_say_why_a_value_stops(values: dict[str, ir.Value]) -> None:
    def made(use: ir.OpOperand) -> list[ir.Value]:
        require(use.owner.name != "stablehlo.multiply", "a product is not linear", use.owner.operation)
        return results(use)

    with pytest.raises(Declined, match="a product is not linear"):
        exhaust(forward([values["x"]], made))
