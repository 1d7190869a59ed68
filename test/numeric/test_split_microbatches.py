"""Splitting into micro-batches: whole-batch steps, as people write them before they run out of memory, become loops."""

import inspect
from collections.abc import Callable
from typing import Any

import flax.linen
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec
from numeric.test_training_programs import assert_close
from programs import models
from programs.catalog import MATRIX
from programs.program import Sizes, Tree, data_mesh
from programs.steps import updated
from programs.whole_batch import whole_batch

import paropt

COUNT = 4
SPLIT = f"inline-calls,split-microbatches{{count={COUNT}}}"
SIZES = Sizes(layers=2, sequence=4)
EXAMPLES, WIDTH, WORDS, LENGTH = 64, 8, 16, 6


def audits(before: Any, after: Any, args: tuple[Any, ...]) -> tuple[Any, Any]:
    return paropt.audit(before.lower(*args)), paropt.audit(after.lower(*args))


def split_remark(step: Any, args: tuple[Any, ...]) -> Any:
    (remark,) = [r for r in paropt.remarks(step.lower(*args)) if r.pass_name == "split-microbatches"]
    return remark


def trips(step: Any, args: tuple[Any, ...]) -> int:
    """How many loops over all micro-batches there are."""
    return int(step.lower(*args).as_text().count(f"stablehlo.constant dense<{COUNT}> : tensor<i32>"))


# P0, P1, P5 and P9, and the same of integers.
MODELS: dict[str, tuple[Callable[..., models.Model], dict[str, bool]]] = {
    "mlp": (models.mlp, {}),
    "stacked_mlp": (models.stacked_mlp, {}),
    "tied": (models.tied, {}),
    "embedding": (models.embedding, {}),
    "experts": (models.experts, {}),
    "scanned_transformer": (models.scanned_transformer, {}),
    "tied_transformer": (models.tied_transformer, {}),
    "half_transformer": (models.half(models.transformer), {}),
    "mlp_of_integers": (models.mlp, {"integers": True}),
    "stacked_mlp_of_integers": (models.stacked_mlp, {"integers": True}),
    "tied_of_integers": (models.tied, {"integers": True}),
    "embedding_of_integers": (models.embedding, {"integers": True}),
}


# With shard_map the pass sees the same ops: one of each kind.
EXPLICIT = ("embedding_of_integers", "scanned_transformer", "stacked_mlp_of_integers")
FORMS = [(name, False) for name in MODELS] + [(name, True) for name in EXPLICIT]


@pytest.mark.parametrize("name, is_explicit", FORMS)
def test_model_is_trained_in_micro_batches(name: str, is_explicit: bool) -> None:
    """The same results, each gradient reduced once after the loop, and no other collective than before."""
    build, options = MODELS[name]
    sizes = Sizes(layers=2, sequence=4, examples=32 if is_explicit else 16)
    program = whole_batch(build, sizes, is_explicit=is_explicit, **options)
    before, after = jax.jit(program.step), paropt.jit(program.step, passes=f"{SPLIT},grad-sync", strict=True)
    remark = split_remark(after, program.args)
    assert remark.applied, remark.text
    was, now = audits(before, after, program.args)
    assert (now.sync_in_loop, now.sync_bytes) == (0, program.gradient_bytes)
    for kind in ("all-gather", "all-to-all", "collective-permute"):
        assert now.total(kind).bytes <= was.total(kind).bytes
    assert_close(before(*program.args), after(*program.args), program.tolerance)


FURTHER = (
    "plain_mlp_p3",
    "plain_mlp_p11",
    "explicit_mlp_p1",
    "explicit_mlp_p11",
    "explicit_mlp_p14",
)


