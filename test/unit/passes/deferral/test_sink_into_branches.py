"""What comes back from a branch gets its place again, unless what it reads is made behind that now."""

import pytest
from modules import parsed

from paropt.passes.deferral.sink_into_branches import _put_back

TEXT = """
func.func @main(%x: tensor<f32>, %p: tensor<i1>) -> tensor<f32> {
  %0 = stablehlo.sine %x : tensor<f32>
  %1 = stablehlo.cosine %x : tensor<f32>
  %2 = stablehlo.negate %0 : tensor<f32>
  %3 = "stablehlo.if"(%p) ({
    stablehlo.return %0 : tensor<f32>
  }, {
    stablehlo.return %x : tensor<f32>
  }) : (tensor<i1>) -> tensor<f32>
  return %1 : tensor<f32>
}
"""


@pytest.mark.parametrize(
    ("moved", "place", "order"),
    [
        ("negate", 1, ["sine", "negate", "cosine", "if"]),
        ("negate", 0, ["sine", "cosine", "negate", "if"]),  # it reads the sine
        ("if", 1, ["sine", "if", "cosine", "negate"]),
        ("if", 0, ["sine", "cosine", "negate", "if"]),  # a branch reads it
    ],
)
def test_put_back(moved: str, place: int, order: list[str]) -> None:
    module = parsed(TEXT)
    block = module.body.operations[0].operation.regions[0].blocks[0]
    (op,) = (view.operation for view in block.operations if view.operation.name == f"stablehlo.{moved}")
    _put_back(block, [(place, op)])
    assert [view.operation.name.removeprefix("stablehlo.") for view in block.operations][:-1] == order
