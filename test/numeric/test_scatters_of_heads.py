"""Sums of weights with a dimension of few heads: each device gets its part by a reduce_scatter, on TPUs, too.

Of fewer than `ROWS` (spmd/close_sum.py) XLA:TPU would make all_reduces.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from unit.clusters import available

import paropt
from paropt.clusters.targets import get
from paropt.hlo.census import census

ONCE = "grad-sync{policy=once}"
MICRO_BATCHES, EXAMPLES, FEATURES = 4, 64, 256


def step_on(mesh: Mesh, where: int) -> Callable[[jax.Array, jax.Array], jax.Array]:
    """A step of weights of features, heads and head sizes, sharded along dimension `where`."""
    spec = P(*[None] * where, "data")
    names = ("dnh", "ndh")[where]

    def loss(p: jax.Array, x: jax.Array) -> jax.Array:
        y = jnp.einsum(f"bd,{names}->bnh", x, p)
        return jnp.sum(jax.lax.with_sharding_constraint(y, NamedSharding(mesh, P("data"))) ** 2) / 2

    def step(p: jax.Array, xs: jax.Array) -> jax.Array:
        zeros = jax.lax.with_sharding_constraint(jnp.zeros_like(p), NamedSharding(mesh, spec))
        return p - jax.lax.scan(lambda s, x: (s + jax.grad(loss)(p, x), None), zeros, xs)[0]

    return step


def arguments(mesh: Mesh, where: int, heads: int) -> tuple[jax.ShapeDtypeStruct, jax.ShapeDtypeStruct]:
    shape = [FEATURES, heads, 32]
    shape[0], shape[where] = shape[where], shape[0]
    lies = NamedSharding(mesh, P(*[None] * where, "data"))
    examples = NamedSharding(mesh, P(None, "data"))
    xs = jax.ShapeDtypeStruct((MICRO_BATCHES, EXAMPLES, FEATURES), jnp.float32, sharding=examples)
    return jax.ShapeDtypeStruct(tuple(shape), jnp.float32, sharding=lies), xs


def mesh_of(devices: Any, axes: dict[str, int]) -> Mesh:
    return Mesh(np.asarray(devices).reshape(tuple(axes.values())), tuple(axes))


@pytest.mark.parametrize("scatter_devices", [0, 4])
@pytest.mark.parametrize("heads", [1, 4, 16])
@pytest.mark.parametrize("where", [0, 1])
def test_values_are_the_same_bit_for_bit(where: int, heads: int, scatter_devices: int) -> None:
    mesh = mesh_of(jax.devices(), {"data": 8})
    rng = np.random.default_rng(0)
    shapes = arguments(mesh, where, heads)
    args = [jax.device_put(rng.integers(-1, 2, s.shape).astype(s.dtype), s.sharding) for s in shapes]
    step, lies = step_on(mesh, where), shapes[0].sharding
    passes = f"grad-sync{{policy=once scatters=written scatter-devices={scatter_devices}}}"
    ours = paropt.jit(step, passes=passes, strict=True, out_shardings=lies).lower(*shapes).compile()
    np.testing.assert_array_equal(jax.jit(step)(*args), ours(*args))
    assert "reduce-scatter" in {each.kind for each in census(ours.as_text())}


@pytest.mark.parametrize("axes", [{"data": 8}, {"data": 4, "model": 2}])
@pytest.mark.parametrize("heads", [1, 4])
def test_xla_tpu_makes_no_all_reduce_of_them(heads: int, axes: dict[str, int]) -> None:
    available("tpu:v5e:2x4")
    mesh = mesh_of(get("tpu:v5e:2x4").devices, axes)
    shapes = arguments(mesh, 0, heads)
    compiled = paropt.jit(step_on(mesh, 0), passes=ONCE, strict=True, out_shardings=shapes[0].sharding)
    found = census(compiled.lower(*shapes).compile().as_text())
    assert [each.kind for each in found if each.kind in ("all-reduce", "reduce-scatter")] == ["reduce-scatter"]
