"""How many multiplications a device makes for a product, however it is split."""

import pytest
from jaxlib.mlir import ir
from modules import parsed

from paropt.passes.dataflow.duplication_cost import multiplications
from paropt.passes.support.traversal import ops_of

PRODUCTS = {
    "a matrix product": (
        "%r = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] NOTE : (tensor<4x6xf32>, tensor<6x10xf32>) -> tensor<4x10xf32>",
        "tensor<4x6xf32>, %y: tensor<6x10xf32>",
        4 * 6 * 10,
    ),
    "a batch of them": (
        "%r = stablehlo.dot_general %x, %y, batching_dims = [0] x [0], contracting_dims = [2] x [1] NOTE : (tensor<8x4x6xf32>, tensor<8x6x10xf32>) -> tensor<8x4x10xf32>",
        "tensor<8x4x6xf32>, %y: tensor<8x6x10xf32>",
        8 * 4 * 6 * 10,
    ),
    "a convolution": (
        "%r = stablehlo.convolution(%x, %y) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x4xf32>, tensor<3x4x6xf32>) -> tensor<2x8x6xf32>",
        "tensor<2x8x4xf32>, %y: tensor<3x4x6xf32>",
        2 * 8 * 6 * 3 * 4,
    ),
    "a sum": ("%r = stablehlo.add %x, %y : tensor<4xf32>", "tensor<4xf32>, %y: tensor<4xf32>", 0),
}  # fmt: skip


def result_of(name: str, note: str = "") -> tuple[ir.Module, ir.Value]:
    text, arguments, _ = PRODUCTS[name]
    made = text.replace("NOTE", note)
    mesh = 'sdy.mesh @mesh = <["data"=2, "model"=2]>\n'
    module = parsed(f"{mesh}func.func @main(%x: {arguments}) {{\n{made}\nreturn\n}}")
    op = next(
        op for op in ops_of(module.operation, *(f"stablehlo.{kind}" for kind in ("dot_general", "convolution", "add")))
    )
    return module, op.results[0]


@pytest.mark.parametrize("name", PRODUCTS)
def test_multiplications(name: str) -> None:
    _module, value = result_of(name)
    assert multiplications(value) == PRODUCTS[name][2]


def test_each_device_multiplies_its_part() -> None:
    note = '{paropt.shardings = [#sdy.sharding<@mesh, [{"data"}, {"model"}]>]}'
    _module, value = result_of("a matrix product", note)
    assert multiplications(value) == 4 * 6 * 10 // 4
