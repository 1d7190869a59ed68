"""`equinox.filter_jit` wraps what `jax.jit` makes and lowers: paropt looks inside, or says what to give instead."""

import re
from typing import Any

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec
from programs.program import data_mesh

import paropt

MICRO_BATCHES, WIDTH = 4, 16


def step(model: Any, xs: jax.Array) -> Any:
    params, rest = equinox.partition(model, equinox.is_inexact_array)

    def loss(params: Any, x: jax.Array) -> jax.Array:
        return jnp.mean(jax.vmap(equinox.combine(params, rest))(x) ** 2)

    def trip(total: Any, x: jax.Array) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, total, jax.grad(loss)(params, x)), None

    total, _ = jax.lax.scan(trip, jax.tree.map(jnp.zeros_like, params), xs)
    return equinox.apply_updates(model, jax.tree.map(lambda leaf: -0.1 * leaf, total))


def arguments() -> tuple[Any, jax.Array]:
    mesh = data_mesh()
    model = equinox.nn.MLP(WIDTH, 4, 32, 2, key=jax.random.key(0))
    xs = np.random.default_rng(0).normal(size=(MICRO_BATCHES, 32, WIDTH)).astype(np.float32)
    model = equinox.filter_shard(model, NamedSharding(mesh, PartitionSpec()))
    return model, jax.device_put(xs, NamedSharding(mesh, PartitionSpec(None, "data")))


def test_what_it_lowers_is_understood() -> None:
    args = arguments()
    jitted: Any = equinox.filter_jit(step)
    with paropt.enabled(strict=True):
        lowered = jitted.lower(*args)
        assert "defer-sync" in {remark.pass_name for remark in paropt.remarks(lowered) if remark.applied}
        assert paropt.audit(lowered).sync_in_loop == 0
    assert paropt.audit(jitted.lower(*args)).sync_in_loop > 0
    assert paropt.optimize(jitted.lower(*args)).remarks
    assert paropt.check(jitted.lower(*args)).is_same


def test_it_is_compiled_with_passes() -> None:
    args = arguments()
    found = paropt.audit(equinox.filter_jit(step), *args, passes="grad-sync")
    assert found.before.sync_in_loop > 0
    assert found.after.sync_in_loop == 0


def test_what_is_compiled_already_is_refused_in_one_line() -> None:
    words = "jit: the function is compiled by equinox already; call it inside `with paropt.enabled():`"
    with pytest.raises(TypeError, match=re.escape(words)):
        paropt.jit(equinox.filter_jit(step))
