"""Notices when a jax release changes one of the private names that paropt/jit.py builds on, and tests its fallback."""

import importlib
import importlib.util
import inspect
import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.interpreters import mlir, pxla
from unit.jit_passes import COSINE, same, wave, x
from unit.jit_passes import seen as seen
from unit.pyext.hook.test_fallback import arguments, compiler_loses_tag, expected, fresh

import paropt
from paropt.hook.jit_arguments import JitArguments

jit_file = importlib.import_module("paropt.jit")
PASSES = "canonicalize"


# ---- the hook


def test_this_jax_is_hooked() -> None:
    assert jit_file._hooked
    assert mlir.lower_jaxpr_to_module.__module__ == mlir.LoweringResult.__module__  # functools.wraps
    assert mlir.lower_jaxpr_to_module is not inspect.unwrap(mlir.lower_jaxpr_to_module)
    assert pxla.shard_args is not inspect.unwrap(pxla.shard_args)
    compiles = pxla.UnloadedMeshExecutable.from_hlo
    assert compiles is not inspect.unwrap(compiles)
    assert isinstance(inspect.getattr_static(pxla.UnloadedMeshExecutable, "from_hlo"), staticmethod)


@pytest.mark.parametrize(
    "other",
    [
        lambda jax_is: jax_is.delattr(jax, "make_user_context"),
        lambda jax_is: jax_is.delattr(mlir, "lower_jaxpr_to_module"),
        lambda jax_is: jax_is.delattr(pxla, "shard_args"),
        lambda jax_is: jax_is.setattr(mlir, "LoweringResult", tuple),
        lambda jax_is: jax_is.setattr(pxla, "mlir", None),
        lambda jax_is: jax_is.setattr(inspect, "getsource", lambda _: "lower_jaxpr_to_module(\n"),
        lambda jax_is: jax_is.setattr(inspect, "getsource", lambda _: "mlir.lower_jaxpr_to_module(\n"),
        lambda jax_is: jax_is.delattr(pxla, "UnloadedMeshExecutable"),
        lambda jax_is: jax_is.delattr(pxla.UnloadedMeshExecutable, "from_hlo"),
        lambda jax_is: jax_is.setattr(pxla.UnloadedMeshExecutable, "from_hlo", lambda name, module: None),
    ],
)
def test_another_jax_is_told_apart(other: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert jit_file._can_hook()
    other(monkeypatch)
    assert not jit_file._can_hook()


def test_jax_without_sources_is_hooked(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_source(_: object) -> str:
        raise OSError

    monkeypatch.setattr(inspect, "getsource", no_source)
    assert jit_file._can_hook()


def test_jit_arguments_are_those_of_jax() -> None:
    assert set(JitArguments.__annotations__) == set(inspect.signature(jax.jit).parameters) - {"fun"}


def test_every_attribute_of_a_jitted_function_is_there() -> None:
    ours, theirs = paropt.jit(wave, passes=PASSES), jax.jit(wave)
    public = {name for name in dir(theirs) if not name.startswith("_")}
    assert public <= set(dir(ours))
    assert inspect.signature(ours) == inspect.signature(theirs)


def test_traced_can_be_given_our_class() -> None:
    traced = paropt.jit(wave, passes=PASSES).trace(x)
    plain = jax.jit(wave).trace(x)
    for name in (name for name in dir(plain) if not name.startswith("_")):
        assert hasattr(traced, name)
    assert traced.jaxpr is not None
    assert type(plain) is type(jax.jit(wave).trace(x)) is jax.stages.Traced  # ours is nobody else's


def test_lower_returns_the_cached_module() -> None:
    f = jax.jit(wave)
    lowered: Any = f.lower(x)
    assert lowered.compiler_ir() is lowered._lowering._hlo is f.lower(x).compiler_ir()


def test_a_hook_that_is_gone_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlir, "lower_jaxpr_to_module", inspect.unwrap(mlir.lower_jaxpr_to_module))
    f = paropt.jit(wave, passes=f"{PASSES},{PASSES}")
    with pytest.warns(RuntimeWarning, match="compiled without its passes"):
        same(f(x), 2 * np.sin(x))
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


def test_fallback_rewrites_a_copy(fallback: types.ModuleType) -> None:
    f, plain = fallback.jit(wave, passes=COSINE), jax.jit(wave)
    for _ in range(2):
        same(plain(x), 2 * np.sin(x))  # its executable is kept by the lowering that is copied below
        same(f(x), 2 * np.cos(x))
        for lowered in (f.lower(x), f.trace(x).lower()):
            assert "cosine" in lowered.as_text() and "cosine" not in plain.lower(x).as_text()
            assert len(fallback.remarks(lowered)) == 1
            same(lowered.compile()(x), 2 * np.cos(x))
    assert isinstance(f, jax.stages.Wrapped)


def test_fallback_without_passes_is_plain_jit(fallback: types.ModuleType) -> None:
    f = fallback.jit(wave, passes="")
    same(f(x), 2 * np.sin(x))
    assert f.lower(x).compiler_ir() is jax.jit(wave).lower(x).compiler_ir()


def test_fallback_compiles_once_per_type(fallback: types.ModuleType, seen: list[str]) -> None:
    f = fallback.jit(wave, passes="note-module")
    for _ in range(3):
        f(x)
    assert len(seen) == 1
    f(x[:4])
    assert len(seen) == 2


def test_fallback_static_donated_and_transformed(fallback: types.ModuleType) -> None:
    @fallback.jit(passes=COSINE, static_argnums=(0, -1), donate_argnames="x")
    def f(n: int, x: Any, power: int) -> Any:
        return jnp.sin(x) ** power * n

    donated = jnp.asarray(x)
    same(f(3, donated, 2), 3 * np.cos(x) ** 2)
    assert donated.is_deleted()
    g = fallback.jit(lambda x, *, n: jnp.sin(x).sum() * n, passes=COSINE, static_argnames="n")
    same(g(x, n=2), 2 * np.cos(x).sum())
    same(jax.grad(g)(x, n=2), 2 * np.cos(x))  # nothing is rewritten: the derivative of the sine
    same(jax.jit(lambda x: g(x, n=2))(x), 2 * np.sin(x).sum())


@pytest.mark.parametrize("at", [None, 1])
def test_fallback_looks_at_executables(
    fallback: types.ModuleType, at: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pxla.UnloadedMeshExecutable, "from_hlo", inspect.unwrap(pxla.UnloadedMeshExecutable.from_hlo))
    f = fallback.jit(fresh())
    if at is None:
        np.testing.assert_array_equal(f(*arguments()), expected())
        text = f.lower(*arguments()).compile().as_text()
        assert (
            text.count(" all-reduce(") == 1 and "while/body" not in text.partition(" all-reduce(")[2].partition("\n")[0]
        )
        return
    compiler_loses_tag(monkeypatch, at)
    with pytest.warns(RuntimeWarning, match="failed in the compiler, the program stays as it was"):
        np.testing.assert_array_equal(f(*arguments()), expected())
    lowered = f.lower(*arguments())
    with pytest.warns(RuntimeWarning, match="failed in the compiler"):
        np.testing.assert_array_equal(lowered.compile()(*arguments()), expected())
    assert not fallback.remarks(lowered)[-1].applied


def test_fallback_of_enabled_says_that_it_has_none(fallback: types.ModuleType) -> None:
    with pytest.warns(RuntimeWarning, match="paropt.enabled has no effect"), fallback.enabled(COSINE):
        same(jax.jit(wave)(x), 2 * np.sin(x))


def test_no_fallback_either(fallback: types.ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(jax.stages.Lowered, "_lowering")
    with pytest.raises(RuntimeError, match=r"paropt needs jax 0\.10 to 0\.12: it does not know how jax"):
        fallback.rewritten(object.__new__(jax.stages.Lowered), COSINE)
