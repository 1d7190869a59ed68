"""How ops treat the examples of a batch, and what becomes of the values of a step: facts, without any change."""

from typing import Any

import pytest
from jaxlib.mlir import ir
from modules import parsed
from unit.scripts import ROOT

from paropt.passes.microbatch.batch_sums import sums_of
from paropt.passes.microbatch.batching import Batching, Role
from paropt.passes.microbatch.examples import Batch, Examples
from paropt.passes.sharding.op_rules import parse_rule
from paropt.passes.sharding.shardings import Sharding
from paropt.passes.support.remarks import Declined
from paropt.passes.support.traversal import op_of

LIT = ROOT / "test" / "passes" / "split-microbatches.mlir"
SIZE = 8

KEPT: list[ir.Module] = []  # values do not keep their module alive


def step(arguments: str, body: str) -> ir.Block:
    module = parsed(f"func.func @main({arguments}) {{\n{body}\nreturn }}")
    KEPT.append(module)
    return next(iter(module.body.operations)).operation.regions[0].blocks[0]


def batching(block: ir.Block) -> Batching:
    """Of a step whose first argument has the examples, and whose last one is state."""
    *_, state = block.arguments
    examples = Examples(KEPT[-1].operation, SIZE)
    return Batching(block, {block.arguments[0]: Batch(0)}, examples, frozenset((state,)), random=False)


def facts(block: ir.Block) -> list[object]:
    """What each result of the ops of the step is; None for what is computed before the loop."""
    found = batching(block)
    return [found.facts.get(result) for op in found.ops for result in op.results]


def test_parts_of_a_sharding_rule() -> None:
    text = (
        "#sdy.op_sharding_rule<([i, jk], [z_1], [])->([i, k]) {i=8, j=2, k=4, z_1=1} reduction={j} "
        "need_replication={z_1} permutation={k}>"
    )
    rule = parse_rule(text)
    assert rule.operands == ((("i",), ("j", "k")), (("z_1",),), ())
    assert rule.results == ((("i",), ("k",)),)
    assert rule.sizes == {"i": 8, "j": 2, "k": 4, "z_1": 1}
    assert (rule.reduced, rule.tied, rule.moved) == ({"j"}, {"z_1", "k"}, {"z_1", "k"})
    dimensions: Any = ("a",), ("b", "c")
    lies = [Sharding("@mesh", dimensions), None, None]
    assert list(rule.split(lies)) == [(("i",), ("a",)), (("j", "k"), ("b", "c")), (("z_1",), ())]


def test_rule_of_scalars() -> None:
    rule = parse_rule("#sdy.op_sharding_rule<([], [])->([])>")
    assert (rule.operands, rule.results, rule.sizes) == (((), ()), ((),), {})


ARGUMENTS = "%x: tensor<8x4xf32>, %y: tensor<8x8xf32>, %w: tensor<4x4xf32>, %t: tensor<32xf32>"
# An op on %x, with the batch of %x; where it has to be in the other operands, and where it is in the results.
TREATMENTS = [
    ("%r = stablehlo.abs %x : tensor<8x4xf32>", Batch(0), {0: Batch(0)}, (Batch(0),)),
    ("%r = stablehlo.add %x, %x : tensor<8x4xf32>", Batch(0), {0: Batch(0), 1: Batch(0)}, (Batch(0),)),
    (
        "%r = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : "
        "(tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>",
        Batch(0), {0: Batch(0)}, (Batch(0),),
    ),
    (
        "%r = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : "
        "(tensor<8x4xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>",
        Batch(0), {0: Batch(0), 1: Batch(0)}, (),
    ),
    ("%r = stablehlo.reshape %x : (tensor<8x4xf32>) -> tensor<32xf32>", Batch(0), {0: Batch(0)}, (Batch(0, 4),)),
    ("%r = stablehlo.transpose %x, dims = [1, 0] : (tensor<8x4xf32>) -> tensor<4x8xf32>",
     Batch(0), {0: Batch(0)}, (Batch(1),)),
    ("%r = stablehlo.reshape %x : (tensor<8x4xf32>) -> tensor<8x2x2xf32>", Batch(0), {0: Batch(0)}, (Batch(0),)),
    ("%r, %s = chlo.top_k(%x, k = 2) : tensor<8x4xf32> -> (tensor<8x2xf32>, tensor<8x2xi32>)",
     Batch(0), {0: Batch(0)}, (Batch(0), Batch(0))),
]  # fmt: skip


