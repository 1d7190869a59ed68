"""Training steps of language models at real sizes, as shapes: Llama's blocks and a mixture of experts, by layout.

Layers are scanned and computed again in the backward pass, computation is in bfloat16, parameters, sums of gradients
and the state of AdamW are float32, and activations are constrained to the axes of the batch, as MaxText and others do
it. Nothing is drawn or run: a step of 70 G parameters is compiled for devices that are described.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

Tree = Any
MICRO_BATCHES, LENGTH = 4, 2048


@dataclass(frozen=True)
class Model:
    """Sizes of a decoder."""

    name: str
    layers: int
    width: int
    heads: int
    keys: int  # heads of keys and values
    hidden: int
    vocabulary: int
    experts: int = 0  # 0: a dense block
    chosen: int = 2  # experts per token
    is_scanned: bool = True

    @property
    def shapes(self) -> Tree:
        """Shapes of all parameters; those of layers are stacked."""
        features = self.width // self.heads
        of_experts = (self.experts,) if self.experts else ()
        layer: dict[str, tuple[int, ...]] = {
            "attention_norm": (self.width,),
            "query": (self.width, self.heads, features),
            "key": (self.width, self.keys, features),
            "value": (self.width, self.keys, features),
            "out": (self.heads, features, self.width),
            "mlp_norm": (self.width,),
            "gate": (*of_experts, self.width, self.hidden),
            "up": (*of_experts, self.width, self.hidden),
            "down": (*of_experts, self.hidden, self.width),
        } | ({"router": (self.width, self.experts)} if self.experts else {})
        layers = (
            {name: (self.layers, *shape) for name, shape in layer.items()} if self.is_scanned else [layer] * self.layers
        )
        return {
            "embedding": (self.vocabulary, self.width),
            "layers": layers,
            "norm": (self.width,),
            "head": (self.width, self.vocabulary),
        }


SMALL = Model("1 G", 16, 2048, 32, 8, 8192, 32000)
MIDDLE = Model("7 G", 32, 4096, 32, 32, 11008, 32000)
LARGE = Model("70 G", 80, 8192, 64, 8, 28672, 32000)
MIXTURE = Model("8 x 1 G", 16, 2048, 32, 8, 8192, 32000, experts=8)
MODELS = {
    model.name: model
    for model in (SMALL, replace(SMALL, name="1 G, written out", is_scanned=False), MIDDLE, LARGE, MIXTURE)
}

# Which mesh axes each logical axis of a parameter is sharded over; `rest` is what is left of the devices.
NAMES = {
    "embedding": ("vocabulary", "embed"),
    "head": ("embed", "vocabulary"),
    "norm": (None,),
    "attention_norm": (None,),
    "mlp_norm": (None,),
    "query": ("embed", "heads", None),
    "key": ("embed", "heads", None),
    "value": ("embed", "heads", None),
    "out": ("heads", None, "embed"),
    "router": ("embed", None),
    "gate": ("embed", "hidden"),
    "up": ("embed", "hidden"),
    "down": ("hidden", "embed"),
}


@dataclass(frozen=True)
class Layout:
    """A mesh and the axes that shard parameters, state and activations. A size of 0 is what is left of the devices."""

    name: str
    mesh: dict[str, int]
    batch: tuple[str, ...]
    parameters: dict[str, tuple[str, ...]]  # of logical axes
    state: dict[str, tuple[str, ...]] | None = None  # where that differs


_TENSOR = {"vocabulary": ("tensor",), "heads": ("tensor",), "hidden": ("tensor",)}
LAYOUTS = {
    layout.name: layout
    for layout in (
        Layout("data parallel", {"data": 0}, ("data",), {}),
        Layout("ZeRO-1", {"data": 0}, ("data",), {}, {"embed": ("data",)}),
        Layout("FSDP", {"fsdp": 0}, ("fsdp",), {"embed": ("fsdp",)}),
        Layout("HSDP", {"replica": 8, "fsdp": 0}, ("replica", "fsdp"), {"embed": ("fsdp",)}),
        Layout("FSDP x TP", {"fsdp": 0, "tensor": 8}, ("fsdp",), {"embed": ("fsdp",), **_TENSOR}),
        Layout("FSDP x EP", {"fsdp": 0, "expert": 8}, ("fsdp", "expert"), {"embed": ("fsdp",), "experts": ("expert",)}),
    )
}


def program(
    model: Model, layout: Layout, devices: Sequence[Any], *, length: int = LENGTH
) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """The step, the shapes of its arguments and the options of jit, for sequences of `length` tokens."""
    sizes = tuple(
        size or len(devices) // max(int(np.prod([s for s in layout.mesh.values() if s])), 1)
        for size in layout.mesh.values()
    )
    mesh = Mesh(np.array(devices).reshape(sizes), tuple(layout.mesh))
    shapes = model.shapes
    of_parameters = _shardings(model, layout.parameters, mesh)
    of_state = _shardings(model, layout.parameters if layout.state is None else layout.state, mesh)
    held = jax.lax.with_sharding_constraint
    loss = _loss(model, layout, mesh)
    optimizer = optax.adamw(1e-3)

    def step(p: Tree, state: Tree, tokens: jax.Array) -> tuple[Tree, Tree, jax.Array]:
        def add(carry: Any, micro_batch: jax.Array) -> tuple[Any, None]:
            value, gradients = jax.value_and_grad(loss)(p, micro_batch)
            return (jax.tree.map(jnp.add, carry[0], gradients), carry[1] + value), None

        zeros = held(jax.tree.map(jnp.zeros_like, p), of_parameters)
        (sums, total), _ = jax.lax.scan(add, (zeros, jnp.zeros(())), tokens)
        mean = jax.tree.map(lambda each: each / MICRO_BATCHES, held(sums, of_parameters))
        updates, state = optimizer.update(mean, state, p)
        return optax.apply_updates(p, updates), state, total / MICRO_BATCHES

    def placed(shape: tuple[int, ...], sharding: NamedSharding, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)

    p = _mapped(placed, shapes, of_parameters)
    moments = _mapped(placed, shapes, of_state)
    empty = jax.eval_shape(optimizer.init, p)
    adam = empty[0]._replace(count=placed((), NamedSharding(mesh, P()), jnp.int32), mu=moments, nu=moments)
    state = (adam, *empty[1:])
    rows = _examples(layout, mesh)
    tokens = placed((MICRO_BATCHES, rows, length + 1), NamedSharding(mesh, P(None, layout.batch)), jnp.int32)
    out = (*jax.tree.map(lambda leaf: leaf.sharding, (p, state)), NamedSharding(mesh, P()))
    return step, (p, state, tokens), {"donate_argnums": (0, 1), "out_shardings": out}


def _examples(layout: Layout, mesh: Mesh) -> int:
    """One sequence per device of the batch's axes in each micro-batch."""
    return int(np.prod([mesh.shape[axis] for axis in layout.batch]))


