"""Partially sharded data parallel training, from an ordinary step: nothing is summed over `replica` in the loop."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from programs import models
from programs.program import Sizes, mesh_of, tree_bytes

import paropt
from paropt.audit import Audit

MICRO_BATCHES = 4
MODEL = models.split_mlp(Sizes(width=32, layers=2, micro_batches=MICRO_BATCHES, examples=16))
Step = Callable[..., Any]

# Megatron's, beside what the preset says: its names are there for rules that come before it.
TENSOR_PARALLEL = """
[axes]
shards = ["data"]
optimizer = ["data", "replica"]
""" + "".join(
    f'[[rule]]\npath = "{name}"\nrole = "{role}"\nshard = {cut}\n'
    for role, axes in (("parameter", "shards"), ("gradient", "shards"), ("optimizer", "optimizer"))
    for name, cut in (("up", f'["{axes}", "model"]'), ("down", f'["model", "{axes}"]'))
)


def step_with(optimizer: optax.GradientTransformation) -> Step:
    """Nothing in it knows of a mesh."""

    def step(state: Any, *batches: jax.Array) -> Any:
        params = state["params"]

        def body(total: Any, batch: Any) -> Any:
            loss, gradients = jax.value_and_grad(MODEL.loss)(params, *batch)
            return jax.tree.map(jnp.add, total, gradients), loss

        total, losses = jax.lax.scan(body, jax.tree.map(jnp.zeros_like, params), batches)
        updates, inner = optimizer.update(total, state["optimizer"], params)
        return {"params": optax.apply_updates(params, updates), "optimizer": inner}, losses.mean()

    return step


def arguments(mesh: Mesh, optimizer: optax.GradientTransformation) -> tuple[Any, ...]:
    """The state is nowhere yet; the batch brings the mesh."""
    params = jax.tree.map(np.asarray, MODEL.parameters)
    state = {"params": params, "optimizer": jax.tree.map(np.asarray, optimizer.init(params))}
    return state, *jax.device_put(MODEL.batches, NamedSharding(mesh, PartitionSpec(None, ("replica", "data"))))


def moved(audit: Audit) -> dict[tuple[str, int, tuple[str, ...]], int]:
    """Bytes per device and step of arrays, by kind, loops around and axes."""
    found: dict[tuple[str, int, tuple[str, ...]], int] = {}
    for c in audit.collectives:
        if max(array.elements for array in c.arrays) > MICRO_BATCHES:
            key = (c.kind, c.depth, c.axes)
            found[key] = found.get(key, 0) + c.payload * (c.executions or 0)
    return found


def assert_close(step: Step, jitted: Step, args: tuple[Any, ...]) -> Any:
    want = jax.jit(step)(*jax.device_get(args))
    got = jitted(*args)
    for g, w in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(np.asarray(g), np.asarray(w), rtol=1e-4, atol=1e-4)
    return got


def test_three_axes(tmp_path: Path) -> None:
    rules = tmp_path / "tp.toml"
    rules.write_text(TENSOR_PARALLEL)
    optimizer = optax.sgd(0.1, momentum=0.9)
    step = step_with(optimizer)
    args = arguments(mesh_of(replica=2, data=2, model=2), optimizer)
    alone = paropt.jit(step, passes=f"inline-calls,annotate-shardings{{rules={rules} preset=hsdp}}", strict=True)
    ours = paropt.jit(step, passes=f"hsdp{{rules={rules} scatters=written}}", strict=True)
    before, after = (moved(paropt.audit(jitted.lower(*args))) for jitted in (alone, ours))

    gradients = tree_bytes(MODEL.parameters)
    shard = gradients // 4  # over data and model
    assert before == {
        ("all-reduce", 1, ("data",)): MICRO_BATCHES * gradients // 2,
        ("all-reduce", 1, ("replica",)): MICRO_BATCHES * shard,
        ("all-reduce", 1, ("model",)): before["all-reduce", 1, ("model",)],
        ("all-gather", 0, ("data",)): before["all-gather", 0, ("data",)],
        ("all-gather", 0, ("replica",)): shard,
    }
    assert after == {
        ("reduce-scatter", 1, ("data",)): MICRO_BATCHES * gradients // 2,
        ("reduce-scatter", 0, ("replica",)): shard,
        ("all-reduce", 1, ("model",)): before["all-reduce", 1, ("model",)],
        ("all-gather", 0, ("data",)): before["all-gather", 0, ("data",)],
        ("all-gather", 0, ("replica",)): shard,
    }
    new, _ = assert_close(step, ours, args)
    momentum = new["optimizer"][0].trace[0]
    assert momentum["up"].sharding.spec == PartitionSpec(("data", "replica"), "model")
    assert (
        momentum["up"].addressable_shards[0].data.nbytes
        == new["params"][0]["up"].addressable_shards[0].data.nbytes // 2
    )


OPTIMIZERS = {
    "momentum": optax.sgd(0.1, momentum=0.9),
    "adamw": optax.adamw(optax.cosine_decay_schedule(1e-2, 100)),
    "clipped adamw": optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-2)),
    "averaged": optax.chain(optax.adam(1e-2), optax.ema(0.9)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_preset_alone(name: str) -> None:
    optimizer = OPTIMIZERS[name]
    step = step_with(optimizer)
    args = arguments(mesh_of(replica=2, data=4), optimizer)
    ours = paropt.jit(step, passes="hsdp", strict=True)
    lowered = ours.lower(*args)
    found = moved(paropt.audit(lowered))
    assert not [key for key in found if key[1] and "replica" in key[2]]
    over_replica = sum(size for key, size in found.items() if key[0] != "all-gather" and "replica" in key[2])
    assert over_replica == tree_bytes(MODEL.parameters) // 4

    whole = jax.jit(step).lower(*jax.device_get(args)).compile().memory_analysis().argument_size_in_bytes
    params, state = tree_bytes(MODEL.parameters), tree_bytes(args[0]["optimizer"])
    batches = whole - params - state
    counters = sum(leaf.nbytes for leaf in jax.tree.leaves(args[0]["optimizer"]) if not leaf.ndim)
    planned = lowered.compile().memory_analysis().argument_size_in_bytes
    assert planned == params // 4 + (state - counters) // 8 + counters + batches // 8
    new, _ = assert_close(step, ours, args)
    again = ours(new, *args[1:])  # the state is where the first step put it
    assert jax.tree.map(lambda leaf: leaf.sharding, again[0]) == jax.tree.map(lambda leaf: leaf.sharding, new)
