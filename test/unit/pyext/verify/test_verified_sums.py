"""Which reductions explain what an executable has: terms of one addition, and sums in manual computations."""

from dataclasses import replace

import pytest
from unit.pyext.verify.test_verification import DOT, LOOP, MODEL, STEP, SUM, module, reduction

from paropt.verify.verification import Prediction, Reduced, mismatches, prediction


@pytest.mark.parametrize(("is_added", "lacking"), [(True, 0), (False, 1)])
def test_terms_of_one_addition_may_be_added_before_they_are_reduced(is_added: bool, lacking: int) -> None:
    """As the two gradients of a tied embedding are: what XLA reduces once is what only one addition reads."""
    tagged = '<@mesh, [{}, {}], unreduced={"data"}> : tensor<8x8xf32>'
    second = f"""
    %e = {DOT}
    %e1 = sdy.sharding_constraint %e {tagged}
    %b = stablehlo.add {"%t1" if is_added else "%e1"}, %e1 : tensor<8x8xf32>
    %b1 = sdy.sharding_constraint %b {tagged}
    %a = stablehlo.add %sum, %b1"""
    text = STEP.replace('[{"data"}, {}]>}', '[{"data", "model"}, {}]>}').replace(
        "\n    %a = stablehlo.add %sum, %t1", second
    )
    if not is_added:  # the first one is read by nothing but the loop's other result
        text = text.replace("stablehlo.add %sum, %b1", "stablehlo.add %b1, %t1")
    predicted = prediction(module(text).operation)
    assert [reduced.axes for reduced in predicted.kept] == [MODEL, MODEL]
    kept = reduction(8, 8, group=2, loops=(LOOP,))
    assert mismatches(predicted, [SUM, kept, kept]) == []
    assert len(mismatches(predicted, [SUM, kept])) == lacking
    assert "a reduction of 64 elements over 2 devices is missing" in mismatches(predicted, [SUM])[0]


def test_a_sum_in_a_manual_computation_is_over_none_of_its_axes() -> None:
    """So it doesn't explain an array over these, in which XLA:GPU concatenates a sum that the module asks for."""
    body = """
  %m = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"model", ?}, {?}]>] out_shardings=[<@mesh, [{"model", ?}]>] manual_axes={"model"} (%a: tensor<8x8xf32>) {
    %n = stablehlo.constant dense<0.0> : tensor<f32>
    %b = stablehlo.reduce(%a init: %n) applies stablehlo.add across dimensions = [1] : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32>
    sdy.return %b : tensor<8xf32>
  } : (tensor<16x8xf32>) -> tensor<16xf32>
  %c0 ="""
    predicted = prediction(module(STEP.replace("  %c0 =", body[1:], 1)).operation)
    (inside,) = (reduced for reduced in predicted.others if not reduced.in_loop)
    assert inside == Reduced(1, 8, 0, False, 1.0, not_over=MODEL)
    norm, sent = Reduced(1, 1, 2, False, 1.0, MODEL), Reduced(4, 4, 2, False, 1.0, MODEL)
    asked = replace(predicted, unreduced={}, closings=(norm,), others=(sent, inside), in_loops=frozenset())
    joined = replace(reduction(5, group=2), axes=("model",))
    assert mismatches(asked, [joined]) == []
    anywhere = replace(asked, others=(sent, inside._replace(not_over=frozenset())))
    assert mismatches(anywhere, [joined]) == []  # of just that size
    other = replace(reduction(6, group=2), axes=("model",))
    assert mismatches(anywhere, [other]) == ["a reduction of 1 elements over 2 devices is missing, one of 1"]
    assert not inside.is_over(2, frozenset({"model:(1)2"}))


def test_what_may_be_anything_explains_no_array_of_just_the_size_of_what_is_asked_for() -> None:
    """XLA:GPU concatenates the gradients of layers with those of a table, which it may reduce over any devices."""
    closings = tuple(Reduced(size, size, 2, False, 1.0) for size in (16, 16, 8))
    table = Reduced(4, 32, 2, False, 1.0)
    predicted = Prediction({}, closings, (), (Reduced(1, 64, 0, False, 1.0), table), frozenset())
    fitting = [[44], [40], [16, 28], [16, 16, 12], [36, 8]]
    for sizes in fitting:
        assert mismatches(predicted, [reduction(size, group=2) for size in sizes]) == [], sizes
    for sizes in [[43], [16, 16], [16, 20], [4, 62], [32]]:
        assert mismatches(predicted, [reduction(size, group=2) for size in sizes]), sizes


@pytest.mark.parametrize("is_in_loop", [False, True])
def test_what_a_compiler_takes_out_of_a_loop_may_be_concatenated_with_what_is_asked_for(is_in_loop: bool) -> None:
    """As the gradient of a bias, which XLA:GPU adds up first, and a norm behind the loop."""
    norm, bias, loss = Reduced(1, 1, 2, False, 1.0), Reduced(64, 64, 2, is_in_loop, 4.0), Reduced(1, 1, 2, True, 4.0)
    predicted = Prediction({}, (norm,), (), (bias, loss, Reduced(1, 512, 0, True, 4.0)), frozenset())
    assert mismatches(predicted, [reduction(65, group=2)]) == []
    kept = reduction(65, group=2, loops=(LOOP,))
    assert len(mismatches(predicted, [kept])) == 1
    assert len(mismatches(predicted, [reduction(64, group=2), reduction(67, group=2)])) == 1


def test_very_many_sizes_are_not_tried() -> None:
    closings = tuple(Reduced(2**power, 2**power, 2, False, 1.0) for power in range(60))
    predicted = Prediction({}, closings, (), (Reduced(1, 2**62, 0, False, 1.0),), frozenset())
    assert mismatches(predicted, [reduction(2**61, group=2)])
