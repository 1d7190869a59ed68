"""Reduction dtypes: `accumulate-dtype` and `wire-dtype` in plain `jax.jit` programs, whose reductions XLA adds."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from programs.catalog import MATRIX
from programs.compare import difference_from_definition, tolerance_of
from programs.program import Sizes, data_mesh

import paropt

F32, BF16 = jnp.float32, jnp.bfloat16
ELEMENTS = 16 * 16  # of the one parameter
SIZES = {"": 4, "{accumulate-dtype=f32}": 4, "{wire-dtype=bf16}": 2, "{accumulate-dtype=f32 wire-dtype=bf16}": 2}


def passes(options: str) -> str:
    return f"inline-calls,expose-all-reduces,fuse-all-reduces,defer-sync{options},annotate-unreduced"


# Bytes per element on the wire. XLA for CPU sends four in any case, so it is the remark that is asked.
@pytest.mark.parametrize("options, size", SIZES.items())
def test_gradients_in_half_precision(options: str, size: int) -> None:
    """P4: the cotangents are in bf16, the accumulator of the program is in f32."""
    program = MATRIX["plain_mlp_p4"](Sizes(layers=1))
    lowered = paropt.jit(program.step, passes=passes(options), strict=True).lower(*program.args)
    ends = [str(r) for r in paropt.remarks(lowered) if r.pass_name == "annotate-unreduced"]
    assert len(ends) == 1 and f"{size * ELEMENTS} bytes per device are reduced here, over data" in ends[0]
    compiled = lowered.compile()
    after = paropt.audit(compiled)
    assert (after.sync_in_loop, after.sync_bytes) == (0, program.gradient_bytes)
    assert difference_from_definition(program, compiled(*program.args)) <= tolerance_of("plain_mlp_p4")


def summed(dtype: type, micro_batches: int) -> Callable[[jax.Array], jax.Array]:
    """The sum of `micro_batches` times all elements, in an accumulator of type `dtype`."""

    def step(batch: jax.Array) -> jax.Array:
        def body(i: jax.Array, total: jax.Array) -> jax.Array:
            return total + lax.dot(batch.astype(dtype), jnp.ones(8, dtype), preferred_element_type=dtype)

        return lax.fori_loop(0, micro_batches, body, dtype(0.0))

    return step


# One device has 1, the others 0. An accumulator in bf16 stays at 256, where 1 is half of its last bit.
@pytest.mark.parametrize(
    "dtype, options, result",
    [
        (BF16, "", 256),
        (BF16, "{accumulate-dtype=f32}", 300),
        (BF16, "{accumulate-dtype=f32 wire-dtype=f32}", 300),
        (F32, "", 301),
        (F32, "{accumulate-dtype=bf16}", 301),
        (F32, "{wire-dtype=bf16}", 300),
    ],
)
def test_roundings(dtype: type, options: str, result: float) -> None:
    one = jax.device_put(jnp.zeros(8).at[3].set(1.0), NamedSharding(data_mesh(), PartitionSpec("data")))
    micro_batches = 301 if dtype is F32 else 300
    ours = paropt.jit(summed(dtype, micro_batches), passes=passes(options), strict=True)
    assert paropt.audit(ours.lower(one)).sync_in_loop == 0
    assert ours(one) == result


# What is converted stays split as it was: nothing is gathered over "model".
@pytest.mark.parametrize(
    "dtype, options", [(F32, "{wire-dtype=bf16}"), (BF16, "{accumulate-dtype=f32}"), (F32, "")], ids=str
)
def test_a_split_parameter_stays_split(dtype: type, options: str) -> None:
    mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)

    def step(w: jax.Array, batches: jax.Array) -> jax.Array:
        def body(total: jax.Array, batch: jax.Array) -> tuple[jax.Array, None]:
            return total + jax.grad(lambda w: jnp.sum((batch @ w) ** 2))(w), None

        return w - lax.scan(body, jnp.zeros_like(w), batches)[0]

    w = jax.device_put(jnp.ones((8, 8), dtype), NamedSharding(mesh, PartitionSpec(None, "model")))
    batches = jax.device_put(jnp.ones((4, 16, 8), dtype), NamedSharding(mesh, PartitionSpec(None, "data")))
    found = paropt.audit(paropt.jit(step, passes=f"grad-sync{options}", strict=True).lower(w, batches))
    assert [(c.kind, c.depth, c.payload) for c in found.collectives] == [("all-reduce", 0, 4 * 8 * 4)]


# The loop over layers reduces each gradient once, in twice the bytes: only the loop around it gains.
def test_scanned_layers_accumulate_in_a_wider_type() -> None:
    def step(layers: jax.Array, batches: jax.Array) -> jax.Array:
        def loss(layers: jax.Array, batch: jax.Array) -> jax.Array:
            return jnp.sum(lax.scan(lambda x, w: (x @ w, None), batch, layers)[0])

        def body(total: jax.Array, batch: jax.Array) -> tuple[jax.Array, None]:
            return total + jax.grad(loss)(layers, batch), None

        return layers - lax.scan(body, jnp.zeros_like(layers), batches)[0]

    mesh = data_mesh()
    layers = jax.device_put(jnp.ones((3, 8, 8), BF16), NamedSharding(mesh, PartitionSpec()))
    batches = jax.device_put(jnp.ones((4, 16, 8), BF16), NamedSharding(mesh, PartitionSpec(None, "data")))
    ours = paropt.jit(step, passes="grad-sync{accumulate-dtype=f32}", strict=True)
    found = paropt.audit(ours.lower(layers, batches))
    assert (found.sync_in_loop, found.sync_bytes) == (0, 3 * 8 * 8 * 4)
    np.testing.assert_array_equal(np.asarray(ours(layers, batches)), np.asarray(jax.jit(step)(layers, batches)))


@pytest.mark.parametrize("compute", [BF16, jnp.float16])
def test_parameters_that_scanned_layers_narrow(compute: type) -> None:
    def step(layers: jax.Array, batches: jax.Array) -> jax.Array:
        def loss(layers: jax.Array, batch: jax.Array) -> jax.Array:
            outputs = lax.scan(lambda x, w: (x @ w.astype(compute), None), batch.astype(compute), layers)[0]
            return jnp.sum(outputs.astype(jnp.float32))

        def body(total: jax.Array, batch: jax.Array) -> tuple[jax.Array, None]:
            return total + jax.grad(loss)(layers, batch), None

        return layers - lax.scan(body, jnp.zeros_like(layers), batches)[0]

    mesh = data_mesh()
    layers = jax.device_put(jnp.eye(8) * jnp.ones((3, 1, 1)), NamedSharding(mesh, PartitionSpec()))
    batches = jax.device_put(jnp.ones((4, 16, 8)), NamedSharding(mesh, PartitionSpec(None, "data")))
    ours = paropt.jit(step, strict=True)
    found = paropt.audit(ours.lower(layers, batches))
    assert (found.sync_in_loop, found.sync_bytes) == (0, 3 * 8 * 8 * 4)
    np.testing.assert_array_equal(np.asarray(ours(layers, batches)), np.asarray(jax.jit(step)(layers, batches)))


def gradient_sums(weights: list[jax.Array], batches: jax.Array) -> list[jax.Array]:
    """Of parameters in f32 that the loss casts to bf16. A factor in f32 makes all later activations and cotangents f32."""
    narrow, wide = (BF16, F32) if weights[0].dtype == F32 else (jnp.float64, jnp.float64)

    def loss(weights: list[jax.Array], x: jax.Array) -> jax.Array:
        first, *others = (w.astype(narrow) for w in weights)
        x = jnp.tanh(x.astype(narrow) @ first) / wide(4)
        for w in others:
            x = jnp.tanh(x @ w)
        return jnp.sum(x * x)

    def body(sums: list[jax.Array], x: jax.Array) -> tuple[list[jax.Array], None]:
        return jax.tree.map(jnp.add, sums, jax.grad(loss)(weights, x)), None

    return lax.scan(body, jax.tree.map(jnp.zeros_like, weights), batches)[0]


def test_roundings_to_bf16_and_back_are_left_out() -> None:
    """All sums leave the loop, and differ from those in f64 by no more than the program's own."""
    rng = np.random.default_rng(0)
    weights = [(rng.normal(size=(16, 16)) / 4).astype(BF16).astype(np.float32) for _ in range(3)]
    batches = rng.normal(size=(4, 16, 16)).astype(BF16).astype(np.float32)
    with jax.enable_x64(True):
        exact = [np.asarray(s) for s in jax.jit(gradient_sums)([np.float64(w) for w in weights], np.float64(batches))]
    args = weights, jax.device_put(batches, NamedSharding(data_mesh(), PartitionSpec(None, "data")))

    def error(step: Callable[..., list[jax.Array]]) -> float:
        pairs = zip(step(*args), exact, strict=True)
        return sum(float(np.linalg.norm(found - sums) / np.linalg.norm(sums)) for found, sums in pairs)

    def compiled(options: str) -> Any:
        return paropt.jit(gradient_sums, passes=passes(options), strict=True).lower(*args).compile()

    ours = compiled("")
    assert paropt.audit(ours).sync_in_loop == 0 < paropt.audit(compiled("{convert=widening}")).sync_in_loop
    assert error(ours) <= 1.1 * error(jax.jit(gradient_sums))
