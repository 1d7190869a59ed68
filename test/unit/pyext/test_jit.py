"""`paropt.jit` and `paropt.enabled` on small programs: what is rewritten, what is not, and when."""

import copy
import functools
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as Spec
from jaxlib.mlir import ir
from unit.jit_passes import COSINE, NOTED, same, wave, x
from unit.jit_passes import seen as seen

import paropt
from paropt.passes.support.pipeline import Pipeline
from paropt.passes.support.registry import PASSES, register
from paropt.passes.support.remarks import Remark

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")


def mesh() -> jax.sharding.Mesh:
    return jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))


# ---- what is rewritten


def test_the_program_that_runs_is_rewritten() -> None:
    same(paropt.jit(wave, passes=COSINE)(x), 2 * np.cos(x))


@pytest.mark.parametrize("first", ["plain", "paropt"])
def test_plain_jit_of_the_same_function_is_not(first: str) -> None:
    def f(x: Any) -> Any:
        return jnp.sin(x)

    plain, rewritten = jax.jit(f), paropt.jit(f, passes=COSINE)
    for _ in range(2):
        for name in (first, "plain", "paropt"):
            same(*((plain(x), np.sin(x)) if name == "plain" else (rewritten(x), np.cos(x))))
    assert "cosine" not in plain.lower(x).as_text()


@pytest.mark.parametrize("within", [False, True], ids=["jit", "enabled"])
def test_programs_that_place_arguments_are_not(within: bool, seen: list[str]) -> None:
    """jax slices an array that is on another device: a program of its own, which has no argument of this name."""

    def whole(w: Any, batch: Any) -> Any:
        return w - batch.sum(0)

    passes = f"inline-calls,{NOTED},split-microbatches{{count=2 arguments=batch}}"
    shardings = tuple(NamedSharding(mesh(), Spec(*axes)) for axes in ((), ("data",)))
    w, batch = jnp.arange(8.0), jnp.arange(32.0 * 8).reshape(32, 8) + 1
    want = np.asarray(w) - np.asarray(batch).sum(0)
    if within:
        with paropt.enabled(passes):
            same(jax.jit(whole, in_shardings=shardings)(w, batch), want)
    else:
        f = paropt.jit(whole, passes=passes, in_shardings=shardings)
        for _ in range(2):
            same(f(w, batch), want)
    assert seen == ["jit_whole"]


def test_ops_are_at_the_users_line() -> None:
    """Where jax calls nothing of the user's: what is jitted is what it has made of a function."""
    step = jax.shard_map(jnp.sin, mesh=mesh(), in_specs=Spec("data"), out_specs=Spec("data"))
    text = paropt.jit(step, passes=NOTED).lower(jnp.ones(8)).as_text(debug_info=True)
    assert Path(__file__).name in text
    assert str(Path(paropt.__file__).parent) not in text


def test_other_passes_are_another_program(seen: list[str]) -> None:
    same(paropt.jit(wave, passes="note-module")(x), 2 * np.sin(x))
    same(paropt.jit(wave, passes=NOTED)(x), 2 * np.cos(x))
    assert seen == ["jit_wave", "jit_wave"]


def test_no_passes_is_plain_jit() -> None:
    assert paropt.jit(wave, passes="").lower(x).compiler_ir() is jax.jit(wave).lower(x).compiler_ir()


def test_mlir_passes_in_the_same_pipeline() -> None:
    f = paropt.jit(lambda x: wave(x) + wave(x), passes=f"func.func(cse),{COSINE},cse,symbol-dce")
    assert f.lower(x).as_text().count("stablehlo.cosine") == 1
    same(f(x), 4 * np.cos(x))


def test_pipeline_object() -> None:
    same(paropt.jit(wave, passes=Pipeline.parse(COSINE))(x), 2 * np.cos(x))


def test_default_pipeline() -> None:
    f = paropt.jit(wave)
    same(f(x), 2 * np.sin(x))
    assert isinstance(paropt.remarks(f.lower(x)), tuple)


def test_collectives_in_shard_map_and_pmap() -> None:
    def summed(x: Any) -> Any:
        return jax.lax.psum(jnp.sin(x), "data")

    sharded = jax.shard_map(summed, mesh=mesh(), in_specs=Spec("data"), out_specs=Spec())
    expected = np.cos(x).sum()
    same(paropt.jit(sharded, passes=COSINE)(x), [expected])
    with paropt.enabled(COSINE):
        same(jax.jit(sharded)(x), [expected])
        same(jax.pmap(summed, "data")(x), np.full(8, expected))
    same(jax.pmap(summed, "data")(x), np.full(8, np.sin(x).sum()))


