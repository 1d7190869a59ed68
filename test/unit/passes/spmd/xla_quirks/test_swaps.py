"""Where devices exchange the parts of a sum, and do not scatter it: facts, without any change."""

from typing import Any

import pytest
from jaxlib.mlir import ir

from paropt.passes.sharding.axes import Axes, Axis
from paropt.passes.sharding.shardings import Sharding
from paropt.passes.spmd.close_sum import Scatter, scatter_steps
from paropt.passes.spmd.producers import Producer
from paropt.passes.spmd.xla_quirks.swaps import as_operands_lie
from paropt.passes.support.context import make_context
from paropt.passes.support.traversal import ops_of

DATA, MODEL, REPLICA, WIDE, LONG = map(Axis, ("data", "model", "replica", "wide", "long"))
PART = Axis("wide", 1, 2)
TEXT = """
sdy.mesh @mesh = <["replica"=2, "data"=2, "model"=2, "wide"=4, "long"=4]>
func.func @main(%x: tensor<16x8xf32>, %y: tensor<16x4xf32>) -> tensor<8x4xf32> {
  %p = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %n = stablehlo.negate %p : tensor<8x4xf32>
  return %n : tensor<8x4xf32>
}
"""
MODULE = ir.Module.parse(TEXT, make_context()).operation
RULE = "#sdy.op_sharding_rule<([i, j], [i, k])->([j, k]) {i=16, j=8, k=4} reduction={i}>"


def lies(*dimensions: Axis | str, unreduced: Axes = ()) -> Sharding:
    """`""` for a dimension that is not split."""
    return Sharding("@mesh", tuple((axis,) if isinstance(axis, Axis) else () for axis in dimensions), unreduced)


START, END = lies(MODEL, "", unreduced=(REPLICA, DATA)), lies(DATA, "", unreduced=(REPLICA,))
SWAPPED = [Scatter(0, (DATA,), (MODEL,))]

NONE: list[Scatter] = []
SCATTERS = {
    "exchanged": (START, END, (8, 4), SWAPPED),
    "scattered": (lies("", "", unreduced=(DATA,)), lies(DATA, ""), (8, 4), [Scatter(0, (DATA,))]),
    "exchanged, and cut": (lies(MODEL, "", unreduced=(REPLICA, DATA)), lies(DATA, REPLICA), (8, 4), [*SWAPPED, Scatter(1, (REPLICA,))]),
    "no sum over the axis that splits it": (lies(MODEL, "", unreduced=(REPLICA,)), lies(DATA, ""), (8, 4), NONE),
    "no sum yet": (START, lies(DATA, "", unreduced=(REPLICA, DATA)), (8, 4), NONE),
    "the axis splits another dimension then": (START, lies(DATA, MODEL, unreduced=(REPLICA,)), (8, 4), NONE),
    "an axis of another size": (lies(WIDE, "", unreduced=(DATA,)), lies(DATA, ""), (8, 4), NONE),
    "unequal parts": (START, END, (7, 4), NONE),
    "split as before": (lies(MODEL, "", unreduced=(DATA,)), lies(MODEL, ""), (8, 4), NONE),
}  # fmt: skip


@pytest.mark.parametrize(("start", "end", "shape", "found"), SCATTERS.values(), ids=SCATTERS.keys())
def test_steps(start: Sharding, end: Sharding, shape: tuple[int, ...], found: list[Scatter]) -> None:
    assert scatter_steps(MODULE, shape, start, end) == found


class Given:
    """What Shardy could have found: it may reshard operands, and leave none like that."""

    def __init__(self, *operands: Sharding) -> None:
        self._operands = list(operands)

    def operand_shardings(self, _: ir.Operation) -> list[Sharding]:
        return self._operands

    def sharding_rule(self, _: ir.Operation) -> str:
        return RULE


X, Y = lies(DATA, MODEL), lies(DATA, "")
WHOLE, SHARD = lies("", "", unreduced=(DATA,)), lies(DATA, "")
PRODUCTS = {
    "its columns": (Given(X, Y), WHOLE, SHARD, lies(MODEL, "", unreduced=(DATA,))),
    "all columns": (Given(Y, Y), WHOLE, SHARD, None),
    "a part of an axis": (Given(lies(LONG, PART), lies(LONG, "")), lies("", "", unreduced=(LONG,)), lies(LONG, ""), None),
    "columns that the axis splits of another dimension": (Given(X, X), lies("", MODEL, unreduced=(DATA,)), lies(DATA, MODEL), None),
    "not split then": (Given(X, Y), WHOLE, lies("", ""), None),
}  # fmt: skip


def producer_of(name: str) -> Producer:
    (op,) = ops_of(MODULE, name)
    return Producer(op.results[0], "@mesh", (DATA,), ((), ()), op)


@pytest.mark.parametrize(("given", "whole", "shard", "found"), PRODUCTS.values(), ids=PRODUCTS.keys())
def test_products(given: Any, whole: Sharding, shard: Sharding, found: Sharding | None) -> None:
    assert as_operands_lie(producer_of("stablehlo.dot_general"), whole, shard, given) == found


def test_only_products() -> None:
    """Of no other op it was measured what XLA does."""
    given: Any = Given(X, Y)
    assert as_operands_lie(producer_of("stablehlo.negate"), WHOLE, SHARD, given) is None
