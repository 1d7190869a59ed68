"""Gradient accumulation by optax itself: `MultiSteps`, `apply_every` and `microbatch`, for a model of flax.linen."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

import paropt
from gallery_programs.program import (
    CLASSES,
    MICRO_BATCHES,
    WIDTH,
    Driven,
    Program,
    cross_entropy,
    data_mesh,
    examples,
    put,
)


class Classifier(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        h = nn.gelu(nn.Dense(2 * WIDTH)(nn.LayerNorm()(x)))
        return nn.Dense(CLASSES)((x + nn.Dense(WIDTH)(h)).mean(-2))


MODEL = Classifier()


def loss(parameters: Any, x: jax.Array, y: jax.Array) -> jax.Array:
    logits: Any = MODEL.apply(parameters, x)
    return cross_entropy(logits, y)


def adamw() -> optax.GradientTransformation:
    return optax.adamw(1e-3)


def multi_steps() -> optax.GradientTransformation:
    return optax.MultiSteps(adamw(), MICRO_BATCHES).gradient_transformation()


def apply_every() -> optax.GradientTransformation:
    return optax.chain(optax.sgd(1e-2), optax.apply_every(MICRO_BATCHES))


OPTIMIZERS = {"multi_steps": multi_steps, "apply_every": apply_every, "adamw": adamw}


def scanned(optimizer: str) -> Program:
    """A `lax.scan` over micro-batches, each of which updates the optimizer."""
    update, state, batch = _prepared(optimizer, MICRO_BATCHES)

    def step(state: Any, batch: Any) -> Any:
        return jax.lax.scan(_one(update), state, batch)

    return Program(step, (state, batch), state[0])


def unrolled(optimizer: str) -> Program:
    """The same as a loop of Python."""
    update, state, batch = _prepared(optimizer, MICRO_BATCHES)

    def step(state: Any, batch: Any) -> Any:
        losses = []
        for number in range(MICRO_BATCHES):
            state, value = _one(update)(state, jax.tree.map(lambda part: part[number], batch))  # noqa: B023
            losses.append(value)
        return state, jnp.stack(losses)

    return Program(step, (state, batch), state[0])


def called(optimizer: str) -> Program:
    """One call of the step per micro-batch."""
    update, state, batch = _prepared(optimizer)
    return Program(_one(update), (state, batch), state[0], calls=MICRO_BATCHES)


def accumulated() -> Program:
    """The same; `paropt.accumulate` has no need of `MultiSteps`, it takes the gradients and the inner optimizer."""
    step, optimizer = called("multi_steps"), adamw()
    parameters, state = step.args[0]
    _, _, batch = _prepared("adamw", MICRO_BATCHES)

    def compute_grad(state: Any, micro_batch: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(state[0], *micro_batch)
        return gradients, value

    def apply_grad(state: Any, gradients: Any) -> Any:
        parameters, inner = state
        updates, inner = optimizer.update(gradients, inner, parameters)
        return optax.apply_updates(parameters, updates), inner

    train = paropt.accumulate(
        compute_grad=compute_grad, apply_grad=apply_grad, microbatches=MICRO_BATCHES, has_aux=True
    )

    def by_calls(step: Callable[..., Any], state: Any, micro_batches: list[Any]) -> Any:
        values = []
        for micro_batch in micro_batches:
            state, value = step(state, micro_batch)
            values.append(value)
        parameters, state = state
        return (parameters, state.inner_opt_state), jnp.stack(values)

    driven = Driven(train, ((parameters, state.inner_opt_state), batch), by_calls, lambda made: made)
    return replace(step, driven=driven)


def microbatch(kind: str) -> Program:
    """`optax.microbatching.microbatch` of the function that returns loss and gradients of the whole batch."""
    from optax import microbatching

    optimizer, (parameters, state), _ = _prepared("adamw")
    mesh = data_mesh()
    x, y = examples(MICRO_BATCHES)
    batch = put(mesh, (x.reshape(-1, *x.shape[2:]), y.reshape(-1)), "data")
    gradient = microbatching.microbatch(
        jax.value_and_grad(loss),
        argnums=(1, 2),
        microbatch_size=x.shape[1],
        accumulator=microbatching.AccumulationType[kind],
    )

    def step(state: Any, batch: Any) -> Any:
        parameters, inner = state
        value, gradients = gradient(parameters, *batch)
        updates, inner = optimizer.update(gradients, inner, parameters)
        return (optax.apply_updates(parameters, updates), inner), value

    return Program(step, ((parameters, state), batch), parameters)


def _prepared(name: str, *leading: int) -> tuple[Any, Any, Any]:
    """The optimizer; parameters and its state; micro-batches."""
    mesh, optimizer = data_mesh(), OPTIMIZERS[name]()
    x, y = examples(*leading)
    parameters = MODEL.init(jax.random.key(0), x[(0,) * len(leading)])
    split = (*(None for _ in leading), "data")
    return optimizer, put(mesh, (parameters, optimizer.init(parameters))), put(mesh, (x, y), *split)


def _one(optimizer: optax.GradientTransformation) -> Callable[[Any, Any], Any]:
    def one(state: Any, micro_batch: Any) -> Any:
        parameters, inner = state
        value, gradients = jax.value_and_grad(loss)(parameters, *micro_batch)
        updates, inner = optimizer.update(gradients, inner, parameters)
        return (optax.apply_updates(parameters, updates), inner), value

    return one