# ---- transformations


def test_grad_inside_is_rewritten() -> None:
    value = paropt.jit(jax.value_and_grad(lambda x: jnp.sin(x).sum()), passes=COSINE)(x)
    same(value[0], np.cos(x).sum())
    same(value[1], np.cos(x))


def test_grad_outside_rewrites_the_forward_program_only() -> None:
    f = paropt.jit(lambda x: jnp.sin(jnp.sin(x)).sum(), passes="note-module")
    same(jax.grad(f)(x), np.cos(np.sin(x)) * np.cos(x))
    same(jax.value_and_grad(paropt.jit(lambda x: jnp.sin(x).sum(), passes=COSINE))(x)[0], np.cos(x).sum())


def test_vmap_inside_and_outside() -> None:
    xs = np.stack([x, x + 1])
    same(jax.vmap(paropt.jit(wave, passes=COSINE))(xs), 2 * np.cos(xs))
    same(paropt.jit(jax.vmap(wave), passes=COSINE)(xs), 2 * np.cos(xs))


def test_the_outermost_jit_decides() -> None:
    rewritten = paropt.jit(wave, passes=COSINE)
    same(jax.jit(lambda x: rewritten(x) + 1)(x), 2 * np.sin(x) + 1)
    same(paropt.jit(lambda x: jax.jit(wave)(x) + 1, passes=COSINE)(x), 2 * np.cos(x) + 1)
    same(paropt.jit(lambda x: rewritten(x) + 1, passes="note-module")(x), 2 * np.sin(x) + 1)
    same(paropt.jit(jax.jit(wave), passes=COSINE)(x), 2 * np.cos(x))
    donated = jnp.asarray(x)
    same(paropt.jit(rewritten, passes="note-module", donate_argnums=0)(donated), 2 * np.sin(x))
    assert donated.is_deleted()


def test_checkpoint_make_jaxpr_and_eval_shape() -> None:
    f = paropt.jit(wave, passes=COSINE)
    same(jax.jit(jax.grad(lambda x: jax.checkpoint(f)(x).sum()))(x), 2 * np.cos(x))
    assert "sin" in str(jax.make_jaxpr(f)(x))
    assert jax.eval_shape(f, x) == f.eval_shape(x) == jax.jit(wave).eval_shape(x)


def test_export_carries_the_rewritten_program() -> None:
    exported = jax.export.export(paropt.jit(wave, passes=COSINE), platforms=["cpu", "tpu"])(x)
    assert "stablehlo.cosine" in exported.mlir_module()
    same(exported.call(x), 2 * np.cos(x))


def test_host_callbacks() -> None:
    got: list[Any] = []

    def f(x: Any) -> Any:
        jax.debug.callback(got.append, x.sum())
        return jnp.sin(x)

    rewritten = paropt.jit(f, passes=COSINE)
    for _ in range(2):
        same(rewritten(x), np.cos(x))
    jax.effects_barrier()
    same(got, [x.sum()] * 2)


def test_a_user_error_is_the_users() -> None:
    def f(x: Any) -> Any:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        paropt.jit(f, passes=COSINE)(x)
    same(jax.jit(jnp.sin)(x), np.sin(x))  # the passes are off again


# ---- used as jax.jit is


def test_decorator_forms_and_metadata() -> None:
    @paropt.jit(passes=COSINE, static_argnames="n")
    def scaled(x: Any, *, n: int) -> Any:
        """Scales."""
        return jnp.sin(x) * n

    same(scaled(x, n=3), 3 * np.cos(x))
    same(functools.partial(paropt.jit, passes=COSINE)(wave)(x), 2 * np.cos(x))
    named: Any = scaled
    assert (named.__name__, named.__doc__) == ("scaled", "Scales.")
    assert isinstance(scaled, jax.stages.Wrapped)
    assert "scaled" in repr(scaled)


