"""Shardy's answers, from its pipeline less what only tidies up, are those of the whole pipeline."""

from typing import Any

import jax
import pytest
from jaxlib.mlir import ir
from modules import parsed
from programs.catalog import MATRIX

from paropt.passes.sharding import propagation
from paropt.passes.sharding.chlo import RULE, add_chlo_rules
from paropt.passes.sharding.propagation import Propagated
from paropt.passes.spmd.producers import PRODUCERS
from paropt.passes.spmd.sharded_sums import whole_sums
from paropt.passes.spmd.xla_quirks import in_place
from paropt.passes.support.pipeline import Pipeline
from paropt.passes.support.traversal import all_ops_of, ops_of

WHOLE = "builtin.module(sdy-propagation-pipeline,func.func(sdy-populate-op-sharding-rules))"
PLAIN = [name for name in MATRIX if name.startswith("plain_")]


def answers(module: ir.Operation) -> list[tuple[Any, ...]]:
    """What is asked about each op."""
    propagated = Propagated(module)
    ops = [op for op in all_ops_of(module) if len(op.results)]
    return [
        (
            op.name,
            [propagated.sharding_of(result) for result in op.results],
            str(propagated.listed(op)),
            str(propagated.wanted(op)),
            propagated.operand_shardings(op),
            propagated.sharding_rule(op) if op.name in PRODUCERS else "",
        )
        for op in ops
    ]


