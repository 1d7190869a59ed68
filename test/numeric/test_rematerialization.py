"""Rematerialization: what a rematerialized layer reads comes through a barrier, and keeps the sharding XLA infers."""

from typing import Any

import jax
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec
from numeric.user_steps import EXAMPLES, MICRO_BATCHES, WIDTH, Case, accumulated, compared, integers, placed
from programs.program import Tree, mesh_of


def test_shards_of_a_bias_do_not_split_activations() -> None:
    """The bias is split over both axes: without that of the examples, the other one would get at the features."""
    mesh = mesh_of(data=4, model=2)
    shards = NamedSharding(mesh, PartitionSpec(("data", "model")))

    def loss(w: Tree, batch: jax.Array) -> jax.Array:
        layer = jax.checkpoint(lambda w, x: x @ w["w"] + w["b"])
        return (layer(w, batch[0] * w["scale"]) * batch[1]).sum()

    def step(w: Tree, batches: Any) -> Tree:
        found = accumulated(jax.grad(loss), w, batches)
        return found | {"b": lax.with_sharding_constraint(found["b"], shards)}

    w = {"w": placed(integers(WIDTH, WIDTH, seed=0), mesh=mesh)}
    w |= {name: placed(integers(WIDTH, seed=name), mesh=mesh) for name in ("b", "scale")}
    batches = placed(integers(MICRO_BATCHES, 2, EXAMPLES, 4, WIDTH, seed=2), None, None, "data", mesh=mesh)
    before, after, _ = compared(Case(step, (w, batches), passes="grad-sync{inferred=whole}"))
    assert before.sync_in_loop > 0 == after.sync_in_loop
    assert after.total().wire <= before.total().wire / 3
