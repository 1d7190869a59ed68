"""`paropt.jit`, `paropt.enabled`, `paropt.remarks` on small programs, with passes whose effect shows in the results."""

import copy
import functools
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as Spec
from jaxlib.mlir import ir

import paropt
from paropt.passes.core.pipeline import Pipeline, PipelineError
from paropt.passes.core.registry import PASSES, register
from paropt.passes.core.remarks import Remark, applied
from paropt.passes.core.traversal import ops_of

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")


def sine_to_cosine(module: ir.Operation, *, fail_after: Annotated[int, "Raise after this many."] = -1) -> list[Remark]:
    """Replace every sine by a cosine."""
    remarks = []
    for op in ops_of(module, "stablehlo.sine"):
        cosine = ir.Operation.create(
            "stablehlo.cosine", [op.result.type], list(op.operands), loc=op.location, ip=ir.InsertionPoint(op)
        )
        op.result.replace_all_uses_with(cosine.result)
        remarks.append(applied("sine-to-cosine", op, "it is a cosine now"))
        op.erase()
        if len(remarks) == fail_after:
            raise KeyError("a defect\nwith details")
    return remarks


def break_types(module: ir.Operation) -> list[Remark]:
    """Leave the module invalid."""
    for op in ops_of(module, "stablehlo.sine"):
        op.result.set_type(ir.RankedTensorType.get([7], ir.F32Type.get(module.context), loc=op.location))
    return []


def drop_result(module: ir.Operation) -> list[Remark]:
    """Make main return one result less: valid for MLIR, not for jax."""
    main = next(f for f in ops_of(module, "func.func") if ir.StringAttr(f.attributes["sym_name"]).value == "main")
    block = main.regions[0].blocks[0]
    returned = ops_of(main, "func.return")[-1]
    kept = list(returned.operands)[:-1]
    ir.Operation.create("func.return", [], kept, loc=returned.location, ip=ir.InsertionPoint(returned))
    returned.erase()
    with module.context:
        signature = ir.FunctionType.get([a.type for a in block.arguments], [v.type for v in kept])
        main.attributes["function_type"] = ir.TypeAttr.get(signature)
    del main.attributes["res_attrs"]
    return []


@pytest.fixture(autouse=True)
def seen() -> Iterator[list[str]]:
    """The names of the modules that `note-module` was run on; the test's passes are registered around each test."""
    names: list[str] = []

    def note_module(module: ir.Operation) -> list[Remark]:
        """Write down the module's name."""
        names.append(ir.StringAttr(module.attributes["sym_name"]).value)
        return []

    before = dict(PASSES)
    for run in (sine_to_cosine, break_types, drop_result, note_module):
        register(run)
    yield names
    PASSES.clear()
    PASSES.update(before)


COSINE = "sine-to-cosine"
NOTED = f"note-module,{COSINE}"
x = np.linspace(0.1, 0.8, 8, dtype=np.float32)


def wave(x: Any) -> Any:
    return jnp.sin(x) * 2


def same(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=1e-6)


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
    same(paropt.jit(rewritten, passes=COSINE)(x), 2 * np.cos(x))
    same(paropt.jit(jax.jit(wave), passes=COSINE)(x), 2 * np.cos(x))


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
    got = []

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
    assert (scaled.__name__, scaled.__doc__) == ("scaled", "Scales.")
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

    model = Model(5)
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
        paropt.jit(wave, passes=COSINE, donate_argnum=0)  # type: ignore[call-overload]


def test_lower_and_trace_show_and_compile_the_rewritten_program() -> None:
    f = paropt.jit(wave, passes=COSINE)
    traced = f.trace(x)
    assert isinstance(traced, jax.stages.Traced) and "sin" in str(traced.jaxpr)
    for lowered in (f.lower(x), traced.lower(), copy.copy(f).lower(x), f.trace(x).lower(lowering_platforms=("cpu",))):
        assert "stablehlo.cosine" in lowered.as_text() and "stablehlo.sine" not in lowered.as_text()
        same(lowered.compile()(x), 2 * np.cos(x))
    assert "cosine" not in jax.jit(wave).trace(x).lower().as_text()


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
    register(replacement)
    same(paropt.jit(wave, passes=COSINE)(x), 2 * np.sin(x))


def test_programs_without_operations_or_results() -> None:
    for f in (lambda x: x, lambda x: None, lambda x: np.ones(2), lambda x: (x, x)):
        paropt.jit(f, passes=COSINE)(x)
    with jax.disable_jit():
        paropt.jit(lambda x: x, passes=f"{COSINE},{COSINE}")(x)


