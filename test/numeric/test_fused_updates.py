"""Updates fused into the backward scan over layers: the gradient of one layer at a time is held, as the program says."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from numeric.user_steps import integers
from unit.clusters import available

import paropt
from paropt.clusters import targets
from paropt.hlo.census import SYNC_KINDS

WIDTH, LAYERS, EXAMPLES = 128, 8, 32
TARGETS = ("cpu:8", "tpu:v5e:2x4", "gpu:h100:1x1x8")


def step(parameters: Any, examples: Any) -> Any:
    """One step of SGD, written by hand: each layer's weights are new before the gradient of the next is made."""

    def layer(weights: Any, x: Any) -> Any:
        return x + jnp.maximum(x @ weights["a"], 0) @ weights["b"]

    def forward(x: Any, weights: Any) -> tuple[Any, Any]:
        return layer(weights, x), x

    def backward(cotangent: Any, saved: Any) -> tuple[Any, Any]:
        weights, x = saved
        gradients, cotangent = jax.vjp(layer, weights, x)[1](cotangent)
        return cotangent, jax.tree.map(jnp.subtract, weights, gradients)

    last, inputs = lax.scan(forward, examples, parameters)
    return lax.scan(backward, last, (parameters, inputs), reverse=True)[1]


def shapes(mesh: Mesh, width: int) -> tuple[Any, Any]:
    def of(spec: PartitionSpec, *shape: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, spec))

    parameters = {
        "a": of(PartitionSpec(), LAYERS, width, 2 * width),
        "b": of(PartitionSpec(), LAYERS, 2 * width, width),
    }
    return parameters, of(PartitionSpec("data"), EXAMPLES, width)


def mesh_of(target: str) -> Mesh:
    return Mesh(np.asarray(targets.get(target).devices), ("data",), axis_types=(AxisType.Auto,))


@pytest.mark.parametrize("target", TARGETS)
def test_no_more_is_held_and_nothing_more_is_sent(target: str) -> None:
    available(target)
    given = shapes(mesh_of(target), WIDTH)
    (found,) = paropt.audit(step, *given, passes="grad-sync", targets=[target]).comparisons
    assert found.before.peak_memory is not None and found.after.peak_memory is not None
    assert found.after.peak_memory <= 1.02 * found.before.peak_memory
    assert found.after.total().wire <= found.before.total().wire
    in_loop = [c for c in found.after.collectives if c.kind in SYNC_KINDS and c.loops]
    assert in_loop


def test_values() -> None:
    mesh = mesh_of("cpu:8")
    args = jax.tree.map(lambda s: jax.device_put(integers(*s.shape, seed=0) % 2, s.sharding), shapes(mesh, 2))
    want, got = jax.jit(step)(*args), paropt.jit(step, strict=True)(*args)
    jax.tree.map(np.testing.assert_array_equal, got, want)


def test_a_remark_says_what_it_would_cost() -> None:
    lowered = paropt.jit(step, strict=True).lower(*shapes(mesh_of("cpu:8"), WIDTH))
    missed = [remark.text for remark in paropt.remarks(lowered) if "bytes more would be held" in remark.text]
    assert missed