def test_works_as_a_method_like_jax_jit() -> None:
    class Model:
        def __init__(self, scale: float) -> None:
            self.scale = scale

        @functools.partial(paropt.jit, passes=COSINE, static_argnums=0)
        def step(self, x: Any) -> Any:
            return jnp.sin(x) * self.scale

        @functools.partial(jax.jit, static_argnums=0)
        def plain(self, x: Any) -> Any:
            return jnp.sin(x) * self.scale

    model: Any = Model(5)
    same(model.step(x), 5 * np.cos(x))
    same(Model.step(model, x), 5 * np.cos(x))
    assert "cosine" in model.step.lower(model, x).as_text()
    assert "cosine" not in model.plain.lower(model, x).as_text()  # jax.jit wants `self` here too


def test_static_arguments() -> None:
    def f(n: int, x: Any, power: int = 1) -> Any:
        return jnp.sin(x) ** power * n

    by_number = paropt.jit(f, passes=COSINE, static_argnums=(0, -1))
    same(by_number(3, x, 2), 3 * np.cos(x) ** 2)
    by_name = paropt.jit(f, passes=COSINE, static_argnames=("n", "power"))
    same(by_name(2, x, power=2), 2 * np.cos(x) ** 2)
    same(by_name(n=2, x=x), 2 * np.cos(x))


def test_a_keyword_called_self() -> None:
    same(paropt.jit(lambda **named: jnp.sin(named["self"]), passes=COSINE)(self=x), np.cos(x))


def test_donation_and_shardings() -> None:
    sharded, whole = NamedSharding(mesh(), Spec("data")), NamedSharding(mesh(), Spec())

    @paropt.jit(passes=COSINE, donate_argnames="state", in_shardings=(sharded, whole), out_shardings=(sharded, whole))
    def step(state: Any, x: Any) -> Any:
        return jnp.sin(state) + x, jnp.sin(state).sum()

    for _ in range(2):  # through Python, then through jax's C++ dispatch
        state, kept = jax.device_put(x, sharded), jax.device_put(x, whole)
        new, total = step(state, kept)
        assert state.is_deleted() and not kept.is_deleted()
        assert new.sharding == sharded and total.sharding.is_equivalent_to(whole, 0)
        same(new, np.cos(x) + x)


def test_other_jit_arguments() -> None:
    f = paropt.jit(lambda x, y: jnp.sin(x), passes=COSINE, keep_unused=True, inline=True, compiler_options={})
    lowered = f.lower(x, x)
    assert "%arg1" in lowered.as_text()
    same(lowered.compile()(x, x), np.cos(x))
    with pytest.raises(TypeError, match="donate_argnum"):
        paropt.jit(wave, passes=COSINE, donate_argnum=0)  # type: ignore[call-overload]  # the mistake


def test_lower_and_trace_show_and_compile_the_rewritten_program() -> None:
    f = paropt.jit(wave, passes=COSINE)
    traced = f.trace(x)
    assert isinstance(traced, jax.stages.Traced) and "sin" in str(traced.jaxpr)
    for lowered in (f.lower(x), traced.lower(), copy.copy(f).lower(x), f.trace(x).lower(lowering_platforms=("cpu",))):
        assert "stablehlo.cosine" in lowered.as_text() and "stablehlo.sine" not in lowered.as_text()
        same(lowered.compile()(x), 2 * np.cos(x))
    assert "cosine" not in jax.jit(wave).trace(x).lower().as_text()


def test_equal_passes_share_programs(seen: list[str]) -> None:
    for passes in (NOTED, f" builtin.module( {NOTED} )", Pipeline.parse(NOTED)):
        paropt.jit(wave, passes=passes)(x)
    assert seen == ["jit_wave"]


def test_traced_and_lowered_once_per_type(seen: list[str]) -> None:
    traced = []

    def f(x: Any) -> Any:
        traced.append(x.shape)
        return jnp.sin(x)

    rewritten = paropt.jit(f, passes=NOTED)
    for _ in range(3):
        rewritten(x)
        rewritten.lower(x)
        rewritten.trace(x).lower()
        rewritten.eval_shape(x)
    assert (traced, seen) == ([(8,)], ["jit_f"])
    rewritten(x[:4])
    assert (traced, seen) == ([(8,), (4,)], ["jit_f", "jit_f"])


def test_caches_can_be_cleared(seen: list[str]) -> None:
    f = paropt.jit(lambda x: jnp.sin(x), passes=NOTED)
    f(x)
    f.clear_cache()
    same(f(x), np.cos(x))
    assert len(seen) == 2
    jax.clear_caches()
    same(f(x), np.cos(x))
    assert len(seen) == 3


