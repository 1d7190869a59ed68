"""How often a loop runs, when its text says so."""

import pytest
from modules import parsed

from paropt.passes.ir.loops import Loop, trip_count
from paropt.passes.support.traversal import ops_of

TEXT = """
func.func @main(%n: tensor<i32>) -> tensor<i32> {{
  %start = stablehlo.constant dense<{start}> : tensor<i32>
  %bound = stablehlo.constant dense<{bound}> : tensor<i32>
  %step = stablehlo.constant dense<{step}> : tensor<i32>
  %w = stablehlo.while(%i = %start) : tensor<i32>
  cond {{
    %more = stablehlo.compare {test}, {of}, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  }} do {{
    %next = stablehlo.{grows} : tensor<i32>
    stablehlo.return %next : tensor<i32>
  }}
  return %w : tensor<i32>
}}
"""
UP = {"test": "LT", "of": "%i, %bound", "grows": "add %i, %step"}


@pytest.mark.parametrize(
    "change, trips",
    [
        ({"start": 0, "bound": 4, "step": 1}, 4),
        ({"start": 1, "bound": 8, "step": 3}, 3),
        ({"start": 1, "bound": 7, "step": 3}, 2),
        ({"start": 4, "bound": 4, "step": 1}, 0),
        ({"start": 9, "bound": 4, "step": 1}, 0),
        ({"start": 0, "bound": 4, "step": 1, "grows": "add %step, %i"}, 4),
        ({"start": 0, "bound": 2**31 - 1, "step": 1}, 2**31 - 1),
        ({"start": 0, "bound": 2**31 - 1, "step": 2}, None),  # no end: behind the largest number comes the smallest
        ({"start": 0, "bound": 4, "step": 0}, None),  # never ends
        ({"start": 0, "bound": 4, "step": -1}, None),
        ({"start": 0, "bound": 4, "step": 1, "test": "LE"}, None),
        ({"start": 0, "bound": 4, "step": 1, "of": "%i, %n"}, None),
        ({"start": 0, "bound": 4, "step": 1, "of": "%n, %bound"}, None),
        ({"start": 0, "bound": 4, "step": 1, "grows": "add %n, %step"}, None),
        ({"start": 0, "bound": 4, "step": 1, "grows": "multiply %i, %step"}, None),
    ],
)
def test_trip_count(change: dict[str, object], trips: int | None) -> None:
    module = parsed(TEXT.format(**{**UP, **change}))
    (loop,) = ops_of(module.operation, "stablehlo.while")
    assert trip_count(Loop(loop)) == trips


def test_numbers_without_a_sign_wrap_later() -> None:
    change = {"start": 2**31, "bound": 2**32 - 1, "step": 2**31 - 1}
    text = TEXT.format(**{**UP, **change}).replace("i32", "ui32").replace("SIGNED", "UNSIGNED")
    module = parsed(text)
    (loop,) = ops_of(module.operation, "stablehlo.while")
    assert trip_count(Loop(loop)) == 1


CARRIED = """
func.func @main(%n: tensor<i32>) -> tensor<i32> {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:3 = stablehlo.while(%i = %zero, %bound = %{bound}, %step = %one) : tensor<i32>, tensor<i32>, tensor<i32>
  cond {{
    %more = stablehlo.compare LT, %i, %bound, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  }} do {{
    %held:3 = stablehlo.optimization_barrier %i, %bound, %step : tensor<i32>, tensor<i32>, tensor<i32>
    %next = stablehlo.add {adds} : tensor<i32>
    stablehlo.return %next, {handed_on} : tensor<i32>, tensor<i32>, tensor<i32>
  }}
  return %w#0 : tensor<i32>
}}
"""
AS_IT_IS = {"bound": "four", "adds": "%i, %step", "handed_on": "%bound, %step"}


@pytest.mark.parametrize(
    ("change", "trips"),
    [
        ({}, 4),
        ({"adds": "%held#0, %held#2", "handed_on": "%held#1, %held#2"}, 4),
        ({"bound": "n"}, None),
        ({"handed_on": "%step, %step"}, None),
        ({"handed_on": "%held#2, %held#1"}, None),
        ({"handed_on": "%bound, %i"}, None),
        ({"adds": "%held#1, %held#2"}, None),
    ],
)
def test_carried_bounds_and_steps(change: dict[str, str], trips: int | None) -> None:
    module = parsed(CARRIED.format(**{**AS_IT_IS, **change}))
    (loop,) = ops_of(module.operation, "stablehlo.while")
    assert trip_count(Loop(loop)) == trips