@pytest.mark.parametrize("inlined", [True, False], ids=["inlined", "with calls"])
@pytest.mark.parametrize("name", PLAIN)
def test_what_only_tidies_up_is_left_out(name: str, inlined: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    program = MATRIX[name]()
    text = str(jax.jit(program.step).lower(*program.args).compiler_ir("stablehlo"))
    module = parsed(text)
    if inlined:
        Pipeline.parse("inline-calls").run(module.operation)
    short = answers(module.operation)
    monkeypatch.setattr(propagation, "propagation_pipelines", lambda _: (WHOLE, "builtin.module()"))
    assert short == answers(module.operation)
    assert any(rule for *_, rule in short)


@pytest.mark.parametrize("name", PLAIN)
def test_ops_are_found_again_in_the_copy(name: str) -> None:
    """By their locations, which Shardy must keep; copies of constants and of scalars it makes anew."""
    program = MATRIX[name]()
    module = parsed(str(jax.jit(program.step).lower(*program.args).compiler_ir("stablehlo")))
    Pipeline.parse("inline-calls").run(module.operation)
    propagated = Propagated(module.operation)
    ops = [op for op in all_ops_of(module.operation) if len(op.results) and len(op.operands)]
    lost = {op.name for op in ops if len(propagated.operand_shardings(op)) != len(op.operands)}
    assert lost <= {"stablehlo.broadcast_in_dim"}
    assert len(ops) > 20


def test_functions_that_nobody_calls_any_more_are_erased_only_where_functions_are_called() -> None:
    text = 'sdy.mesh @m = <["a"=2]> func.func @main() { call @f() : () -> () return } func.func private @f() { return }'
    with_call = parsed(text).operation
    without = parsed("func.func @main() { return }").operation
    dce = ["".join(propagation.propagation_pipelines(module)).count("symbol-dce") for module in (with_call, without)]
    assert dce[0] > 0 == dce[1]


def test_ops_without_sizes_get_no_rule() -> None:
    text = "func.func @main(%x: tensor<?x4xf32>) { %y = chlo.square %x : tensor<?x4xf32> -> tensor<?x4xf32> return }"
    module = parsed(text).operation
    add_chlo_rules(module)
    assert [RULE in op.attributes for op in ops_of(module, "chlo.square")] == [False]


PARTS = """
sdy.mesh @mesh = <["data"=4, "model"=2]>
func.func @main(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<8xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] {paropt.shardings = [#sdy.sharding<@mesh, [{"model"}, {}]>]} : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %s = stablehlo.slice %u [0:2, 0:4] {paropt.shardings = [#sdy.sharding<@mesh, [{}, {}]>]} : (tensor<4x4xf32>) -> tensor<2x4xf32>
  %r = stablehlo.reshape %s {paropt.shardings = [#sdy.sharding<@mesh, [{}]>]} : (tensor<2x4xf32>) -> tensor<8xf32>
  %v = sdy.all_reduce {"data"} %r out_sharding=<@mesh, [{?}]> : tensor<8xf32>
  return %v : tensor<8xf32>
}
"""


@pytest.mark.parametrize("knows", [True, False], ids=["with rules", "without"])
def test_parts_stay_in_place_only_where_shardy_says_which_belong_together(
    knows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No linear op is known that it lacks a rule for: here it forgets them."""
    if not knows:
        monkeypatch.setattr(in_place.Propagated, "sharding_rule", lambda *_: "")
    module = parsed(PARTS)
    remarks = [str(remark) for remark in Pipeline.parse("annotate-unreduced").run(module.operation)]
    assert ("unreduced" in str(module)) == knows
    assert any("Shardy has no rule" in remark for remark in remarks) != knows


@pytest.mark.parametrize(("devices", "asked"), [(1, []), (8, ["asked"])])
def test_a_program_for_one_device_is_not_asked_about(
    devices: int, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    start = Propagated.__init__

    def ask(*args: Any, **options: Any) -> None:
        said.append("asked")
        start(*args, **options)

    monkeypatch.setattr(Propagated, "__init__", ask)
    program = MATRIX["plain_mlp_p0"](devices=jax.devices()[:devices])
    module = parsed(str(jax.jit(program.step).lower(*program.args).compiler_ir()))
    Pipeline.parse("grad-sync").run(module.operation)
    assert said == asked


LOOP = """
sdy.mesh @mesh = <["data"=8]>
func.func public @main(%x: tensor<16x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{}}]>}}, %z: tensor<16x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"data"}}, {{}}]>}}) -> (tensor<16x8xf32>, tensor<16x8xf32>) {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  {unread}
  %w:2 = stablehlo.while(%i = %zero, %y = %z) : tensor<i32>, tensor<16x8xf32>
  cond {{
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  }} do {{
    %s = stablehlo.add %y, %x : tensor<16x8xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %s : tensor<i32>, tensor<16x8xf32>
  }}
  %c = stablehlo.negate %w#1 : tensor<16x8xf32>
  %d = sdy.sharding_constraint %c <@mesh, [{{}}, {{"data"}}]> : tensor<16x8xf32>
  return %w#1, %d : tensor<16x8xf32>, tensor<16x8xf32>
}}
"""


def test_what_nothing_reads_changes_no_answer() -> None:
    """XLA erases it first."""
    unread = "%u = stablehlo.sine %x : tensor<16x8xf32>"
    texts = LOOP.format(unread=unread), LOOP.format(unread="")
    modules = [parsed(text) for text in texts]
    with_it, without = (answers(module.operation) for module in modules)
    assert [each for each in with_it if each[0] != "stablehlo.sine"] == without
    assert len(with_it) == len(without) + 1


ROWS_FOR_A_LOOP = """
func.func public @main(%x: tensor<4x8xf32>, %start: tensor<4x8xf32>) -> tensor<8xf32> {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<8xf32>
  %w:2 = stablehlo.while(%i = %zero, %rows = %start) : tensor<i32>, tensor<4x8xf32>
  cond {{
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  }} do {{
    %row = stablehlo.dynamic_slice %x, %i, %zero, sizes = [1, 8] : (tensor<4x8xf32>, tensor<i32>, tensor<i32>) -> tensor<1x8xf32>
    %next = {next}
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %next : tensor<i32>, tensor<4x8xf32>
  }}
  %v:3 = stablehlo.while(%i = %zero, %rows = %w#1, %sum = %none) : tensor<i32>, tensor<4x8xf32>, tensor<8xf32>
  cond {{
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  }} do {{
    %row = stablehlo.dynamic_slice %rows, %i, %zero, sizes = [1, 8] : (tensor<4x8xf32>, tensor<i32>, tensor<i32>) -> tensor<1x8xf32>
    %flat = stablehlo.reshape %row : (tensor<1x8xf32>) -> tensor<8xf32>
    %s = stablehlo.add %sum, %flat : tensor<8xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %rows, %s : tensor<i32>, tensor<4x8xf32>, tensor<8xf32>
  }}
  return %v#2 : tensor<8xf32>
}}
"""
PUT_IN = "stablehlo.dynamic_update_slice %rows, %row, %i, %zero : (tensor<4x8xf32>, tensor<1x8xf32>, tensor<i32>, tensor<i32>) -> tensor<4x8xf32>"


@pytest.mark.parametrize(
    ("following", "is_sum"), [(PUT_IN, False), ("stablehlo.add %rows, %x : tensor<4x8xf32>", True)]
)
def test_rows_that_the_next_loop_reads_are_no_sum(following: str, is_sum: bool) -> None:
    """But what is added up is one, also where an optimizer goes through it row by row."""
    module = parsed(ROWS_FOR_A_LOOP.format(next=following))
    first, _ = ops_of(module.operation, "stablehlo.while")
    assert (first.results[1] in whole_sums(module.operation, {})) == is_sum


# Sums of sharded parameters: once as XLA would, and where that leaves open what shards a sum, without its readers; once with
# the constraints.
PROPAGATIONS = {
    "plain_transformer_p0": 1,
    "plain_transformer_p6": 1,
    "plain_mlp_p7": 1,
    "plain_mlp_p8": 1,
    "plain_mlp_p14": 2,
}


@pytest.mark.parametrize("name", PROPAGATIONS)
def test_a_module_is_propagated_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes a quarter of the time of `grad-sync`."""
    runs: list[str] = []
    run = propagation.run_natively

    def recorded(module: ir.Operation, text: str) -> Any:
        runs.append(text)
        return run(module, text)

    monkeypatch.setattr(propagation, "run_natively", recorded)
    program = MATRIX[name]()
    text = str(jax.jit(program.step).lower(*program.args).compiler_ir("stablehlo"))
    Pipeline.parse("grad-sync").run(parsed(text).operation)
    assert sum("user-priority-propagate" in text for text in runs) == PROPAGATIONS[name]
    assert sum("populate-op-sharding-rules" in text for text in runs) <= 1
