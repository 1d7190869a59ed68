"""`paropt.jit` when a constraint is lost, or XLA refuses the module: the program runs as `jax.jit` would run it."""

import importlib
import sys
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.interpreters import pxla
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as Spec
from jaxlib.mlir import ir
from modules import parsed
from unit.jit_passes import seen as seen

import paropt
from paropt.clusters import compile_apart
from paropt.clusters.compiled import TargetError
from paropt.hlo.census import census
from paropt.hlo.traffic import traffic
from paropt.hook.fallback import VerificationError
from paropt.hook.rewriting import REWRITES
from paropt.modules.module_io import bytecode_of
from paropt.passes.support.registry import register
from paropt.passes.support.remarks import Remark
from paropt.passes.support.traversal import ops_of
from paropt.reports.comparison import AuditComparison, AuditReport
from paropt.verify.tags import tags_of

fallback_file = importlib.import_module("paropt.hook.fallback")

BATCHES = np.arange(4 * 16 * 8, dtype=np.float32).reshape(4, 16, 8) % 7
WEIGHTS = np.arange(64, dtype=np.float32).reshape(8, 8) % 5

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")


def fresh() -> Callable[[Any, Any], Any]:
    """A function that adds up, over four batches, products that are sums over the devices; jax has not seen it yet."""

    def step(weights: Any, batches: Any) -> Any:
        def add(total: Any, batch: Any) -> Any:
            return total + batch.T @ (batch @ weights), None

        return jax.lax.scan(add, jnp.zeros_like(weights), batches)[0]

    return step


def arguments() -> tuple[jax.Array, jax.Array]:
    mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
    split = NamedSharding(mesh, Spec(None, "data"))
    return jax.device_put(WEIGHTS, NamedSharding(mesh, Spec())), jax.device_put(BATCHES, split)


def expected() -> Any:
    return np.asarray(jax.jit(fresh())(*arguments()))


def lose_tag(module: ir.Operation, *, at: Annotated[int, "Which one."] = 0) -> list[Remark]:
    """Erase a constraint that says that a value is not reduced."""
    tag = tags_of(module)[at]
    tag.results[0].replace_all_uses_with(tag.operands[0])
    tag.erase()
    return []


def call_nobody(module: ir.Operation) -> list[Remark]:
    """Add a call that XLA cannot resolve."""
    returned = ops_of(module, "func.return")[-1]
    value = returned.operands[0]
    with module.context, ir.InsertionPoint(returned), returned.location:
        called = ir.Operation.create(
            "stablehlo.custom_call",
            [value.type],
            [value],
            {"call_target_name": ir.StringAttr.get("nobody"), "api_version": ir.Attribute.parse("4 : i32")},
        )
    returned.operands[0] = called.results[0]
    return []


def sum_again(module: ir.Operation) -> list[Remark]:
    """Take the maximum over the devices of the first result, which is the same on all: the traffic grows, no value does."""
    returned = ops_of(module, "func.return")[-1]
    total = returned.operands[0]
    text = f"""
        module {{
          sdy.mesh @mesh = <["data"=8]>
          func.func @again(%x: {total.type}) -> {total.type} {{
            %r = sdy.manual_computation(%x) in_shardings=[<@mesh, [{{}}, {{}}]>] out_shardings=[<@mesh, [{{}}, {{}}]>]
                manual_axes={{"data"}} (%a: {total.type}) {{
              %m = "stablehlo.all_reduce"(%a) <{{
                  channel_handle = #stablehlo.channel_handle<handle = 99, type = 1>,
                  replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>, use_global_device_ids}}> ({{
              ^bb0(%l: tensor<f32>, %k: tensor<f32>):
                %g = stablehlo.maximum %l, %k : tensor<f32>
                stablehlo.return %g : tensor<f32>
              }}) : ({total.type}) -> {total.type}
              sdy.return %m : {total.type}
            }} : ({total.type}) -> {total.type}
            return %r : {total.type}
          }}
        }}"""
    again = ir.Module.parse(text, module.context)
    copied = ops_of(again.operation, "sdy.manual_computation")[0].clone(ir.InsertionPoint(returned))
    copied.operands[0] = total
    returned.operands[0] = copied.results[0]
    return []


@pytest.fixture(autouse=True)
def passes(seen: list[str]) -> None:
    register(lose_tag)
    register(call_nobody)
    register(sum_again)


