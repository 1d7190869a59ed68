"""Blocks as large models have them, with shardings over two axes: Llama's, a mixture of experts, and adapters (LoRA).

Layers are stacked, scanned and computed again in the backward pass; parameters are cast to the type of computation in
the block, and activations are constrained to the axes of the batch. Parameters are sharded over `data` and gathered at
use, beside a tensor axis (P19), an expert axis (P20), or frozen (P21).
"""

import dataclasses

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec
from programs import models, plain, steps
from programs.draws import values
from programs.models import Model, Step, cast, same
from programs.patterns import ADDED, Result
from programs.program import DEFAULT, Devices, Program, Sizes, Tree, constrained, mesh_of, replicated
from programs.steps import Layout
from programs.transformer import rms_norm, rotated

RANK = 2  # of an adapter

# Of stacked layers: rows of a norm and of projections over `data`; heads and hidden units over `model`.
LLAMA = {
    "attention_norm": PartitionSpec(None, "data"),
    "query": PartitionSpec(None, "data", "model"),
    "key": PartitionSpec(None, "data", "model"),
    "value": PartitionSpec(None, "data", "model"),
    "out": PartitionSpec(None, "model", None, "data"),
    "mlp_norm": PartitionSpec(None, "data"),
    "gate": PartitionSpec(None, "data", "model"),
    "up": PartitionSpec(None, "data", "model"),
    "down": PartitionSpec(None, "model", "data"),
}