@pytest.mark.parametrize("name", FURTHER)
def test_micro_batches_are_split_further(name: str) -> None:
    """Steps that accumulate already: the loop becomes two, and what is communicated stays what it was."""
    program = MATRIX[name](sizes=Sizes(layers=2, micro_batches=2, examples=32, sequence=4))
    state = len(jax.tree.leaves(program.args[0]))
    batches = ",".join(str(state + i) for i in range(len(program.args) - 1))
    sync = "grad-sync{inferred=whole}"
    further = f"inline-calls,split-microbatches{{count=2 dimension=1 arguments={batches}}},{sync}"
    once, twice = (paropt.jit(program.step, passes=passes, strict=True) for passes in (sync, further))
    remark = split_remark(twice, program.args)
    assert remark.applied, remark.text
    was, now = audits(once, twice, program.args)
    assert (now.sync_bytes, now.sync_in_loop) == (was.sync_bytes, was.sync_in_loop)
    assert now.total("all-gather", "all-to-all").bytes <= was.total("all-gather", "all-to-all").bytes
    assert_close(once(*program.args), twice(*program.args), max(program.tolerance, 1e-5))


def test_activations_of_one_micro_batch_are_alive() -> None:
    program = whole_batch(models.transformer, Sizes(layers=3, examples=64, sequence=16))
    steps = jax.jit(program.step), paropt.jit(program.step, passes=SPLIT, strict=True)
    memory = [step.lower(*program.args).compile().memory_analysis().temp_size_in_bytes for step in steps]
    assert memory[1] < 1.5 * memory[0] / COUNT


def integers(seed: int, *shape: int, low: int = -2, high: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).integers(low, high, shape).astype(np.float32)


def split_over_devices(*arrays: Any) -> list[jax.Array]:
    return [jax.device_put(array, NamedSharding(data_mesh(), PartitionSpec("data"))) for array in arrays]


def replicated_over_devices(tree: Tree) -> Tree:
    return jax.device_put(tree, NamedSharding(data_mesh(), PartitionSpec()))


X, Y = split_over_devices(integers(0, EXAMPLES, WIDTH), integers(1, EXAMPLES, WIDTH))
TOKENS, LABELS = split_over_devices(
    *(integers(seed, EXAMPLES, LENGTH, low=0, high=WORDS).astype(np.int32) for seed in (2, 3))
)
MASK, IMAGES = split_over_devices(integers(4, EXAMPLES, LENGTH, low=0, high=2), integers(5, EXAMPLES, 6, 6, 2))
WEIGHTS = replicated_over_devices([integers(seed, WIDTH, WIDTH) for seed in (6, 7)])
WORD_WEIGHTS = replicated_over_devices({"table": integers(8, WORDS, WIDTH), "head": integers(9, WIDTH, WORDS)})
FILTERS = replicated_over_devices({"a": integers(10, 3, 3, 2, 3), "b": integers(11, 3, 3, 3, 2)})
KEY = jax.random.key(3)


def mlp(weights: Tree, x: jax.Array) -> jax.Array:
    for weight in weights:
        x = jnp.maximum(x @ weight, 0)
    return x


def trained(loss: Callable[..., jax.Array]) -> Callable[..., Tree]:
    """A step of this loss."""

    def step(parameters: Tree, *batch: Any) -> Tree:
        value, gradients = jax.value_and_grad(loss)(parameters, *batch)
        return updated(parameters, gradients), value

    step.__name__ = loss.__name__
    return step


