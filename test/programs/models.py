"""The models that the training programs train: parameters, micro-batches and a loss, on one device or on many.

A loss is summed over examples, so the sum of what devices compute on their examples is the whole.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec
from programs import transformer as decoder
from programs.draws import values
from programs.program import Sizes, Tree

EXPERTS = 4

Step = Callable[[jax.Array], jax.Array]


@dataclass(frozen=True)
class Model:
    """Parameters (f32), the micro-batches of a step, each (micro-batches, examples, ...), and the loss of one."""

    parameters: Tree
    batches: tuple[jax.Array, ...]
    loss: Callable[..., jax.Array]  # (parameters, *micro_batch) -> f32, summed over examples
    tolerance: float
    specs: Tree = None  # how parameters are split over the axis `model` or `expert`, where they can be


def same(x: Tree) -> Tree:
    return x


def cast(tree: Tree, dtype: jnp.dtype) -> Tree:
    """The tree with its floating-point leaves in this type."""
    return jax.tree.map(lambda x: x.astype(dtype) if jnp.issubdtype(x.dtype, jnp.floating) else x, tree)


def mlp(sizes: Sizes, integers: bool = False, *, stacked: bool = False) -> Model:
    """Square layers: a list of matrices, or one array of them that `lax.scan` goes through."""
    activation = same if integers else jnp.tanh
    weights = values(0, (sizes.layers, sizes.width, sizes.width), integers)

    def loss(layers: Tree, x: jax.Array, y: jax.Array) -> jax.Array:
        layers, x = cast((layers, x), sizes.dtype)
        if stacked:
            x, _ = lax.scan(lambda x, layer: (activation(x @ layer), None), x, layers)
        else:
            for layer in layers:
                x = activation(x @ layer)
        return squared_error(x, y)

    return Model(weights if stacked else list(weights), vectors(sizes, integers), loss, tolerance(sizes, integers))


def stacked_mlp(sizes: Sizes, integers: bool = False) -> Model:
    return mlp(sizes, integers, stacked=True)


def blocks(
    sizes: Sizes, integers: bool = False, *, on_batch: Step = same, on_layer: Callable[[Tree], Tree] = same
) -> Model:
    """Blocks of a norm and two matrices as large models write them: stacked, each computed again in the backward pass.

    Parameters are cast in the block; `on_batch` constrains the activations, `on_layer` gathers what is cast.
    """
    width = sizes.width
    shapes = {"scale": (width,), "into": (width, 2 * width), "out": (2 * width, width)}
    stacked = {name: values(i, (sizes.layers, *shape), integers) for i, (name, shape) in enumerate(shapes.items())}

    def block(x: jax.Array, layer: Tree) -> tuple[jax.Array, None]:
        layer = on_layer(cast(layer, sizes.dtype))
        normed = x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1) * layer["scale"]
        hidden = on_batch(jnp.tanh(normed @ layer["into"]))
        return on_batch(x + hidden @ layer["out"]), None

    def loss(layers: Tree, x: jax.Array, y: jax.Array) -> jax.Array:
        x, _ = lax.scan(jax.checkpoint(block), on_batch(cast(x, sizes.dtype)), layers)
        return squared_error(x, y)

    return Model(stacked, vectors(sizes, integers), loss, tolerance(sizes, integers))


def tied(sizes: Sizes, integers: bool = False) -> Model:
    """One matrix that is used twice, as it is and transposed."""
    activation = same if integers else jnp.tanh

    def loss(tied: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        tied, x = cast((tied, x), sizes.dtype)
        return squared_error(activation(x @ tied) @ tied.T, y)

    weights = values(0, (sizes.width, sizes.width), integers)
    return Model(weights, vectors(sizes, integers), loss, tolerance(sizes, integers))


def embedding(sizes: Sizes, integers: bool = False) -> Model:
    """A table that tokens look up, and a layer: the gradient of the table is a scatter."""
    activation = same if integers else jnp.tanh
    parameters = {
        "table": values(3, (sizes.vocabulary, sizes.width), integers),
        "layer": values(0, (sizes.width, sizes.width), integers),
    }
    drawn = np.random.default_rng(3).integers(sizes.vocabulary, size=(sizes.micro_batches, sizes.examples))
    tokens = jnp.array(drawn, jnp.int32)

    def loss(parameters: Tree, tokens: jax.Array, y: jax.Array) -> jax.Array:
        parameters = cast(parameters, sizes.dtype)
        return squared_error(activation(parameters["table"][tokens] @ parameters["layer"]), y)

    return Model(parameters, (tokens, vectors(sizes, integers)[1]), loss, tolerance(sizes, integers))


def split_mlp(sizes: Sizes, reduce: Step = same) -> Model:
    """Residual blocks for tensor parallelism: `up` is split by columns and `down` by rows, over the axis `model`.

    `reduce` adds up what the devices of this axis computed of a block; with jax.jit, XLA does.
    """
    layers = [
        {
            "up": values(2 * layer, (sizes.width, 2 * sizes.width)),
            "down": values(2 * layer + 1, (2 * sizes.width, sizes.width)),
        }
        for layer in range(sizes.layers)
    ]
    specs = [{"up": PartitionSpec(None, "model"), "down": PartitionSpec("model")} for _ in layers]

    def loss(layers: Tree, x: jax.Array, y: jax.Array) -> jax.Array:
        layers, x = cast((layers, x), sizes.dtype)
        for layer in layers:
            x = x + reduce(jnp.tanh(x @ layer["up"]) @ layer["down"])
        return squared_error(x, y)

    return Model(layers, vectors(sizes), loss, tolerance(sizes), specs)


def experts(sizes: Sizes, to_experts: Step = same, to_examples: Step = same) -> Model:
    """A mixture of experts: each token goes to the one that the gate likes best.

    `to_experts` takes (experts, examples, sequence, width) from the devices that have the examples to those that
    have the experts, and `to_examples` back.
    """
    parameters = {
        "gate": values(0, (sizes.width, EXPERTS)),
        "up": values(1, (EXPERTS, sizes.width, 2 * sizes.width)),
        "down": values(2, (EXPERTS, 2 * sizes.width, sizes.width)),
    }
    specs = {"gate": PartitionSpec(), "up": PartitionSpec("expert"), "down": PartitionSpec("expert")}

    def loss(parameters: Tree, x: jax.Array, y: jax.Array) -> jax.Array:
        return squared_error(mixture(parameters, x, sizes.dtype, to_experts, to_examples), y)

    shape = (sizes.micro_batches, sizes.examples, sizes.sequence, sizes.width)
    return Model(parameters, (values(3, shape), values(4, shape)), loss, tolerance(sizes), specs)


def mixture(parameters: Tree, x: jax.Array, dtype: Any, to_experts: Step = same, to_examples: Step = same) -> jax.Array:
    """What the experts make of the tokens `x`, (examples, sequence, width), each of one expert."""
    # The gate stays in f32: rounding must not change who gets a token.
    gate = jax.nn.softmax(x @ parameters["gate"].astype(x.dtype))
    chosen = jax.nn.one_hot(jnp.argmax(gate, axis=-1), gate.shape[-1], dtype=x.dtype)
    up, down, tokens = cast((parameters["up"], parameters["down"], x), dtype)
    sent = to_experts(jnp.einsum("gse,gsd->egsd", chosen.astype(dtype), tokens))
    hidden = jnp.tanh(jnp.einsum("egsd,edf->egsf", sent, up))
    received = to_examples(jnp.einsum("egsf,efd->egsd", hidden, down))
    return jnp.einsum("egsd,gse->gsd", received.astype(x.dtype), gate * chosen)


def transformer(sizes: Sizes, *, is_tied: bool = False, is_scanned: bool = False, reduce: Step = same) -> Model:
    """The decoder of transformer.py, its blocks split over the axis `model` like those of `split_mlp`."""
    config = decoder.Config(
        vocabulary=sizes.vocabulary,
        width=sizes.width,
        heads=sizes.heads,
        layers=sizes.layers,
        sequence=sizes.sequence,
        is_tied=is_tied,
        is_scanned=is_scanned,
        compute_dtype=sizes.dtype,
    )
    parameters = decoder.init(config)
    tokens = decoder.batch(config, sizes.micro_batches, sizes.examples)

    def loss(parameters: Tree, tokens: jax.Array) -> jax.Array:
        return decoder.loss(config, parameters, tokens, reduce) * tokens.shape[0]

    specs = jax.tree.map(lambda leaf: PartitionSpec(), parameters)
    if not is_scanned:
        specs["layers"] = [layer | decoder.SPLIT_BLOCK for layer in specs["layers"]]
    return Model(parameters, (tokens,), loss, tolerance(sizes), specs)


def scanned_transformer(sizes: Sizes) -> Model:
    return transformer(sizes, is_scanned=True)


def tied_transformer(sizes: Sizes) -> Model:
    return transformer(sizes, is_tied=True)


def half(build: Callable[..., Model]) -> Callable[..., Model]:
    """The same model, computed in bf16."""

    def built(sizes: Sizes, *options: bool, **named: Callable[[Any], Any]) -> Model:
        return build(dataclasses.replace(sizes, dtype=jnp.bfloat16), *options, **named)

    return built


def vectors(sizes: Sizes, integers: bool = False) -> tuple[jax.Array, jax.Array]:
    shape = (sizes.micro_batches, sizes.examples, sizes.width)
    return values(101, shape, integers), values(102, shape, integers)


def squared_error(x: jax.Array, y: jax.Array) -> jax.Array:
    return 0.5 * jnp.sum((x.astype(jnp.float32) - y.astype(jnp.float32)) ** 2)


def tolerance(sizes: Sizes, integers: bool = False) -> float:
    if sizes.dtype == jnp.bfloat16:
        return 2.0**-6  # sums in bf16 round at 2^-8
    return 0.0 if integers else 1e-5
