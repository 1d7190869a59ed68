"""Gradients of scanned layers, added to rows of their sums: the same bits, and half the memory."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec
from programs.program import Tree, mesh_of
from unit.clusters import available

import paropt

PASS = "accumulate-in-place"
ALONE = f"inline-calls,{PASS}"
COUNT, LAYERS, WIDTH, EXAMPLES = 3, 4, 8, 16
MESH = mesh_of(None, data=8)


def integers(seed: int, *shape: int) -> jax.Array:
    """Small, so that sums are exact in whatever order."""
    return jnp.array(np.random.default_rng(seed).integers(-1, 2, shape), jnp.float32)


WEIGHTS = {"a": integers(0, LAYERS, WIDTH, 2 * WIDTH), "b": integers(1, LAYERS, 2 * WIDTH, WIDTH)}
BATCHES = integers(2, COUNT, EXAMPLES, WIDTH)


def layer(x: jax.Array, w: Tree) -> tuple[jax.Array, None]:
    return jnp.clip(x + jnp.maximum(x @ w["a"], 0) @ w["b"], -2, 2), None


def loss(p: Tree, x: jax.Array, *, body: Callable[..., Any] = layer, **options: Any) -> jax.Array:
    return jnp.sum(lax.scan(body, x, p, **options)[0])


def in_pairs(p: Tree, x: jax.Array) -> jax.Array:
    """Two loops over layers, one in the other."""
    pairs = jax.tree.map(lambda w: w.reshape(LAYERS // 2, 2, *w.shape[1:]), p)
    return jnp.sum(lax.scan(lambda x, pair: lax.scan(layer, x, pair), x, pairs)[0])


def halves(p: Tree, x: jax.Array) -> jax.Array:
    """In bf16, as mixed precision has it: the parameters are converted before the layers, and gradients behind them."""
    return loss(jax.tree.map(lambda w: w.astype(jnp.bfloat16), p), x.astype(jnp.bfloat16)).astype(jnp.float32)


def plain(sums: Tree, gradients: Tree) -> Tree:
    return jax.tree.map(jnp.add, sums, gradients)


def step(p: Tree, xs: jax.Array, of: Callable[..., jax.Array] = loss, add: Callable[..., Tree] = plain) -> Tree:
    def micro_batch(sums: Tree, x: jax.Array) -> tuple[Tree, None]:
        return add(sums, jax.grad(of)(p, x)), None

    return lax.scan(micro_batch, jax.tree.map(jnp.zeros_like, p), xs)[0]


FORMS: dict[str, Callable[..., Tree]] = {
    "layers": step,
    "computed_again": partial(step, of=partial(loss, body=jax.checkpoint(layer))),
    "last_layer_first": partial(step, of=partial(loss, reverse=True)),
    "unrolled": partial(step, of=partial(loss, unroll=2)),
    "loops_in_loops": partial(step, of=in_pairs),
    "bf16": partial(step, of=halves),
    "scaled": partial(step, add=lambda s, g: jax.tree.map(lambda s, g: s + g / 4, s, g)),
    "subtracted": partial(step, add=lambda s, g: jax.tree.map(lambda s, g: s - 2 * g, s, g)),
}


def applied(lowered: Any) -> bool:
    return any(remark.applied for remark in paropt.remarks(lowered) if remark.pass_name == PASS)


def assert_same_bits(found: Tree, wanted: Tree) -> None:
    jax.tree.map(np.testing.assert_array_equal, found, wanted)


@pytest.mark.parametrize("name", FORMS)
def test_on_one_device(name: str) -> None:
    form = FORMS[name]
    ours = paropt.jit(form, passes=ALONE, strict=True)
    assert applied(ours.lower(WEIGHTS, BATCHES))
    assert_same_bits(ours(WEIGHTS, BATCHES), jax.jit(form)(WEIGHTS, BATCHES))


@pytest.mark.parametrize("name", FORMS)
def test_data_parallel(name: str) -> None:
    form = FORMS[name]
    xs = jax.device_put(BATCHES, NamedSharding(MESH, PartitionSpec(None, "data")))
    p = jax.device_put(WEIGHTS, NamedSharding(MESH, PartitionSpec()))
    ours = paropt.jit(form, strict=True)
    assert applied(ours.lower(p, xs))
    if name == "bf16":  # that the sums of all devices were rounded to in each micro-batch
        jax.tree.map(partial(np.testing.assert_allclose, rtol=0.02, atol=0.1), ours(p, xs), jax.jit(form)(p, xs))
        return
    assert_same_bits(ours(p, xs), jax.jit(form)(p, xs))


@pytest.mark.parametrize("name", FORMS)
def test_under_shard_map(name: str) -> None:
    form = FORMS[name]

    def local(p: Tree, xs: jax.Array) -> Tree:
        p = jax.tree.map(lambda w: lax.pcast(w, "data", to="varying"), p)
        return jax.tree.map(lambda g: lax.psum(g, "data"), form(p, xs))

    mapped = jax.shard_map(
        local, mesh=MESH, in_specs=(PartitionSpec(), PartitionSpec(None, "data")), out_specs=PartitionSpec()
    )
    ours = paropt.jit(mapped, strict=True)
    assert applied(ours.lower(WEIGHTS, BATCHES))
    assert_same_bits(ours(WEIGHTS, BATCHES), jax.jit(mapped)(WEIGHTS, BATCHES))


DEEP, WIDE = 16, 512  # 67 MB: more than a TPU keeps beside its HBM
CPU, TPU, GPU = "cpu:8", "tpu:v5e:2x4", "gpu:h100:1x1x8"
SHARDED = PartitionSpec(None, None, "data")
# Temporary bytes, in those of the parameters. Without the pass: 2.07, 2.01, 2.07; 3.07, 1.03, 3.07.
MOST = {
    ("grad-sync", PartitionSpec()): {CPU: 2.05, TPU: 1.05, GPU: 1.6},
    ("grad-sync{policy=once}", SHARDED): {CPU: 2.55, TPU: 0.05, GPU: 2.6},
}


@pytest.mark.parametrize("target", [CPU, TPU, GPU])
@pytest.mark.parametrize(("passes", "spec"), MOST)
def test_memory(passes: str, spec: PartitionSpec, target: str) -> None:
    available(target)
    mesh = mesh_of(paropt.targets.get(target).devices or None, data=8)
    kept = NamedSharding(mesh, spec)

    def shape(*sizes: int, sharding: NamedSharding = kept) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(sizes, jnp.float32, sharding=sharding)

    p = {"a": shape(DEEP, WIDE, 2 * WIDE), "b": shape(DEEP, 2 * WIDE, WIDE)}
    xs = shape(4, 64, WIDE, sharding=NamedSharding(mesh, PartitionSpec(None, "data")))
    ours = paropt.jit(FORMS["computed_again"], passes=passes, strict=True, out_shardings=kept)
    lowered = ours.lower(p, xs)
    assert applied(lowered)
    taken = lowered.compile().memory_analysis().temp_size_in_bytes
    assert taken <= MOST[passes, spec][target] * 4 * DEEP * 4 * WIDE * WIDE


def rows_in_place(p: Tree, xs: jax.Array) -> Tree:
    """As a program has it that writes the backward pass itself: each row of the sums is read, added to and written."""

    def row(tree: Tree, i: jax.Array) -> Tree:
        return jax.tree.map(lambda leaf: lax.dynamic_index_in_dim(leaf, i, keepdims=False), tree)

    def micro_batch(sums: Tree, x: jax.Array) -> tuple[Tree, None]:
        out, inputs = lax.scan(lambda x, w: (layer(x, w)[0], x), x, p)

        def back(carry: Any, i: jax.Array) -> tuple[Any, None]:
            cotangent, sums = carry
            g, cotangent = jax.vjp(lambda w, x: layer(x, w)[0], row(p, i), row(inputs, i))[1](cotangent)
            added = jax.tree.map(lambda s, g: lax.dynamic_update_index_in_dim(s, row(s, i) + g, i, 0), sums, g)
            return (cotangent, added), None

        last_first = jnp.arange(len(p["a"]) - 1, -1, -1)
        return lax.scan(back, (jnp.ones_like(out), sums), last_first)[0][1], None

    return lax.scan(micro_batch, jax.tree.map(jnp.zeros_like, p), xs)[0]


def test_sums_that_are_written_in_place_stay_so() -> None:
    """A reduction that leaves the loop over layers has it begin at zeros, until the sum around is found to go on."""
    xs = jax.device_put(BATCHES, NamedSharding(MESH, PartitionSpec(None, "data")))
    p = jax.device_put(WEIGHTS, NamedSharding(MESH, PartitionSpec()))
    ours = paropt.jit(rows_in_place, strict=True)
    assert applied(ours.lower(p, xs))
    assert_same_bits(ours(p, xs), jax.jit(rows_in_place)(p, xs))
    whole = "tensor<{}x{}x{}xf32>".format(*WEIGHTS["a"].shape)
    adds = [line for line in ours.lower(p, xs).as_text().splitlines() if "stablehlo.add" in line]
    assert adds and not any(whole in line for line in adds)
