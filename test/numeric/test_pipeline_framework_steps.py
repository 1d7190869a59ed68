"""Pipeline stages of steps as frameworks write them: sharding constraints, random keys, sums from Python numbers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from numeric.user_steps import integers

import paropt
from paropt.stages.step_plan import StageError

MICROBATCHES, WIDTH = 4, 16
SHAPES = {"2x4": (2, 4), "2x2x2": (2, 2, 2)}
Tree = Any


def mesh_of(shape: tuple[int, ...]) -> Mesh:
    return Mesh(np.array(jax.devices()[:8]).reshape(shape), ("stage", "data", "model")[: len(shape)])


def step_on(mesh: Mesh | None, specs: tuple[P, ...]) -> Any:
    """Layers whose activations are constrained to each of `specs`, with dropout; a key is carried by the state."""

    def step(state: Tree, batch: Tree) -> tuple[Tree, jax.Array]:
        layers, key = state

        def loss(layers: Tree, x: jax.Array, target: jax.Array, key: jax.Array) -> jax.Array:
            for number, weights in enumerate(layers):
                with jax.named_scope(f"layer{number}"):
                    x = jnp.tanh(x @ weights)
                    for spec in specs if mesh is not None else ():
                        x = jax.lax.with_sharding_constraint(x, NamedSharding(mesh, spec))
                    x *= jax.random.bernoulli(jax.random.fold_in(key, number), 0.5, x.shape)
            return jnp.mean((x - target) ** 2)

        def body(carry: Tree, given: Tree) -> tuple[Tree, None]:
            value, gradients = jax.value_and_grad(loss)(layers, *given)
            return (jax.tree.map(jnp.add, carry[0], gradients), carry[1] + value), None

        key, own = jax.random.split(key)
        start: Tree = jax.tree.map(jnp.zeros_like, layers), 0.0  # a Python number: jax converts the sum to its own type
        (gradients, value), _ = jax.lax.scan(body, start, (*batch, jax.random.split(own, MICROBATCHES)))
        return (jax.tree.map(lambda old, new: old - 100 * new, layers, gradients), key), value

    return step


def given() -> tuple[Tree, Tree]:
    draw = np.random.default_rng(0)
    layers = [draw.normal(size=(WIDTH, WIDTH)).astype(np.float32) / 4 for _ in range(4)]
    batch = tuple(draw.normal(size=(MICROBATCHES, 16, WIDTH)).astype(np.float32) for _ in range(2))
    return (layers, jax.random.key(7)), batch


@pytest.mark.parametrize(
    ("shape", "specs"),
    [
        ("2x4", ()),
        ("2x4", (P("data"),)),
        ("2x4", (P("data"), P())),  # the second one says nothing about the devices of a stage
        ("2x2x2", (P("data", "model"),)),
        ("2x2x2", (P(("stage", "data"), "model"),)),
    ],
)
def test_constraints_and_keys(shape: str, specs: tuple[P, ...]) -> None:
    mesh = mesh_of(SHAPES[shape])
    state, batch = given()
    run = paropt.pipeline(step_on(mesh, specs), stages=2, microbatches=MICROBATCHES, mesh=mesh, axis="stage")
    want, value = jax.jit(step_on(None, specs))(state, batch)
    got, loss = run(run.place(state, batch), batch)
    np.testing.assert_allclose(loss, value, rtol=1e-6)
    assert got[1].dtype == state[1].dtype
    np.testing.assert_array_equal(jax.random.key_data(got[1]), jax.random.key_data(want[1]))
    largest = max(np.abs(new - old).max() for old, new in zip(state[0], want[0], strict=True))
    for new, other in zip(want[0], got[0], strict=True):
        np.testing.assert_allclose(other, new, rtol=0, atol=1e-6 * largest)
    again, _ = run(got, batch)  # keys that a step returned are its arguments
    assert again[1] != got[1]
    texts = [lowered.as_text() for (name, _), lowered in run.lower(state, batch).items() if "forward" in name]
    axes = {axis for spec in specs for axis in jax.tree.leaves(tuple(spec)) if axis != "stage"}
    assert all(any(f'"{axis}"' in text.partition("sharding_constraint")[2] for text in texts) for axis in axes)


def test_a_key_that_no_argument_is_like_is_one_line() -> None:
    def step(state: Tree, batch: Tree) -> Tree:
        new, value = step_on(None, ())((state, jax.random.key(1)), batch)
        return new[0], value, jax.random.key(2)

    (layers, _), batch = given()
    run = paropt.pipeline(step, stages=2, microbatches=MICROBATCHES, mesh=mesh_of((2, 4)), axis="stage")
    with pytest.raises(
        StageError, match=r"^result 5 is of key<fry>, and no argument is: return its jax.random.key_data$"
    ):
        run(layers, batch)


TERMS = {
    "balance of experts": lambda logits: jnp.sum(jax.nn.softmax(logits).mean(0) ** 2),
    "z-loss": lambda logits: jnp.mean(jax.nn.logsumexp(logits, -1) ** 2),
    "entropy": lambda logits: -jnp.mean(jnp.sum(jax.nn.softmax(logits) * jax.nn.log_softmax(logits), -1)),
}


def routed_step(term: Any, form: str) -> Any:
    """Layers that each add a term to the loss."""

    def loss(layers: Tree, x: jax.Array) -> jax.Array:
        extra = 0.0
        for number, (weights, router) in enumerate(layers):
            with jax.named_scope(f"layer{number}"):
                logits = x @ router
                extra += term(logits)
                x += jnp.tanh(x @ weights) * jax.nn.softmax(logits)[:, :1]
        return jnp.mean(x**2) + 0.01 * extra

    return step_of(loss, form)


def step_of(loss: Any, form: str) -> Any:
    """Gradient descent; micro-batches in a scan, in a Python loop, or as one batch."""

    def step(layers: Tree, batch: jax.Array) -> tuple[Tree, jax.Array]:
        def added(total: Tree, x: jax.Array) -> tuple[Tree, None]:
            return jax.tree.map(jnp.add, total, jax.value_and_grad(loss)(layers, x)), None

        total: Tree = jnp.zeros(()), jax.tree.map(jnp.zeros_like, layers)
        if form == "scan":
            total, _ = jax.lax.scan(added, total, batch)
        elif form == "Python":
            for x in batch:
                total, _ = added(total, x)
        else:
            total, _ = added(total, batch.reshape(-1, WIDTH))
        return jax.tree.map(lambda old, new: old - new, layers, total[1]), total[0]

    return step


FORMS = [(term, form) for term in TERMS for form in ("scan", "Python")]


# Of a whole batch, the balance of experts is no sum over examples: it is another step with micro-batches.
@pytest.mark.parametrize(("term", "form"), [*FORMS, ("z-loss", "one batch"), ("entropy", "one batch")])
def test_layers_that_add_to_the_loss(term: str, form: str) -> None:
    """They look like micro-batches, each of which adds to a sum, and are none."""
    layers = [(integers(WIDTH, WIDTH, seed=n) / 16, integers(WIDTH, 4, seed=n + 9) / 16) for n in range(4)]
    batch, step = integers(MICROBATCHES, 16, WIDTH, seed=50) / 4, routed_step(TERMS[term], form)
    run = paropt.pipeline(step, stages=2, microbatches=MICROBATCHES, mesh=mesh_of((2, 4)))
    want, value = jax.jit(step)(layers, batch)
    got, found = run(run.place(layers, batch), batch)
    np.testing.assert_allclose(found, value, rtol=1e-5)
    for new, other in zip(jax.tree.leaves(want), jax.tree.leaves(got), strict=True):
        np.testing.assert_allclose(other, new, rtol=1e-4, atol=1e-5)


def square_layers(count: int) -> tuple[Any, Tree, jax.Array]:
    """A step of `count` equal layers without names, whose activations cost more to send than a layer to compute."""

    def loss(layers: Tree, x: jax.Array) -> jax.Array:
        for weights in layers:
            x += jnp.tanh(x @ weights)
        return jnp.mean(x**2)

    return step_of(loss, "scan"), [jnp.zeros((WIDTH, WIDTH))] * count, jnp.zeros((MICROBATCHES, 16, WIDTH))


def test_each_stage_has_parameters() -> None:
    """Though the fastest step, where sending takes that long, has all layers in one stage."""
    step, layers, batch = square_layers(4)
    run = paropt.pipeline(step, stages=2, microbatches=MICROBATCHES, mesh=mesh_of((2, 4)), cuts="costs")
    rows = run.report(layers, batch).as_dict()["stages"]
    assert [row["state_bytes"] for row in rows] == [2 * WIDTH * WIDTH * 4] * 2


def test_a_stage_without_parameters_is_told() -> None:
    step, layers, batch = square_layers(1)
    run = paropt.pipeline(step, stages=2, microbatches=MICROBATCHES, mesh=mesh_of((2, 4)), cuts="costs")
    with pytest.warns(RuntimeWarning, match=r"^no parameters for stage 1: fewer stages would do the same work \("):
        run.compile(layers, batch)
