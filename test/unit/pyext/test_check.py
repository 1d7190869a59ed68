"""`paropt.check` finds what passes change, and says what it compared; `paropt.jit(..., check=True)` does it first."""

import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec
from jaxlib.mlir import ir
from programs.catalog import MATRIX
from programs.program import Sizes, data_mesh
from unit.jit_passes import COSINE, wave, x
from unit.jit_passes import seen as seen

import paropt
from paropt.check import Check, CheckError, Compared
from paropt.numeric.data_roles import narrowed, not_negative
from paropt.passes.support.registry import register
from paropt.passes.support.remarks import Remark
from paropt.passes.support.traversal import ops_of


def forget_terms(module: ir.Operation) -> list[Remark]:
    """Leave the second term of each sum out."""
    for op in ops_of(module, "stablehlo.add"):
        op.results[0].replace_all_uses_with(op.operands[0])
        op.erase()
    return []


def accumulated(x: jax.Array) -> jax.Array:
    def step(x: jax.Array) -> jax.Array:
        return lax.fori_loop(0, 3, lambda i, total: total + lax.psum(x * i, "data"), jnp.ones(x.shape))

    mapped: dict[str, Any] = {"in_specs": PartitionSpec("data"), "out_specs": PartitionSpec(), "check_vma": False}
    return jax.shard_map(step, mesh=data_mesh(), **mapped)(x)


def test_a_deferred_sum_is_the_same_bit_for_bit() -> None:
    found = paropt.check(accumulated, jax.ShapeDtypeStruct((8, 2), jnp.float32))
    assert found.is_changed and found.is_same and found.devices == 8
    assert [(r.type, r.must_be_equal, r.difference) for r in found.results] == [("float32[1,2]", True, 0.0)]
    assert str(found) == ("1 of 1 result the same, bit for bit, with 3 sets of data on 8 simulated devices")


def test_sums_in_another_order_may_differ_by_rounding() -> None:
    program = MATRIX["explicit_mlp_p3"](Sizes(layers=1))
    found = paropt.check(program.step, *program.args)
    assert found.is_changed and found.is_same
    assert not any(result.must_be_equal for result in found.results)
    assert 0 < max(result.difference for result in found.results) < 1e-6


def test_a_wrong_pass_is_found(seen: list[str]) -> None:
    found = paropt.check(wave, x, passes=COSINE)
    assert not found.is_same and "1 of 1 result wrong" in str(found)


def test_a_small_error_is_found_where_arithmetic_is_exact(seen: list[str]) -> None:
    """It is smaller than what sums in another order may differ by."""
    register(forget_terms)

    def nearly(x: jax.Array) -> jax.Array:
        return x * 16384 + 1

    found = paropt.check(nearly, x, passes="forget-terms")
    (result,) = found.results
    assert result.must_be_equal and 0 < result.difference < 2e-4 and not found.is_same


def test_what_is_not_finite_in_the_same_places_is_right(seen: list[str]) -> None:
    """And the rest is compared. It is wrong to be infinite, or not a number, elsewhere."""
    register(forget_terms)

    def masked(x: jax.Array) -> tuple[jax.Array, ...]:
        limits = jnp.array([-jnp.inf, jnp.nan, jnp.inf, 0.0])
        return limits + jnp.sin(x * 0) / 3, jnp.log(x * 0 - 1) + x, jnp.sin(x[3]) + limits[3:] + 1e-3

    found = paropt.check(masked, jnp.ones(4), passes="forget-terms")
    assert [result.is_same for result in found.results] == [True, True, False]
    assert str(found).startswith("1 of 3 results wrong, with 3 sets of data on 1 simulated device: result 2 ")
    assert len(str(found).splitlines()) == 1


def test_roots_are_taken_of_numbers_that_are_not_negative() -> None:
    """Through calls, loops and sums with squares; but not of a variance that is a difference, nor of other arguments."""

    @jax.jit
    def root(v: jax.Array) -> jax.Array:
        return jnp.sqrt(v + 1e-8)

    def step(v: jax.Array, m: jax.Array, g: jax.Array, p: jax.Array) -> tuple[jax.Array, jax.Array]:
        v = lax.fori_loop(0, 2, lambda _, v: jnp.maximum(0.9 * v + 0.1 * jnp.square(g), v), v)
        return p - g / root(v), jnp.log(jnp.abs(p)) + lax.rsqrt(v - jnp.square(m))

    module = jax.jit(step).lower(*[jnp.ones(4)] * 4).compiler_ir().operation
    main = next(f for f in ops_of(module, "func.func") if ir.StringAttr(f.attributes["sym_name"]).value == "main")
    assert not_negative(main, module) == {0}


