"""Verified reductions: XLA splits some in other sizes, or more steps; nothing is amiss in the executable."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from numeric.user_steps import EXAMPLES, MICRO_BATCHES, WIDTH, Case, accumulated, compared, integers, placed
from programs.program import Tree, mesh_of

HIDDEN, SEQUENCE = 16, 4
DATA_MODEL, HYBRID, CUBE = mesh_of(data=4, model=2), mesh_of(replica=2, data=4), mesh_of(data=2, fsdp=2, tensor=2)
FULLY, WIDE = mesh_of(fsdp=4, tensor=2), mesh_of(data=2, model=4)


def constrained(x: jax.Array, mesh: Mesh, *spec: Any) -> jax.Array:
    return lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec)))


def bias(w: Any, x: jax.Array) -> jax.Array:
    """Reduced before it is cut."""
    return (jnp.tanh(x @ w["a"] + w["b"]) ** 2).mean()


def rows(w: Any, x: jax.Array) -> jax.Array:
    return ((jnp.tanh(x @ w["a"]) @ w["b"]) ** 2).mean()


def towers(w: Any, x: jax.Array) -> jax.Array:
    """One is split by features: XLA reduces over one axis, cuts, and reduces over the other."""
    scores = constrained(jnp.tanh(x @ w["a"]), FULLY, None, "fsdp") @ jnp.tanh(x[:, ::-1] @ w["b"]).T
    return -jnp.diagonal(jax.nn.log_softmax(scores)).mean()


def recurrent(w: Any, x: jax.Array) -> jax.Array:
    """Operands of a product split what it adds up over one axis and over two."""

    def cell(h: jax.Array, token: jax.Array) -> tuple[jax.Array, jax.Array]:
        h = constrained(jnp.tanh(token @ w["a"] + h @ w["b"]), HYBRID, "replica", "data")
        return h, h

    return (lax.scan(cell, jnp.zeros((x.shape[0], WIDTH)), x.swapaxes(0, 1))[1] ** 2).mean()


def normalised(w: Any, x: jax.Array) -> jax.Array:
    """Operands split it over different axes."""
    h = x @ w["a"]
    h = (h - h.mean((0, 1))) * lax.rsqrt(h.var((0, 1)) + 1)
    return ((constrained(jax.nn.relu(h), CUBE, "data", None, "tensor") @ w["b"] - x) ** 2).mean()


def weights(*shapes: tuple[int, ...]) -> Tree:
    return {name: integers(*shape, seed=name) / 8 for name, shape in zip("ab", shapes, strict=True)}


CASES: dict[str, tuple[Any, Mesh, Tree, tuple[Any, ...], tuple[int, ...], tuple[str, ...]]] = {
    "a bias": (bias, DATA_MODEL, weights((WIDTH, HIDDEN), (HIDDEN,)), (("data", "model"),), (WIDTH,), ("data",)),
    "rows": (rows, WIDE, weights((WIDTH, HIDDEN), (HIDDEN, WIDTH)), (("data", "model"),), (WIDTH,), ("data",)),
    "two towers": (towers, FULLY, weights((WIDTH, HIDDEN), (WIDTH, HIDDEN)), (), (WIDTH,), ("tensor", "fsdp")),
    "a state": (
        recurrent,
        HYBRID,
        weights((WIDTH, WIDTH), (WIDTH, WIDTH)),
        (),
        (SEQUENCE, WIDTH),
        ("data", "replica"),
    ),
    "a batch norm": (
        normalised,
        CUBE,
        weights((WIDTH, HIDDEN), (HIDDEN, WIDTH)),
        (),
        (SEQUENCE, WIDTH),
        ("fsdp",),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_executable_is_found_right(name: str) -> None:
    """`compared` asks for the strict way: a mismatch raises."""
    loss, mesh, parameters, spec, shape, axes = CASES[name]
    placed_parameters = {
        "a": placed(parameters["a"], mesh=mesh),
        "b": placed(parameters["b"], *spec, mesh=mesh),
    }
    examples = placed(integers(MICRO_BATCHES, EXAMPLES, *shape, seed=0) / 2, None, axes, mesh=mesh)

    def step(w: Any, x: Any) -> Any:
        return jax.tree.map(lambda a, b: a - b, w, accumulated(jax.grad(loss), w, x))

    before, after, _ = compared(Case(step, (placed_parameters, examples), tolerance=1e-5))
    assert after.total().wire <= before.total().wire
    assert after.sync_in_loop <= before.sync_in_loop
    if name != "a batch norm":  # the sums of which stay in the loop
        assert after.total().wire < before.total().wire
        assert after.sync_in_loop < before.sync_in_loop


def test_an_axis_splits_two_dimensions() -> None:
    """The examples, and the rows of the gradient: XLA puts its columns together, and reduces all of it."""
    w = placed(integers(WIDTH, 2 * WIDTH, seed=0), "model", mesh=WIDE)
    examples = placed((integers(MICRO_BATCHES, EXAMPLES, WIDTH, seed=1),) * 2, None, "data", mesh=WIDE)

    def loss(w: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        return (jnp.multiply(*jnp.split(x @ w, 2, axis=-1)) * y).sum()

    def step(w: jax.Array, examples: Any) -> Any:
        def body(total: Any, batch: Any) -> tuple[Any, None]:
            value, gradient = jax.value_and_grad(loss)(w, *batch)
            return (total[0] + value, total[1] + constrained(gradient, WIDE, ("data", "model"))), None

        return lax.scan(body, (0.0, jnp.zeros_like(w)), examples)[0]

    compared(Case(step, (w, examples), tolerance=1e-5))


def test_each_axis_splits_another_dimension_of_the_sum() -> None:
    """XLA reduces over one axis, cuts, and reduces over the other."""
    examples = (
        integers(MICRO_BATCHES, EXAMPLES, SEQUENCE, WIDTH, seed=0),
        integers(MICRO_BATCHES, EXAMPLES, SEQUENCE, WIDTH, seed=1),
    )
    parameters = {
        "up": integers(SEQUENCE, WIDTH, HIDDEN, seed=2),
        "down": integers(SEQUENCE, HIDDEN, WIDTH, seed=3),
        "router": integers(WIDTH, SEQUENCE, seed=4),
    }

    def loss(w: Tree, x: jax.Array, y: jax.Array) -> jax.Array:
        hidden = jnp.einsum("...d,edh->...eh", x, w["up"])
        return (jnp.einsum("...eh,ehd,...e->...d", hidden, w["down"], x @ w["router"]) * y).sum()

    def step(w: Tree, batches: Any) -> Tree:
        def body(rows: Tree, item: Any) -> tuple[Tree, None]:
            number, batch = item
            gradient = jax.grad(loss)(w, *batch)
            gradient["router"] = constrained(gradient["router"], DATA_MODEL, None, "data")
            return jax.tree.map(lambda row, g: row.at[number % 2].add(g), rows, gradient), None

        start = jax.tree.map(lambda p: jnp.zeros((2, *p.shape)), w)
        start["down"] = constrained(start["down"], DATA_MODEL, None, "data", "model")
        rows = lax.scan(body, start, (jnp.arange(MICRO_BATCHES), batches))[0]
        return jax.tree.map(lambda p, row: p - row.sum(0), w, rows)

    batches = placed(examples, None, ("data", "model"), mesh=DATA_MODEL)
    before, after, _ = compared(Case(step, (placed(parameters, mesh=DATA_MODEL), batches)))
    assert after.sync_in_loop < before.sync_in_loop
