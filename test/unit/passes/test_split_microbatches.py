"""Which arguments have the examples, and what is said when that, or their number, is not clear."""

import pytest
from modules import parsed

from paropt.passes.support.pipeline import Pipeline, PipelineError
from paropt.passes.support.remarks import Remark

STEP = """
  sdy.mesh @mesh = <["data"=4]>
  func.func public @main({arguments}) -> (tensor<4xf32> {{jax.result_info = "result[0]['w']"}}, tensor<4xf32>) {{
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %g = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
    %n = stablehlo.subtract %w, %g : tensor<4xf32>
    %h = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<{rows}x4xf32>, tensor<f32>) -> tensor<4xf32>
    return %n, %h : tensor<4xf32>, tensor<4xf32>
  }}
"""
W, X = """%w: tensor<4xf32> loc("state['w']")""", """%x: tensor<8x4xf32> loc("batch['x']")"""
KEY, RATE = """%k: tensor<2xui32> loc("key")""", """%r: tensor<f32> loc("rate")"""


def y(rows: int) -> str:
    return f"""%y: tensor<{rows}x4xf32> loc("batch['y']")"""


def split(options: str, *arguments: str, rows: int = 8) -> tuple[str, Remark]:
    """The module after the pass, and what it says."""
    module = parsed(STEP.format(arguments=", ".join(arguments), rows=rows))
    (remark,) = Pipeline.parse(f"split-microbatches{{{options}}}").run(module.operation)
    return str(module), remark


def test_all_that_is_no_state_no_key_and_no_scalar_has_examples() -> None:
    text, remark = split("count=2", W, X, y(8), KEY, RATE)
    assert remark.applied and remark.text == "a loop over 2 micro-batches of 4 examples"
    assert text.count("stablehlo.dynamic_slice") == 2


@pytest.mark.parametrize("names", ["batch/x", "\"batch['x']\"", "1"])
def test_arguments_by_name_and_number(names: str) -> None:
    text, remark = split(f"count=2 arguments={names}", W, X, y(3), rows=3)
    assert remark.applied
    assert text.count("stablehlo.dynamic_slice") == 1


def test_a_name_may_be_the_beginning_of_several() -> None:
    text, _ = split("count=2 arguments=batch", W, X, y(8))
    assert text.count("stablehlo.dynamic_slice") == 2


@pytest.mark.parametrize(
    "options, arguments, rows, reason",
    [
        ("count=2", (W, X, y(6)), 6, "argument 1 (batch['x']) has 8 examples and argument 2 (batch['y']) has 6 "
         "(option arguments says which count)"),
        ("count=3", (W, X, y(8)), 8, "3 micro-batches do not divide 8 examples"),
        ("count=2 dimension=2", (W, X, y(8)), 8, "argument 1 (batch['x']) has no dimension 2"),
        ("count=4", (W, X.replace("f32>", 'f32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}'), y(8)), 8,
         "a micro-batch has 2 examples, which 4 devices do not divide"),
    ],
)  # fmt: skip
def test_reason_to_leave_it(options: str, arguments: tuple[str, ...], rows: int, reason: str) -> None:
    text, remark = split(options, *arguments, rows=rows)
    assert not remark.applied and remark.text == reason
    assert "stablehlo.while" not in text


def test_without_examples() -> None:
    text = """func.func @main(%w: tensor<f32>) -> tensor<f32> { return %w : tensor<f32> }"""
    module = parsed(text)
    (remark,) = Pipeline.parse("split-microbatches{count=2}").run(module.operation)
    assert remark.text == "no argument has examples (option arguments says which)"


def test_each_device_for_itself() -> None:
    text = """
      sdy.mesh @mesh = <["data"=4]>
      func.func public @main(%x: tensor<8xf32>) -> tensor<f32> {
        %r = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data"}]>] out_shardings=[<@mesh, []>] manual_axes={"data"} (%p: tensor<2xf32>) {
          %zero = stablehlo.constant dense<0.0> : tensor<f32>
          %s = stablehlo.reduce(%p init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
          sdy.return %s : tensor<f32>
        } : (tensor<8xf32>) -> tensor<f32>
        return %r : tensor<f32>
      }
    """
    said = []
    for count in (2, 4):
        module = parsed(text)
        (remark,) = Pipeline.parse(f"split-microbatches{{count={count} arguments=0}}").run(module.operation)
        said.append(remark.text)
    assert said[0] == "a loop over 2 micro-batches of 1 examples on each device"
    assert said[1] == "4 micro-batches do not divide 2 examples on each device"


@pytest.mark.parametrize(
    "options, message",
    [
        ("", "split-microbatches needs a number of micro-batches, two or more: split-microbatches{count=4}"),
        ("count=1", "split-microbatches needs a number of micro-batches, two or more: split-microbatches{count=4}"),
        ("count=2 arguments=batch/xs", "split-microbatches{arguments=batch/xs}: no argument called `batch/xs`; "
         "did you mean `batch/x`?"),
        ("count=2 dimension=-1", "split-microbatches{dimension=-1}: dimensions are counted from 0"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(options: str, message: str) -> None:
    with pytest.raises(PipelineError) as found:
        split(options, W, X, y(8))
    assert str(found.value) == message
