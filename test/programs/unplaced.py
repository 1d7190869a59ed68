"""Training steps that name no mesh: what plans are made for.

The state is (parameters, optimizer state); gradients are added up over micro-batches.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from programs import models
from programs import transformer as decoder
from programs.draws import nothing_drawn, values
from programs.framework_models import FlaxModel
from programs.models import Model
from programs.patterns import ADDED
from programs.program import Sizes, Tree

EXPERTS = 8
OPTIMIZER = optax.adamw(1e-3)
SIZES = Sizes(width=128, layers=1, micro_batches=2, examples=64, vocabulary=512, sequence=32, heads=8)
WIDE = Sizes(width=128, layers=1, micro_batches=2, examples=256, vocabulary=32768)


class Unplaced(NamedTuple):
    """A step, and what it takes."""

    step: Callable[..., Any]
    args: tuple[Any, ...]


def moe_transformer(sizes: Sizes) -> Model:
    """A decoder whose blocks have a mixture of experts in place of the MLP; its embedding is tied to the head."""
    config = decoder.Config(sizes.vocabulary, sizes.width, sizes.heads, sizes.layers, sizes.sequence)
    parameters = decoder.init(config)
    for number, layer in enumerate(parameters["layers"]):
        layer["gate"] = values(1000 + 3 * number, (sizes.width, EXPERTS))
        layer["up"] = values(1001 + 3 * number, (EXPERTS, sizes.width, 2 * sizes.width))
        layer["down"] = values(1002 + 3 * number, (EXPERTS, 2 * sizes.width, sizes.width))

    def loss(parameters: Tree, tokens: jax.Array) -> jax.Array:
        x = parameters["embedding"][tokens[:, :-1]]
        for layer in parameters["layers"]:
            x = x + decoder.attention(config, layer, decoder.rms_norm(x, layer["attention_norm"]))
            x = x + models.mixture(layer, decoder.rms_norm(x, layer["mlp_norm"]), sizes.dtype)
        logits = decoder.rms_norm(x, parameters["norm"]) @ parameters["embedding"].T
        return _cross_entropy(logits, tokens[:, 1:])

    return Model(parameters, (decoder.batch(config, sizes.micro_batches, sizes.examples),), loss, 1e-5)


def flax_gpt(sizes: Sizes) -> Model:
    """flax's transformer of framework_models.py; each micro-batch has its key for dropout."""
    model = FlaxModel(sizes.layers, sizes.dtype, sizes.width, sizes.heads, sizes.vocabulary)
    config = decoder.Config(sizes.vocabulary, sequence=sizes.sequence)
    tokens = decoder.batch(config, sizes.micro_batches, sizes.examples)
    keys = jax.random.key_data(jax.random.split(jax.random.key(1), sizes.micro_batches))
    names = {"params": jax.random.key(0), "dropout": jax.random.key(1)}

    def loss(parameters: Tree, tokens: jax.Array, key: jax.Array) -> jax.Array:
        logits: Any = model.apply(parameters, tokens[:, :-1], rngs={"dropout": jax.random.wrap_key_data(key)})
        return _cross_entropy(logits, tokens[:, 1:])

    return Model(model.init(names, jnp.zeros((1, sizes.sequence), jnp.int32)), (tokens, keys), loss, 1e-5)


BUILDERS: dict[str, Callable[[Sizes], Model]] = {
    "mlp": models.split_mlp,
    "transformer": partial(models.transformer, is_tied=True),
    "moe_transformer": moe_transformer,
    "flax_gpt": flax_gpt,
    "wide_embedding": models.embedding,
}


def unplaced(name: str, sizes: Sizes | None = None) -> Unplaced:
    """One of BUILDERS with its arguments, trained with optax's AdamW."""
    model = BUILDERS[name](sizes or (WIDE if name == "wide_embedding" else SIZES))
    return Unplaced(_step(model), jax.tree.map(np.asarray, _arguments(model)))


def shapes_of(name: str, sizes: Sizes) -> Unplaced:
    """The same with the shapes of its arguments, of which none is made."""
    models_made: list[Model] = []

    def arguments() -> tuple[Any, ...]:
        models_made.append(BUILDERS[name](sizes))
        return _arguments(models_made[0])

    with nothing_drawn():
        shapes = jax.eval_shape(arguments)
    return Unplaced(_step(models_made[0]), shapes)


def _arguments(model: Model) -> tuple[Any, ...]:
    return ((model.parameters, OPTIMIZER.init(model.parameters)), *model.batches)


def _step(model: Model) -> Callable[..., Any]:
    def step(state: Any, *batches: jax.Array) -> Any:
        parameters, moments = state
        total, losses = ADDED.accumulate(jax.value_and_grad(model.loss), parameters, batches)
        updates, moments = OPTIMIZER.update(total, moments, parameters)
        return (optax.apply_updates(parameters, updates), moments), losses

    return step


def _cross_entropy(logits: jax.Array, targets: jax.Array) -> jax.Array:
    return optax.softmax_cross_entropy_with_integer_labels(logits.astype(jnp.float32), targets).sum()