def mean_of_squares(weights: Tree, x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.mean((mlp(weights, x) - y) ** 2)


def weighted_by_the_number_of_the_example(weights: Tree, x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.sum((mlp(weights, x) - y) * jnp.arange(EXAMPLES)[:, None])


def with_a_table_of_the_program(weights: Tree, x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.sum((mlp(weights, x) - y) * (np.arange(EXAMPLES * WIDTH).reshape(x.shape) % 5 - 2.0))


def vmapped(weights: Tree, x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.sum(jax.vmap(lambda a, b: jnp.sum((mlp(weights, a) - b) ** 2))(x, y))


def rematerialised(weights: Tree, x: jax.Array, y: jax.Array) -> jax.Array:
    for weight in weights:
        x = jax.checkpoint(lambda w, h: jnp.maximum(h @ w, 0))(weight, x)
    return jnp.sum((x - y) ** 2)


def dropout(weights: Tree, x: jax.Array, y: jax.Array, key: jax.Array) -> jax.Array:
    hidden = jnp.maximum(x @ weights[0], 0)
    hidden = hidden * jax.random.bernoulli(key, 0.5, hidden.shape)
    return jnp.sum((hidden @ weights[1] - y) ** 2)


def dropout_in_each_layer(weights: Tree, x: jax.Array, y: jax.Array, key: jax.Array) -> jax.Array:
    def layer(carried: Tree, weight: jax.Array) -> tuple[Tree, None]:
        x, key = carried
        key, own = jax.random.split(key)
        return (jnp.maximum(x @ weight, 0) * jax.random.bernoulli(own, 0.5, x.shape), key), None

    (x, _), _ = lax.scan(layer, (x, key), jnp.stack(weights))
    return jnp.sum((x - y) ** 2)


def convolutions(filters: Tree, images: jax.Array) -> jax.Array:
    def convolved(x: jax.Array, kernel: jax.Array, stride: int) -> jax.Array:
        return lax.conv_general_dilated(
            x, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )  # fmt: skip

    x = jnp.maximum(convolved(images, filters["a"], 1), 0)
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return jnp.sum(convolved(x, filters["b"], 2))


def product_of_parameters(parameters: Tree, x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.sum((x @ (parameters[0] @ parameters[1]) - y) ** 2)


EXACT: list[tuple[Callable[..., jax.Array], tuple[Any, ...]]] = [
    (mean_of_squares, (WEIGHTS, X, Y)),
    (weighted_by_the_number_of_the_example, (WEIGHTS, X, Y)),
    (with_a_table_of_the_program, (WEIGHTS, X, Y)),
    (vmapped, (WEIGHTS, X, Y)),
    (rematerialised, (WEIGHTS, X, Y)),
    (dropout, (WEIGHTS, X, Y, KEY)),
    (dropout_in_each_layer, (WEIGHTS, X, Y, KEY)),
    (convolutions, (FILTERS, IMAGES)),
    (product_of_parameters, (WEIGHTS, X, Y)),
]


@pytest.mark.parametrize("loss, args", EXACT, ids=lambda value: getattr(value, "__name__", ""))
def test_loss_is_the_same_bit_for_bit(loss: Callable[..., jax.Array], args: tuple[Any, ...]) -> None:
    step = trained(loss)
    before, after = jax.jit(step), paropt.jit(step, passes=SPLIT, strict=True)
    remark = split_remark(after, args)
    assert remark.applied, remark.text
    assert_close(before(*args), after(*args), 0.0)


def test_extremes_of_the_batch_are_those_of_its_parts() -> None:
    def loss(weights: Tree, x: jax.Array, y: jax.Array) -> Tree:
        errors = (mlp(weights, x) - y) ** 2
        each = jnp.sum(errors, axis=-1)
        extremes = jnp.max(each), jnp.min(errors, axis=0), 2 * jnp.max(jnp.abs(x))
        return jnp.sum(errors), (extremes, jnp.any(each > 40), jnp.all(jnp.isfinite(each)))

    def step(weights: Tree, x: jax.Array, y: jax.Array) -> Tree:
        (value, metrics), gradients = jax.value_and_grad(loss, has_aux=True)(weights, x, y)
        return updated(weights, gradients), value, metrics

    before, after = jax.jit(step), paropt.jit(step, passes=SPLIT, strict=True)
    assert split_remark(after, (WEIGHTS, X, Y)).applied
    assert_close(before(WEIGHTS, X, Y), after(WEIGHTS, X, Y), 0.0)


def cross_entropy(parameters: Tree, tokens: jax.Array, labels: jax.Array) -> jax.Array:
    logits = parameters["table"][tokens] @ parameters["head"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels)


def mean_over_tokens_that_count(parameters: Tree, tokens: jax.Array, labels: jax.Array, mask: jax.Array) -> jax.Array:
    return jnp.sum(cross_entropy(parameters, tokens, labels) * mask) / jnp.maximum(jnp.sum(mask), 1)


def mean_over_labels_that_count(parameters: Tree, tokens: jax.Array, labels: jax.Array) -> jax.Array:
    count = labels != 0
    return jnp.sum(cross_entropy(parameters, tokens, labels) * count) / jnp.sum(count)


def tokens_in_one_dimension(parameters: Tree, tokens: jax.Array, labels: jax.Array) -> jax.Array:
    logits = parameters["table"][tokens].reshape(-1, WIDTH) @ parameters["head"]
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(logits) * jax.nn.one_hot(labels.reshape(-1), WORDS), axis=-1))


def two_best_experts(parameters: Tree, x: jax.Array, y: jax.Array) -> jax.Array:
    gate, chosen = lax.top_k(jax.nn.softmax(x @ parameters[0][:, :4]), 2)
    gates = jnp.sum(jax.nn.one_hot(chosen, 4) * gate[..., None], axis=1)
    return jnp.mean((jnp.einsum("bd,de,be->bd", x, parameters[1][:, :4], gates) - y) ** 2)


CLOSE: list[tuple[Callable[..., jax.Array], tuple[Any, ...]]] = [
    (mean_over_tokens_that_count, (WORD_WEIGHTS, TOKENS, LABELS, MASK)),
    (mean_over_labels_that_count, (WORD_WEIGHTS, TOKENS, LABELS)),
    (tokens_in_one_dimension, (WORD_WEIGHTS, TOKENS, LABELS)),
    (two_best_experts, (WEIGHTS, X, Y)),
]


@pytest.mark.parametrize("loss, args", CLOSE, ids=lambda value: getattr(value, "__name__", ""))
def test_loss_is_the_same_up_to_rounding(loss: Callable[..., jax.Array], args: tuple[Any, ...]) -> None:
    step = trained(loss)
    before, after = jax.jit(step), paropt.jit(step, passes=f"{SPLIT},grad-sync", strict=True)
    remark = split_remark(after, args)
    assert remark.applied, remark.text
    was, now = audits(before, after, args)
    assert now.sync_in_loop == 0 and now.total("all-gather").bytes <= was.total("all-gather").bytes
    assert_close(before(*args), after(*args), 1e-6)


def test_results_of_each_example_and_metrics() -> None:
    def step(weights: Tree, x: jax.Array, y: jax.Array) -> Tree:
        def loss(weights: Tree) -> tuple[jax.Array, Tree]:
            hidden = mlp(weights, x)
            losses = jnp.sum((hidden - y) ** 2, axis=-1)
            right = jnp.argmax(hidden, axis=-1) == jnp.argmax(y, axis=-1)
            return jnp.sum(losses), (hidden, losses, hidden.T, jnp.sum(right), x)

        (value, extra), gradients = jax.value_and_grad(loss, has_aux=True)(weights)
        return updated(weights, gradients), value, extra

    before, after = jax.jit(step), paropt.jit(step, passes=f"{SPLIT},grad-sync", strict=True)
    assert split_remark(after, (WEIGHTS, X, Y)).applied
    now = paropt.audit(after.lower(WEIGHTS, X, Y))
    assert now.total("all-gather", "all-to-all", "collective-permute").bytes == 0
    assert_close(before(WEIGHTS, X, Y), after(WEIGHTS, X, Y), 0.0)


def test_what_is_known_before_the_loop_can_be_returned_too() -> None:
    def step(parameters: Tree, tokens: jax.Array, labels: jax.Array) -> Tree:
        counts = (labels != 0).astype(jnp.float32)

        def loss(parameters: Tree) -> jax.Array:
            return jnp.sum(cross_entropy(parameters, tokens, labels) * counts) / jnp.sum(counts)

        return *trained(loss)(parameters), counts, jnp.sum(counts)

    args = (WORD_WEIGHTS, TOKENS, LABELS)
    before, after = jax.jit(step), paropt.jit(step, passes=SPLIT, strict=True)
    assert split_remark(after, args).applied
    assert_close(before(*args), after(*args), 1e-6)


def test_what_follows_the_gradients_is_done_once() -> None:
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))

    def step(state: Tree, x: jax.Array, y: jax.Array) -> Tree:
        weights, momenta = state
        value, gradients = jax.value_and_grad(mean_of_squares)(weights, x, y)
        updates, momenta = optimizer.update(paropt.mark_gradient(gradients), momenta, weights)
        return (optax.apply_updates(weights, updates), momenta), value

    args = ((WEIGHTS, replicated_over_devices(optimizer.init(WEIGHTS))), X, Y)
    before, after = jax.jit(step), paropt.jit(step, passes=f"{SPLIT},grad-sync", strict=True)
    now = paropt.audit(after.lower(*args))
    assert (now.sync_in_loop, now.sync_bytes) == (0, sum(weight.nbytes for weight in WEIGHTS))
    assert_close(before(*args), after(*args), 0.0)


def test_layer_norm_of_flax() -> None:
    class Network(flax.linen.Module):
        @flax.linen.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            return flax.linen.Dense(WIDTH)(flax.linen.LayerNorm()(flax.linen.gelu(flax.linen.Dense(WIDTH)(x))))

    network = Network()
    parameters = replicated_over_devices(network.init(KEY, jnp.asarray(X)))
    step = trained(lambda parameters, x, y: jnp.mean((network.apply(parameters, x) - y) ** 2))
    before, after = jax.jit(step), paropt.jit(step, passes=f"{SPLIT},grad-sync", strict=True)
    assert split_remark(after, (parameters, X, Y)).applied
    assert_close(before(parameters, X, Y), after(parameters, X, Y), 1e-6)


def test_examples_in_another_dimension_of_named_arguments() -> None:
    def step(weights: Tree, scale: jax.Array, batch: Tree) -> Tree:
        def loss(weights: Tree) -> jax.Array:
            def layer(state: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
                state = jnp.maximum(state @ weights[0] + x, 0) * scale
                return state, state @ weights[1]

            _, outputs = lax.scan(layer, jnp.zeros((EXAMPLES, WIDTH)), batch["x"])
            return jnp.sum((outputs - batch["y"]) ** 2)

        value, gradients = jax.value_and_grad(loss)(weights)
        return updated(weights, gradients), value

    sharding = NamedSharding(data_mesh(), PartitionSpec(None, "data"))
    batch = {name: jax.device_put(integers(i, 3, EXAMPLES, WIDTH), sharding) for i, name in enumerate("xy")}
    args = (WEIGHTS, replicated_over_devices(jnp.ones(WIDTH) / 4), batch)
    passes = f"inline-calls,split-microbatches{{count={COUNT} arguments=batch dimension=1}}"
    before, after = jax.jit(step), paropt.jit(step, passes=f"{passes},grad-sync", strict=True)
    remark = split_remark(after, args)
    assert remark.applied, remark.text
    now = paropt.audit(after.lower(*args))
    assert now.total("all-gather", "all-to-all", "collective-permute").bytes == 0
    assert_close(before(*args), after(*args), 1e-6)
    (unnamed,) = [r for r in _remarks(step, SPLIT, args) if r.pass_name == "split-microbatches"]
    assert "examples and" in unnamed.text and "option arguments says which" in unnamed.text


def _remarks(step: Callable[..., Any], passes: str, args: tuple[Any, ...]) -> Any:
    return paropt.remarks(paropt.jit(step, passes=passes, strict=True).lower(*args))


def batch_norm(weights: Tree, x: jax.Array, y: jax.Array) -> jax.Array:
    hidden = x @ weights[0]
    hidden = hidden - jnp.mean(hidden, axis=0)  # here
    return jnp.sum((hidden @ weights[1] - y) ** 2)


def contrastive(weights: Tree, x: jax.Array, y: jax.Array) -> jax.Array:
    hidden = x @ weights[0]
    logits = hidden @ y.T  # here
    return -jnp.sum(jnp.diag(jax.nn.log_softmax(logits)))


def hardest_examples(weights: Tree, x: jax.Array, y: jax.Array) -> jax.Array:
    losses = jnp.sum((mlp(weights, x) - y) ** 2, axis=-1)
    return jnp.sum(lax.top_k(losses, 8)[0])  # here


def capacity(weights: Tree, x: jax.Array, y: jax.Array) -> jax.Array:
    chosen = jax.nn.one_hot(jnp.argmax(x @ weights[0], axis=-1), WIDTH)
    place = jnp.cumsum(chosen, axis=0)  # here
    return jnp.sum((x @ weights[1] * jnp.sum(chosen * (place <= 8), axis=-1, keepdims=True) - y) ** 2)


def balance(weights: Tree, x: jax.Array, y: jax.Array) -> jax.Array:
    gate = jax.nn.softmax(x @ weights[0])
    chosen = jax.nn.one_hot(jnp.argmax(gate, axis=-1), WIDTH)
    auxiliary = jnp.sum(
        jnp.mean(gate, axis=0) * jnp.mean(chosen, axis=0)  # here
    )
    return jnp.sum((gate * (x @ weights[1]) - y) ** 2) + auxiliary


def drawn_at_once(weights: Tree, x: jax.Array, y: jax.Array, key: jax.Array) -> jax.Array:
    keep = jax.random.bernoulli(key, 0.5, x.shape)  # here
    return jnp.sum((mlp(weights, x * keep) - y) ** 2)


RBG = jax.random.key(3, impl="rbg")
REFUSED: list[tuple[Callable[..., jax.Array], tuple[Any, ...], str]] = [
    (batch_norm, (WEIGHTS, X, Y), "an example reads a sum over all examples, computed by stablehlo.reduce at"),
    (contrastive, (WEIGHTS, X, Y), "stablehlo.dot_general combines each example with all others"),
    (hardest_examples, (WEIGHTS, X, Y), "chlo.top_k works across the examples"),
    (capacity, (WEIGHTS, X, Y), "stablehlo.reduce_window works across the examples"),
    (balance, (WEIGHTS, X, Y), "an example reads a sum over all examples, computed by stablehlo.reduce at"),
    (drawn_at_once, (WEIGHTS, X, Y, RBG), "random numbers of all examples are drawn at once"),
]


@pytest.mark.parametrize("loss, args, reason", REFUSED, ids=lambda value: getattr(value, "__name__", ""))
def test_refusal_names_the_op_and_its_line(loss: Callable[..., jax.Array], args: tuple[Any, ...], reason: str) -> None:
    after = paropt.jit(trained(loss), passes=SPLIT, strict=True)
    remark = split_remark(after, args)
    assert not remark.applied and reason in remark.text
    lines, first = inspect.getsourcelines(loss)
    (here,) = [first + i for i, line in enumerate(lines) if "# here" in line]
    assert f"{__file__}:{here}:" in f"{remark.text} {remark.source}"
    assert trips(after, args) == trips(jax.jit(trained(loss)), args), "the step changed"


def test_numbers_drawn_at_once_can_be_drawn_before() -> None:
    args = (WEIGHTS, X, Y, RBG)
    step = trained(drawn_at_once)
    passes = f"inline-calls,split-microbatches{{count={COUNT} random=before}}"
    before, after = jax.jit(step), paropt.jit(step, passes=passes, strict=True)
    assert split_remark(after, args).applied
    assert_close(before(*args), after(*args), 0.0)


def test_a_micro_batch_has_examples_for_each_device() -> None:
    args = (WEIGHTS, *split_over_devices(integers(0, 16, WIDTH), integers(1, 16, WIDTH)))
    remark = split_remark(paropt.jit(trained(mean_of_squares), passes=SPLIT, strict=True), args)
    assert not remark.applied and "a micro-batch has 4 examples, which 8 devices do not divide" in remark.text
