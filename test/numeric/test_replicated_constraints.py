"""Replicated constraints: what a program constrains to be replicated stays so for contractions that read moved sums."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec
from numeric.user_steps import EXAMPLES, MICRO_BATCHES, WIDTH, Case, accumulated, compared, integers, placed
from programs.program import Tree, mesh_of


def test_a_constraint_is_not_opened_again() -> None:
    """Two dense layers, the second split by columns: what the model says to be whole stays so for the products."""
    mesh = mesh_of(data=2, model=4)

    def loss(w: Tree, batch: jax.Array) -> jax.Array:
        h = (batch[0] @ w["a"]) @ w["b"]
        return (lax.with_sharding_constraint(h, NamedSharding(mesh, PartitionSpec("data"))) * batch[1]).sum()

    def step(w: Tree, batches: jax.Array) -> Tree:
        def trip(rows: Tree, item: Any) -> tuple[Tree, None]:
            number, batch = item
            return jax.tree.map(lambda row, g: row.at[number % 2].add(g), rows, jax.grad(loss)(w, batch)), None

        rows = lax.scan(trip, jax.tree.map(lambda p: jnp.zeros((2, *p.shape)), w), (jnp.arange(MICRO_BATCHES), batches))
        return jax.tree.map(lambda p, row: p - row.sum(0) / 8, w, rows[0])

    w = {
        "a": placed(integers(WIDTH, WIDTH, seed=0), mesh=mesh),
        "b": placed(integers(WIDTH, WIDTH, seed=1), None, "model", mesh=mesh),
    }
    batches = placed(integers(MICRO_BATCHES, 2, EXAMPLES, 4, WIDTH, seed=2), None, None, "data", mesh=mesh)
    before, after, _ = compared(Case(step, (w, batches)))
    assert before.sync_in_loop > after.sync_in_loop
    assert after.total().wire < before.total().wire


def test_a_closed_dimension_is_not_opened_where_another_is_left_open() -> None:
    """The last weight is split by columns, over an axis on which nothing else is. Features are whole, positions free."""
    mesh = mesh_of(data=4, model=2)
    free = PartitionSpec("model", PartitionSpec.UNCONSTRAINED, None)

    def loss(w: Tree, batch: jax.Array) -> jax.Array:
        h = ((batch[0] @ w["up"]) * (batch[0] @ w["gate"])) @ w["down"]
        return (lax.with_sharding_constraint(h, NamedSharding(mesh, free)) * w["scale"] * batch[1]).sum()

    def step(w: Tree, batches: jax.Array) -> Tree:
        return accumulated(jax.grad(loss), w, batches)

    w = {
        "up": placed(integers(WIDTH, WIDTH, seed=0), mesh=mesh),
        "gate": placed(integers(WIDTH, WIDTH, seed=1), mesh=mesh),
        "down": placed(integers(WIDTH, WIDTH, seed=2), None, "data", mesh=mesh),
        "scale": placed(integers(WIDTH, seed=3), mesh=mesh),
    }
    batches = placed(integers(MICRO_BATCHES, 2, EXAMPLES, 4, WIDTH, seed=4), None, None, "model", mesh=mesh)
    before, after, _ = compared(Case(step, (w, batches)))
    assert before.sync_in_loop > 0 == after.sync_in_loop
    assert after.total("all-gather").bytes <= before.total("all-gather").bytes
