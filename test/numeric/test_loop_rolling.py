"""Loop rolling: Python loops over micro-batches, as people write them, which JAX unrolls, become loops again."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from numeric.test_training_programs import assert_close
from programs import explicit, models, plain
from programs.catalog import EXPLICIT, INTEGER_MLPS, PLAIN
from programs.patterns import STACKED, UNROLLED
from programs.program import Program, Sizes, Tree

import paropt

ROLL = "inline-calls,roll-accumulation"
COUNT = 4
SIZES = Sizes(layers=2, sequence=4)

# Small integers: sums are exact, however XLA fuses the body.
WEIGHTS = [jnp.array(np.random.default_rng(i).integers(-2, 3, (8, 8)), jnp.float32) for i in range(2)]
BATCHES = jnp.array(np.random.default_rng(9).integers(-2, 3, (COUNT, 4, 8)), jnp.float32)
KEY = jax.random.PRNGKey(3)


def loss(weights: Tree, batch: jax.Array) -> jax.Array:
    for weight in weights:
        batch = jnp.maximum(batch @ weight, 0)
    return jnp.sum(batch)


def noisy_loss(weights: Tree, batch: jax.Array, key: jax.Array) -> jax.Array:
    return loss(weights, batch * jax.random.bernoulli(key, 0.5, batch.shape))


def added(total: Tree, gradients: Tree) -> Tree:
    return jax.tree.map(jnp.add, total, gradients)


def zeros(weights: Tree) -> Tree:
    return jax.tree.map(jnp.zeros_like, weights)


def list_of_losses(weights: Tree, batches: jax.Array) -> Tree:
    total, losses = zeros(weights), []
    for batch in batches:
        value, gradients = jax.value_and_grad(loss)(weights, batch)
        total = added(total, gradients)
        losses.append(value)
    return total, jnp.stack(losses)


def one_backward_of_a_running_loss(weights: Tree, batches: jax.Array) -> Tree:
    return jax.value_and_grad(lambda w: sum(loss(w, batches[i]) for i in range(COUNT)) / COUNT)(weights)


def from_the_first_gradient(weights: Tree, batches: jax.Array) -> Tree:
    total = jax.grad(loss)(weights, batches[0])
    for i in range(1, COUNT):
        total = added(total, jax.grad(loss)(weights, batches[i]))
    return total


def largest_input(weights: Tree, batches: jax.Array) -> Tree:
    total, largest = zeros(weights), jnp.float32(0)
    for i in range(COUNT):
        total = added(total, jax.grad(loss)(weights, batches[i]))
        largest = jnp.maximum(largest, jnp.max(jnp.abs(batches[i])))
    return total, largest


def key_handed_on(weights: Tree, batches: jax.Array, key: jax.Array) -> Tree:
    total = zeros(weights)
    for i in range(COUNT):
        key, own = jax.random.split(key)
        total = added(total, jax.grad(noisy_loss)(weights, batches[i], own))
    return total, key


def keys_split_before(weights: Tree, batches: jax.Array, key: jax.Array) -> Tree:
    total, keys = zeros(weights), jax.random.split(key, COUNT)
    for i in range(COUNT):
        total = added(total, jax.grad(noisy_loss)(weights, batches[i], keys[i]))
    return total


def key_folded_with_the_number(weights: Tree, batches: jax.Array, key: jax.Array) -> Tree:
    total = zeros(weights)
    for i in range(COUNT):
        total = added(total, jax.grad(noisy_loss)(weights, batches[i], jax.random.fold_in(key, i)))
    return total


def parts_of_a_batch(weights: Tree, batches: jax.Array) -> Tree:
    total = zeros(weights)
    for batch in jnp.split(batches.reshape(-1, 8), COUNT):
        total = added(total, jax.grad(loss)(weights, batch))
    return total


def interleaved_parts(weights: Tree, batches: jax.Array) -> Tree:
    total, whole = zeros(weights), batches.reshape(-1, 8)
    for i in range(COUNT):
        total = added(total, jax.grad(loss)(weights, whole[i::COUNT]))
    return total


def an_argument_each(weights: Tree, *batches: jax.Array) -> Tree:
    total = zeros(weights)
    for batch in batches:
        total = added(total, jax.grad(loss)(weights, batch))
    return total


def dynamic_slices(weights: Tree, batches: jax.Array) -> Tree:
    total = zeros(weights)
    for i in range(COUNT):
        total = added(total, jax.grad(loss)(weights, lax.dynamic_index_in_dim(batches, i, keepdims=False)))
    return total


def weighted(weights: Tree, batches: jax.Array) -> Tree:
    total = zeros(weights)
    for i in range(COUNT):
        total = jax.tree.map(lambda t, g, w=i + 1: t + w / 4 * g, total, jax.grad(loss)(weights, batches[i]))
    return total


def running_statistic(weights: Tree, batches: jax.Array) -> Tree:
    total, mean = zeros(weights), jnp.zeros(8)
    for i in range(COUNT):
        mean = 0.5 * mean + 0.5 * jnp.sum(batches[i], axis=0)
        total = added(total, jax.grad(loss)(weights, batches[i] - mean))
    return total, mean


def rematerialised(weights: Tree, batches: jax.Array) -> Tree:
    total = zeros(weights)
    for i in range(COUNT):
        total = added(total, jax.grad(jax.checkpoint(loss))(weights, batches[i]))
    return total


def mean_of_stacked_gradients(weights: Tree, batches: jax.Array) -> Tree:
    pairs = [jax.value_and_grad(loss)(weights, batch) for batch in batches]
    losses = jnp.stack([value for value, _ in pairs])
    means = jax.tree.map(lambda *leaves: jnp.mean(jnp.stack(leaves), 0), *(gradients for _, gradients in pairs))
    return means, losses, jnp.mean(losses)


def wide_sum_of_narrow_rows(weights: Tree, batches: jax.Array) -> Tree:
    narrow = jax.tree.map(lambda weight: weight.astype(jnp.bfloat16), weights)
    each = [jax.grad(loss)(narrow, batch.astype(jnp.bfloat16)) for batch in batches]
    largest = jnp.max(jnp.stack([jnp.max(gradients[0]) for gradients in each]))
    return jax.tree.map(lambda *leaves: jnp.concatenate([g[None] for g in leaves]).sum(0, jnp.float32), *each), largest


FORMS: list[tuple[Callable[..., Tree], tuple[Any, ...]]] = [
    (list_of_losses, (BATCHES,)),
    (one_backward_of_a_running_loss, (BATCHES,)),
    (from_the_first_gradient, (BATCHES,)),
    (largest_input, (BATCHES,)),
    (key_handed_on, (BATCHES, KEY)),
    (keys_split_before, (BATCHES, KEY)),
    (key_folded_with_the_number, (BATCHES, KEY)),
    (parts_of_a_batch, (BATCHES,)),
    (interleaved_parts, (BATCHES,)),
    (an_argument_each, tuple(BATCHES)),
    (dynamic_slices, (BATCHES,)),
    (weighted, (BATCHES,)),
    (running_statistic, (BATCHES,)),
    (rematerialised, (BATCHES,)),
    (mean_of_stacked_gradients, (BATCHES,)),
    (wide_sum_of_narrow_rows, (BATCHES,)),
]


def contractions(step: Callable[..., Any], *args: Any) -> int:
    return int(step.lower(*args).as_text().count("stablehlo.dot_general"))  # type: ignore[attr-defined]  # both jitted kinds lower; their common type says nothing


@pytest.mark.parametrize("form, args", FORMS, ids=lambda value: getattr(value, "__name__", ""))
def test_form_becomes_a_loop(form: Callable[..., Tree], args: tuple[Any, ...]) -> None:
    before, after = jax.jit(form), paropt.jit(form, passes=ROLL, strict=True)
    assert COUNT * contractions(after, WEIGHTS, *args) == contractions(before, WEIGHTS, *args), "a copy is left"
    assert_close(before(WEIGHTS, *args), after(WEIGHTS, *args), 0.0)


def test_the_difference_is_named_with_its_line() -> None:
    def step(weights: Tree, batches: jax.Array) -> Tree:
        total = zeros(weights)
        for i in range(COUNT):
            batch = jnp.sin(batches[i]) if i == 2 else jnp.cos(batches[i])
            total = added(total, jax.grad(loss)(weights, batch))
        return total

    remarks = paropt.remarks(paropt.jit(step, passes=ROLL, strict=True).lower(WEIGHTS, BATCHES))
    (reason,) = [r.text for r in remarks if r.pass_name == "roll-accumulation"]
    assert "copy 3 of 4 differs: stablehlo.sine, which is stablehlo.cosine in the first" in reason
    assert f"{__file__}:{step.__code__.co_firstlineno + 3}:" in reason


def _unrolled_programs() -> dict[str, Callable[[], Program]]:
    forms = {"explicit": explicit, "plain": plain}
    built = {
        f"{name} {build.__name__}": lambda form=form, build=build: form.data_parallel(build, UNROLLED, SIZES)
        for name, form in forms.items()
        for build in (models.transformer, models.scanned_transformer, models.tied_transformer, models.embedding)
    }
    stacked = {
        f"{name} mlp, stacked": lambda form=form: form.data_parallel(models.mlp, STACKED, SIZES)
        for name, form in forms.items()
    }
    # Built once: what two tests compile of a program without passes is compiled once, too.
    found = {"explicit mlp": EXPLICIT["mlp_p8"], "plain mlp": PLAIN["mlp_p8"], **built, **stacked}
    return {name: functools.cache(build) for name, build in found.items()}


UNROLLED_PROGRAMS = _unrolled_programs()


@pytest.mark.parametrize("name", UNROLLED_PROGRAMS)
def test_unrolled_program_becomes_a_loop(name: str) -> None:
    """The same reductions as often as before, now in a loop; no more memory; close, as XLA fuses other ops."""
    program = UNROLLED_PROGRAMS[name]()
    before, after = jax.jit(program.step), paropt.jit(program.step, passes=ROLL, strict=True)
    assert COUNT * contractions(after, *program.args) == contractions(before, *program.args)
    was, now = (paropt.audit(step.lower(*program.args)) for step in (before, after))
    assert was.sync_bytes == now.sync_bytes == now.sync_in_loop
    compiled = [step.lower(*program.args).compile() for step in (before, after)]
    temporary = [each.memory_analysis().temp_size_in_bytes for each in compiled]
    assert temporary[1] <= temporary[0]
    assert_close(before(*program.args), after(*program.args), program.tolerance)


@pytest.mark.parametrize("name", UNROLLED_PROGRAMS)
def test_rolled_program_is_synchronised_once_per_step(name: str) -> None:
    program = UNROLLED_PROGRAMS[name]()
    before, after = jax.jit(program.step), paropt.jit(program.step, passes=f"{ROLL},grad-sync", strict=True)
    now = paropt.audit(after.lower(*program.args))
    assert (now.sync_in_loop, now.sync_bytes) == (0, program.gradient_bytes)
    assert_close(before(*program.args), after(*program.args), program.tolerance)


def test_rolled_integers_are_equal_bit_for_bit() -> None:
    program = INTEGER_MLPS["mlp_p8_integers"]()
    before, after = jax.jit(program.step), paropt.jit(program.step, passes=f"{ROLL},grad-sync", strict=True)
    assert_close(before(*program.args), after(*program.args), 0.0)
