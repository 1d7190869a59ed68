"""Sums that a compiler concatenates with each other, or with what collectives of the module reduce, over the same devices."""

from dataclasses import replace

from unit.pyext.verify.test_verification import DATA, LOOP, MODEL, STEP, SUM, module, reduction

from paropt.verify.verification import Key, Prediction, Reduced, mismatches, prediction

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


def test_concatenated_where_others_may_be() -> None:
    """XLA:GPU concatenates arrays: one of just their size holds those that are too few, whatever else it may be."""
    closings = tuple(Reduced(size, size, 2, False, 1.0) for size in (16, 8))
    predicted = Prediction({}, closings, (), (Reduced(1, 64, 0, True, 4.0),), frozenset())
    assert mismatches(predicted, [reduction(24, group=2)]) == []
    assert mismatches(predicted, [reduction(20, group=2)]) == [
        "a reduction of 16 elements over 2 devices is missing, one of 2"
    ]


def test_concatenated_with_others() -> None:
    """Of the array of 4 and that of 1, XLA:GPU may have made another kind: what is too few is counted together."""
    closings = tuple(Reduced(size, size, 2, False, 1.0) for size in (16, 4, 1, 1))
    numbers = (Reduced(1, 1, 2, False, 1.0),) * 4
    predicted = Prediction({}, closings, (), (Reduced(1, 64, 0, True, 4.0), *numbers), frozenset())
    four, one = reduction(4, group=2), reduction(group=2)
    assert mismatches(predicted, [four, reduction(21, group=2), one]) == []
    missing = ["a reduction of 16 elements over 2 devices is missing, one of 2"]
    assert mismatches(predicted, [four, one, reduction(27, group=2)]) == missing  # there is not as much
    assert mismatches(predicted, [four, one, reduction(21, group=2, loops=(LOOP,))]) == missing
    another = replace(predicted, others=(*predicted.others, Reduced(21, 21, 2, False, 1.0)))
    assert mismatches(another, [four, one, reduction(21, group=2)]) == missing


def test_concatenated_to_the_size_of_a_third_one() -> None:
    """As XLA:GPU does with the sums of keys and values, which together are as large as one layer's projection."""
    closings = tuple(Reduced(size, size, 2, False, 1.0) for size in (8, 8, 32))
    third = Key(16, 2)
    predicted = Prediction({third: "there"}, closings, (), (), frozenset({third}))
    together, large = reduction(16, group=2), reduction(32, group=2)
    assert mismatches(predicted, [together, large]) == []
    eight = [reduction(8, group=2)] * 2
    for lost in (
        [*eight, large, together],  # all that is asked for is there, and so is the third
        [together, large, together],
        [large, reduction(16, group=2, loops=(LOOP,))],
        [eight[0], large, together],  # one of 8 is too few: it is not all of 16
    ):
        assert "16 elements over 2 devices runs" in mismatches(predicted, lost)[0], lost
    maybe_cut = predicted.closings[0]._replace(fewest=1)
    unknown = replace(predicted, closings=(maybe_cut, *predicted.closings[1:]))
    assert "16 elements over 2 devices runs" in mismatches(unknown, [together, large])[0]
