"""`paropt.remarks`, and what happens when the pipeline or a pass is wrong."""

import linecache
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.sharding_impls import GSPMDSharding
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from jaxlib.mlir import ir
from unit.jit_passes import COSINE, same, wave, x
from unit.jit_passes import seen as seen

import paropt
from paropt.passes.support.pipeline import PipelineError

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")


# ---- remarks


def test_remarks_are_those_of_the_program() -> None:
    f = paropt.jit(lambda x: jnp.sin(jnp.sin(x)), passes=COSINE)
    f(x)  # lowered here; `lower` finds it in jax's cache
    decisions = paropt.remarks(f.lower(x))
    assert [(r.pass_name, r.applied) for r in decisions] == [(COSINE, True)] * 2
    assert decisions[0].source.file == __file__
    assert paropt.remarks(f.lower(x).compile()) == decisions
    assert paropt.remarks(f.lower(x[:2])) == decisions
    with paropt.enabled(COSINE):
        assert len(paropt.remarks(jax.jit(wave).lower(x))) == 1
    assert paropt.remarks(paropt.jit(wave, passes="note-module").lower(x)) == ()


def test_remarks_of_something_else_is_an_error() -> None:
    with pytest.raises(ValueError, match="no passes ran on this program"):
        paropt.remarks(jax.jit(wave).lower(x))
    with pytest.raises(ValueError, match="no passes ran on this program"):
        paropt.remarks(jax.jit(wave).lower(x).compile())
    with pytest.raises(TypeError, match=r"what `\.lower\(\.\.\.\)` or its `\.compile\(\)` returns, got Jitted"):
        paropt.remarks(paropt.jit(wave, passes=COSINE))


# ---- mistakes and defects


@pytest.mark.parametrize("use", [lambda passes: paropt.jit(wave, passes=passes), paropt.enabled])
def test_a_wrong_pipeline_is_reported_where_it_is_written(use: Any) -> None:
    with pytest.raises(PipelineError, match="no pass called `sine-to-cosin`; did you mean `sine-to-cosine`"):
        use("sine-to-cosin")
    with pytest.raises(PipelineError, match="has no option `quick`"):
        use("sine-to-cosine{quick=true}")
    with pytest.raises(TypeError, match="expected pipeline text or a Pipeline, got list"):
        use(["sine-to-cosine"])


@pytest.mark.parametrize("strict", [True, False])
def test_an_axis_that_no_mesh_has_is_an_error(strict: bool) -> None:
    mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
    batch = jax.device_put(x, NamedSharding(mesh, PartitionSpec("data")))
    with pytest.raises(PipelineError) as raised:
        paropt.jit(wave, passes="grad-sync{axes=dta}", strict=strict)(batch)
    assert str(raised.value) == (
        "axes=dta: no mesh of the module has an axis `dta`; did you mean `data`? The axes are data, model"
    )
    with (
        paropt.enabled("grad-sync{axes='model, pod'}", strict=strict),
        pytest.raises(PipelineError, match="`pod`; the"),
    ):
        jax.jit(wave).lower(batch)


def test_programs_for_which_nobody_named_axes_pass() -> None:
    """As those that jax compiles beside a step: for arrays on one device, and for shardings without a mesh."""
    mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
    unnamed = NamedSharding(mesh, PartitionSpec("data"))._to_xla_hlo_sharding(1)
    batch = jax.device_put(x, GSPMDSharding(tuple(mesh.devices.flat), unnamed))
    with paropt.enabled("grad-sync{axes=dta}", strict=True):
        assert "_axis_0" in jax.jit(wave).lower(batch).as_text()
        same(jax.jit(wave)(x), 2 * np.sin(x))
        jnp.asarray(x).astype(jnp.int32), jax.random.normal(jax.random.key(0), (8,))


DEFECTS = [
    (f"{COSINE}{{fail-after=1}}", "KeyError", KeyError),
    ("break-types", "MLIRError", ir.MLIRError),
    (f"{COSINE},drop-result", "changed the type of @main", RuntimeError),
]


@pytest.mark.parametrize(("passes", "reason", "error"), DEFECTS)
def test_a_defect_leaves_the_program_as_it_was(passes: str, reason: str, error: type[Exception]) -> None:
    got: list[Any] = []

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


@pytest.mark.parametrize("donate", [None, "state"])
def test_the_warning_has_the_users_words_and_line(donate: Any) -> None:
    f = paropt.jit(lambda x: jnp.sin(x) * 2, passes=f"grad-sync,\n {COSINE}{{fail-after=1}}", donate=donate)
    with pytest.warns(RuntimeWarning, match=rf"`grad-sync, {COSINE}{{fail-after=1}}` failed") as caught:
        f(x)
    assert linecache.getline(caught[0].filename, caught[0].lineno).strip() == "f(x)"


def test_strict_and_forgiving_do_not_share_programs() -> None:
    passes = f"{COSINE}{{fail-after=1}}"
    with paropt.enabled(passes, strict=True), pytest.raises(KeyError):
        jax.jit(wave)(x)
    with paropt.enabled(passes), pytest.warns(RuntimeWarning, match="stays as it was"):
        same(jax.jit(wave)(x), 2 * np.sin(x))