@pytest.mark.parametrize("text, batch, operands, results", TREATMENTS, ids=lambda value: str(value)[:40])
def test_treatment_of_an_op(text: str, batch: Batch, operands: dict[int, Batch], results: tuple[Batch, ...]) -> None:
    block = step(ARGUMENTS, text)
    op = block.operations[0].operation
    treatment = Examples(KEPT[-1].operation, SIZE).of_operands(op, {0: batch})
    assert treatment.operands == operands
    assert treatment.results == results


def test_treatment_of_a_merged_dimension() -> None:
    block = step(ARGUMENTS, "%r = stablehlo.reshape %t : (tensor<32xf32>) -> tensor<8x4xf32>")
    op = block.operations[0].operation
    treatment = Examples(KEPT[-1].operation, SIZE).of_operands(op, {0: Batch(0, 4)})
    assert treatment.results == (Batch(0),)


def test_two_operands_with_different_examples_are_refused() -> None:
    body = "%r = stablehlo.add %y, %y : tensor<8x8xf32>"
    op = step(ARGUMENTS, body).operations[0].operation
    with pytest.raises(Declined, match="combines each example with all others"):
        Examples(KEPT[-1].operation, SIZE).of_operands(op, {0: Batch(0), 1: Batch(1)})


class OtherRules:
    """Rules of a Shardy that says something else than today's."""

    def __init__(self, text: str) -> None:
        self.text = text

    def sharding_rule(self, op: ir.Operation) -> str:
        return self.text


@pytest.mark.parametrize(
    "rule, reason",
    [
        ("", "Shardy has no sharding rule for stablehlo.abs"),
        ("([i, j])->([k, j]) {i=8, j=4, k=8}", "stablehlo.abs has a result without the dimension of the examples"),
        ("([i, j])->([j]) {i=8, j=4} reduction={i}", "stablehlo.abs works across the examples"),
        ("([i, j])->([i, j]) {i=8, j=4} need_replication={i}", "stablehlo.abs works across the examples"),
    ],
)
def test_what_a_rule_does_not_allow_is_refused(rule: str, reason: str) -> None:
    op = step(ARGUMENTS, "%r = stablehlo.abs %x : tensor<8x4xf32>").operations[0].operation
    examples = Examples(KEPT[-1].operation, SIZE)
    examples._rules = OtherRules(rule)  # type: ignore[assignment]  # rules that Shardy does not give
    with pytest.raises(Declined, match=f"^{reason}$"):
        examples.of_operands(op, {0: Batch(0)})


def test_a_sum_then_its_update() -> None:
    body = """
      %g = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
      %n = stablehlo.negate %g : tensor<4x4xf32>
      %u = stablehlo.add %w, %n : tensor<4x4xf32>
      %c = stablehlo.multiply %w, %w : tensor<4x4xf32>
    """
    assert facts(step("%x: tensor<8x4xf32>, %w: tensor<4x4xf32>", body)) == [Role.SUM, Role.SUM, Role.AFTER, None]


def test_marked_gradients_are_no_longer_sums() -> None:
    body = """
      %g = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
      %m = stablehlo.reshape %g {mhlo.frontend_attributes = {paropt.mark = "gradient"}} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    """
    assert facts(step("%x: tensor<8x4xf32>, %w: tensor<4x4xf32>", body)) == [Role.SUM, Role.AFTER]


