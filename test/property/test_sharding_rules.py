"""Random sharding rules and contracts on random steps: whole arrays stay the same, and nothing is said twice."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from modules import parsed
from numeric.global_results import whole_results
from numeric.oracle import optimized

from paropt.modules.contract_check import broken
from paropt.passes.ir.signature import signatures
from paropt.passes.sharding.shardings import SHARDING
from paropt.passes.support.pipeline import Pipeline, PipelineError
from paropt.passes.support.remarks import Remark

REPEATABLE = settings(
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
MESHES = ('"data"=8', '"replica"=2, "data"=4', '"data"=2, "model"=4')
SHAPES = ((16, 8), (8, 8), (3, 16), (8,))
MINE = ('"data"', '["data", "model?"]', '["replica?", "data"]')
WHICH = (
    'path = "w"',
    'regex = "^state"',
    'role = "batch"',
    'role = "optimizer"',
    'role = "gradient"',
    'role = "any"',
)
NAMES = ("", "data", "model", "replica", "...", "mine")


class Case(NamedTuple):
    text: str
    rules: str
    preset: str


@st.composite
def cases(draw: Callable[[Any], Any]) -> Case:
    mesh = draw(st.sampled_from(MESHES))
    shape = draw(st.sampled_from(SHAPES))
    reads = draw(st.booleans())  # whether the loop reads the parameter: else it is no gradient that is added up
    specs = [draw(st.sampled_from(("", "", "{}", '{"data"}'))) for _ in range(3)]
    return Case(step(mesh, shape, reads, specs), draw(rules()), draw(st.sampled_from(("", "dp", "fsdp", "zero1"))))


def step(mesh: str, shape: tuple[int, ...], reads: bool, specs: list[str]) -> str:
    """A parameter, a momentum, and what a loop adds up for them; `specs` shard arguments in their first dimension."""
    kind = f"tensor<{'x'.join(map(str, shape))}xf32>"
    rest = ", {}" * (len(shape) - 1)
    cut = shape[0] % 8 == 0
    given = [f", sdy.sharding = #sdy.sharding<@mesh, [{s}{rest}]>" if s and (cut or s == "{}") else "" for s in specs]
    shards = [f"{{paropt.test{one}}}" for one in given]
    term = "%v" if reads else "%y"
    return f"""module attributes {{mhlo.num_partitions = 8 : i32}} {{
  sdy.mesh @mesh = <[{mesh}]>
  func.func public @main(%w: {kind} {shards[0]} loc("state['w']"), %m: {kind} {shards[1]} loc("state['m']"), %x: {kind} {shards[2]} loc("batch")) -> ({kind} {{jax.result_info = "result[0]['m']"}}, {kind} {{jax.result_info = "result[0]['w']"}}, {kind} {{jax.result_info = "result[1]"}}) {{
    %c0 = stablehlo.constant dense<0> : tensor<i32>
    %c1 = stablehlo.constant dense<1> : tensor<i32>
    %c3 = stablehlo.constant dense<3> : tensor<i32>
    %zero = stablehlo.constant dense<0.0> : {kind}
    %r:4 = stablehlo.while(%i = %c0, %sum = %zero, %v = %w, %y = %x) : tensor<i32>, {kind}, {kind}, {kind}
     cond {{
      %p = stablehlo.compare LT, %i, %c3 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    }} do {{
      %g = stablehlo.multiply %y, {term} : {kind}
      %next = stablehlo.add %sum, %g : {kind}
      %j = stablehlo.add %i, %c1 : tensor<i32>
      stablehlo.return %j, %next, %v, %y : tensor<i32>, {kind}, {kind}, {kind}
    }}
    %new_m = stablehlo.add %m, %r#1 : {kind}
    %new_w = stablehlo.subtract %w, %new_m : {kind}
    %loss = stablehlo.multiply %w, %x : {kind}
    return %new_m, %new_w, %loss : {kind}, {kind}, {kind}
  }}
}}"""


@st.composite
def rules(draw: Callable[[Any], Any]) -> str:
    lines = ["[axes]", f"mine = {draw(st.sampled_from(MINE))}"]
    for _ in range(draw(st.integers(0, 3))):
        shard = draw(st.lists(st.sampled_from(NAMES), max_size=3))
        axis = draw(st.sampled_from(("data", "mine")))
        actions = ("whole = true", f'largest = "{axis}"', f'examples = "{axis}"', f"shard = {shard}")
        lines += ["[[rule]]", draw(st.sampled_from(WHICH)), draw(st.sampled_from(actions))]
    return "\n".join(lines)


def annotated(case: Case, folder: Path, more: str = "") -> tuple[str, list[Remark]]:
    """The text after the rules, with the names of arguments before; PipelineError for wrong rules."""
    file = folder / "rules.toml"
    file.write_text(case.rules)
    preset = f" preset={case.preset}" if case.preset else ""
    text: Any = parsed(case.text).operation.get_asm(enable_debug_info=True)
    return optimized(text, f"annotate-shardings{{rules={file}{preset}}}{more}")


@settings(REPEATABLE, max_examples=80)
@given(case=cases())
def test_whole_arrays_stay_the_same(case: Case, tmp_path: Path) -> None:
    note(f"{case.text}\n{case.rules}\n{case.preset}")
    try:
        after, remarks = annotated(case, tmp_path, ",annotate-contract")
    except PipelineError as error:  # wrong rules: one line
        assert "\n" not in str(error) and "rule" in str(error)
        return
    note("\n".join([after, *(remark.message for remark in remarks)]))
    before = str(parsed(case.text))
    for got, want in zip(whole_results(after), whole_results(before), strict=True):
        np.testing.assert_array_equal(got, want)


@settings(REPEATABLE, max_examples=60)
@given(case=cases())
def test_the_contract_holds_once_it_is_annotated(case: Case) -> None:
    note(case.text)
    module = parsed(case.text)
    remarks = Pipeline.parse("annotate-contract").run(module.operation)
    once = str(module)
    note(once)
    assert all(remark.applied for remark in remarks)
    given = [slot for slot in signatures(module.operation)[0].arguments if SHARDING in slot.notes]
    if len(given) == 3:
        assert broken(module) == []
    again = Pipeline.parse("annotate-contract").run(module.operation)
    assert [remark.message for remark in again] == [remark.message for remark in remarks]
    assert str(module) == once


def test_the_generator_makes_rules_that_work_and_rules_that_do_not(tmp_path: Path) -> None:
    outcomes = {"applied": 0, "missed": 0, "wrong": 0}

    @settings(REPEATABLE, max_examples=100)
    @given(case=cases())
    def collect(case: Case) -> None:
        try:
            _, remarks = annotated(case, tmp_path)
        except PipelineError:
            outcomes["wrong"] += 1
            return
        outcomes["applied"] += any(remark.applied for remark in remarks)
        outcomes["missed"] += any(not remark.applied for remark in remarks)

    collect()
    assert min(outcomes.values()) >= 5, outcomes
