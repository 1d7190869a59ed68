"""All-gather growth: what reduces less may not gather more, where shardings are open, change, or are read twice."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec
from numeric.user_steps import (
    BYTES,
    CLASSES,
    EXAMPLES,
    MICRO_BATCHES,
    OTHER_KINDS,
    SCATTERS_WRITTEN,
    WIDTH,
    Case,
    accumulated,
    compared,
    integers,
    placed,
    reduced_once,
)
from programs.program import Tree, mesh_of
from unit.clusters import available

import paropt

MESH = mesh_of(data=4, model=2)
OPEN = PartitionSpec.UNCONSTRAINED
HALF = 3 * BYTES // 2  # of both weights, split over `model`
SEQUENCE, VOCABULARY = 6, 16


def constrained(value: jax.Array, *spec: Any) -> jax.Array:
    return lax.with_sharding_constraint(value, NamedSharding(MESH, PartitionSpec(*spec)))


def on_mesh(tree: Tree, *spec: Any) -> Tree:
    return placed(tree, *spec, mesh=MESH)


def weights(a: Any, b: Any) -> Tree:
    return {"a": on_mesh(integers(WIDTH, WIDTH, seed=0), *a), "b": on_mesh(integers(WIDTH, CLASSES, seed=1), *b)}


ROW_AFTER_COLUMN = weights((None, "model"), ("model",))
COLUMN_AFTER_COLUMN = weights((None, "model"), (None, "model"))
LAYERS = {
    name: on_mesh(integers(2, WIDTH, WIDTH, seed=name), None, *over)
    for name, over in (("a", (None, "model")), ("b", ("model",)))
}
BATCHES = on_mesh(integers(MICRO_BATCHES, EXAMPLES, WIDTH, seed=1), None, "data")
SEQUENCES = on_mesh(integers(MICRO_BATCHES, EXAMPLES, SEQUENCE, WIDTH, seed=2), None, "data", "model")
TOKENS = on_mesh(abs(integers(MICRO_BATCHES, EXAMPLES, seed=3)).astype(int), None, "data")
SOME_TOKENS = on_mesh(abs(integers(MICRO_BATCHES, EXAMPLES, SEQUENCE, seed=4)).astype(int), None, "data")
TABLE = {
    "e": on_mesh(integers(VOCABULARY, WIDTH, seed=5), "model"),
    "a": on_mesh(integers(WIDTH, WIDTH, seed=6), None, "model"),
}


def loss(w: Any, x: jax.Array) -> jax.Array:
    return ((jax.nn.relu(x @ w["a"]) @ w["b"]) ** 2).sum() / 2


def plain(w: Any, batches: jax.Array) -> Any:
    return accumulated(jax.grad(loss), w, batches)


def updated(w: Any, batches: jax.Array) -> Any:
    return jax.tree.map(jnp.subtract, w, plain(w, batches))


def of_gradients(*spec: Any) -> Callable[..., Any]:
    """Constrains the gradient of each micro-batch."""

    def step(w: Any, batches: jax.Array) -> Any:
        def gradient(w: Any, x: jax.Array) -> Any:
            return jax.tree.map(lambda g: constrained(g, *spec), jax.grad(loss)(w, x))

        return accumulated(gradient, w, batches)

    return step


def of_sums(*spec: Any) -> Callable[..., Any]:
    """Constrains the sum after the loop."""
    return lambda w, batches: jax.tree.map(lambda g: constrained(g, *spec), plain(w, batches))


def tied(w: Any, batches: jax.Array) -> Any:
    """The table that looks tokens up is also the last weight."""

    def loss(w: Any, tokens: jax.Array) -> jax.Array:
        logits = jax.nn.relu(jnp.take(w["e"], tokens, axis=0) @ w["a"]) @ w["e"].T
        return -(jax.nn.one_hot(tokens, VOCABULARY) * jax.nn.log_softmax(logits)).sum()

    return accumulated(jax.grad(loss), w, batches)


def by_positions(value: jax.Array) -> jax.Array:
    return constrained(value, "data", "model")


def by_features(value: jax.Array) -> jax.Array:
    return constrained(value, "data", None, "model")


def sequences(w: Any, batches: jax.Array) -> Any:
    """Activations are split over `model` by their positions between the layers, and by features within."""

    def loss(w: Any, x: jax.Array) -> jax.Array:
        h = by_features(jax.nn.relu(by_positions(x) @ w["a"]))
        return (by_positions(h @ w["b"]) ** 2).sum() / 2

    return accumulated(jax.grad(loss), w, batches)


def layers(w: Any, batches: jax.Array) -> Any:
    """The same, twice, with a sum and a factor before the products of the backward pass."""

    def layer(x: jax.Array, w: Any) -> tuple[jax.Array, None]:
        h = by_features(jax.nn.relu(by_positions(jax.nn.relu(x)) @ w["a"]))
        return by_positions(x + h @ w["b"] / 64), None

    def loss(w: Any, x: jax.Array) -> jax.Array:
        return (lax.scan(layer, by_positions(x), w)[0] ** 2).sum() / 2

    return accumulated(jax.grad(loss), w, batches)


def embedded(w: Any, batches: jax.Array) -> Any:
    """What the table gives is split by positions, so that its gradient is summed from shards."""

    def loss(w: Any, tokens: jax.Array) -> jax.Array:
        h = by_features(jax.nn.relu(by_positions(jnp.take(w["e"], tokens, axis=0)) @ w["a"]))
        return (by_features(h @ w["b"]) ** 2).sum() / 2

    return accumulated(jax.grad(loss), w, batches)


ONCE = {
    "open": Case(of_gradients(OPEN, OPEN), (ROW_AFTER_COLUMN, BATCHES), HALF),
    "half open": Case(of_gradients(None, OPEN), ({"a": ROW_AFTER_COLUMN["a"], "b": ROW_AFTER_COLUMN["a"]}, BATCHES), 4 * BYTES // 2),
    "an open sum": Case(of_sums(OPEN, OPEN), (ROW_AFTER_COLUMN, BATCHES), HALF),
    "gathered activations": Case(updated, (COLUMN_AFTER_COLUMN, BATCHES), HALF),
    "split by positions": Case(sequences, (ROW_AFTER_COLUMN, SEQUENCES), HALF),
    "split by positions, in layers": Case(layers, (LAYERS, SEQUENCES), 2 * 2 * WIDTH * WIDTH * 4 // 2, tolerance=1e-6),
    "tied": Case(tied, (TABLE, TOKENS), (VOCABULARY + WIDTH) * WIDTH * 4 // 2, tolerance=1e-6),
}  # fmt: skip


@pytest.mark.parametrize("name", ONCE)
def test_reduced_once(name: str) -> None:
    _, after = reduced_once(ONCE[name])
    assert after.total("reduce-scatter").bytes == 0


def test_open_shards_are_scattered() -> None:
    """Which other axis splits them, Shardy finds."""
    _, after, _ = compared(
        Case(
            of_gradients("data", OPEN),
            (weights(("data", "model"), ("data", "model")), BATCHES),
            passes=SCATTERS_WRITTEN,
        )
    )
    assert after.total("reduce-scatter").in_loops == MICRO_BATCHES * HALF


GATHERED = "its operand, sharded over model, would be all-gathered"


@pytest.mark.parametrize("name", ["sums", "gradients"])
def test_shards_that_would_be_gathered_stay(name: str) -> None:
    """XLA alone has shards over `data` in place of those over `model`, which it moves."""
    step = of_sums("data", OPEN) if name == "sums" else of_gradients("data", OPEN)
    before, after, missed = compared(Case(step, (ROW_AFTER_COLUMN, BATCHES), passes="grad-sync{inferred=whole}"))
    moved = [audit.total("collective-permute").in_loops for audit in (before, after)]
    assert moved[0] == moved[1]
    if name == "sums":  # of the second weight
        assert moved[0] > 0 and any(GATHERED in remark for remark in missed)
    assert after.sync_bytes <= before.sync_bytes


def test_gradients_that_would_be_gathered_are_not_scattered() -> None:
    """The same of a gradient that a constraint leaves open, and the next one splits."""

    def step(w: Any, batches: jax.Array) -> Any:
        def gradient(w: Any, x: jax.Array) -> Any:
            opened = jax.tree.map(lambda g: constrained(g, OPEN, OPEN), jax.grad(loss)(w, x))
            return jax.tree.map(lambda g: constrained(g, "data", OPEN), opened)

        return jax.tree.map(jnp.subtract, w, accumulated(gradient, w, batches))

    before, after, _ = compared(
        Case(step, (weights(("data", "model"), ("model", "data")), BATCHES), passes=SCATTERS_WRITTEN)
    )
    assert after.total("collective-permute").in_loops == before.total("collective-permute").in_loops > 0
    assert after.total("reduce-scatter").in_loops == MICRO_BATCHES * 2 * BYTES // 2  # of the first weight
    assert after.sync_bytes <= before.sync_bytes


def test_parameters_are_gathered_once() -> None:
    """Fully sharded, and read in both directions: by a product that adds up over `model`, and by its gradient."""
    w = {
        "a": on_mesh(integers(WIDTH, WIDTH, seed=0), "data", "model"),
        "b": on_mesh(integers(WIDTH, WIDTH, seed=1), "model", "data"),
        "c": on_mesh(integers(WIDTH, CLASSES, seed=2), "data"),
    }
    batches = on_mesh(integers(MICRO_BATCHES, EXAMPLES, SEQUENCE, WIDTH, seed=3), None, "data")

    def step(w: Any, batches: jax.Array) -> Any:
        def loss(w: Any, x: jax.Array) -> jax.Array:
            first = (jax.nn.relu(x @ w["a"]) @ w["b"])[:, 0]
            return ((first @ w["c"]) ** 2).sum() / 2

        return jax.tree.map(jnp.subtract, w, accumulated(jax.grad(loss), w, batches))

    before, after, _ = compared(Case(step, (w, batches), tolerance=1e-6, passes=SCATTERS_WRITTEN))
    assert before.total("all-gather").bytes == after.total("all-gather").bytes > 0
    assert after.total("reduce-scatter").in_loops > 0


def test_what_is_split_by_positions_is_scattered() -> None:
    """Fully sharded: over `data` in each micro-batch, of the weights that `model` splits as well."""
    weights_of_both = weights(("data", "model"), ("model", "data"))

    def step(w: Any, batches: jax.Array) -> Any:
        return jax.tree.map(jnp.subtract, w, sequences(w, batches))

    before, after, _ = compared(Case(step, (weights_of_both, SEQUENCES), passes=SCATTERS_WRITTEN))
    assert after.total("reduce-scatter").in_loops == MICRO_BATCHES * HALF
    assert after.sync_bytes <= before.sync_bytes and after.peak_memory < before.peak_memory


def pipeline(w: Any, batches: jax.Array) -> Any:
    """Stages split over `model`, each of which passes on what it computes, and what leaves the last one is added up."""

    def stages_loss(w: Any, x: jax.Array) -> jax.Array:
        def tick(held: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
            held = jnp.einsum("sbf,sfg->sbg", constrained(held, "model", "data"), w)
            return held, held[-1]

        _, left = lax.scan(tick, x, None, length=2)
        return (left**2).sum() / 2

    return w - accumulated(jax.grad(stages_loss), w, batches)


def test_what_leaves_the_last_stage_of_a_pipeline_is_not_gathered() -> None:
    """XLA simplifies what jax's calls kept apart if it finds it in one function, and then splits it otherwise."""
    stages = on_mesh(integers(2, WIDTH, WIDTH, seed=0), "model")
    batches = on_mesh(integers(MICRO_BATCHES, 2, EXAMPLES, WIDTH, seed=1), None, "model", "data")
    before, after, _ = compared(Case(pipeline, (stages, batches)))
    assert after.total("all-gather").bytes == before.total("all-gather").bytes == 0
    assert after.sync_bytes < before.sync_bytes


SPLIT_BY_POSITIONS = {
    "layers": (sequences, ROW_AFTER_COLUMN, SEQUENCES),
    "an embedding": (embedded, TABLE | {"b": ROW_AFTER_COLUMN["a"]}, SOME_TOKENS),
}


@pytest.mark.parametrize("name", SPLIT_BY_POSITIONS)
@pytest.mark.parametrize("target", ["cpu:8", "tpu:v5e:2x4", "gpu:h100:1x1x8"])
def test_activations_are_left_to_xla(name: str, target: str) -> None:
    """XLA:TPU moves their shards while it multiplies: written as reduce_scatters, it would reduce all of them."""
    available(target)
    step, *args = SPLIT_BY_POSITIONS[name]
    report = paropt.audit(step, *args, passes="grad-sync", targets=[target])
    assert not report.mismatches
    before, after = report[target].before, report[target].after
    for kind in (*OTHER_KINDS, "all-reduce", "reduce-scatter"):
        assert after.total(kind).bytes <= before.total(kind).bytes