def compiler_loses_tag(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """The module has the constraint when it is looked at, and not any more when it is compiled."""
    real = fallback_file.prediction

    def predict_and_lose(module: ir.Operation) -> Any:
        predicted = real(module)
        lose_tag(module, at=at)
        return predicted

    monkeypatch.setattr(fallback_file, "prediction", predict_and_lose)


def falls_back(f: Any, reason: str) -> None:
    """Calls and lowers `f`, which warns once and then does what `jax.jit` does."""
    with pytest.warns(RuntimeWarning, match=f"jit_step: .* the program stays as it was: .*{reason}") as caught:
        result = f(*arguments())
    assert len(caught) == 1 and "\n" not in str(caught[0].message)
    assert caught[0].filename == __file__ and "inline-calls" not in str(caught[0].message)
    np.testing.assert_array_equal(np.asarray(result), expected())
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is in jax's caches
        lowered = f.lower(*arguments())
        np.testing.assert_array_equal(np.asarray(lowered.compile()(*arguments())), expected())
    *_, last = paropt.remarks(lowered)
    assert not last.applied and "the program stays as it was" in last.text


def test_nothing_is_lost() -> None:
    f = paropt.jit(fresh(), strict=True)
    np.testing.assert_array_equal(np.asarray(f(*arguments())), expected())
    lowered = f.lower(*arguments())
    assert tags_of(lowered.compiler_ir().operation)
    text = lowered.compile().as_text()
    assert text is not None and "all-reduce" in text
    assert all(remark.applied for remark in paropt.remarks(lowered))


@pytest.mark.parametrize("at", range(4))  # of the start, the product, the sum, and the loop's result
def test_a_gap_in_the_module(at: int) -> None:
    falls_back(paropt.jit(fresh(), passes=f"grad-sync,lose-tag{{at={at}}}"), "VerificationError: ")


def test_a_gap_among_the_constraints_of_the_program() -> None:
    """The passes leave fewer than there were: each that is left still has to fit the others."""
    mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Explicit,))
    unreduced = Spec(None, None, unreduced={"data"})

    def step(batches: Any) -> Any:
        total = jax.reshard(jnp.zeros((8, 8)), unreduced)
        for batch in batches:
            total = total + jnp.einsum("br,bc->rc", batch, batch, out_sharding=unreduced)
        return jax.reshard(total, Spec())

    with jax.set_mesh(mesh):
        batches = jax.device_put(BATCHES, NamedSharding(mesh, Spec(None, "data")))
        want = jax.jit(step)(batches)
        with pytest.warns(RuntimeWarning, match="the program stays as it was: VerificationError: stablehlo.add"):
            got = paropt.jit(step, passes="inline-calls,lose-tag{at=2}")(batches)
        np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
        paropt.jit(step, passes="inline-calls,canonicalize")(batches)  # nothing is lost


@pytest.mark.parametrize("form", ["text", "bytecode", "module", "lowered"])
def test_a_module_with_a_gap_is_not_handed_out(form: str) -> None:
    lowered = jax.jit(fresh()).lower(*arguments())
    module: Any = parsed(str(lowered.compiler_ir()))
    given = {"text": str(module), "bytecode": bytecode_of(module), "module": module, "lowered": lowered}[form]
    with pytest.raises(VerificationError, match="its addends are not"):
        paropt.optimize(given, "grad-sync,lose-tag{at=1}")


def test_a_gap_that_a_module_came_with_is_its_own() -> None:
    text = str(jax.jit(fresh()).lower(*arguments()).compiler_ir())
    module = parsed(paropt.optimize(text, "grad-sync").module)
    lose_tag(module.operation, at=1)
    assert "unreduced" in paropt.optimize(str(module), "canonicalize").module


# The XLA of jax 0.12 refuses some such modules itself.
LOST = "(VerificationError: a reduction of 64 elements|JaxRuntimeError: .* dropped unreduced axis)"