def test_a_pass_registered_anew_makes_new_programs() -> None:
    same(paropt.jit(wave, passes=COSINE)(x), 2 * np.cos(x))

    def replacement(module: ir.Operation) -> list[Remark]:
        """Do nothing."""
        return []

    replacement.__name__ = "sine_to_cosine"
    del PASSES[COSINE]  # as when its file is edited and loaded again
    register(replacement)
    same(paropt.jit(wave, passes=COSINE)(x), 2 * np.sin(x))


def test_programs_without_operations_or_results() -> None:
    for f in (lambda x: x, lambda x: None, lambda x: np.ones(2), lambda x: (x, x)):
        paropt.jit(f, passes=COSINE)(x)


def test_nothing_is_lowered_while_traced_or_disabled() -> None:
    """Passes that nothing was lowered with yet: no false alarm that jax does not call them."""
    f = paropt.jit(lambda x: x, passes="note-module,note-module")
    g = paropt.jit(lambda x: None, passes="note-module,note-module")
    jax.jit(lambda x: (f(x), g(x)))(x)
    with jax.disable_jit():
        f(x)


PERSISTENT = """
import pathlib, sys, jax, jax.numpy as jnp, paropt
sys.path.insert(0, sys.argv[2])
from unit.jit_passes import sine_to_cosine
from paropt.passes.support.registry import PASSES, register
register(sine_to_cosine)
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
def f(x): return jnp.sin(x)
x = jnp.zeros(4)
for _ in range(2):
    assert paropt.jit(f, passes="sine-to-cosine")(x)[0] == 1, "paropt"
    assert jax.jit(f)(x)[0] == 0, "plain"
    jax.clear_caches()
print(len(list(pathlib.Path(sys.argv[1]).glob("jit_f-*-cache"))))
"""


def test_persistent_cache_holds_both_programs(tmp_path: Any, pytestconfig: pytest.Config) -> None:
    command = [sys.executable, "-c", PERSISTENT, str(tmp_path), str(pytestconfig.rootpath / "test")]
    for _ in range(2):  # filled, then read
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "2"


# ---- enabled


def test_enabled_covers_plain_jit_grad_and_eager() -> None:
    plain = jax.jit(lambda x: jnp.sin(x).sum())
    with paropt.enabled(COSINE):
        same(plain(x), np.cos(x).sum())
        same(jax.value_and_grad(plain)(x)[0], np.cos(x).sum())
        same(jax.vmap(plain)(x[None]), [np.cos(x).sum()])
        same(jax.jit(lambda x: plain(x) * 2)(x), np.cos(x).sum() * 2)
        same(jnp.sin(x), np.cos(x))
    same(plain(x), np.sin(x).sum())
    same(jnp.sin(x), np.sin(x))


def test_enabled_nests_and_switches_off() -> None:
    plain = jax.jit(wave)
    with paropt.enabled(COSINE):
        with paropt.enabled(""):
            same(plain(x), 2 * np.sin(x))
            same(paropt.jit(wave, passes=COSINE)(x), 2 * np.cos(x))
        with paropt.enabled("note-module"):
            same(plain(x), 2 * np.sin(x))
        same(plain(x), 2 * np.cos(x))
        same(paropt.jit(wave, passes="")(x), 2 * np.sin(x))


def test_enabled_as_decorator_and_after_an_exception() -> None:
    @paropt.enabled(COSINE)
    def run(depth: int) -> Any:
        if not depth:
            raise ZeroDivisionError
        try:
            run(depth - 1)
        except ZeroDivisionError:
            return jax.jit(wave)(x)

    for _ in range(2):
        same(run(1), 2 * np.cos(x))
    same(jax.jit(wave)(x), 2 * np.sin(x))


def test_threads_do_not_see_each_other() -> None:
    shared, barrier = jax.jit(wave), threading.Barrier(3, timeout=60)
    rewritten = paropt.jit(wave, passes=COSINE)
    results: dict[tuple[str, int], Any] = {}

    def run(name: str, passes: str, f: Any) -> None:
        with paropt.enabled(passes):
            for size in range(1, 9):
                barrier.wait()  # all three lower the same function for the same type now
                results[name, size] = np.asarray(f(x[:size]))

    cases = [("plain", "", shared), ("enabled", COSINE, shared), ("jit", "", rewritten)]
    threads = [threading.Thread(target=run, args=case) for case in cases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 3 * 8
    for (name, size), result in results.items():
        same(result, 2 * (np.sin if name == "plain" else np.cos)(x[:size]))
