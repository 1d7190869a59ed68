"""inline-calls where a lit case would not do: size, depth, nested modules, ops that MLIR does not know."""

import functools
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jaxlib.mlir import ir
from modules import parsed

import paropt
import paropt.passes  # registers every pass
from paropt.passes.support.context import make_context
from paropt.passes.support.pipeline import Pipeline
from paropt.passes.support.remarks import RefusedError, Remark
from paropt.passes.support.traversal import ops_of

TYPE = "tensor<4xf32>"


def function(name: str, visibility: str, *body: str) -> str:
    return "\n".join([f"func.func {visibility} @{name}(%x: {TYPE}) -> {TYPE} {{", *body, "}", ""])


def inlined(text: str, *, unregistered: bool = False) -> tuple[ir.Module, list[Remark]]:
    module = ir.Module.parse(text, make_context(allow_unregistered_dialects=unregistered))
    remarks = Pipeline.parse("inline-calls").run(module.operation)
    return module, remarks


def calls_in_a_row(count: int) -> str:
    body = [f"%{i + 1} = call @f(%{i}) : ({TYPE}) -> {TYPE}" for i in range(count)]
    start = f"%0 = stablehlo.negate %x : {TYPE}"
    callee = function("f", "private", f"%0 = stablehlo.add %x, %x : {TYPE}", f"return %0 : {TYPE}")
    return function("main", "public", start, *body, f"return %{count} : {TYPE}") + callee


def chain(depth: int) -> str:
    """Each function calls the next and adds its argument; the last one calls none."""
    add = f"%1 = stablehlo.add %0, %x : {TYPE}"
    links = [
        function(f"f{i}", "private", f"%0 = call @f{i + 1}(%x) : ({TYPE}) -> {TYPE}", add, f"return %1 : {TYPE}")
        for i in range(depth)
    ]
    last = function(f"f{depth}", "private", f"%0 = stablehlo.negate %x : {TYPE}", f"return %0 : {TYPE}")
    main = function("main", "public", f"%0 = call @f0(%x) : ({TYPE}) -> {TYPE}", f"return %0 : {TYPE}")
    return "".join([main, *links, last])


@pytest.mark.parametrize("text", [calls_in_a_row(2000), chain(1000)], ids=["2000 calls", "1000 levels"])
def test_many_and_deep_calls(text: str) -> None:
    start = time.perf_counter()
    module, _ = inlined(text)
    # 0.05 s and 0.5 s when this was written: a body is copied once for each level above it, by MLIR, not by Python.
    assert time.perf_counter() - start < 10
    assert ops_of(module.operation, "func.call") == []
    assert len(ops_of(module.operation, "func.func")) == 1


def doubling(levels: int, leaf: str) -> str:
    """Each function calls the next twice."""
    functions = [
        function(
            f"f{i}" if i else "main",
            "private" if i else "public",
            f"%0 = call @f{i + 1}(%x) : ({TYPE}) -> {TYPE}",
            f"%1 = call @same(%0) : ({TYPE}) -> {TYPE}",
            f"%2 = call @f{i + 1}(%1) : ({TYPE}) -> {TYPE}",
            f"return %2 : {TYPE}",
        )
        for i in range(levels)
    ]
    last = function(f"f{levels}", "private", leaf, f"return %0 : {TYPE}")
    return "".join([*functions, last, function("same", "private", f"return %x : {TYPE}")])


@pytest.mark.parametrize("max_ops", range(1000, 1008))
def test_programs_that_double_with_each_level_stop_growing_for_good(max_ops: int) -> None:
    module = parsed(doubling(40, f"%0 = stablehlo.negate %x : {TYPE}"))
    pipeline = Pipeline.parse(f"inline-calls{{max-ops={max_ops}}}")
    remarks = pipeline.run(module.operation)
    assert any(remark.text.endswith("past max-ops") for remark in remarks)
    sizes = [len(ops_of(f, "stablehlo.negate", "func.call")) for f in ops_of(module.operation, "func.func")]
    assert max_ops // 2 <= max(sizes) <= max_ops
    once = str(module)
    pipeline.run(module.operation)
    assert str(module) == once


def test_a_nested_module_is_left_alone() -> None:
    text = f"module {{ module @inner {{ {calls_in_a_row(3)} }} }}"
    module, remarks = inlined(text)
    assert len(ops_of(module.operation, "func.call")) == 3
    assert remarks == []


def test_an_unregistered_op_may_use_any_function() -> None:
    region = f'"test.region"() ({{ "test.end"() : () -> () }}) : () -> ()\nreturn %0 : {TYPE}'
    text = function("main", "public", f"%0 = call @f(%x) : ({TYPE}) -> {TYPE}", region)
    module, remarks = inlined(text + function("f", "private", f"return %x : {TYPE}"), unregistered=True)
    assert ops_of(module.operation, "func.call") == []
    assert len(ops_of(module.operation, "func.func")) == 2
    reasons = [remark.text for remark in remarks if not remark.applied]
    assert reasons == ["an unregistered op may use functions: the unused ones stay"]


def test_a_tree_of_calls_that_is_too_large_is_refused_at_once() -> None:
    text = doubling(24, f"%0 = stablehlo.negate %x : {TYPE}")
    module = parsed(text)
    before, start = str(module), time.perf_counter()
    with pytest.raises(RefusedError, match=r"grow to [\d,]+ ops together, past 2,000,000: .* max-ops"):
        Pipeline.parse("grad-sync").run(module.operation)
    assert time.perf_counter() - start < 5
    assert str(module) == before


@pytest.mark.parametrize("said", ["no_inline", 'mhlo.frontend_attributes = {inlineable = "false"}'])
def test_calls_that_stay_anyway_make_no_tree_too_large(said: str) -> None:
    call = re.compile(r"call @f20\((%\w+)\) : ([^\n]*)")
    on_calls = r'"func.call"(\1) {callee = @f20, ' + said + r"} : \2"
    text = call.sub(on_calls, doubling(24, f"%0 = stablehlo.negate %x : {TYPE}"))
    # f19 and what calls it are small by that, if not f0: their own calls double them, too.
    module, _ = inlined(re.sub(r"call @f10\((%\w+)\) : ([^\n]*)", on_calls.replace("f20", "f10"), text))
    assert len(ops_of(module.operation, "func.call")) > 2


def test_the_command_line_says_so_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "doubling.mlir"
    path.write_text(doubling(24, f"%0 = stablehlo.negate %x : {TYPE}"))
    command = [sys.executable, "-m", "paropt", str(path), "--passes=grad-sync"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert not done.stdout
    assert re.fullmatch(
        r"par-opt: error: .*doubling\.mlir: inline-calls: the functions would grow to [^\n]*\n", done.stderr
    )


def test_jit_leaves_such_a_program_as_it_is() -> None:
    def twice(f: Any) -> Any:
        return jax.jit(lambda x: f(f(x) + 1))

    step = functools.reduce(lambda f, _: twice(f), range(24), jnp.sin)
    x = jax.ShapeDtypeStruct((4,), jnp.float32)
    with pytest.warns(RuntimeWarning, match=r"the program stays as it was: .* ops together, past 2,000,000"):
        lowered = paropt.jit(step).lower(x)
    assert lowered.as_text() == jax.jit(step).lower(x).as_text()
