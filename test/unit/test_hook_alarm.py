"""Notices when a jax release changes one of the private names that paropt/jit.py builds on, and tests its fallback."""

import importlib.util
import inspect
import sys
import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.interpreters import mlir, pxla

import paropt
from paropt.jit import JitArguments

jit_file = sys.modules["paropt.jit"]
PASSES = "canonicalize"
x = np.linspace(0.1, 0.8, 8, dtype=np.float32)


def doubled(x: Any) -> Any:
    return jnp.sin(x) * 2


# ---- the hook


def test_this_jax_is_hooked() -> None:
    assert jit_file._hooked
    assert mlir.lower_jaxpr_to_module.__module__ == mlir.LoweringResult.__module__  # functools.wraps
    assert mlir.lower_jaxpr_to_module is not inspect.unwrap(mlir.lower_jaxpr_to_module)


def test_a_lowering_is_a_named_tuple_with_a_module() -> None:
    assert mlir.LoweringResult._fields[0] == "module"
    assert "lower_jaxpr_to_module(" in inspect.getsource(pxla) and not hasattr(pxla, "lower_jaxpr_to_module")


def test_jit_arguments_are_those_of_jax() -> None:
    assert set(JitArguments.__annotations__) == set(inspect.signature(jax.jit).parameters) - {"fun"}


def test_every_attribute_of_a_jitted_function_is_there() -> None:
    ours, theirs = paropt.jit(doubled, passes=PASSES), jax.jit(doubled)
    public = {name for name in dir(theirs) if not name.startswith("_")}
    assert public <= set(dir(ours))
    assert inspect.signature(ours) == inspect.signature(theirs)


def test_traced_can_be_given_our_class() -> None:
    traced = paropt.jit(doubled, passes=PASSES).trace(x)
    plain = jax.jit(doubled).trace(x)
    for name in (name for name in dir(plain) if not name.startswith("_")):
        assert hasattr(traced, name)
    assert traced.jaxpr is not None and type(plain) is jax.stages.Traced


def test_lower_returns_the_cached_module() -> None:
    f = jax.jit(doubled)
    lowered = f.lower(x)
    assert lowered.compiler_ir() is lowered._lowering._hlo is f.lower(x).compiler_ir()


def test_a_hook_that_is_gone_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlir, "lower_jaxpr_to_module", inspect.unwrap(mlir.lower_jaxpr_to_module))
    f = paropt.jit(lambda x: jnp.sin(x), passes="canonicalize,canonicalize,canonicalize")
    with pytest.warns(RuntimeWarning, match="compiled without its passes"):
        np.testing.assert_allclose(f(x), np.sin(x), rtol=1e-6)
    with pytest.warns(RuntimeWarning, match="compiled without its passes"):
        f.lower(x)


# ---- the fallback


@pytest.fixture
def fallback(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """paropt/jit.py, imported on a jax whose lowering has moved."""
    monkeypatch.setattr(pxla, "mlir", types.SimpleNamespace(**vars(mlir)))
    monkeypatch.delattr(mlir, "lower_jaxpr_to_module")
    spec = importlib.util.spec_from_file_location("paropt_jit_on_another_jax", str(jit_file.__file__))
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    with pytest.warns(RuntimeWarning, match="paropt.jit compiles ahead of time, with slower calls. paropt needs jax"):
        spec.loader.exec_module(module)
    return module


PAIR = "func.func(cse)"


def twice(x: Any) -> Any:
    return jnp.sin(x) + jnp.sin(x)


def test_fallback_rewrites_a_copy(fallback: types.ModuleType) -> None:
    f, plain = fallback.jit(twice, passes=PAIR), jax.jit(twice)
    for lowered in (f.lower(x), f.trace(x).lower()):
        assert lowered.as_text().count("stablehlo.sine") == 1
        assert fallback.remarks(lowered) == ()
        np.testing.assert_allclose(lowered.compile()(x), 2 * np.sin(x), rtol=1e-6)
    assert plain.lower(x).as_text().count("stablehlo.sine") == 2
    np.testing.assert_allclose(f(x), 2 * np.sin(x), rtol=1e-6)
    assert isinstance(f, jax.stages.Wrapped)


def test_fallback_compiles_once_per_type(fallback: types.ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    rewritten = []
    run = fallback._run
    monkeypatch.setattr(fallback, "_run", lambda *args: rewritten.append(args) or run(*args))
    f = fallback.jit(twice, passes=PAIR)
    for _ in range(3):
        f(x)
    assert len(rewritten) == 1
    f(x[:4])
    assert len(rewritten) == 2


def test_fallback_static_donated_and_transformed(fallback: types.ModuleType) -> None:
    @fallback.jit(passes=PAIR, static_argnums=(0, -1), donate_argnames="x")
    def f(n: int, x: Any, power: int) -> Any:
        return jnp.sin(x) ** power * n

    donated = jnp.asarray(x)
    np.testing.assert_allclose(f(3, donated, 2), 3 * np.sin(x) ** 2, rtol=1e-6)
    assert donated.is_deleted()
    g = fallback.jit(lambda x, *, n: jnp.sin(x).sum() * n, passes=PAIR, static_argnames="n")
    np.testing.assert_allclose(g(x, n=2), 2 * np.sin(x).sum(), rtol=1e-6)
    np.testing.assert_allclose(jax.grad(g)(x, n=2), 2 * np.cos(x), rtol=1e-6)
    np.testing.assert_allclose(jax.jit(lambda x: g(x, n=2))(x), 2 * np.sin(x).sum(), rtol=1e-6)


def test_fallback_of_enabled_says_that_it_has_none(fallback: types.ModuleType) -> None:
    with pytest.warns(RuntimeWarning, match="paropt.enabled has no effect"), fallback.enabled(PAIR):
        np.testing.assert_allclose(jax.jit(twice)(x), 2 * np.sin(x), rtol=1e-6)


def test_no_fallback_either(fallback: types.ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(jax.stages.Lowered, "_lowering")
    with pytest.raises(RuntimeError, match=r"paropt needs jax 0\.10 to 0\.12: it does not know how jax"):
        fallback._rewritten_copy(object.__new__(jax.stages.Lowered), None)