def test_a_sum_of_inputs_is_taken_before() -> None:
    body = """
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %a = stablehlo.abs %x : tensor<8xf32>
      %s = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
      %r = stablehlo.rsqrt %s : tensor<f32>
      %b = stablehlo.broadcast_in_dim %r, dims = [] : (tensor<f32>) -> tensor<8xf32>
      %m = stablehlo.multiply %x, %b : tensor<8xf32>
    """
    block = step("%x: tensor<8xf32>, %w: tensor<f32>", body)
    assert facts(block) == [None, Batch(0), None, None, None, Batch(0)]
    assert {op_of(view.value).name for view in batching(block).views} == {"stablehlo.broadcast_in_dim"}


def test_a_sum_with_state_is_not_taken_before() -> None:
    body = """
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %a = stablehlo.multiply %x, %w : tensor<8xf32>
      %s = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
      %b = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<8xf32>
      %m = stablehlo.multiply %x, %b : tensor<8xf32>
    """
    with pytest.raises(Declined, match="reads a sum over all examples, computed by"):
        facts(step("%x: tensor<8xf32>, %w: tensor<8xf32>", body))


def test_barrier_keeps_what_its_operands_are() -> None:
    body = "%b:2 = stablehlo.optimization_barrier %x, %w : tensor<8x4xf32>, tensor<4x4xf32>"
    assert facts(step("%x: tensor<8x4xf32>, %w: tensor<4x4xf32>", body)) == [Batch(0), Role.SAME]


LOOP = """
  %first = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %zeros = stablehlo.constant dense<0.0> : tensor<8xf32>
  %r:4 = stablehlo.while(%i = %first, %h = %x, %kept = %zeros, %sum = %zero) : tensor<i32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>
  cond {
    %c = stablehlo.compare LT, %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %a = stablehlo.abs %h : tensor<8xf32>
    %k = stablehlo.add %kept, %a : tensor<8xf32>
    %g = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
    %s = stablehlo.add %sum, %g : tensor<f32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %a, %k, %s : tensor<i32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>
  }
"""


def test_what_a_loop_carries_is_found() -> None:
    found = facts(step("%x: tensor<8xf32>, %w: tensor<f32>", LOOP))
    assert found[-4:] == [Role.SAME, Batch(0), Batch(0), Role.SUM]


def test_the_loop_carries_the_cheapest_sums() -> None:
    body = """
      %g = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
      %t = stablehlo.transpose %g, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %s = stablehlo.add %g, %t : tensor<4x4xf32>
      %m = stablehlo.multiply %s, %s : tensor<4x4xf32>
      %n = stablehlo.multiply %g, %g : tensor<4x4xf32>
    """
    found = batching(step("%x: tensor<8x4xf32>, %w: tensor<4x4xf32>", body))
    sums = sums_of(found)
    assert [op_of(value).name for value in sums.carried] == ["stablehlo.dot_general"], "%s can be computed of it"
    assert list(sums.added) == sums.carried


def test_sums_are_joined_before_they_are_carried() -> None:
    body = """
      %a = stablehlo.abs %x : tensor<8x4xf32>
      %f = stablehlo.dot_general %x, %a, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
      %g = stablehlo.dot_general %a, %x, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
      %s = stablehlo.subtract %f, %g : tensor<4x4xf32>
      %m = stablehlo.multiply %s, %s : tensor<4x4xf32>
    """
    sums = sums_of(batching(step("%x: tensor<8x4xf32>, %w: tensor<4x4xf32>", body)))
    assert [op_of(value).name for value in sums.carried] == ["stablehlo.subtract"]


def test_nothing_is_changed() -> None:
    module = parsed(LIT.read_text())
    before = str(module)
    for op in module.body.operations:
        _look_at(module, op.operation)
    assert str(module) == before


def _look_at(module: ir.Module, function: ir.Operation) -> None:
    block = function.regions[0].blocks[0]
    batches = {
        argument: Batch(0)
        for argument in block.arguments
        if isinstance(argument.type, ir.RankedTensorType) and argument.type.rank and argument.type.shape[0] == SIZE
    }
    try:
        sums_of(Batching(block, batches, Examples(module.operation, SIZE), frozenset(), random=False))
    except Declined:
        return
