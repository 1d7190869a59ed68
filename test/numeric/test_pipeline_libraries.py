"""Steps as they are written with flax, equinox and optax, run as pipeline stages."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from programs.framework_models import framework_program
from programs.layered_steps import Program

import paropt
from paropt.pipeline import Pipeline, StageError, pipeline

MICROBATCHES = 4


def mesh() -> Mesh:
    return Mesh(np.array(jax.devices()).reshape(2, 4), ("stage", "data"))


def piped(made: Program, **options: Any) -> Pipeline:
    return pipeline(made.step, stages=2, microbatches=MICROBATCHES, mesh=mesh(), schedule="1f1b", **options)


@functools.cache
def results(library: str, dtype: Any) -> tuple[Program, Any, Pipeline, Any]:
    """A program, its results, and those of a pipeline."""
    made = framework_program(library, microbatches=MICROBATCHES, dtype=dtype)
    made, run = made._replace(state=jax.tree.map(np.asarray, made.state)), piped(made)
    return made, jax.jit(made.step)(made.state, made.batch), run, run(run.place(made.state, made.batch), made.batch)


@pytest.mark.parametrize("library", ["flax", "equinox"])
@pytest.mark.parametrize(("dtype", "error"), [(jnp.float32, 1e-6), (jnp.bfloat16, 0.05)])
def test_adamw_clipping_dropout_and_tied_embeddings(library: str, dtype: Any, error: float) -> None:
    """The gradients' moments differ by less than `error` of the largest; f32 gradients are reduced once."""
    made, want, run, got = results(library, dtype)
    structures: list[Any] = [jax.tree.structure(tree) for tree in (got, want)]
    assert structures[0] == structures[1]
    moments = [leaf for leaf in jax.tree.leaves(want[0][1]) if leaf.ndim]
    others = [leaf for leaf in jax.tree.leaves(got[0][1]) if leaf.ndim]
    largest = max(np.abs(leaf).max() for leaf in moments)
    for one, other in zip(moments, others, strict=True):
        np.testing.assert_allclose(np.asarray(other), one, rtol=0, atol=error * largest)
    np.testing.assert_allclose(got[1], want[1], rtol=error)
    np.testing.assert_array_equal(got[0][2], want[0][2])
    texts = {symbol: each.as_text() for (symbol, _), each in run.programs(made.state, made.batch).items()}
    reduced = {symbol for symbol, text in texts.items() if "all-reduce" in text}
    # The gradient of the embedding is rounded to bf16 after a reduction by Equinox, which no sum may cross: it is reduced
    # in each micro-batch, all others once.
    rounds = (library, dtype) == ("equinox", jnp.bfloat16)
    assert reduced == {"reduce_0", "reduce_1"} | ({"backward_0", "backward_1"} if rounds else set())
    named = jax.tree_util.tree_leaves_with_path(made.state[0])
    embedding = sum(leaf.nbytes for path, leaf in named if "embed" in jax.tree_util.keystr(path))
    for symbol, lowered in ((symbol, each) for (symbol, _), each in run.lower(made.state, made.batch).items()):
        if rounds and symbol.startswith("backward"):
            assert sum(each.payload for each in paropt.audit(lowered).collectives) == embedding


@pytest.mark.parametrize("library", ["flax", "equinox"])
def test_sharded_parameters_are_gathered_and_reduced_once(library: str) -> None:
    """With policy=once; moments are sharded as their parameters are."""
    made, where = framework_program(library, microbatches=MICROBATCHES, layers=2), mesh()

    def spread(leaf: Any) -> Any:
        spec = P(*[None] * (leaf.ndim - 1), "data") if leaf.ndim > 1 and leaf.shape[-1] % 4 == 0 else P()
        return jax.device_put(leaf, NamedSharding(where, spec))

    made = made._replace(state=jax.tree.map(np.asarray, made.state))
    state, run = jax.tree.map(spread, made.state), piped(made, policy="once")
    audits = {s: paropt.audit(each).collectives for (s, _), each in run.lower(state, made.batch).items()}
    kinds = {symbol: {each.kind for each in found} for symbol, found in audits.items() if found}
    assert kinds.pop("gather_0") == kinds.pop("gather_1") == {"all-gather"}
    assert kinds.pop("reduce_0") == kinds.pop("reduce_1") == {"all-reduce", "reduce-scatter"}
    assert not any(symbol.startswith(("forward", "backward", "init", "rows")) for symbol in kinds)
    want, got = jax.jit(made.step)(made.state, made.batch), run(run.place(state, made.batch), made.batch)
    moments, others = (jax.tree.leaves(optax.tree_utils.tree_get(each[0], "mu")) for each in (want, got))
    largest = max(np.abs(leaf).max() for leaf in moments)
    for one, other in zip(moments, others, strict=True):
        np.testing.assert_allclose(np.asarray(other), one, rtol=0, atol=1e-6 * largest)


