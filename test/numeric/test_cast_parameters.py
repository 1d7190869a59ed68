"""Mixed precision, and layers in a scan: parameters are gathered once per step, in bf16, wherever they are converted."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numeric.user_steps import MICRO_BATCHES, integers
from programs.parameter_forms import accumulated
from unit.clusters import available

import paropt
from paropt.audit import audit
from paropt.clusters.targets import get

LAYERS = 3
WIDTH = 128  # so that XLA:TPU scatters gradients: of smaller ones it makes all-reduces
PARAMETERS = 4 * (2 * LAYERS * 2 * WIDTH**2 + WIDTH**2)  # bytes: two matrices per layer, and the head
KINDS = ("all-gather", "reduce-scatter", "all-reduce", "all-to-all", "collective-permute")
TARGETS = ["cpu:8", "tpu:v5e:2x4", "gpu:h100:1x1x8"]
STACKED, WHOLE, EXAMPLES = PartitionSpec(None, "data"), PartitionSpec("data"), PartitionSpec(None, "data")

Tree = Any
Layer = Callable[[jax.Array, Tree], jax.Array]


def in_bf16(tree: Tree) -> Tree:
    return jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), tree)


def scanned(layer: Layer, x: jax.Array, layers: Tree) -> jax.Array:
    return lax.scan(lambda x, each: (layer(x, each), None), x, layers)[0]


def before_the_scan(block: Layer, head: Layer, x: jax.Array, parameters: Tree) -> jax.Array:
    layers, last = in_bf16(parameters)
    return head(scanned(block, x, layers), last)


def before_the_scan_checkpointed(block: Layer, head: Layer, x: jax.Array, parameters: Tree) -> jax.Array:
    return before_the_scan(jax.checkpoint(block), head, x, parameters)


def in_the_layer_checkpointed(block: Layer, head: Layer, x: jax.Array, parameters: Tree) -> jax.Array:
    layers, last = parameters
    return head(scanned(jax.checkpoint(lambda x, each: block(x, in_bf16(each))), x, layers), in_bf16(last))


def in_the_layer(block: Layer, head: Layer, x: jax.Array, parameters: Tree) -> jax.Array:
    """The forward loop stacks what it converts for the backward pass."""
    layers, last = parameters
    return head(scanned(lambda x, each: block(x, in_bf16(each)), x, layers), in_bf16(last))


def decayed(block: Layer, head: Layer, x: jax.Array, parameters: Tree) -> jax.Array:
    """What is computed of each element alone needs no other shards; XLA would gather in each layer again for it."""
    penalty = sum((leaf**2).sum() for leaf in jax.tree.leaves(parameters))
    return before_the_scan(block, head, x, parameters) + penalty


MODELS = [before_the_scan, before_the_scan_checkpointed, in_the_layer_checkpointed, in_the_layer, decayed]


def plain(model: Callable[..., jax.Array], mesh: Mesh) -> Callable[[Tree, jax.Array], Tree]:
    """A step for all devices: activations are constrained."""
    examples = NamedSharding(mesh, PartitionSpec("data"))

    def split(x: jax.Array) -> jax.Array:
        return lax.with_sharding_constraint(x, examples)

    def block(x: jax.Array, each: Tree) -> jax.Array:
        hidden = split(x.astype(each["a"].dtype) @ each["a"])
        return split((x + (hidden % 3) @ each["b"]) % 3)

    def head(x: jax.Array, last: jax.Array) -> jax.Array:
        return split(x.astype(last.dtype) @ last)

    return accumulated(lambda parameters, x: (model(block, head, x, parameters).astype(jnp.float32) ** 2).sum() / 2)


def per_device(model: Callable[..., jax.Array], mesh: Mesh) -> Callable[[Tree, jax.Array], Tree]:
    """A step under shard_map, which gathers each weight where it is used."""

    def gathered(w: jax.Array) -> jax.Array:
        return lax.all_gather(w, "data", axis=0, tiled=True)

    def block(x: jax.Array, each: Tree) -> jax.Array:
        hidden = x.astype(each["a"].dtype) @ gathered(each["a"])
        return (x + (hidden % 3) @ gathered(each["b"])) % 3

    def head(x: jax.Array, last: jax.Array) -> jax.Array:
        return x.astype(last.dtype) @ gathered(last)

    step = accumulated(lambda parameters, x: (model(block, head, x, parameters).astype(jnp.float32) ** 2).sum() / 2)
    specs = ({"a": STACKED, "b": STACKED}, WHOLE)
    return jax.shard_map(step, mesh=mesh, in_specs=(specs, EXAMPLES), out_specs=specs)


def shapes(mesh: Mesh, width: int = WIDTH) -> tuple[Tree, jax.ShapeDtypeStruct]:
    def of(spec: PartitionSpec, *shape: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, spec))

    layers = {"a": of(STACKED, LAYERS, width, 2 * width), "b": of(STACKED, LAYERS, 2 * width, width)}
    return (layers, of(WHOLE, width, width)), of(EXAMPLES, MICRO_BATCHES, 64, width)


def mesh_of(target: str) -> Mesh:
    return Mesh(np.asarray(get(target).devices or jax.devices()), ("data",))


def numbers(mesh: Mesh) -> tuple[Tree, jax.Array]:
    return jax.tree.map(lambda each: jax.device_put(integers(*each.shape, seed=0) % 2, each.sharding), shapes(mesh, 8))


@pytest.mark.parametrize("policy", ["gather", "once", "auto"])
@pytest.mark.parametrize("form", [plain, per_device])
@pytest.mark.parametrize("model", MODELS)
def test_values(model, form, policy) -> None:
    """`gather` changes no bit. With `once`, gradients of bf16 are summed in f32: so they are rounded less."""
    mesh = mesh_of("cpu:8")
    step, args = form(model, mesh), numbers(mesh)
    budget = " memory-budget=1000000" if policy == "auto" else ""
    ours = paropt.jit(step, passes=f"grad-sync{{policy={policy}{budget}}}", strict=True)
    assert any(r.pass_name == "hoist-gathers" and r.applied for r in paropt.remarks(ours.lower(*args)))
    want, found = jax.jit(step)(*args), ours(*args)
    kept = paropt.jit(step, passes="grad-sync{policy=keep-shards}", strict=True)(*args)
    for a, b, c in zip(*map(jax.tree.leaves, (want, found, kept)), strict=True):
        if policy == "gather":
            np.testing.assert_array_equal(c, b)
        scale = np.abs(a).max()
        np.testing.assert_allclose(np.asarray(a) / scale, np.asarray(b) / scale, atol=1e-2)


@pytest.mark.targets_in_turns
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "model, form", [*((model, plain) for model in MODELS), (before_the_scan_checkpointed, per_device)]
)
def test_each_is_gathered_once_and_reduced_once(model, form, target) -> None:
    """7/8 of its bytes each: of bf16, where the compiler gathers that."""
    available(target)
    mesh = mesh_of(target)
    report = audit(form(model, mesh), *shapes(mesh), passes="grad-sync{policy=once}", targets=[target])[target]
    found = {kind: report.after.total(kind) for kind in KINDS}
    assert {kind: total.in_loops for kind, total in found.items()} == dict.fromkeys(KINDS, 0)
    narrow = 1 if target == "cpu:8" else 2  # XLA:CPU gathers f32 in place of bf16
    assert found["all-gather"].wire == PARAMETERS / narrow * 7 / 8
    assert sum(total.wire for total in found.values()) == PARAMETERS * 7 / 8 * (1 + 1 / narrow)