@pytest.mark.parametrize("at", range(1, 4))  # a zero is zero, reduced or not
def test_a_constraint_that_the_compiler_loses(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler_loses_tag(monkeypatch, at)
    falls_back(paropt.jit(fresh()), LOST)


def two_sums() -> Callable[[Any, Any], Any]:
    """A function that accumulates two products of different sizes."""

    def step(weights: Any, batches: Any) -> Any:
        def add(totals: Any, batch: Any) -> Any:
            large, small = totals
            return (large + batch.T @ (batch @ weights), small + batch[:, :2].T @ (batch @ weights)), None

        return jax.lax.scan(add, (jnp.zeros_like(weights), jnp.zeros_like(weights[:2])), batches)[0]

    return step


def in_loops(lowered: Any) -> list[int]:
    found = census(lowered.compile().as_text())
    return [array.elements for c in found if c.loops for array in c.arrays]


def test_what_the_compiler_loses_is_left_out_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other sum still leaves the loop."""
    real, predictions = fallback_file.prediction, []

    def predict_and_lose(module: ir.Operation) -> Any:
        predictions.append(real(module))
        if len(predictions) == 1:
            (small,) = [i for i, tag in enumerate(tags_of(module)) if _is_small_product(tag)]
            lose_tag(module, at=small)
        return predictions[-1]

    monkeypatch.setattr(fallback_file, "prediction", predict_and_lose)
    step = two_sums()
    want = jax.jit(two_sums())(*arguments())
    f = paropt.jit(step)
    reason = "lost some sums in the compiler, each of these sums stays as it was: .*(of 16 elements|unreduced axis)"
    with pytest.warns(RuntimeWarning, match=reason) as caught:
        got = f(*arguments())
    assert len(caught) == 1 and len(predictions) == 2
    for a, b in zip(want, got, strict=True):
        np.testing.assert_array_equal(np.asarray(b), np.asarray(a))
    lowered = f.lower(*arguments())
    assert in_loops(lowered) == [16]
    *others, last = paropt.remarks(lowered)
    assert any("the compiler lost the constraint of its sum" in remark.text for remark in others if not remark.applied)
    assert not last.applied and "each of these sums stays as it was" in last.text


def _is_small_product(tag: ir.Operation) -> bool:
    made = tag.operands[0].owner
    shape = ir.RankedTensorType(tag.operands[0].type).shape
    return not isinstance(made, ir.Block) and made.operation.name == "stablehlo.dot_general" and shape == [2, 8]


def test_what_is_lost_again_is_the_end_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the program runs as it was, all of it."""
    compiler_loses_tag(monkeypatch, 2)
    with pytest.warns(RuntimeWarning, match="the program stays as it was") as caught:
        got = paropt.jit(two_sums())(*arguments())
    assert len(caught) == 1
    for a, b in zip(jax.jit(two_sums())(*arguments()), got, strict=True):
        np.testing.assert_array_equal(np.asarray(b), np.asarray(a))


def test_results_would_be_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """What all this is for: XLA compiles the module without the constraint, and the results are others."""
    compiler_loses_tag(monkeypatch, 1)
    monkeypatch.setattr(fallback_file, "doubts", lambda *_: [])
    assert not np.array_equal(np.asarray(paropt.jit(fresh())(*arguments())), expected())


def test_a_module_that_the_compiler_refuses() -> None:
    falls_back(paropt.jit(fresh(), passes="grad-sync,call-nobody"), "nobody")


def test_an_executable_that_does_not_show_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pxla.MeshExecutable, "as_text", lambda _: None)
    falls_back(paropt.jit(fresh()), "does not show what it made")


def test_ahead_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler_loses_tag(monkeypatch, 1)
    lowered = paropt.jit(fresh()).lower(*arguments())
    assert all(remark.applied for remark in paropt.remarks(lowered))  # nothing is known yet
    with pytest.warns(RuntimeWarning, match="failed in the compiler"):
        compiled = lowered.compile()
    np.testing.assert_array_equal(np.asarray(compiled(*arguments())), expected())
    assert not paropt.remarks(lowered)[-1].applied


def test_enabled(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler_loses_tag(monkeypatch, 1)
    with paropt.enabled(), pytest.warns(RuntimeWarning, match="failed in the compiler"):
        np.testing.assert_array_equal(np.asarray(jax.jit(fresh())(*arguments())), expected())


def test_strict_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(fallback_file.VerificationError, match=r"declared unreduced|not declared so"):
        paropt.jit(fresh(), passes="grad-sync,lose-tag", strict=True)(*arguments())
    with pytest.raises(jax.errors.JaxRuntimeError, match="nobody"):
        paropt.jit(fresh(), passes="grad-sync,call-nobody", strict=True)(*arguments())
    compiler_loses_tag(monkeypatch, 1)
    with pytest.raises(fallback_file.VerificationError, match="a reduction of 64 elements"):
        paropt.jit(fresh(), strict=True)(*arguments())


def test_a_program_that_xla_refuses_anyway() -> None:
    """Then the error is the user's, as from `jax.jit`, and nothing is said of passes."""
    f = paropt.jit(fresh(), compiler_options={"no_such_option": True})
    with pytest.raises(jax.errors.JaxRuntimeError, match="no_such_option"):
        f(*arguments())


def test_programs_without_constraints_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Any] = []
    monkeypatch.setattr(fallback_file, "census", read.append)
    split = NamedSharding(jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,)), Spec("data"))
    for x in (jnp.ones(8), jax.device_put(jnp.ones(8), split)):
        f = paropt.jit(lambda x: x * 3)
        f(x)
        assert f.lower(x).compiler_ir() not in REWRITES
    assert read == []


# ---- apart