def test_adamw_makes_updates_of_noise() -> None:
    """The gradient of a bias that all keys of an attention have is 0 but for rounding, and its update is large.

    One program differs as much from itself where it adds up in another order.
    """
    made, want, _, got = results("flax", jnp.float32)
    whole = NamedSharding(Mesh(np.array(jax.devices()), ("data",)), P())
    given = jax.device_put(made.state, whole), jax.device_put(made.batch, whole.update(spec=P("data")))
    reordered = jax.jit(made.step)(*given)
    moments = jax.tree.leaves(optax.tree_utils.tree_get(want[0], "mu"))
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(want[0][0])]
    noise = [np.abs(leaf).max() < 1e-6 * max(np.abs(each).max() for each in moments) for leaf in moments]
    assert {path for path, each in zip(paths, noise, strict=True) if each} == {
        p for p in paths if "['key']['bias']" in p
    }
    for other in (got, reordered):
        pairs = zip(jax.tree.leaves(want[0][0]), jax.tree.leaves(other[0][0]), strict=True)
        differences = [np.abs(np.asarray(one) - np.asarray(each)).max() for one, each in pairs]
        assert max(each for each, is_noise in zip(differences, noise, strict=True) if is_noise) > 1e-4
        assert max(each for each, is_noise in zip(differences, noise, strict=True) if not is_noise) < 1e-6


def chained(state: Any, batch: Any) -> Any:
    """Splits a key from micro-batch to micro-batch."""
    w, key = state

    def trip(carry: Any, x: jax.Array) -> Any:
        total, key = carry
        key, own = jax.random.split(key)

        def loss(w: jax.Array) -> jax.Array:
            return jnp.sum(jnp.tanh(x @ w) * jax.random.bernoulli(own, 0.9, x.shape))

        return (total + jax.grad(loss)(w), key), loss(w)

    (total, key), losses = jax.lax.scan(trip, (jnp.zeros_like(w), key), batch.reshape(MICROBATCHES, -1, 8))
    return (w - total, key), losses


def running_mean(state: Any, batch: Any) -> Any:
    """Keeps the statistics of a batch norm."""
    w, mean = state

    def trip(carry: Any, x: jax.Array) -> Any:
        total, mean = carry
        new = 0.9 * mean + 0.1 * x.mean(0)

        def loss(w: jax.Array) -> jax.Array:
            return jnp.sum(jnp.tanh((x - new) @ w) ** 2)

        return (total + jax.grad(loss)(w), new), loss(w)

    (total, mean), losses = jax.lax.scan(trip, (jnp.zeros_like(w), mean), batch.reshape(MICROBATCHES, -1, 8))
    return (w - total, mean), losses


@pytest.mark.parametrize(
    ("step", "other"),
    [(chained, jax.random.key_data(jax.random.key(0))), (running_mean, np.zeros(8, np.float32))],
)
def test_what_goes_from_micro_batch_to_micro_batch_is_refused(step: Any, other: Any) -> None:
    """By its type, and the line of the source."""
    made = Program(step, (np.ones((8, 8), np.float32), other), np.ones((32, 8), np.float32))
    kind = f"tensor<{other.shape[0]}x{'ui32' if other.dtype == np.uint32 else 'f32'}>"
    why = (
        rf"^the step .* loop-carried value \d, {kind}, goes from one micro-batch to the next and is no sum \(.*\.py:\d+"
    )
    with pytest.raises(StageError, match=why):
        piped(made)(made.state, made.batch)