def _mapped(function: Callable[..., Any], shapes: Tree, *others: Tree) -> Tree:
    return jax.tree.map(function, shapes, *others, is_leaf=lambda leaf: isinstance(leaf, tuple))


def _shardings(model: Model, axes: dict[str, tuple[str, ...]], mesh: Mesh) -> Tree:
    def sharding(path: Any, shape: tuple[int, ...]) -> NamedSharding:
        name = path[-1].key
        names = NAMES[name]
        in_experts = ("experts",) if model.experts and name in ("gate", "up", "down") else ()
        in_layers = (None,) * (len(shape) - len(names) - len(in_experts))
        return NamedSharding(mesh, P(*[axes.get(each or "") for each in (*in_layers, *in_experts, *names)]))

    return jax.tree_util.tree_map_with_path(sharding, model.shapes, is_leaf=lambda leaf: isinstance(leaf, tuple))


def _loss(model: Model, layout: Layout, mesh: Mesh) -> Callable[[Tree, jax.Array], jax.Array]:
    tensor = "tensor" if "tensor" in layout.mesh else None

    def held(x: jax.Array, *axes: str | None) -> jax.Array:
        """Sharded over the batch's axes in its first dimension, and over `axes` in its last."""
        spec = P(layout.batch, *[None] * (x.ndim - 1 - len(axes)), *axes)
        return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, spec))

    def dense(x: jax.Array, w: Tree) -> jax.Array:
        hidden = held(jax.nn.silu(x @ w["gate"]) * (x @ w["up"]), tensor)
        return hidden @ w["down"]

    def mixture(x: jax.Array, w: Tree) -> jax.Array:
        """Tokens are dispatched to the slots of the experts of their choice; those that find none are left out."""
        slots = model.chosen * x.shape[1] // model.experts
        weights, which = jax.lax.top_k(jax.nn.softmax((x @ w["router"]).astype(jnp.float32)), model.chosen)
        chosen = jax.nn.one_hot(which, model.experts, dtype=jnp.int32).reshape(len(x), -1, model.experts)
        place = (jnp.cumsum(chosen, 1) * chosen - 1).reshape(len(x), -1, model.chosen, model.experts)
        put = jax.nn.one_hot(place, slots, dtype=x.dtype)
        into = held(put.sum(2))
        back = held((put * weights[..., None, None].astype(x.dtype)).sum(2))
        given = jnp.einsum("btes,btd->ebsd", into, x)
        hidden = jax.nn.silu(jnp.einsum("ebsd,edh->ebsh", given, w["gate"])) * jnp.einsum(
            "ebsd,edh->ebsh", given, w["up"]
        )
        return jnp.einsum("btes,ebsd->btd", back, jnp.einsum("ebsh,ehd->ebsd", hidden, w["down"]))

    feed_forward = mixture if model.experts else dense

    def layer(x: jax.Array, w: Tree) -> tuple[jax.Array, None]:
        w = jax.tree.map(lambda leaf: leaf.astype(x.dtype), w)
        x = held(x + _attention(model, held, tensor, _normed(x, w["attention_norm"]), w))
        return held(x + feed_forward(_normed(x, w["mlp_norm"]), w)), None

    def loss(p: Tree, tokens: jax.Array) -> jax.Array:
        x = held(p["embedding"].astype(jnp.bfloat16)[tokens[:, :-1]])
        if model.is_scanned:
            x, _ = jax.lax.scan(jax.checkpoint(layer), x, p["layers"])
        else:
            for w in p["layers"]:
                x, _ = jax.checkpoint(layer)(x, w)
        x = _normed(x, p["norm"].astype(x.dtype))
        logits = held((x @ p["head"].astype(x.dtype)).astype(jnp.float32), tensor)
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

    return loss


def _attention(model: Model, held: Callable[..., jax.Array], tensor: str | None, x: jax.Array, w: Tree) -> jax.Array:
    """Causal, with rotary embeddings; some queries share keys and values."""
    query, key, value = (
        held(jnp.einsum("btd,dhf->bthf", x, w[name]), tensor, None) for name in ("query", "key", "value")
    )
    made = jax.nn.dot_product_attention(_rotated(query), _rotated(key), value, is_causal=True)
    return jnp.einsum("bthf,hfd->btd", held(made, tensor, None), w["out"])


def _normed(x: jax.Array, scale: jax.Array) -> jax.Array:
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-5)).astype(x.dtype) * scale


def _rotated(x: jax.Array) -> jax.Array:
    half = x.shape[-1] // 2
    angles = jnp.arange(x.shape[1])[:, None] / 10000.0 ** (jnp.arange(half) / half)
    sin, cos = (f(angles)[:, None].astype(x.dtype) for f in (jnp.sin, jnp.cos))
    first, second = x[..., :half], x[..., half:]
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], -1)