def test_apart_compiles_in_a_child_first(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = []
    real: Callable[..., Any] = compile_apart.compile_apart

    def noted(module: bytes, request: Any, environment: Any) -> Any:
        requests.append(request)
        return real(module, request, environment)

    monkeypatch.setattr(compile_apart, "compile_apart", noted)
    f = paropt.jit(fresh(), apart=True, strict=True, compiler_options={"xla_embed_ir_in_executable": False})
    np.testing.assert_array_equal(np.asarray(f(*arguments())), expected())
    assert [(r.target, dict(r.options)) for r in requests] == [("cpu:8", {"xla_embed_ir_in_executable": False})]
    paropt.jit(lambda x: x * 3, apart=True)(jnp.ones(8))
    assert len(requests) == 1


def test_a_compiler_that_dies_kills_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    dies = "import os, sys; print('F0101 00:00:00.0 1 file.cc:1] Check failed: x', file=sys.stderr); os.abort()"
    monkeypatch.setattr(compile_apart, "_standing", [])
    monkeypatch.setattr(compile_apart, "_COMMAND", (sys.executable, "-c", dies))
    falls_back(paropt.jit(fresh(), apart=True), "TargetError: cpu:8: the compiler died of SIGABRT: Check failed: x")
    with pytest.raises(TargetError, match="SIGABRT"):
        paropt.jit(fresh(), apart=True, strict=True)(*arguments())


def test_a_wrong_target_is_reported_where_it_is_written() -> None:
    with pytest.raises(TargetError, match="no target `tpv:v5e`"):
        paropt.jit(fresh(), apart="tpv:v5e")
    with pytest.raises(TargetError, match=r"^tpu:v9:2x2"):  # libtpu does not know it, or is not installed
        paropt.jit(fresh(), apart="tpu:v9:2x2")
    with pytest.raises(TargetError, match=r"^tpu:v9:2x2"):
        paropt.enabled(apart="tpu:v9:2x2")


# ---- audits


def test_audits_say_that_results_would_be_wrong() -> None:
    right = paropt.audit(fresh(), *arguments(), passes="grad-sync")
    wrong = paropt.audit(fresh(), *arguments(), passes="grad-sync,lose-tag{at=1}")
    assert isinstance(right, AuditComparison) and isinstance(wrong, AuditComparison)
    assert right.mismatches == ()
    assert right.before.sync_in_loop > 0 and right.after.sync_in_loop == 0
    assert any("its addends are not" in line for line in wrong.mismatches)


def test_audits_for_targets_say_it_too() -> None:
    report = paropt.audit(fresh(), *arguments(), passes="grad-sync,lose-tag{at=1}", targets=["cpu:8"])
    assert isinstance(report, AuditReport)
    assert all(line.startswith("cpu:8: stablehlo.add at ") for line in report.mismatches) and report.mismatches


@pytest.mark.parametrize(
    "pipeline",
    [
        "sum-again",  # it is noted of nothing that it is not reduced
        "grad-sync,sum-again,sum-again,sum-again,sum-again",
    ],
)
def test_xla_alone_sends_less(pipeline: str) -> None:
    text = paropt.jit(fresh(), passes=pipeline, strict=True).lower(*arguments()).compile().as_text()
    assert text is not None
    sent = f"{traffic(census(text)).known:.0f}"
    reason = f"{sent} bytes per device and step, and {4 * 448} bytes per device and step without passes"
    falls_back(paropt.jit(fresh(), passes=pipeline, compare=True), reason)
    with paropt.enabled(pipeline, compare=True):
        falls_back_within = jax.jit(fresh())
        with pytest.warns(RuntimeWarning, match=f"sends more than XLA alone, .*{reason}"):
            falls_back_within(*arguments())
    with pytest.raises(VerificationError, match=f"it sends more than XLA alone: {reason}"):
        paropt.jit(fresh(), passes=pipeline, compare=True, strict=True)(*arguments())


def test_xla_alone_sends_no_less() -> None:
    text = paropt.jit(fresh(), compare=True, strict=True).lower(*arguments()).compile().as_text()
    assert text is not None
    (reduction,) = census(text)
    assert not reduction.loops
    also = paropt.jit(fresh(), passes="grad-sync,sum-again", compare=True, strict=True)  # fewer still
    np.testing.assert_array_equal(np.asarray(also(*arguments())), expected())


def test_only_the_rewritten_program_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("no memory for it")

    monkeypatch.setattr(fallback_file.Fallback, "_as_it_was", fail)
    f = paropt.jit(fresh(), passes="sum-again", compare=True, strict=True)
    np.testing.assert_array_equal(np.asarray(f(*arguments())), expected())


def test_a_program_for_one_device_is_not_compared() -> None:
    compared = paropt.jit(lambda x: x + 1, compare=True).lower(1.0)
    assert compared.compiler_ir() not in REWRITES
    assert paropt.jit(fresh(), compare=True).lower(*arguments()).compiler_ir() in REWRITES
