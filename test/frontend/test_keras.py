"""Keras's own `train_step` in a scan: `gradient_accumulation_steps` makes one reduction of several micro-batches."""

import os
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec
from programs.program import data_mesh, tree_bytes

import paropt

os.environ["KERAS_BACKEND"] = "jax"
keras = pytest.importorskip("keras")

STEPS, MICRO_BATCHES, EXAMPLES, WIDTH, CLASSES = 2, 4, 32, 64, 4  # gradients of more than 4 kB
TRIPS = STEPS * MICRO_BATCHES
ACCUMULATED = {"gradient_accumulation_steps": MICRO_BATCHES}
OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(0.1, **ACCUMULATED),
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9, **ACCUMULATED),
    "adam": lambda: keras.optimizers.Adam(0.01, **ACCUMULATED),
    "clipped adamw": lambda: keras.optimizers.AdamW(0.01, global_clipnorm=1.0, **ACCUMULATED),
    "averaged lion": lambda: keras.optimizers.Lion(0.01, use_ema=True, **ACCUMULATED),
}


def training(optimizer: Any) -> tuple[Any, Any]:
    """Micro-batches of several steps, scanned, and its arguments."""
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Input((WIDTH,)), keras.layers.Dense(32, activation="tanh"), keras.layers.Dense(CLASSES)]
    model = keras.Sequential(layers)
    model.compile(optimizer=optimizer, loss="mse")
    model.optimizer.build(model.trainable_variables)
    rng = np.random.default_rng(0)
    data = tuple(rng.normal(size=(TRIPS, EXAMPLES, width)).astype(np.float32) for width in (WIDTH, CLASSES))
    model.test_on_batch(*(part[0] for part in data))  # makes the variables of metrics
    kinds = (model.trainable_variables, model.non_trainable_variables, optimizer.variables, model.metrics_variables)
    state = [[np.asarray(variable.value) for variable in variables] for variables in kinds]

    def train(state: Any, data: Any) -> Any:
        def body(state: Any, micro_batch: Any) -> tuple[Any, Any]:
            logs, state = model.train_step(state, micro_batch)
            return list(state), logs

        return jax.lax.scan(body, state, data)

    mesh = data_mesh()
    replicated, split = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in ((), (None, "data")))
    return train, (jax.device_put(state, replicated), jax.device_put(data, split))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_only_updates_reduce_gradients(name: str) -> None:
    train, args = training(OPTIMIZERS[name]())
    size = tree_bytes(args[0][0])
    alone, ours = jax.jit(train), paropt.jit(train, strict=True)
    before, after = paropt.audit(alone.lower(*args)), paropt.audit(ours.lower(*args))
    assert before.sync_in_loop >= TRIPS * size
    gradients = [(bool(c.loops), c.at_most, c.payload) for c in after.collectives if c.payload >= size]
    assert sorted(gradients) == [(False, True, size), (True, True, size)], "in the branch that updates, or at the end"
    assert sum(c.payload for c in after.collectives if c.loops and not c.at_most) <= 4, "but for the loss"
    for want, got in zip(jax.tree.leaves(alone(*args)), jax.tree.leaves(ours(*args)), strict=True):
        scale = max(float(np.abs(np.asarray(want)).max()), 1e-6)
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=0, atol=1e-3 * scale)
