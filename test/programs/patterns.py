"""The ways in which users accumulate gradients over micro-batches, and what each of them computes.

A pattern is written twice: as users write it, around a function that gives the gradients of one micro-batch, summed
over devices in whatever way; and as its definition, from the list of all those gradients, for one device.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax
from programs.models import cast
from programs.program import Tree

Gradient = Callable[..., tuple[jax.Array, Tree]]  # (parameters, *micro_batch) -> (loss, gradients)
Result = tuple[Tree, Tree]  # gradients of the step, what else the step returns


@dataclass(frozen=True)
class Pattern:
    """`accumulate(gradient, parameters, batches)` and its definition, `define(losses, gradients, weights)`."""

    accumulate: Callable[[Gradient, Tree, tuple[jax.Array, ...]], Result]
    define: Callable[[jax.Array, list[Tree], jax.Array], Result]
    is_weighted: bool = False  # the last batch has the weight of each micro-batch, the same on all devices
    must_stay: bool = False  # the sum over devices is read in every micro-batch


def _add(left: Tree, right: Tree) -> Tree:
    return jax.tree.map(jnp.add, left, right)


def _scaled(tree: Tree, factor: jax.Array | float) -> Tree:
    return jax.tree.map(lambda leaf: leaf * factor, tree)


def _norm(tree: Tree) -> jax.Array:
    return jnp.sqrt(sum(jnp.sum(leaf.astype(jnp.float32) ** 2) for leaf in jax.tree.leaves(tree)))


def _clip_factor(norm: jax.Array) -> jax.Array:
    return jnp.minimum(1.0, 1.0 / norm)


def _zeros(parameters: Tree) -> Tree:
    return jax.tree.map(jnp.zeros_like, parameters)


def _sum(gradients: list[Tree]) -> Tree:
    return jax.tree.map(lambda *leaves: sum(leaf.astype(jnp.float32) for leaf in leaves), *gradients)


def _scan(each: Callable[..., Result], parameters: Tree, batches: tuple[jax.Array, ...]) -> Result:
    """Sums the first result of `each(*micro_batch)` over the micro-batches; stacks the second one."""

    def body(total: Tree, micro_batch: tuple[jax.Array, ...]) -> Result:
        gradients, extra = each(*micro_batch)
        return _add(total, gradients), extra

    return lax.scan(body, _zeros(parameters), batches)


def _added(gradient: Gradient, parameters: Tree, batches: tuple[jax.Array, ...]) -> Result:
    def each(*micro_batch: jax.Array) -> Result:
        loss, gradients = gradient(parameters, *micro_batch)
        return gradients, loss

    return _scan(each, parameters, batches)


def _averaged(gradient: Gradient, parameters: Tree, batches: tuple[jax.Array, ...]) -> Result:
    count = batches[0].shape[0]
    return _scan(lambda *b: (_scaled(gradient(parameters, *b)[1], 1 / count), None), parameters, batches)


def _running_mean(gradient: Gradient, parameters: Tree, batches: tuple[jax.Array, ...]) -> Result:
    def body(state: tuple[Tree, jax.Array], micro_batch: tuple[jax.Array, ...]) -> tuple[Tree, None]:
        mean, i = state
        _, gradients = gradient(parameters, *micro_batch)
        return (jax.tree.map(lambda m, g: m + (g - m) / (i + 1), mean, gradients), i + 1), None

    (mean, _), _ = lax.scan(body, (_zeros(parameters), jnp.int32(0)), batches)
    return mean, None


def _added_in_f32(gradient: Gradient, parameters: Tree, batches: tuple[jax.Array, ...]) -> Result:
    def each(*micro_batch: jax.Array) -> Result:
        _, gradients = gradient(*cast((parameters, *micro_batch), jnp.bfloat16))
        return cast(gradients, jnp.float32), None

    return _scan(each, parameters, batches)


def _unrolled(gradient: Gradient, parameters: Tree, batches: tuple[jax.Array, ...]) -> Result:
    total = _zeros(parameters)
    for i in range(batches[0].shape[0]):
        total = _add(total, gradient(parameters, *(batch[i] for batch in batches))[1])
    return total, None


def _weighted(gradient: Gradient, parameters: Tree, batches: tuple[jax.Array, ...]) -> Result:
    def each(*micro_batch: jax.Array) -> Result:
        *inputs, weight = micro_batch
        return _scaled(gradient(parameters, *inputs)[1], weight), None

    return _scan(each, parameters, batches)


def _with_norms(gradient: Gradient, parameters: Tree, batches: tuple[jax.Array, ...]) -> Result:
    def each(*micro_batch: jax.Array) -> Result:
        _, gradients = gradient(parameters, *micro_batch)
        return gradients, _norm(gradients)

    return _scan(each, parameters, batches)


def _clipped(gradient: Gradient, parameters: Tree, batches: tuple[jax.Array, ...]) -> Result:
    def each(*micro_batch: jax.Array) -> Result:
        _, gradients = gradient(parameters, *micro_batch)
        return _scaled(gradients, _clip_factor(_norm(gradients))), None

    return _scan(each, parameters, batches)


def _stacked(gradient: Gradient, parameters: Tree, batches: tuple[jax.Array, ...]) -> Result:
    each = [gradient(parameters, *(batch[i] for batch in batches))[1] for i in range(batches[0].shape[0])]
    return jax.tree.map(lambda *leaves: jnp.mean(jnp.stack(leaves), 0), *each), None


def _mean(losses: jax.Array, gradients: list[Tree], weights: jax.Array) -> Result:
    return _scaled(_sum(gradients), 1 / len(gradients)), None


ADDED = Pattern(_added, lambda losses, gradients, weights: (_sum(gradients), losses))
AVERAGED = Pattern(_averaged, _mean)
RUNNING_MEAN = Pattern(_running_mean, _mean)
ADDED_IN_F32 = Pattern(_added_in_f32, lambda losses, gradients, weights: (_sum(gradients), None))
UNROLLED = Pattern(_unrolled, lambda losses, gradients, weights: (_sum(gradients), None))
STACKED = Pattern(_stacked, _mean)
WEIGHTED = Pattern(
    _weighted,
    lambda losses, gradients, weights: (_sum([_scaled(g, w) for g, w in zip(gradients, weights, strict=True)]), None),
    is_weighted=True,
)
WITH_NORMS = Pattern(
    _with_norms,
    lambda losses, gradients, weights: (_sum(gradients), jnp.stack([_norm(g) for g in gradients])),
    must_stay=True,
)
CLIPPED = Pattern(
    _clipped,
    lambda losses, gradients, weights: (_sum([_scaled(g, _clip_factor(_norm(g))) for g in gradients]), None),
    must_stay=True,
)
