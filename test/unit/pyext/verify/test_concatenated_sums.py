"""Sums that a compiler concatenates with what collectives of the module reduce over the same devices."""

from unit.pyext.verify.test_verification import DATA, MODEL, STEP, SUM, module, reduction

from paropt.verify.verification import Reduced, mismatches, prediction

TWO_STEPS = """
  %m = sdy.manual_computation(%s) in_shardings=[<@mesh, [{}, {}]>] out_shardings=[<@mesh, [{"model"}, {}]>] manual_axes={"data", "model"} (%v: tensor<8x8xf32>) {
    %four = stablehlo.concatenate %v, %v, %v, %v, dim = 0 : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<32x8xf32>
    %part = "stablehlo.reduce_scatter"(%four) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>, scatter_dimension = 0 : i64, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %n = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %n : tensor<f32>
    }) : (tensor<32x8xf32>) -> tensor<16x8xf32>
    %all = "stablehlo.all_reduce"(%part) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %n = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %n : tensor<f32>
    }) : (tensor<16x8xf32>) -> tensor<16x8xf32>
    sdy.return %all : tensor<16x8xf32>
  } : (tensor<8x8xf32>) -> tensor<32x8xf32>
  return %s : tensor<8x8xf32>
"""  # fmt: skip


def test_concatenated_with_a_second_step() -> None:
    """A collective that the module lists is over its own devices: so it is no reason for an array over others."""
    predicted = prediction(module(STEP.replace("  return %s : tensor<8x8xf32>\n", TWO_STEPS)).operation)
    found = {(each.most, each.group, each.axes) for each in predicted.others}
    assert found == {(128, 4, DATA), (256, 2, MODEL)}
    first = reduction(256, group=2, kind="reduce-scatter")
    assert mismatches(predicted, [first, reduction(64 + 128)]) == []
    assert mismatches(predicted, [first, SUM, reduction(128)]) == []
    lost = ["a reduction of 64 elements over 4 devices is missing, one of 1"]
    assert mismatches(predicted, [first, reduction(128)]) == lost
    assert mismatches(predicted, [first, reduction(192, group=2), reduction(128)]) == lost


PARTLY_MANUAL = """
  %m = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data"}, {"model"}]>] out_shardings=[<@mesh, [{}, {"model"}]>] manual_axes={"data"} (%p: tensor<4x8xf32>) {
    %q = "stablehlo.all_reduce"(%p) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%one: tensor<f32>, %other: tensor<f32>):
      %added = stablehlo.add %one, %other : tensor<f32>
      stablehlo.return %added : tensor<f32>
    }) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    sdy.return %q : tensor<4x8xf32>
  } : (tensor<16x8xf32>) -> tensor<4x8xf32>
  return %s, %m : tensor<8x8xf32>, tensor<4x8xf32>
"""


def test_concatenated_with_a_collective_of_the_module() -> None:
    """What each device has of it, where one axis is left to the partitioner, is known: 16 elements of 32."""
    text = STEP.replace("  return %s : tensor<8x8xf32>\n", PARTLY_MANUAL[1:])
    text = text.replace("-> tensor<8x8xf32> {", "-> (tensor<8x8xf32>, tensor<4x8xf32>) {", 1)
    predicted = prediction(module(text).operation)
    assert Reduced(16, 16, 4, False, 1.0, DATA) in predicted.others
    assert mismatches(predicted, [reduction(16), SUM]) == []
    assert mismatches(predicted, [reduction(16 + 64)]) == []
    assert mismatches(predicted, [reduction(16)]) == ["a reduction of 64 elements over 4 devices is missing, one of 1"]