def test_arguments_are_off_by_an_ulp_of_the_type_that_they_become() -> None:
    def step(p: jax.Array, half: jax.Array, other: jax.Array, i: jax.Array) -> tuple[jax.Array, ...]:
        def add(total: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
            return total + (x @ p.astype(jnp.bfloat16)).astype(jnp.float32), None

        total, _ = lax.scan(add, other, jnp.ones((2, 4, 4), jnp.bfloat16))
        return total, half.astype(jnp.float32), i.astype(jnp.bfloat16)

    types = jnp.float32, jnp.float16, jnp.float32, jnp.int32
    module = jax.jit(step).lower(*[jnp.ones((4, 4), dtype) for dtype in types]).compiler_ir().operation
    main = next(f for f in ops_of(module, "func.func") if ir.StringAttr(f.attributes["sym_name"]).value == "main")
    assert narrowed(main, module) == {0: jnp.bfloat16}


def test_programs_that_call_lapack() -> None:
    """jax tells XLA where LAPACK is when it lowers a call, not when XLA compiles it."""

    def factors(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jnp.linalg.cholesky(x @ x.T + jnp.eye(8)), accumulated(x)

    found = paropt.check(factors, jnp.ones((8, 8)))
    assert found.is_changed and found.is_same


def test_nothing_changed() -> None:
    found = paropt.check(wave, x)
    assert not found.is_changed and found.is_same and str(found).startswith("the passes changed nothing")


def test_integers_and_several_results(seen: list[str]) -> None:
    register(forget_terms)

    def both(i: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
        return i * 2, (i + 1) * b

    found = paropt.check(both, np.arange(4), np.array([True, False, True, True]), passes="forget-terms")
    assert [result.is_same for result in found.results] == [True, False]
    assert found.results[1].type.startswith("int") and found.results[1].tolerance == 0.0


def test_lowered_programs_and_modules() -> None:
    lowered = jax.jit(accumulated).lower(jnp.ones((8, 2)))
    for program in (lowered, lowered.as_text(), lowered.compiler_ir()):
        assert paropt.check(program, passes="grad-sync").is_same


def test_a_function_of_paropt_jit_is_checked_with_its_own_passes(seen: list[str]) -> None:
    assert not paropt.check(paropt.jit(wave, passes=COSINE), x).is_same


@pytest.mark.parametrize(
    "text, why",
    [
        ("func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> { BODY return %x : tensor<?xf32> }", "no array of static shape"),
        ("func.func @f(%x: tensor<2xi4>) -> tensor<2xi4> { BODY return %x : tensor<2xi4> }", "no data of type i4"),
        ("func.func @f() { BODY return }\nfunc.func @g() { return }", "no function @main, and 2 others that are public"),
        ("func.func @main() -> tensor<f32> { %0 = stablehlo.custom_call @no_such() : () -> tensor<f32> BODY return %0 : tensor<f32> }", "XLA says"),
    ],
)  # fmt: skip
def test_what_cannot_be_run(text: str, why: str) -> None:
    unused = "%c = stablehlo.constant dense<1> : tensor<i32>"
    with pytest.raises(CheckError, match=why):
        paropt.check(text.replace("BODY", unused), passes="func.func(canonicalize)")


def test_a_program_that_calls_back_into_python() -> None:
    def step(x: Any) -> Any:
        total = accumulated(x)
        jax.debug.callback(print, total)
        return total

    with pytest.raises(CheckError, match=r"the program calls back into Python at .*test_check.py:\d+:\d+ "):
        paropt.check(step, jnp.ones((8, 2)), passes="grad-sync")


@pytest.mark.parametrize(
    "code, why",
    [
        (
            "raise RuntimeError('of ours')",
            "the process that ran the program ended with status 1: RuntimeError: of ours",
        ),
        ("import os; os.abort()", "the process that ran the program ended with status -6: it said nothing"),
        ("import time; time.sleep(60)", "the program and its result did not end in 0.5 seconds"),
    ],
)
def test_a_process_that_does_not_answer(code: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["paropt.check"]  # `paropt.check` is the function
    monkeypatch.setattr(module, "_COMMAND", (sys.executable, "-c", code))
    if "sleep" in code:
        monkeypatch.setattr(module, "SECONDS", 0.5)
    with pytest.raises(CheckError) as error:
        paropt.check(accumulated, jnp.ones(8), passes="inline-calls,defer-sync")
    assert str(error.value) == why


@pytest.mark.parametrize("program, args", [(7, ()), ("module {}", (1,))])
def test_what_is_no_program(program: Any, args: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match=r"^paropt.check: "):
        paropt.check(program, *args)


@pytest.mark.parametrize("seeds", [0, -1, 1.5, True])
def test_no_data_is_no_check(seeds: Any) -> None:
    with pytest.raises(ValueError, match=r"^seeds: expected a number of sets of data, 1 at least"):
        paropt.check(jnp.sin, jnp.ones(8), seeds=seeds)


def test_jit_refuses_what_computes_something_else(seen: list[str]) -> None:
    ours = paropt.jit(wave, passes=COSINE, check=True)
    for _ in range(2):
        with pytest.raises(CheckError, match=r"^paropt.jit\(..., check=True\): 1 of 1 result wrong"):
            ours(x)


def test_jit_checks_each_program_once(monkeypatch: pytest.MonkeyPatch, seen: list[str]) -> None:
    checked: list[str] = []

    def noted(program: Any, *, passes: str) -> Check:
        checked.append(passes)
        return Check(1, 1, passes, True, (Compared(0, "float32[]", True, 0.0, 0.0, 0),))

    monkeypatch.setattr(sys.modules["paropt.check"], "check", noted)
    ours = paropt.jit(check=True, passes="note-module")(wave)
    for value in (x, x, x[:4], x):
        np.testing.assert_allclose(ours(value), np.sin(value) * 2, rtol=1e-6)
    assert checked == ["note-module"] * 2
    jax.grad(lambda v: ours(v).sum())(x)  # inside another program it is not a program of its own
    assert checked == ["note-module"] * 2
