"""Programs that XLA gets wrong, or in a way of its own: one for each workaround, written as if there were none.

A failure is good news: this version of XLA no longer needs that file, as far as the program shows. The file can go once
no supported version needs it.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

import jaxlib
import numpy as np
import pytest
from numeric.oracle import results
from unit.clusters import available

from paropt.clusters.compiled import TargetError
from paropt.clusters.targets import get
from paropt.hlo.census import SYNC_KINDS, Collective, census

FOLDER = "passes/spmd/xla_quirks"
CPU, TPU, GPU = "cpu:8", "tpu:v5e:2x4", "gpu:h100:1x1x8"

Symptom = Callable[[str, str], bool]  # of a target and a program: whether XLA still does it


def adds_wrong_parts(target: str, program: str) -> bool:
    """Whether results differ from those of the program in which nothing is unreduced."""
    assert target == CPU, "only CPU devices are here"
    plain = re.sub(r", unreduced=\{[^}]*\}", "", program)
    assert plain != program
    pairs = zip(results(program), results(plain), strict=True)
    return not all(np.array_equal(*parts) for pair in pairs for parts in zip(*pair, strict=True))


def refuses(message: str) -> Symptom:
    """Whether XLA aborts, in a child process, or refuses the program, and says `message`."""

    def found(target: str, program: str) -> bool:
        try:
            compiled(target, program)
        except TargetError as error:
            assert message in str(error), f"XLA fails for another reason: {error}"
            return True
        return False

    return found


def reduces_in_the_loop(target: str, program: str) -> bool:
    """Or refuses, as newer versions do where they would have to."""
    try:
        return any(each.loops and each.kind == "all-reduce" for each in compiled(target, program))
    except TargetError as error:
        assert "dropped unreduced axis" in str(error), f"XLA fails for another reason: {error}"
        return True


def communicates(*kinds: str) -> Symptom:
    """Whether the optimized HLO has collectives of exactly these kinds."""
    return lambda target, program: {each.kind for each in compiled(target, program)} == {*kinds}


def reduces_after_all_gathers(array: str) -> Symptom:
    """Whether the optimized HLO has all-gathers, and reduces such an array."""

    def symptom(target: str, program: str) -> bool:
        found = compiled(target, program)
        reduced = [str(each) for c in found if c.kind in SYNC_KINDS for each in c.arrays]
        return array in reduced and any(c.kind == "all-gather" for c in found)

    return symptom


def compiled(target: str, program: str) -> tuple[Collective, ...]:
    return census(get(target).compile(HEAD + program + "}").hlo)


HEAD = "module attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {"

ROWS_OF_A_PRODUCT = """
sdy.mesh @mesh = <["replica"=2, "data"=2, "model"=2]>
func.func public @main(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
                       %y: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<8x8xf32> {
  %p = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{"model"}, {}], unreduced={"data"}> : tensor<8x8xf32>
  %c = sdy.sharding_constraint %u <@mesh, [{"model"}, {}]> : tensor<8x8xf32>
  return %c : tensor<8x8xf32>
}
"""

# The first result of the branches is unreduced, the second one is not.
BRANCHES = """
sdy.mesh @mesh = <["data"=8]>
func.func public @main(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
                       %y: tensor<8x8xf32>, %yes: tensor<i1>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{}, {}], unreduced={"data"}> : tensor<8x8xf32>
  %b:2 = "stablehlo.if"(%yes) ({
    %n = stablehlo.negate %u : tensor<8x8xf32>
    %v = sdy.sharding_constraint %n <@mesh, [{}, {}], unreduced={"data"}> : tensor<8x8xf32>
    stablehlo.return %v, %y : tensor<8x8xf32>, tensor<8x8xf32>
  }, {
    stablehlo.return %u, %y : tensor<8x8xf32>, tensor<8x8xf32>
  }) : (tensor<i1>) -> (tensor<8x8xf32>, tensor<8x8xf32>)
  %w = sdy.sharding_constraint %b#0 <@mesh, [{}, {}], unreduced={"data"}> : tensor<8x8xf32>
  %c = sdy.sharding_constraint %w <@mesh, [{}, {}]> : tensor<8x8xf32>
  return %c, %b#1 : tensor<8x8xf32>, tensor<8x8xf32>
}
"""

A_PART_OF_AN_AXIS = """
sdy.mesh @mesh = <["data"=8]>
func.func public @main() -> tensor<8x8xf32> {
  %zeros = stablehlo.constant dense<0.0> : tensor<8x8xf32>
  %whole = sdy.sharding_constraint %zeros <@mesh, [{}, {}]> : tensor<8x8xf32>
  %u = sdy.sharding_constraint %whole <@mesh, [{}, {}], unreduced={"data":(1)2}> : tensor<8x8xf32>
  %c = sdy.sharding_constraint %u <@mesh, [{}, {}]> : tensor<8x8xf32>
  return %c : tensor<8x8xf32>
}
"""

WRITTEN_AT_ONE_INDEX = """
sdy.mesh @mesh = <["data"=8]>
func.func public @main(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x8x8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x8x8xf32>
  %whole = sdy.sharding_constraint %zeros <@mesh, [{}, {}, {}]> : tensor<4x8x8xf32>
  %start = sdy.sharding_constraint %whole <@mesh, [{}, {}, {}], unreduced={"data"}> : tensor<4x8x8xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4x8x8xf32> cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %u = sdy.sharding_constraint %p <@mesh, [{}, {}], unreduced={"data"}> : tensor<8x8xf32>
    %at = stablehlo.reshape %i : (tensor<i32>) -> tensor<1xi32>
    %n = "stablehlo.scatter"(%acc, %at, %u) <{unique_indices = true, scatter_dimension_numbers = #stablehlo.scatter<
        update_window_dims = [0, 1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 0>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x8x8xf32>, tensor<1xi32>, tensor<8x8xf32>) -> tensor<4x8x8xf32>
    %v = sdy.sharding_constraint %n <@mesh, [{}, {}, {}], unreduced={"data"}> : tensor<4x8x8xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %v : tensor<i32>, tensor<4x8x8xf32>
  }
  %last = sdy.sharding_constraint %w#1 <@mesh, [{}, {}, {}], unreduced={"data"}> : tensor<4x8x8xf32>
  %c = sdy.sharding_constraint %last <@mesh, [{}, {}, {}]> : tensor<4x8x8xf32>
  return %c : tensor<4x8x8xf32>
}
"""

# The rows are sharded by examples, and what they are added to is a sum over the examples.
ADDED_TO_A_SUM = """
sdy.mesh @mesh = <["data"=8]>
func.func public @main(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
                       %rows: tensor<16x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<8x8xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{}, {}], unreduced={"data"}> : tensor<8x8xf32>
  %n = "stablehlo.scatter"(%u, %rows, %x) <{scatter_dimension_numbers = #stablehlo.scatter<
      update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8x8xf32>, tensor<16x1xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %v = sdy.sharding_constraint %n <@mesh, [{}, {}], unreduced={"data"}> : tensor<8x8xf32>
  %c = sdy.sharding_constraint %v <@mesh, [{}, {}]> : tensor<8x8xf32>
  return %c : tensor<8x8xf32>
}
"""

# The gradient of logits that are sharded by classes; the labels are sharded by examples.
LABELS = """
sdy.mesh @mesh = <["data"=8]>
func.func public @main(%h: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
                       %w: tensor<4x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}]>},
                       %labels: tensor<16x1x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {}]>})
                   -> (tensor<4x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}]>}) {
  %zeros = stablehlo.constant dense<0.0> : tensor<16x32xf32>
  %ones = stablehlo.constant dense<1.0> : tensor<16x1xf32>
  %logits = stablehlo.dot_general %h, %w, contracting_dims = [1] x [0] : (tensor<16x4xf32>, tensor<4x32xf32>) -> tensor<16x32xf32>
  %p = stablehlo.negate %logits : tensor<16x32xf32>
  %t = "stablehlo.scatter"(%zeros, %labels, %ones) <{scatter_dimension_numbers = #stablehlo.scatter<
      inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0],
      scatter_dims_to_operand_dims = [1], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<16x32xf32>, tensor<16x1x1xi32>, tensor<16x1xf32>) -> tensor<16x32xf32>
  %d = stablehlo.add %t, %p : tensor<16x32xf32>
  %g = stablehlo.dot_general %h, %d, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x32xf32>) -> tensor<4x32xf32>
  %u = sdy.sharding_constraint %g <@mesh, [{}, {}], unreduced={"data"}> : tensor<4x32xf32>
  %c = sdy.sharding_constraint %u <@mesh, [{}, {"data"}]> : tensor<4x32xf32>
  return %c : tensor<4x32xf32>
}
"""

COLUMNS_OF_OTHERS = """
sdy.mesh @mesh = <["replica"=2, "data"=2, "model"=2]>
func.func public @main(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {"model"}]>},
                       %y: tensor<16x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}) -> tensor<4x2xf32> {
  %g = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x2xf32>) -> tensor<4x2xf32>
  %c = sdy.sharding_constraint %g <@mesh, [{"data"}, {}]> : tensor<4x2xf32>
  return %c : tensor<4x2xf32>
}
"""

POSITIONS = """
sdy.mesh @mesh = <["data"=4, "model"=2]>
func.func public @main(%x: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data", "model"}, {}]>},
                       %y: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>}) -> tensor<64x64xf32> {
  %p = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x64xf32>, tensor<16x64xf32>) -> tensor<64x64xf32>
  %c = sdy.sharding_constraint %p <@mesh, [{}, {"model"}]> : tensor<64x64xf32>
  return %c : tensor<64x64xf32>
}
"""

EXPERTS = """
sdy.mesh @mesh = <["data"=4, "model"=2]>
func.func public @main(%x: tensor<16x4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {"model"}]>},
                       %y: tensor<16x4x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}, {}]>}) -> tensor<4x8x6xf32> {
  %p = stablehlo.dot_general %x, %y, batching_dims = [1] x [1], contracting_dims = [0] x [0]
      : (tensor<16x4x8xf32>, tensor<16x4x6xf32>) -> tensor<4x8x6xf32>
  %c = sdy.sharding_constraint %p <@mesh, [{"model"}, {}, {}]> : tensor<4x8x6xf32>
  return %c : tensor<4x8x6xf32>
}
"""

NUMBERS_OF_ROWS = """
sdy.mesh @mesh = <["data"=4, "model"=2]>
func.func public @main(%rows: tensor<16x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data", "model"}, {}]>},
                       %x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>}) -> tensor<24x8xf32> {
  %zeros = stablehlo.constant dense<0.0> : tensor<24x8xf32>
  %p = "stablehlo.scatter"(%zeros, %rows, %x) <{scatter_dimension_numbers = #stablehlo.scatter<
      update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<24x8xf32>, tensor<16x1xi32>, tensor<16x8xf32>) -> tensor<24x8xf32>
  %c = sdy.sharding_constraint %p <@mesh, [{}, {"model"}]> : tensor<24x8xf32>
  return %c : tensor<24x8xf32>
}
"""

FEATURES_OF_ROWS = """
sdy.mesh @mesh = <["data"=4, "model"=2]>
func.func public @main(%rows: tensor<16x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
                       %x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>}) -> tensor<24x8xf32> {
  %zeros = stablehlo.constant dense<0.0> : tensor<24x8xf32>
  %p = "stablehlo.scatter"(%zeros, %rows, %x) <{scatter_dimension_numbers = #stablehlo.scatter<
      update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<24x8xf32>, tensor<16x1xi32>, tensor<16x8xf32>) -> tensor<24x8xf32>
  %c = sdy.sharding_constraint %p <@mesh, [{"model"}, {"data"}]> : tensor<24x8xf32>
  return %c : tensor<24x8xf32>
}
"""


class Quirk(NamedTuple):
    """What XLA does with a program for some of the targets: those that every supported version does it for."""

    file: str  # that works around it, or takes it into account
    targets: tuple[str, ...]
    program: str
    symptom: Symptom


MISMATCH = refuses("Unreduced axes mismatch between results for multi-result op")
QUIRKS = {
    "a product is cut along an idle axis": Quirk("in_place", (CPU,), ROWS_OF_A_PRODUCT, adds_wrong_parts),
    "some results of branches are unreduced": Quirk("branch_results", (TPU,), BRANCHES, MISMATCH),
    "zeros over a part of an axis": Quirk(
        "branch_results", (CPU, TPU, GPU), A_PART_OF_AN_AXIS, refuses("Sub-axes not")
    ),
    "an update at one index": Quirk("as_slices", (TPU, GPU), WRITTEN_AT_ONE_INDEX, reduces_in_the_loop),
    "rows are added to a sum": Quirk("scatter_rows", (CPU,), ADDED_TO_A_SUM, adds_wrong_parts),
    "a batched scatter is a select": Quirk("exchanges", (TPU, GPU), LABELS, refuses("incompatible sharding")),
    "parts are exchanged after the sum": Quirk(
        "swaps", (CPU,), COLUMNS_OF_OTHERS, communicates("all-reduce", "collective-permute")
    ),
    "positions are gathered": Quirk("operand_gathers", (CPU,), POSITIONS, communicates("all-gather", "all-reduce")),
    "features are exchanged for experts": Quirk(
        "operand_gathers", (CPU,), EXPERTS, communicates("all-to-all", "all-reduce")
    ),
    "numbers of rows are gathered": Quirk(
        "operand_gathers", (CPU,), NUMBERS_OF_ROWS, communicates("all-gather", "all-reduce")
    ),
    "features of rows are gathered": Quirk(
        "operand_gathers", (CPU, TPU, GPU), FEATURES_OF_ROWS, reduces_after_all_gathers("f32[12,8]")
    ),
}
CASES = [(name, target) for name, quirk in QUIRKS.items() for target in quirk.targets]


@pytest.mark.parametrize(("name", "target"), CASES, ids=lambda text: text.partition(":")[0])
def test_xla_still_does_it(name: str, target: str) -> None:
    available(target)
    file, _, program, symptom = QUIRKS[name]
    message = f"XLA of jaxlib {jaxlib.__version__} no longer needs {FOLDER}/{file}.py for {target}: {name}"
    assert symptom(target, program), message