PERSISTENT = """
import pathlib, sys, jax, jax.numpy as jnp, paropt
sys.path.insert(0, sys.argv[2])
from unit.test_jit import sine_to_cosine
from paropt.passes.core.registry import register
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


# ---- remarks


def test_remarks_are_those_of_the_program() -> None:
    f = paropt.jit(lambda x: jnp.sin(jnp.sin(x)), passes=COSINE)
    f(x)  # lowered here; `lower` finds it in jax's cache
    decisions = paropt.remarks(f.lower(x))
    assert [(r.pass_name, r.applied) for r in decisions] == [(COSINE, True)] * 2
    assert decisions[0].source.file == __file__
    assert paropt.remarks(f.lower(x[:2])) == decisions
    with paropt.enabled(COSINE):
        assert len(paropt.remarks(jax.jit(wave).lower(x))) == 1
    assert paropt.remarks(paropt.jit(wave, passes="note-module").lower(x)) == ()


def test_remarks_of_something_else_is_an_error() -> None:
    with pytest.raises(ValueError, match="no passes ran on this program"):
        paropt.remarks(jax.jit(wave).lower(x))
    with pytest.raises(TypeError, match=r"what `\.lower\(\.\.\.\)` returns, got Jitted"):
        paropt.remarks(paropt.jit(wave, passes=COSINE))  # type: ignore[arg-type]


# ---- mistakes and defects


@pytest.mark.parametrize("use", [lambda passes: paropt.jit(wave, passes=passes), paropt.enabled])
def test_a_wrong_pipeline_is_reported_where_it_is_written(use: Any) -> None:
    with pytest.raises(PipelineError, match="no pass called `sine-to-cosin`; did you mean `sine-to-cosine`"):
        use("sine-to-cosin")
    with pytest.raises(PipelineError, match="has no option `quick`"):
        use("sine-to-cosine{quick=true}")
    with pytest.raises(TypeError, match="expected pipeline text or a Pipeline, got list"):
        use(["sine-to-cosine"])


DEFECTS = [
    (f"{COSINE}{{fail-after=1}}", "KeyError", KeyError),
    ("break-types", "MLIRError", ir.MLIRError),
    (f"{COSINE},drop-result", "changed the type of @main", RuntimeError),
]


@pytest.mark.parametrize(("passes", "reason", "error"), DEFECTS)
def test_a_defect_leaves_the_program_as_it_was(passes: str, reason: str, error: type[Exception]) -> None:
    got = []

    def f(x: Any, y: Any) -> Any:
        jax.debug.callback(got.append, x.sum())
        return jnp.sin(x), jnp.sin(jnp.sin(y))

    forgiving = paropt.jit(f, passes=passes, donate_argnums=0)
    with pytest.warns(RuntimeWarning, match=f"jit_f: .*failed, the program stays as it was: .*{reason}") as caught:
        results = forgiving(jnp.asarray(x), x)
    assert len(caught) == 1 and "\n" not in str(caught[0].message)
    same(results[0], np.sin(x))
    same(results[1], np.sin(np.sin(x)))
    jax.effects_barrier()
    same(got, [x.sum()])

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no second warning: the program is in jax's caches
        lowered = forgiving.lower(x, x)
        donated = jnp.asarray(x)
        forgiving(donated, x)
    assert donated.is_deleted()
    assert lowered.as_text() == jax.jit(f, donate_argnums=0).lower(x, x).as_text()
    (remark,) = paropt.remarks(lowered)
    assert not remark.applied and "failed" in remark.text

    strict = paropt.jit(f, passes=passes, strict=True)
    with pytest.raises(error):
        strict(x, x)


def test_strict_and_forgiving_do_not_share_programs() -> None:
    passes = f"{COSINE}{{fail-after=1}}"
    with paropt.enabled(passes, strict=True), pytest.raises(KeyError):
        jax.jit(wave)(x)
    with paropt.enabled(passes), pytest.warns(RuntimeWarning, match="stays as it was"):
        same(jax.jit(wave)(x), 2 * np.sin(x))


# ---- the package


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_importing_paropt_is_light() -> None:
    heavy = python("import sys, paropt; print(*[m for m in sys.modules if m.partition('.')[0] in ('jax', 'jaxlib')])")
    assert heavy.split() == []


@pytest.mark.parametrize("name", [name for name in dir(paropt) if name in paropt._MODULE_OF])
def test_every_name_is_a_function(name: str) -> None:
    assert callable(getattr(paropt, name)) and name in dir(paropt)


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="has no attribute `jits`"):
        paropt.jits  # noqa: B018


@pytest.mark.parametrize("first", ["import paropt.jit", "from paropt.jit import remarks", "import paropt; paropt.jit"])
def test_paropt_jit_is_the_function_whatever_is_imported_first(first: str) -> None:
    assert python(f"{first}\nimport paropt, paropt.jit\nprint(paropt.jit.__name__)").strip() == "jit"
