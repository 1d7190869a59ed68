"""Accumulator updates of other kinds than an addition, for parameters that are replicated, or sharded as users do."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import Mesh
from numeric.user_steps import EXAMPLES, MICRO_BATCHES, SCATTERS_WRITTEN, WIDTH, Case, compared, integers, placed
from programs.program import Tree, data_mesh, mesh_of

import paropt

Update = Callable[[Tree, Tree, jax.Array], Tree]  # (accumulators, gradients, number of the micro-batch) -> accumulators


def each(change: Callable[..., jax.Array]) -> Update:
    return lambda total, gradients, i: jax.tree.map(lambda t, g: change(t, g, i), total, gradients)


def is_even(i: jax.Array) -> jax.Array:
    return i % 2 == 0


def branch(otherwise: Callable[[jax.Array], jax.Array]) -> Update:
    """A branch adds; the other one knows the accumulator only."""
    add, change = each(lambda t, g, i: t + g), lambda total, g, i: jax.tree.map(otherwise, total)
    return lambda total, gradients, i: lax.cond(is_even(i), add, change, total, gradients, i)


def halved_in_a_branch(total: Tree, gradients: Tree, i: jax.Array) -> Tree:
    total = lax.cond(is_even(i), lambda t: jax.tree.map(lambda x: x / 2, t), lambda t: t, total)
    return jax.tree.map(jnp.add, total, gradients)


UPDATES = {
    "decayed": each(lambda t, g, i: t / 2 + g),
    "a running mean": each(lambda t, g, i: t + (g - t) / 4),
    "twice": each(lambda t, g, i: 2 * t + (t + g)),
    "subtracted": each(lambda t, g, i: -t - g),
    "selected": each(lambda t, g, i: jnp.where(is_even(i), t + g, t / 2)),
    "skipped in a branch": branch(lambda t: t),
    "reset in a branch": branch(jnp.zeros_like),
    "decayed in a branch": branch(lambda t: t / 2),
    "halved in a branch": halved_in_a_branch,
    "by turns": each(lambda t, g, i: lax.switch(i % 3, [jnp.add, lambda t, g: t / 2, jnp.subtract], t, g)),
    "transposed": each(lambda t, g, i: (t.T / 2).T + g),
    "clipped to nothing": each(lambda t, g, i: t * (i > 0) + g),
}

# The mesh, the axes that split examples, and those that split the two weights.
LAYOUTS: dict[str, tuple[Mesh, Any, Any, Any]] = {
    "whole": (data_mesh(), "data", (), ()),
    "fully sharded": (data_mesh(), "data", ("data",), ("data",)),
    "hybrid": (mesh_of(replica=2, data=4), ("replica", "data"), ("data",), ("data",)),
    "tensor parallel": (mesh_of(data=4, model=2), "data", (None, "model"), ("model",)),
    "both": (mesh_of(data=4, model=2), "data", ("data", "model"), ("model", "data")),
}


def loss(w: Tree, x: jax.Array) -> jax.Array:
    return (((x @ w["up"]) @ w["down"] + w["bias"]) * x).sum()


def arguments(layout: str) -> tuple[Tree, jax.Array]:
    mesh, examples, *weights = LAYOUTS[layout]
    shapes = {"up": (WIDTH, 2 * WIDTH), "down": (2 * WIDTH, WIDTH)}
    w = {
        name: placed(integers(*shape, seed=name), *spec, mesh=mesh)
        for (name, shape), spec in zip(shapes.items(), weights, strict=True)
    }
    w["bias"] = placed(integers(WIDTH, seed=1), mesh=mesh)
    return w, placed(integers(MICRO_BATCHES, EXAMPLES, WIDTH, seed=2), None, examples, mesh=mesh)


def sends_less(step: Callable[[Tree, jax.Array], Any], layout: str) -> None:
    """Of no other kind more, too."""
    before, after, _ = compared(Case(step, arguments(layout), passes=SCATTERS_WRITTEN))
    assert after.total().wire < before.total().wire
    assert after.total("all-reduce").in_loops < max(before.total("all-reduce").in_loops, 1)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("update", UPDATES)
def test_accumulators_stay_where_they_are(update: str, layout: str) -> None:
    def step(w: Tree, batches: jax.Array) -> Tree:
        def body(total: Tree, numbered: Any) -> tuple[Tree, None]:
            i, batch = numbered
            return UPDATES[update](total, jax.grad(loss)(w, batch), i), None

        total, _ = lax.scan(body, jax.tree.map(jnp.zeros_like, w), (jnp.arange(MICRO_BATCHES), batches))
        return jax.tree.map(jnp.subtract, w, total)

    sends_less(step, layout)


def nested(trip: Callable[[Tree, Any], Tree], total: Tree, batches: Any) -> Tree:
    def inner(total: Tree, some: Any) -> tuple[Tree, None]:
        return lax.scan(lambda total, batch: (trip(total, batch), None), total, some)

    return lax.scan(inner, total, jax.tree.map(lambda x: x.reshape(2, -1, *x.shape[1:]), batches))[0]


def unrolled(trip: Callable[[Tree, jax.Array], Tree], total: Tree, batches: jax.Array) -> Tree:
    for batch in batches:
        total = trip(total, batch)
    return total


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("change", [jnp.add, jnp.subtract], ids=["added", "subtracted"])
@pytest.mark.parametrize("loop", [nested, unrolled])
def test_what_passes_make_lies_so_too(loop: Callable[..., Tree], change: Callable[..., jax.Array], layout: str) -> None:
    """The add behind an inner loop, and the negate of a first term."""

    def step(w: Tree, batches: jax.Array) -> Tree:
        trip = lambda total, batch: jax.tree.map(change, total, jax.grad(loss)(w, batch))  # noqa: E731
        return jax.tree.map(jnp.subtract, w, loop(trip, jax.tree.map(jnp.zeros_like, w), batches))

    sends_less(step, layout)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("update", ["decayed", "selected", "decayed in a branch", "by turns", "transposed"])
def test_the_inner_of_two_loops_changes_what_the_outer_one_accumulates(update: str, layout: str) -> None:
    def step(w: Tree, batches: jax.Array) -> Tree:
        trip = lambda total, item: UPDATES[update](total, jax.grad(loss)(w, item[1]), item[0])  # noqa: E731
        total = nested(trip, jax.tree.map(jnp.zeros_like, w), (jnp.arange(MICRO_BATCHES), batches))
        return jax.tree.map(jnp.subtract, w, total)

    sends_less(step, layout)
    if layout == "whole":  # once, and not once in each trip of the outer loop
        after = paropt.audit(paropt.jit(step, passes=SCATTERS_WRITTEN).lower(*arguments(layout)))
        assert (after.sync_in_loop, after.sync_bytes) == (0, 4 * (4 * WIDTH + 1) * WIDTH)


def beside_a_number(w: Tree, x: jax.Array) -> tuple[jax.Array, Tree]:
    return lax.cond(x[0, 0] > 0, lambda: jax.value_and_grad(loss)(w, x), lambda: (2.0, jax.tree.map(jnp.zeros_like, w)))


def beside_a_decay(w: Tree, x: jax.Array) -> tuple[jax.Array, Tree]:
    decayed = lambda: (0.0, {**jax.tree.map(jnp.zeros_like, w), "bias": w["bias"] / 2})  # noqa: E731
    return lax.cond(x[0, 0] > 0, lambda: jax.value_and_grad(loss)(w, x), decayed)


def in_branches_of_branches(w: Tree, x: jax.Array) -> tuple[jax.Array, Tree]:
    return lax.cond(x[0, 1] > 0, lambda: jax.value_and_grad(loss)(w, x * x), lambda: beside_a_number(w, x))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("gradient", [beside_a_number, beside_a_decay, in_branches_of_branches])
def test_results_of_branches_stay_where_they_are(gradient: Callable[..., Any], layout: str) -> None:
    """What is not a gradient, or only in one of them, is returned apart: the results have other numbers then."""

    def step(w: Tree, batches: jax.Array) -> Any:
        def body(total: Any, batch: jax.Array) -> tuple[Any, None]:
            return jax.tree.map(jnp.add, total, gradient(w, batch)), None

        return lax.scan(body, (jnp.float32(0), jax.tree.map(jnp.zeros_like, w)), batches)[0]

    sends_less(step, layout)


def test_a_mean_in_nested_loops_stays_split_as_its_gradient() -> None:
    """Its features are split over an axis that does not split examples: what is carried in is not gathered in each trip."""
    mesh = mesh_of(data=4, model=2)

    def step(w: jax.Array, start: jax.Array, batches: jax.Array) -> jax.Array:
        def trip(mean: jax.Array, item: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
            x, y = item
            gradient = jax.grad(lambda w: (x * w * y).sum())(w)
            return mean + (gradient - mean) / 4, None

        def some(mean: jax.Array, items: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
            return lax.scan(trip, mean, items)

        halves = tuple(b.reshape(2, -1, *b.shape[1:]) for b in batches)
        return w - lax.scan(some, start, halves)[0]

    x = placed(integers(MICRO_BATCHES, EXAMPLES, WIDTH, seed=0), None, "model", mesh=mesh)
    y = placed(integers(MICRO_BATCHES, EXAMPLES, WIDTH, seed=1), None, "model", "data", mesh=mesh)
    w, start = (placed(integers(WIDTH, seed=seed), mesh=mesh) for seed in range(2))
    before, after, _ = compared(Case(step, (w, start, (x, y)), tolerance=1e-6))
    assert after.sync_in_loop == 0 < before.sync_in_loop
    assert after.total().wire < before.total().wire
