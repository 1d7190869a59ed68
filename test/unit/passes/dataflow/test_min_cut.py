"""The placement of reductions is a minimum: checked against every possibility on small programs."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st
from jaxlib.mlir import ir
from modules import parsed
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from paropt.passes.dataflow.min_cut import _BYTE, Flow, Placement, may_move
from paropt.passes.dataflow.partial_values import BlockFacts, PartialValues
from paropt.passes.ir.types import bytes_of
from paropt.passes.support.traversal import op_of

REDUCED = """"stablehlo.all_reduce"(%x{n}) ({{
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %r = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %r : tensor<f32>
  }}) {{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}} : (tensor<{n}xf32>) -> tensor<{n}xf32>"""
SIZES = (2, 4)


@st.composite
def programs(draw: st.DrawFn) -> str:
    """Straight-line code on vectors of 2 and 4: reductions, sums, slices, broadcasts, and reads of reduced values."""
    lines: list[str] = []
    known: dict[int, list[str]] = {n: [] for n in SIZES}

    def define(n: int, text: str) -> None:
        known[n].append(f"%v{len(lines)}")
        lines.append(f"%v{len(lines)} = {text}")

    for n in SIZES:
        define(n, REDUCED.format(n=n))
    for _ in range(draw(st.integers(2, 7))):
        n = draw(st.sampled_from(SIZES))
        one, two = (draw(st.sampled_from(known[n])) for _ in range(2))
        match draw(st.sampled_from(["reduce", "add", "add", "resize", "read"])):
            case "reduce":
                define(n, REDUCED.format(n=n))
            case "add":
                define(n, f"stablehlo.add {one}, {two} : tensor<{n}xf32>")
            case "resize" if n == 4:
                define(2, f"stablehlo.slice {one} [0:2] : (tensor<4xf32>) -> tensor<2xf32>")
            case "resize":
                define(
                    4,
                    f"stablehlo.pad {one}, %zero, low = [1], high = [1], interior = [0] "
                    ": (tensor<2xf32>, tensor<f32>) -> tensor<4xf32>",
                )
            case "read":
                define(n, f"stablehlo.tanh {one} : tensor<{n}xf32>")
    results = [draw(st.sampled_from(known[n])) for n in SIZES]
    body = "\n  ".join(["%zero = stablehlo.constant dense<0.0> : tensor<f32>", *lines])
    types = ", ".join(f"tensor<{n}xf32>" for n in SIZES)
    return (
        "module attributes {mhlo.num_replicas = 2 : i32} { func.func @main(%x2: tensor<2xf32>, %x4: tensor<4xf32>) "
        f"-> ({types}) {{\n  {body}\n  return {', '.join(results)} : {types}\n}} }}"
    )


def cost(values: list[ir.Value]) -> tuple[int, int]:
    return sum(bytes_of(ir.RankedTensorType(value.type)) for value in values), len(values)


def closed_by(split: set[ir.Value], partial: PartialValues) -> list[ir.Value] | None:
    """What must be reduced when the ops of `split` come before the reductions; None when that is no valid choice."""
    for value in split:
        operands = op_of(value).operands
        if any(operands[i] in partial.values and operands[i] not in split for i in partial.values[value].addends):
            return None
    return [v for v in split if any(partial.made_by(u) not in split for u in v.uses)]


def cheapest(partial: PartialValues) -> tuple[int, int]:
    """The least bytes and arrays over all choices of what to compute before the reductions."""
    sources = [value for value, made in partial.values.items() if not made.addends]
    others = [value for value, made in partial.values.items() if made.addends]
    found = []
    for choice in itertools.product([False, True], repeat=len(others)):
        split = {*sources, *(value for value, chosen in zip(others, choice, strict=True) if chosen)}
        values = closed_by(split, partial)
        if values is not None:
            found.append(cost(values))
    return min(found)


@settings(deadline=None, max_examples=150)
@given(programs())
def test_nothing_is_cheaper(text: str) -> None:
    module = parsed(text)
    (function,) = module.body.operations
    facts = BlockFacts(function.regions[0].blocks[0], "widening")
    ((reduction, ops),) = facts.reductions.kinds.items()
    partial = facts.partial_values(reduction, [op.results[0] for op in ops])
    placement = Placement(partial)
    assert closed_by(set(placement.split), partial) is not None
    assert cost(placement.closed) == cheapest(partial)
    assert may_move(partial) or all(map(partial.is_source, placement.closed))


def test_capacities_are_larger_than_scipy_holds() -> None:
    """Else its maximum flow would do, and `Flow` could go."""
    capacity = 4096 * _BYTE + 1
    flow = Flow(3)
    flow.connect(Flow.SOURCE, 2, capacity)
    flow.connect(2, Flow.SINK, capacity + 1)
    assert flow.source_side() == {Flow.SOURCE}
    graph = csr_array(([capacity, capacity + 1], ([0, 2], [2, 1])), shape=(3, 3))
    assert maximum_flow(graph, 0, 1).flow_value != capacity
