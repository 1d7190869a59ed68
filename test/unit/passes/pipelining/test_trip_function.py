"""Programs of which no function of trips is made: conditions that the driver's own programs fulfil."""

from typing import Any

import pytest
from jaxlib.mlir import ir
from modules import parsed

from paropt.passes.pipelining.trip_function import trip_function
from paropt.passes.support.remarks import Declined

# A trip takes %x, negates it for the next, returns the tanh of it, and adds it to a sum.
LOOP = """
  {r}:5 = stablehlo.while(%i = %zero, %t = %x, %v = %none, %acc = %none, %other = {other})
      : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  cond {{
    %more = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  }} do {{
    %n = stablehlo.add %i, %one : tensor<i32>
    %taken = stablehlo.negate %t : tensor<4xf32>
    %made = stablehlo.tanh {made} : tensor<4xf32>
    %sum = stablehlo.add %acc, %t : tensor<4xf32>
    %next = stablehlo.negate %other : tensor<4xf32>
    stablehlo.return %n, %taken, %made, %sum, %next
        : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }}
"""


def entry(*, other: str = "%y", made: str = "%t", loops: int = 1, behind: str = "%r0#3") -> ir.Module:
    """A program that returns what the last trip has made, and the sum."""
    written = "".join(LOOP.format(r=f"%r{number}", other=other, made=made) for number in range(loops))
    return parsed(
        f"""
func.func public @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  {written}
  %behind = stablehlo.negate %r0#3 : tensor<4xf32>
  return %r0#2, {behind} : tensor<4xf32>, tensor<4xf32>
}}""",
    )


def made_of(module: ir.Module) -> ir.Operation:
    main = ir.SymbolTable(module.operation)["main"].operation
    return trip_function(main, "trip", sums=1).function


def test_the_function_takes_arguments_and_the_sum_and_returns_what_a_trip_makes() -> None:
    module = entry()
    text = str(made_of(module))
    assert "@trip(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>, %arg2: tensor<4xf32>)" in text
    assert "stablehlo.tanh %arg0" in text
    assert "stablehlo.add %arg2, %arg0" in text
    module.operation.verify()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"loops": 2}, "2 loops are where one was"),
        ({"other": "%none"}, "the loop carries more than sums and arguments"),
        ({"made": "%v"}, "a trip reads what the one before it has made"),
        ({"behind": "%behind"}, "more is done with a sum than to reduce it"),
    ],
)
def test_other_programs_are_declined(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(Declined, match=reason):
        made_of(entry(**changes))
