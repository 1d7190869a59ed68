"""What the plain and the explicit forms of a training program share: layouts, the optimizer, and the definition."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec
from programs.models import Model
from programs.patterns import Pattern, Result
from programs.program import Program, Tree, placed, replicated, shard_bytes

RATE = 2.0**-8  # a power of two: exact on integers
DECAY = 0.5


@dataclass(frozen=True)
class Layout:
    """Where a program's arrays are."""

    mesh: Mesh
    data: tuple[str, ...]  # the axes that examples are split over
    parameters: Tree  # specs, and of the new parameters too
    gradients: Tree  # specs of a device's gradients before they are summed over devices
    sync_groups: frozenset[int]

    @property
    def batch(self) -> PartitionSpec:
        """Of (micro-batches, examples, ...)."""
        return PartitionSpec(None, self.data)


def data_parallel(model: Model, mesh: Mesh) -> Layout:
    """Parameters whole on each device, examples split."""
    specs = replicated(model.parameters)
    return Layout(mesh, ("data",), specs, specs, frozenset({mesh.size}))


def updated(parameters: Tree, gradients: Tree) -> Tree:
    return jax.tree.map(lambda p, g: p - RATE * g, parameters, gradients)


def decayed(momentum: Tree, gradients: Tree) -> Tree:
    return jax.tree.map(lambda m, g: DECAY * m + g, momentum, gradients)


def initial_momentum(parameters: Tree) -> Tree:
    """Not zero, so that what becomes of it shows in the result."""
    return jax.tree.map(jnp.ones_like, parameters)


def batches_of(model: Model, pattern: Pattern) -> tuple[jax.Array, ...]:
    """The model's micro-batches and, where the pattern has weights, these."""
    count = model.batches[0].shape[0]
    return (*model.batches, jnp.arange(1.0, count + 1)) if pattern.is_weighted else model.batches


def batch_specs(layout: Layout, model: Model, pattern: Pattern) -> tuple[PartitionSpec, ...]:
    weights = (PartitionSpec(),) if pattern.is_weighted else ()
    return (*[layout.batch] * len(model.batches), *weights)


def defined_gradients(
    model: Model, pattern: Pattern, parameters: Tree, batches: tuple[jax.Array, ...], scale: float
) -> Result:
    """From the definition: the gradients of each micro-batch, all of its examples at once."""
    inputs = batches[: len(model.batches)]
    micro_batches = [[batch[i] for batch in inputs] for i in range(inputs[0].shape[0])]
    gradient = jax.jit(jax.value_and_grad(model.loss))
    losses, gradients = zip(*[gradient(parameters, *micro_batch) for micro_batch in micro_batches], strict=True)
    total, extra = pattern.define(jnp.stack(losses), list(gradients), batches[-1])
    return jax.tree.map(lambda leaf: leaf * scale, total), extra


def definition(model: Model, pattern: Pattern, scale: float = 1.0) -> Callable[..., Result]:
    """`step(parameters, *batches)` on one device; gradients are multiplied by `scale`."""

    def step(parameters: Tree, *batches: jax.Array) -> Result:
        gradients, extra = defined_gradients(model, pattern, parameters, batches, scale)
        return updated(parameters, gradients), extra

    return step


def momentum_definition(model: Model, pattern: Pattern) -> Callable[..., Result]:
    """`step((parameters, momentum), *batches)` on one device."""

    def step(state: Tree, *batches: jax.Array) -> Result:
        gradients, extra = defined_gradients(model, pattern, state[0], batches, 1.0)
        momentum = decayed(state[1], gradients)
        return (updated(state[0], momentum), momentum), extra

    return step


def program(
    step: Callable[..., Any],
    model: Model,
    pattern: Pattern,
    layout: Layout,
    *,
    expected: str,
    is_deferrable: bool,
    state: tuple[Tree, Tree] | None = None,
    reference: Callable[..., Any] | None = None,
) -> Program:
    """The program of a step; its first argument and that argument's specs are `state`, if not the parameters'."""
    first, specs = state or (model.parameters, layout.parameters)
    arguments = (first, *batches_of(model, pattern))
    argument_specs = (specs, *batch_specs(layout, model, pattern))
    gradient_bytes = shard_bytes(model.parameters, layout.gradients, layout.mesh)
    return Program(
        step=step,
        args=placed(arguments, argument_specs, layout.mesh),
        mesh=layout.mesh,
        expected=expected,
        gradient_bytes=gradient_bytes,
        is_deferrable=is_deferrable,
        tolerance=0.0 if pattern.must_stay else model.tolerance,
        ideal_bytes=gradient_bytes * (model.batches[0].shape[0] if pattern.must_stay else 1),
        sync_groups=layout.sync_groups,
        reference=reference or definition(model, pattern),
    )
