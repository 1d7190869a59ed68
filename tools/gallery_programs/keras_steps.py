"""Models of keras-hub, built from small configurations with random weights, and Keras's own trainer and optimizers."""

import os
from collections.abc import Callable
from typing import Any

os.environ["KERAS_BACKEND"] = "jax"

import jax
import jax.numpy as jnp
import keras
import keras_hub
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

import paropt
from gallery_programs.program import (
    BATCH,
    CLASSES,
    HEADS,
    LAYERS,
    MICRO_BATCHES,
    SEQUENCE,
    VOCABULARY,
    WIDTH,
    Driven,
    Program,
    tokens,
)

SIZES = {
    "vocabulary_size": VOCABULARY,
    "num_layers": LAYERS,
    "num_heads": HEADS,
    "hidden_dim": WIDTH,
    "intermediate_dim": 4 * WIDTH,
    "max_sequence_length": SEQUENCE,
}


def gpt2_scan() -> Program:
    """A scan of Keras's `train_step`, whose optimizer accumulates gradients."""
    model, data = _gpt2(gradient_accumulation_steps=MICRO_BATCHES)

    def step(state: Any, batches: Any) -> Any:
        def one(state: Any, batch: Any) -> Any:
            logs, state = model.train_step(state, batch)
            return state, logs

        return jax.lax.scan(one, state, batches)

    return Program(step, (_state(model), _placed(data)), _trained(model))


def gpt2_calls() -> Program:
    """What `model.fit` compiles with an optimizer that accumulates gradients: one call per micro-batch."""
    model, data = _gpt2(gradient_accumulation_steps=MICRO_BATCHES)
    first = jax.tree.map(lambda part: part[0], data)
    return Program(model.train_step, (_state(model), _placed(first, 0)), _trained(model), calls=MICRO_BATCHES)


def bert_gradients() -> Program:
    """The training loop of Keras's guide to JAX, with a scan that adds up gradients before `stateless_apply`."""
    backbone = keras_hub.models.BertBackbone(**SIZES, num_segments=2)
    model = keras_hub.models.BertTextClassifier(backbone, num_classes=CLASSES, preprocessor=None)
    ids = tokens(MICRO_BATCHES)
    x = {"token_ids": ids, "segment_ids": np.zeros_like(ids), "padding_mask": np.ones_like(ids)}
    y = np.random.default_rng(1).integers(0, CLASSES, (MICRO_BATCHES, BATCH)).astype(np.int32)
    _compile(model, x, y)
    return Program(_summing(model, model.optimizer), (_state(model), _placed((x, y))), _trained(model))


def gpt2_accumulated() -> Program:
    """`gpt2_calls`, and the scan of `bert_gradients`, with an optimizer that leaves it to `paropt.accumulate` to add up
    gradients."""
    model, data = _gpt2(gradient_accumulation_steps=MICRO_BATCHES)
    model.optimizer = _optimizer(gradient_accumulation_steps=MICRO_BATCHES)
    optimizer = _optimizer()
    for each in (model.optimizer, optimizer):  # neither has been called
        each.build(model.trainable_variables)
    trained, others, optimized, metrics = _state(model)
    batches = _placed(data)
    inner = [jnp.copy(variable.value) for variable in optimizer.variables]
    step = _summing(model, optimizer)
    train = paropt.accumulate(step, microbatches=MICRO_BATCHES, donate_argnums=0)
    numbers = {variable.name: i for i, variable in enumerate(model.optimizer.variables)}
    moments = [(i, numbers[each.name]) for i, each in enumerate(optimizer.variables) if each.name != "iteration"]

    def by_calls(step: Callable[..., Any], state: Any, micro_batches: list[Any]) -> Any:
        for micro_batch in micro_batches:
            _, state = step(state, micro_batch)
        trained, others, optimized, _ = state
        return trained, others, [optimized[i] for _, i in moments]

    def by_train(made: Any) -> Any:
        (trained, others, optimized, _), _ = made
        return trained, others, [optimized[i] for i, _ in moments]

    first = jax.tree.map(lambda part: part[0], data)
    return Program(
        model.train_step,
        ((trained, others, optimized, metrics), _placed(first, 0)),
        _trained(model),
        calls=MICRO_BATCHES,
        driven=Driven(train, ((trained, others, inner, metrics), batches), by_calls, by_train),
    )


def _summing(model: Any, optimizer: Any) -> Callable[[Any, Any], Any]:
    """A step that scans micro-batches, and updates once."""

    def loss(trained: Any, others: Any, x: Any, y: Any) -> Any:
        logits, others = model.stateless_call(trained, others, x, training=True)
        return model.compute_loss(x, y, logits), others

    def step(state: Any, batches: Any) -> Any:
        trained, others, optimized, metrics = state

        def accumulate(carry: Any, batch: Any) -> Any:
            total, others = carry
            (value, others), gradients = jax.value_and_grad(loss, has_aux=True)(trained, others, *batch)
            return (jax.tree.map(jnp.add, total, gradients), others), value

        zeros = jax.tree.map(jnp.zeros_like, trained)
        (total, others), losses = jax.lax.scan(accumulate, (zeros, others), batches)
        mean = [leaf / MICRO_BATCHES for leaf in total]
        trained, optimized = optimizer.stateless_apply(optimized, mean, trained)
        return (trained, others, optimized, metrics), losses

    return step


def _gpt2(**optimizer: Any) -> tuple[Any, Any]:
    """A compiled model, and micro-batches."""
    model = keras_hub.models.GPT2CausalLM(keras_hub.models.GPT2Backbone(**SIZES), preprocessor=None)
    ids = tokens(MICRO_BATCHES)
    x, y = {"token_ids": ids, "padding_mask": np.ones_like(ids)}, np.roll(ids, -1, axis=-1)
    _compile(model, x, y, **optimizer)
    return model, (x, y)


def _compile(model: Any, x: Any, y: Any, **optimizer: Any) -> None:
    """Keras makes the variables of optimizer and metrics with the first batch."""
    keras.utils.set_random_seed(0)
    model.compile(
        optimizer=_optimizer(**optimizer),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=[keras.metrics.SparseCategoricalAccuracy()],
    )
    model.train_on_batch(*jax.tree.map(lambda part: part[0], (x, y)))


def _optimizer(**options: Any) -> Any:
    return keras.optimizers.AdamW(1e-3, **options)


def _state(model: Any) -> tuple[list[jax.Array], ...]:
    """What Keras's trainer hands from step to step, split as its data-parallel distribution splits it."""
    groups = (
        model.trainable_variables,
        model.non_trainable_variables,
        model.optimizer.variables,
        model.metrics_variables,
    )
    return tuple([jnp.copy(variable.value) for variable in group] for group in groups)


def _trained(model: Any) -> list[jax.Array]:
    return [variable.value for variable in model.trainable_variables]


def _placed(data: Any, dimension: int = 1) -> Any:
    mesh = keras.distribution.distribution().device_mesh.backend_mesh
    spec = PartitionSpec(*(None for _ in range(dimension)), mesh.axis_names[0])
    return jax.device_put(data, NamedSharding(mesh, spec))


keras.distribution.set_distribution(keras.distribution.DataParallel())