def llama(sizes: Sizes, *, on_batch: Step = same) -> Model:
    """RMSNorm, rotary embedding, grouped-query attention (two queries per key), SwiGLU."""
    width, keys, queries = sizes.width, sizes.heads, 2 * sizes.heads
    features = max(width // queries, 2)
    shapes = {
        "query": (width, queries, features),
        "key": (width, keys, features),
        "value": (width, keys, features),
        "out": (queries, features, width),
        "gate": (width, 2 * width),
        "up": (width, 2 * width),
        "down": (2 * width, width),
    }
    stacked = {name: values(i, (sizes.layers, *shape)) for i, (name, shape) in enumerate(shapes.items())}
    stacked |= {name: jnp.ones((sizes.layers, width)) for name in ("attention_norm", "mlp_norm")}

    def block(x: jax.Array, layer: Tree) -> tuple[jax.Array, None]:
        layer = cast(layer, sizes.dtype)
        x = on_batch(x + _attention(layer, rms_norm(x, layer["attention_norm"])))
        normed = rms_norm(x, layer["mlp_norm"])
        hidden = jax.nn.silu(normed @ layer["gate"]) * (normed @ layer["up"])
        return on_batch(x + hidden @ layer["down"]), None

    def loss(layers: Tree, x: jax.Array, y: jax.Array) -> jax.Array:
        x, _ = lax.scan(jax.checkpoint(block), on_batch(cast(x, sizes.dtype)), layers)
        return models.squared_error(x, y)

    return Model(stacked, _sequences(sizes), loss, models.tolerance(sizes), LLAMA)


def _attention(layer: Tree, x: jax.Array) -> jax.Array:
    query, key, value = (jnp.einsum("bld,dhf->blhf", x, layer[name]) for name in ("query", "key", "value"))
    grouped = rotated(query).reshape(*query.shape[:2], key.shape[2], -1, query.shape[3])
    scores = jnp.einsum("bqhgf,bkhf->bhgqk", grouped, rotated(key)) / jnp.sqrt(query.shape[-1]).astype(x.dtype)
    visible = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    weights = jax.nn.softmax(jnp.where(visible, scores.astype(jnp.float32), -1e30)).astype(x.dtype)
    mixed = jnp.einsum("bhgqk,bkhf->bqhgf", weights, value).reshape(query.shape)
    return jnp.einsum("blhf,hfd->bld", mixed, layer["out"])


def fully_sharded_tensor_parallel(sizes: Sizes = DEFAULT, devices: Devices = None) -> Program:
    """P19: blocks of Llama, sharded over `data` and `model`; examples over `data`."""
    mesh = mesh_of(devices, data=-1, model=2)
    model = llama(sizes, on_batch=lambda x: constrained(x, PartitionSpec("data"), mesh))
    groups = frozenset({mesh.shape["data"], mesh.size})
    layout = Layout(mesh, ("data",), model.specs, without_data(model.specs), groups)
    reference = steps.definition(llama(sizes), ADDED)
    return plain.program(model, ADDED, layout, expected=plain.SPLIT, reference=reference)


def expert_fully_sharded(sizes: Sizes = DEFAULT, devices: Devices = None) -> Program:
    """P20: a mixture of experts, these over `expert`, all parameters over `data` as well; examples over both."""
    mesh = mesh_of(devices, data=-1, expert=2)
    model = models.experts(sizes, **plain.exchanges(mesh, "data"))
    specs = {"gate": PartitionSpec("data"), "up": PartitionSpec("expert", "data"),
             "down": PartitionSpec("expert", None, "data")}  # fmt: skip
    groups = frozenset({mesh.shape["data"], mesh.size})
    layout = Layout(mesh, ("data", "expert"), specs, without_data(specs), groups)
    reference = steps.definition(models.experts(sizes), ADDED)
    return plain.program(model, ADDED, layout, expected=plain.SPLIT, reference=reference)


def without_data(specs: Tree) -> Tree:
    """The specs of what is whole along `data`: parameters at use, and their gradients before these are scattered."""

    def whole(spec: PartitionSpec) -> PartitionSpec:
        return PartitionSpec(*[None if axis == "data" else axis for axis in spec])

    return jax.tree.map(whole, specs)


def adapters(sizes: Sizes, *, on_batch: Step = same) -> tuple[Model, Tree]:
    """Frozen blocks of two matrices, each with a product of two small ones beside it, which is trained; and the frozen
    parameters, which the loss takes behind the trained ones.
    """
    width = sizes.width
    sides = {"into": (width, 2 * width), "out": (2 * width, width)}
    frozen = {name: values(i, (sizes.layers, *shape)) for i, (name, shape) in enumerate(sides.items())}
    trained = {
        name: [values(7 + i, (sizes.layers, rows, RANK)), values(9 + i, (sizes.layers, RANK, columns))]
        for i, (name, (rows, columns)) in enumerate(sides.items())
    }

    def block(x: jax.Array, layer: tuple[Tree, Tree]) -> tuple[jax.Array, None]:
        base, low = cast(layer, sizes.dtype)
        hidden = on_batch(jnp.tanh(x @ base["into"] + x @ low["into"][0] @ low["into"][1]))
        return on_batch(x + hidden @ base["out"] + hidden @ low["out"][0] @ low["out"][1]), None

    def loss(trained: Tree, frozen: Tree, x: jax.Array, y: jax.Array) -> jax.Array:
        x, _ = lax.scan(jax.checkpoint(block), on_batch(cast(x, sizes.dtype)), (frozen, trained))
        return models.squared_error(x, y)

    return Model(trained, models.vectors(sizes), loss, models.tolerance(sizes)), frozen


def adapted(sizes: Sizes = DEFAULT, devices: Devices = None) -> Program:
    """P21: the base sharded over `data` and frozen, adapters on all devices: only these have gradients."""
    mesh = mesh_of(devices, data=-1)
    model, frozen = adapters(sizes, on_batch=lambda x: constrained(x, PartitionSpec("data"), mesh))
    layout = steps.data_parallel(model, mesh)
    base = {"into": PartitionSpec(None, "data"), "out": PartitionSpec(None, None, "data")}

    def step(state: tuple[Tree, Tree], *batches: jax.Array) -> Result:
        fixed, trained = state
        gradients, losses = ADDED.accumulate(
            lambda p, *batch: jax.value_and_grad(model.loss)(p, fixed, *batch), trained, batches
        )
        return (fixed, constrained(steps.updated(trained, gradients), layout.parameters, mesh)), losses

    def reference(state: tuple[Tree, Tree], *batches: jax.Array) -> Result:
        whole, fixed = adapters(sizes)[0], state[0]
        alone = dataclasses.replace(whole, loss=lambda p, *batch: whole.loss(p, fixed, *batch))
        updated, losses = steps.definition(alone, ADDED)(state[1], *batches)
        return (fixed, updated), losses

    return steps.program(
        step,
        model,
        ADDED,
        layout,
        expected=plain.DEFERRED,
        is_deferrable=True,
        state=((frozen, model.parameters), (base, replicated(model.parameters))),
        reference=reference,
    )


def _sequences(sizes: Sizes) -> tuple[jax.Array, jax.Array]:
    shape = (sizes.micro_batches, sizes.examples, sizes.sequence, sizes.width)
    return values(101, shape), values(102, shape)
