"""Which values are the same in each trip, and that each op is looked at once to find out."""

from collections.abc import Iterator

import pytest
from jaxlib.mlir import ir
from modules import parsed

from paropt.passes.dataflow import loop_invariants as invariants
from paropt.passes.dataflow.loop_invariants import Varying
from paropt.passes.ir.loops import Loop
from paropt.passes.support.traversal import ops_of

# %fixed is carried unchanged; %0 to %9 are of values from outside, each reads the one before twice.
TEXT = """
func.func @main(%w: tensor<f32>) -> tensor<f32> {{
  %start = stablehlo.constant dense<0> : tensor<i32>
  %bound = stablehlo.constant dense<4> : tensor<i32>
  %step = stablehlo.constant dense<1> : tensor<i32>
  %r:3 = stablehlo.while(%i = %start, %fixed = %w, %x = %w) : tensor<i32>, tensor<f32>, tensor<f32>
  cond {{
    %more = stablehlo.compare LT, %i, %bound, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  }} do {{
    %next = stablehlo.add %i, %step : tensor<i32>
    %0 = stablehlo.add %fixed, %w : tensor<f32>
    {chain}
    %10 = stablehlo.negate %x : tensor<f32>
    %11 = stablehlo.add %9, %10 : tensor<f32>
    %12 = stablehlo.add %10, %9 : tensor<f32>
    %13 = stablehlo.add %10, %9 : tensor<f32>
    %14 = stablehlo.optimization_barrier %9 : tensor<f32>
    stablehlo.return %next, %fixed, %11 : tensor<i32>, tensor<f32>, tensor<f32>
  }}
  return %r#2 : tensor<f32>
}}
""".format(chain="\n".join(f"%{n} = stablehlo.add %{n - 1}, %{n - 1} : tensor<f32>" for n in range(1, 10)))
OPS = ["next", *map(str, range(15))]  # in the body, in order


@pytest.fixture
def loop() -> Iterator[Loop]:
    module = parsed(TEXT)
    (op,) = ops_of(module.operation, "stablehlo.while")
    yield Loop(op)  # while there is the module


def values(loop: Loop) -> dict[str, ir.Value]:
    return dict(zip(OPS, (op.results[0] for op in list(loop.body.operations)[:-1]), strict=True))


def test_what_depends_on_a_changing_value_varies(loop: Loop) -> None:
    varying = Varying(loop)
    found = {name for name, value in values(loop).items() if value in varying}
    assert found == {"next", "10", "11", "12", "13", "14"}  # 14: XLA leaves a barrier where it is


@pytest.mark.parametrize("order", [1, -1])
def test_each_op_is_looked_at_once(order: int, loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    reads = invariants.reads

    def count(op: ir.Operation) -> list[ir.Value]:
        asked.append(str(op.results[0].get_name()))
        return reads(op)

    monkeypatch.setattr(invariants, "reads", count)
    varying, made = Varying(loop), list(values(loop).values())
    for value in made[::order]:
        _ = value in varying
    assert asked
    assert len(asked) == len(set(asked))
