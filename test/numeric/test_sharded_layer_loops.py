"""Sharded layer loops: where XLA gathers the parameters of layers in a loop, the loop keeps the sharding XLA infers."""

import jax
import jax.numpy as jnp
from jax import lax
from numeric.user_steps import EXAMPLES, MICRO_BATCHES, SCATTERS_WRITTEN, WIDTH, Case, compared, integers, placed
from programs.program import Tree, mesh_of


def test_layers_of_which_xla_gathers_the_parameters_are_split_as_it_does() -> None:
    """What follows the loops over layers splits activations in them. Were it not to, more parts of these would move.

    All-gathers may grow: a gradient that was reduced, and gathered where it is read, is scattered and gathered.
    """
    mesh = mesh_of(replica=2, data=2, model=2)

    def loss(w: Tree, x: jax.Array) -> jax.Array:
        h, rows = x @ w["up"] @ w["down"], {"w": w["w"], "b": w["b"]}
        return ((h + lax.scan(lambda h, w: (h @ w["w"] + w["b"], None), h, rows)[0]) ** 2).sum()

    def step(w: Tree, momentum: Tree, batches: jax.Array) -> tuple[Tree, Tree]:
        for x in batches:
            momentum = jax.tree.map(jnp.add, momentum, jax.grad(loss)(w, x))
        return jax.tree.map(jnp.subtract, w, momentum), momentum

    shapes = {"up": (WIDTH, 2 * WIDTH), "down": (2 * WIDTH, WIDTH), "w": (2, WIDTH, WIDTH), "b": (2, WIDTH)}
    split = {"down": ("data", "model"), "w": (None, "data", "model"), "b": (None, "data")}
    split_state = {"up": ("model", "data"), "down": ("data", "model"), "b": ("data", ("model", "replica"))}
    w, momentum = (
        {
            name: placed(integers(*shape, seed=f"{kind} {name}"), *specs.get(name, ()), mesh=mesh)
            for name, shape in shapes.items()
        }
        for kind, specs in (("weights", split), ("momentum", split_state))
    )
    batches = placed(integers(MICRO_BATCHES, EXAMPLES, WIDTH, seed=1), None, "data", mesh=mesh)
    exchanges = ("all-to-all", "collective-permute")
    case = Case(step, (w, momentum, batches), tolerance=1e-5, not_to_grow=exchanges, passes=SCATTERS_WRITTEN)
    before, after, _ = compared(case)
    assert after.total().wire < before.total().wire
