"""Sharded contractions, over the axes of a mesh in every way: operands, contracting dimensions and result.

XLA cuts and moves parts of a product by rules of its own. Of what is not reduced, parts of the wrong addends come
together in some of these ways, without a word.
"""

from functools import cache
from itertools import product

import numpy as np
import pytest
from numeric.oracle import optimized, results

AXES = ("a", "b", "c")
SIDES = ("left", "right")
# Which dimension an axis splits, of what is read and of the result; "" is none. What is on the left may not go right.
ROLES = [(before, after) for before in ("added", *SIDES, "") for after in ("", *SIDES) if {before, after} != {*SIDES}]
PLANS = [plan for plan in product(ROLES, repeat=len(AXES)) if any(before == "added" for before, _ in plan)]
PRODUCTS = {
    "dot_general": "stablehlo.dot_general {}, {}, contracting_dims = [1] x [0]",
    "convolution": "stablehlo.convolution({}, {}) dim_numbers = [b, f]x[i, o]->[b, f], window = {{}} "
    "{{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}",
}
PROGRAM = """
module attributes {{mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32}} {{
  sdy.mesh @mesh = <["a"=2, "b"=2, "c"=2]>
  func.func public @main({arguments}) -> {type} {{
    {constraints}
    %p = {first} : ({type}, {type}) -> {type}
    %q = {second} : ({type}, {type}) -> {type}
    %n = stablehlo.add %p, %q : {type}
    %c = sdy.sharding_constraint %n <@mesh, {result}> : {type}
    return %c : {type}
  }}
}}
"""
TYPE = "tensor<16x16xf32>"


Plan = tuple[tuple[str, str], ...]  # what each axis does


def program_of(plan: Plan, operation: str) -> str:
    """The sum of two products, which are split alike."""

    def split(*dimensions: str, of_result: bool) -> str:
        pairs = list(zip(AXES, plan, strict=True))
        axes = [", ".join(f'"{axis}"' for axis, role in pairs if role[of_result] == each) for each in dimensions]
        return f"[{', '.join('{' + over + '}' for over in axes)}]"

    left, right = split("left", "added", of_result=False), split("added", "right", of_result=False)
    operands = {"x0": left, "y0": right, "x1": left, "y1": right}
    arguments = [f"%{name}: {TYPE} {{sdy.sharding = #sdy.sharding<@mesh, {lies}>}}" for name, lies in operands.items()]
    closed = [f"%{name}_ = sdy.sharding_constraint %{name} <@mesh, {lies}> : {TYPE}" for name, lies in operands.items()]
    return PROGRAM.format(
        arguments=", ".join(arguments),
        constraints="\n    ".join(closed),
        first=PRODUCTS[operation].format("%x0_", "%y0_"),
        second=PRODUCTS[operation].format("%x1_", "%y1_"),
        result=split("left", "right", of_result=True),
        type=TYPE,
    )


@cache
def whole(operation: str) -> np.ndarray:
    """The result where nothing is split: each device computes all of it, from the same data."""
    ((first, *others),) = results(program_of((("", ""),) * len(AXES), operation))
    assert all(np.array_equal(first, other) for other in others)
    return first


def is_half(plan: Plan) -> bool:
    """Left and right are alike: the plans that name left first, or neither."""
    return next((side for role in plan for side in role if side in SIDES), "left") == "left"


@pytest.mark.parametrize(
    ("operation", "passes"),
    [
        ("convolution", "grad-sync"),
        ("dot_general", "grad-sync{policy=defer}"),
        ("dot_general", "grad-sync{axes=a}"),
    ],
)
def test_sum_of_products_is_right(operation: str, passes: str) -> None:
    moved = 0
    for plan in filter(is_half, PLANS):
        after, _ = optimized(program_of(plan, operation), passes)
        if "unreduced" in after:
            moved += 1
            (found,) = results(after)  # of the whole result, whatever it was split over
            for got in found:
                np.testing.assert_array_equal(got, whole(operation))
    assert moved > len(PLANS) / 8, "most stay as they are: nothing is tested"
