"""When a trip resets an accumulator: what is the identity element, and by which predicates."""

import pytest
from modules import parsed

from paropt.passes.deferral.resets import Chosen, may_reset, resets_of
from paropt.passes.ir.loops import WHILE, Loop
from paropt.passes.sharding.collectives import ADD, MAXIMUM
from paropt.passes.support.traversal import ops_of

LOOP = """
func.func @f(%start: tensor<i32>, %flags: tensor<2xi1>, %one: tensor<i1>) -> tensor<i32> {{
  %zero = stablehlo.constant dense<{identity}> : tensor<i32>
  %least = stablehlo.constant dense<{narrow}> : tensor<i8>
  %r:2 = stablehlo.while(%i = %start, %acc = {start}) : tensor<i32>, tensor<i32>
  cond {{
    %more = stablehlo.compare LT, %i, %start : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  }} do {{
    %a = stablehlo.{combiner} %acc, %i : tensor<i32>
    %less = stablehlo.compare LT, %i, %acc : (tensor<i32>, tensor<i32>) -> tensor<i1>
    {body}
    stablehlo.return %i, %next : tensor<i32>, tensor<i32>
  }}
  return %r#1 : tensor<i32>
}}
"""
SELECTED = "%next = stablehlo.select %less, %zero, %a : tensor<i1>, tensor<i32>"
KEPT = "%next = stablehlo.select %less, %zero, %acc : tensor<i1>, tensor<i32>"
CONVERTED = """%n = stablehlo.convert %a : (tensor<i32>) -> tensor<i8>
    %c = stablehlo.select %less, %least, %n : tensor<i1>, tensor<i8>
    %next = stablehlo.convert %c : (tensor<i8>) -> tensor<i32>"""
WITHIN = """%next = "stablehlo.if"(%less) ({
      %more = stablehlo.compare LT, %a, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %s = stablehlo.select %more, %zero, %a : tensor<i1>, tensor<i32>
      stablehlo.return %s : tensor<i32>
    }, {
      stablehlo.return %a : tensor<i32>
    }) : (tensor<i1>) -> tensor<i32>"""
OUTSIDE = WITHIN.replace("select %more", "select %one")
LEAST = -(2**31)


@pytest.mark.parametrize(
    ("body", "combiner", "start", "resets"),
    [
        (SELECTED, ADD, "%zero", (True, False)),
        (SELECTED, MAXIMUM, "%zero", (True, False)),
        (SELECTED, ADD, "%start", None),  # it begins with something
        (KEPT, ADD, "%zero", (True, None)),
        (CONVERTED, ADD, "%zero", (True, False)),
        (CONVERTED, MAXIMUM, "%zero", None),  # the least i8 is not the least i32
        (WITHIN, ADD, "%zero", None),  # the predicate is made in the branch
        (OUTSIDE, ADD, "%zero", ((True, False), False)),
    ],
)
def test_resets(body: str, combiner: str, start: str, resets: tuple[object, ...] | None) -> None:
    identity, narrow = (0, 0) if combiner == ADD else (LEAST, -128)
    name = combiner.removeprefix("stablehlo.")
    text = LOOP.format(identity=identity, narrow=narrow, start=start, combiner=name, body=body)
    module = parsed(text)
    found = resets_of(Loop(ops_of(module.operation, WHILE)[0]), 1, combiner)
    assert may_reset(found) == (resets is not None)
    if resets is not None:
        assert _listed(found) == resets


def _listed(reset: object) -> object:
    return tuple(map(_listed, reset.resets)) if isinstance(reset, Chosen) else reset
