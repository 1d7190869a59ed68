"""For how many devices a module is, as jax says or as its meshes and replica groups do, and that it is run on so many."""

import jax
import pytest
from modules import parsed
from programs.catalog import MATRIX
from programs.program import Sizes

import paropt
from paropt.base.device_grid import device_grid

MESHES = '  sdy.mesh @pair = <["model"=2]>\n  sdy.mesh @all = <["data"=4, "model"=2]>\n  sdy.mesh @one = <[], device_ids=[0]>\n'
REDUCED = """  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
"""


@pytest.mark.parametrize(
    "attributes, body, grid",
    [
        ("mhlo.num_replicas = 2 : i32, mhlo.num_partitions = 4 : i32", MESHES, (2, 4)),
        ("mhlo.num_replicas = 8 : i32", REDUCED, (8, 1)),
        ("mhlo.num_replicas = 1 : i32, mhlo.num_partitions = 1 : i32", "", (1, 1)),
        ("", MESHES + REDUCED, (1, 8)),
        ("", REDUCED, (4, 1)),
        ("", "", (1, 1)),
    ],
)
def test_device_grid(attributes: str, body: str, grid: tuple[int, int]) -> None:
    module = parsed(f"module attributes {{{attributes}}} {{\n{body}}}")
    assert device_grid(module.operation) == grid


def test_a_module_without_counts_is_checked_on_its_mesh() -> None:
    program = MATRIX["plain_mlp_p0"](Sizes())
    text = jax.jit(program.step).lower(*program.args).as_text()
    counts = "mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32"
    assert counts in text
    found = paropt.check(text.replace(counts, ""), passes="grad-sync")
    assert found.is_changed and found.is_same and found.devices == 8
