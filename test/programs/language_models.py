"""Training steps of language models, as shapes only: embedding, layers and head, by the layouts that people train in.

Compiled, not run: `step, shapes, options = language_model(Form(...), devices)`, for `jax.jit(step, **options)`.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

Tree = Any
Layout = Literal["dp", "zero1", "zero2", "fsdp", "hsdp"]
MICRO_BATCHES, LENGTH = 4, 16


class Form(NamedTuple):
    """How the step is written."""

    layout: Layout
    vocabulary: int = 4096
    width: int = 256
    layers: int = 4
    is_tied: bool = False  # the head is the embedding, transposed
    is_scanned: bool = True  # layers are stacked, and computed again in the backward pass
    constrained: frozenset[str] = frozenset({"before", "behind"})  # accumulators: before, in, behind the loop
    dtype: str = "bfloat16"  # of computation
    optimizer: Literal["momentum", "adam"] = "momentum"

    @property
    def name(self) -> str:
        """Short, for the id of a test."""
        tied = "tied" if self.is_tied else "untied"
        layers = "scanned" if self.is_scanned else "written-out"
        held = "+".join(sorted(self.constrained)) or "open"
        return f"{self.layout}-{self.vocabulary}x{self.width}-{tied}-{layers}-{held}-{self.dtype}-{self.optimizer}"


def language_model(form: Form, devices: Sequence[Any]) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """The step, the shapes of its arguments with their shardings, and the options of jit."""
    mesh = _mesh(form, devices)
    batch = mesh.axis_names
    shapes = _shapes(form)
    specs = jax.tree.map(lambda shape: _spec(form, shape), shapes, is_leaf=lambda leaf: isinstance(leaf, tuple))
    of_parameters, of_state = (
        jax.tree.map(lambda two, i=i: NamedSharding(mesh, two[i]), specs, is_leaf=_is_pair) for i in (0, 1)
    )
    of_sums = of_state if form.layout == "zero2" else of_parameters
    held = jax.lax.with_sharding_constraint
    on_batch = NamedSharding(mesh, P(batch))

    def loss(p: Tree, tokens: jax.Array, targets: jax.Array) -> jax.Array:
        p = jax.tree.map(lambda leaf: leaf.astype(form.dtype), p)
        x = held(p["embedding"][tokens], on_batch)

        def layer(x: jax.Array, w: Tree) -> tuple[jax.Array, None]:
            return held(x + jnp.tanh(x @ w["up"]) @ w["down"], on_batch), None

        if form.is_scanned:
            x, _ = jax.lax.scan(jax.checkpoint(layer), x, p["layers"])
        else:
            for w in p["layers"]:
                x, _ = layer(x, w)
        head = p["embedding"].T if form.is_tied else p["head"]
        logits = held((x @ head).astype(jnp.float32), on_batch)
        picked = jnp.take_along_axis(jax.nn.log_softmax(logits), targets[..., None], -1)
        return -jnp.mean(picked)

    def constrained(tree: Tree, where: str) -> Tree:
        return held(tree, of_sums) if where in form.constrained else tree

    def step(p: Tree, state: Tree, tokens: jax.Array, targets: jax.Array) -> tuple[Tree, Tree]:
        def add(sums: Tree, batch: Any) -> tuple[Tree, None]:
            return jax.tree.map(jnp.add, sums, constrained(jax.grad(loss)(p, *batch), "in")), None

        zeros = constrained(jax.tree.map(jnp.zeros_like, p), "before")
        sums, _ = jax.lax.scan(add, zeros, (tokens, targets))
        return _update(form, p, state, constrained(sums, "behind"))

    def placed(shape: tuple[int, ...], sharding: NamedSharding, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)

    is_shape = lambda leaf: isinstance(leaf, tuple)  # noqa: E731
    p = jax.tree.map(placed, shapes, of_parameters, is_leaf=is_shape)
    moments = jax.tree.map(placed, shapes, of_state, is_leaf=is_shape)
    state = (moments, moments) if form.optimizer == "adam" else (moments,)
    shardings_of_state = (of_state,) * len(state)
    tokens = placed((MICRO_BATCHES, 2 * len(devices), LENGTH), NamedSharding(mesh, P(None, batch)), jnp.int32)
    options = {"donate_argnums": (0, 1), "out_shardings": (of_parameters, shardings_of_state)}
    return step, (p, state, tokens, tokens), options


def _mesh(form: Form, devices: Sequence[Any]) -> Mesh:
    if form.layout == "hsdp":
        return Mesh(np.array(devices).reshape(2, -1), ("replica", "fsdp"))
    return Mesh(np.array(devices), ("fsdp",))


def _shapes(form: Form) -> Tree:
    width, vocabulary = form.width, form.vocabulary
    layer = {"up": (width, 4 * width), "down": (4 * width, width)}
    stacked = {name: (form.layers, *shape) for name, shape in layer.items()}
    tree: Tree = {"embedding": (vocabulary, width), "layers": stacked if form.is_scanned else [layer] * form.layers}
    return tree if form.is_tied else tree | {"head": (width, vocabulary)}


def _is_pair(leaf: Any) -> bool:
    return type(leaf) is tuple and all(isinstance(each, P) for each in leaf)


def _spec(form: Form, shape: tuple[int, ...]) -> tuple[P, P]:
    """Of a parameter, and of its moments: the last but one dimension, which is the first of one matrix."""
    rank = len(shape)
    whole, over = P(), P(*[None] * (rank - 2), "fsdp")
    if form.layout == "hsdp":
        return over, P(*[None] * (rank - 2), ("fsdp", "replica"))
    return (over if form.layout == "fsdp" else whole), (whole if form.layout == "dp" else over)


def _update(form: Form, p: Tree, state: Tree, sums: Tree) -> tuple[Tree, Tree]:
    mean = jax.tree.map(lambda g: g / MICRO_BATCHES, sums)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state[0], mean)
    if form.optimizer == "momentum":
        return jax.tree.map(lambda p, m: p - 0.1 * m, p, first), (first,)
    second = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, state[1], mean)
    new = jax.tree.map(lambda p, m, v: p - 0.1 * m / (jnp.sqrt(v) + 1e-8), p, first, second)
    return new, (first, second)
