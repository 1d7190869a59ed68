"""Training steps of language models that libraries define, and forms of training beside plain accumulation: as shapes.

Compiled, not run: `step, shapes, options = STEPS[name](devices)`, for `jax.jit(step, **options)`. Gradients take more
than activations, and the vocabulary more than the layers.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from programs.framework_models import FlaxModel

os.environ.setdefault("KERAS_BACKEND", "jax")

Tree = Any
Batch = tuple[jax.Array, jax.Array, jax.Array]  # number of the micro-batch, tokens, targets
Loss = Callable[[Tree, Batch], jax.Array]
Made = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
VOCABULARY, WIDTH, LAYERS, LENGTH, MICRO_BATCHES, DECAY = 4096, 256, 2, 16, 4, 0.999
AXIS = "fsdp"


def _entropy(logits: jax.Array, targets: jax.Array) -> jax.Array:
    return optax.softmax_cross_entropy_with_integer_labels(logits.astype(jnp.float32), targets).mean()


def _sharded(tree: Tree, mesh: Mesh, *, is_split: bool) -> Tree:
    """`tree` with shardings: the longest dimension over the axis, where it divides that."""

    def one(leaf: Any) -> jax.ShapeDtypeStruct:
        longest = max(range(leaf.ndim), key=lambda i: leaf.shape[i], default=0)
        splits = is_split and leaf.ndim > 0 and leaf.shape[longest] % mesh.size == 0
        spec = P(*[None] * longest, AXIS) if splits else P()
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=NamedSharding(mesh, spec))

    return jax.tree.map(one, tree)


def _made(
    loss: Loss,
    parameters: Tree,
    devices: Sequence[Any],
    layout: str,
    *,
    optimizer: optax.GradientTransformation | None = None,
    accumulates: bool = True,
    averages: bool = False,
) -> Made:
    """A step of AdamW over micro-batches, whose gradients are added up or, without `accumulates`, given to `optimizer`.

    `layout` is dp, zero1 or fsdp. With `averages`, the state has an exponential moving average of the parameters.
    """
    rule = optimizer or optax.adamw(1e-3)
    mesh = Mesh(np.array(devices), (AXIS,))
    p = _sharded(parameters, mesh, is_split=layout == "fsdp")
    moments = _sharded(jax.eval_shape(rule.init, parameters), mesh, is_split=layout != "dp")
    average = _sharded(parameters, mesh, is_split=layout != "dp") if averages else ()

    def accumulated(p: Tree, moments: Tree, batches: Batch) -> tuple[Tree, Tree]:
        def add(sums: Tree, batch: Batch) -> tuple[Tree, None]:
            return jax.tree.map(jnp.add, sums, jax.grad(loss)(p, batch)), None

        sums, _ = jax.lax.scan(add, jax.tree.map(jnp.zeros_like, p), batches)
        updates, moments = rule.update(jax.tree.map(lambda g: g / MICRO_BATCHES, sums), moments, p)
        return optax.apply_updates(p, updates), moments

    def given(p: Tree, moments: Tree, batches: Batch) -> tuple[Tree, Tree]:
        def trip(state: Any, batch: Batch) -> tuple[Any, None]:
            updates, moments = rule.update(jax.grad(loss)(state[0], batch), state[1], state[0])
            return (optax.apply_updates(state[0], updates), moments), None

        return jax.lax.scan(trip, (p, moments), batches)[0]

    def step(state: Tree, tokens: jax.Array, targets: jax.Array) -> Tree:
        p, moments, average = state
        batches = (jnp.arange(MICRO_BATCHES), tokens, targets)
        p, moments = (accumulated if accumulates else given)(p, moments, batches)
        return p, moments, jax.tree.map(lambda a, new: DECAY * a + (1 - DECAY) * new, average, p) if averages else ()

    state = (p, moments, average)
    shape = (MICRO_BATCHES, 2 * mesh.size, LENGTH)
    tokens = jax.ShapeDtypeStruct(shape, jnp.int32, sharding=NamedSharding(mesh, P(None, AXIS)))
    out = jax.tree.map(lambda leaf: leaf.sharding, state)
    return step, (state, tokens, tokens), {"donate_argnums": 0, "out_shardings": out}


def _flax(devices: Sequence[Any], layout: str) -> Made:
    """Flax linen: attention, dropout, a tied embedding."""
    model = FlaxModel(LAYERS, jnp.bfloat16, WIDTH, 4, VOCABULARY)
    keys = {"params": jax.random.key(0), "dropout": jax.random.key(1)}
    parameters = jax.eval_shape(model.init, keys, jax.ShapeDtypeStruct((1, LENGTH), jnp.int32))

    def loss(p: Tree, batch: Batch) -> jax.Array:
        number, tokens, targets = batch
        key = jax.random.fold_in(jax.random.key(2), number)
        logits: Any = model.apply(p, tokens, rngs={"dropout": key})
        return _entropy(logits, targets)

    return _made(loss, parameters, devices, layout)


class _Decoder(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.embed = nnx.Embed(VOCABULARY, WIDTH, rngs=rngs)
        self.up = nnx.List([nnx.Linear(WIDTH, 4 * WIDTH, rngs=rngs) for _ in range(LAYERS)])
        self.down = nnx.List([nnx.Linear(4 * WIDTH, WIDTH, rngs=rngs) for _ in range(LAYERS)])
        self.norm = nnx.List([nnx.RMSNorm(WIDTH, rngs=rngs) for _ in range(LAYERS)])
        self.head = nnx.Linear(WIDTH, VOCABULARY, use_bias=False, rngs=rngs)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = self.embed(tokens)
        for up, down, norm in zip(self.up, self.down, self.norm, strict=True):
            x = x + down(nnx.gelu(up(norm(x))))
        return self.head(x)


def _nnx(devices: Sequence[Any], layout: str, **options: Any) -> Made:
    """Flax NNX: modules split into graph and state, as nnx.jit does."""
    graph, parameters = nnx.split(nnx.eval_shape(lambda: _Decoder(nnx.Rngs(0))))

    def loss(p: Tree, batch: Batch) -> jax.Array:
        _, tokens, targets = batch
        return _entropy(nnx.merge(graph, p)(tokens), targets)

    return _made(loss, parameters, devices, layout, **options)


class _Layer(equinox.Module):
    norm: equinox.nn.LayerNorm
    up: equinox.nn.Linear
    down: equinox.nn.Linear

    def __init__(self, key: jax.Array) -> None:
        one, other = jax.random.split(key)
        self.norm = equinox.nn.LayerNorm(WIDTH)
        self.up = equinox.nn.Linear(WIDTH, 4 * WIDTH, key=one)
        self.down = equinox.nn.Linear(4 * WIDTH, WIDTH, key=other)

    def __call__(self, x: jax.Array) -> jax.Array:
        return x + self.down(jax.nn.gelu(self.up(self.norm(x))))


def _equinox(devices: Sequence[Any], layout: str) -> Made:
    """Equinox: one example mapped, layers stacked by `filter_vmap` and scanned with remat, a tied embedding."""

    def made() -> Any:
        keys = jax.random.split(jax.random.key(0), LAYERS)
        embed = equinox.nn.Embedding(VOCABULARY, WIDTH, key=jax.random.key(1))
        return equinox.partition((embed, equinox.filter_vmap(_Layer)(keys)), equinox.is_inexact_array)

    parameters, static = equinox.filter_eval_shape(made)

    def loss(p: Tree, batch: Batch) -> jax.Array:
        _, tokens, targets = batch
        half = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), p)
        embed, layers = half

        def layer(x: jax.Array, w: Tree) -> tuple[jax.Array, None]:
            return jax.vmap(jax.vmap(equinox.combine(w, static[1])))(x), None

        x, _ = jax.lax.scan(jax.checkpoint(layer), embed.weight[tokens], layers)
        return _entropy(x @ embed.weight.T, targets)

    return _made(loss, parameters, devices, layout)


def _keras(devices: Sequence[Any], layout: str) -> Made:
    """Keras: `stateless_call` of a functional model."""
    import keras

    inputs = keras.Input((LENGTH,), dtype="int32")
    x = keras.layers.Embedding(VOCABULARY, WIDTH)(inputs)
    for _ in range(LAYERS):
        x = x + keras.layers.Dense(WIDTH)(keras.layers.Dense(4 * WIDTH, activation="gelu")(x))
    model = keras.Model(inputs, keras.layers.Dense(VOCABULARY, use_bias=False)(keras.layers.LayerNormalization()(x)))
    parameters = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in model.trainable_variables]

    def loss(p: Tree, batch: Batch) -> jax.Array:
        _, tokens, targets = batch
        return _entropy(model.stateless_call(p, [], tokens)[0], targets)

    return _made(loss, parameters, devices, layout)


def _fused(devices: Sequence[Any], layout: str) -> Made:
    """The update of each layer in the backward scan, so that the gradient of one layer only is held."""
    mesh = Mesh(np.array(devices), (AXIS,))
    shapes = {"up": (LAYERS, WIDTH, 4 * WIDTH), "down": (LAYERS, 4 * WIDTH, WIDTH)}
    parameters = {name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, shape in shapes.items()}
    p = _sharded(parameters, mesh, is_split=layout == "fsdp")
    x = jax.ShapeDtypeStruct((2 * mesh.size, WIDTH), jnp.float32, sharding=NamedSharding(mesh, P(AXIS)))

    def layer(w: Tree, x: jax.Array) -> jax.Array:
        return x + jnp.tanh(x @ w["up"]) @ w["down"]

    def step(p: Tree, x: jax.Array) -> Tree:
        y, inputs = jax.lax.scan(lambda x, w: (layer(w, x), x), x, p)

        def back(c: jax.Array, wx: Any) -> tuple[jax.Array, Tree]:
            g, c = jax.vjp(layer, *wx)[1](c)
            return c, jax.tree.map(lambda a, b: a - 0.1 * b, wx[0], g)

        return jax.lax.scan(back, 2 * y / y.size, (p, inputs), reverse=True)[1]

    return step, (p, x), {"donate_argnums": 0, "out_shardings": jax.tree.map(lambda leaf: leaf.sharding, p)}


def _every(devices: Sequence[Any], layout: str) -> Made:
    """`optax.MultiSteps`: one step per micro-batch, an update in each fourth."""
    rule = optax.MultiSteps(optax.adamw(1e-3), MICRO_BATCHES).gradient_transformation()
    return _nnx(devices, layout, optimizer=rule, accumulates=False)


def _averaged(devices: Sequence[Any], layout: str) -> Made:
    return _nnx(devices, layout, averages=True)


_KINDS: dict[str, tuple[Callable[..., Made], tuple[str, ...]]] = {
    "flax": (_flax, ("dp", "zero1", "fsdp")),
    "nnx": (_nnx, ("dp", "fsdp")),
    "equinox": (_equinox, ("zero1", "fsdp")),
    "keras": (_keras, ("dp", "zero1")),
    "MultiSteps": (_every, ("dp", "fsdp")),
    "moving-average": (_averaged, ("zero1", "fsdp")),
    "fused-update": (_fused, ("dp", "fsdp")),
}


def _bound(make: Callable[..., Made], layout: str) -> Callable[[Sequence[Any]], Made]:
    return lambda devices: make(devices, layout)


STEPS: dict[str, Callable[[Sequence[Any]], Made]] = {
    f"{name}-{layout}": _bound(make, layout) for name, (make, layouts) in _KINDS.items() for layout in layouts
}
