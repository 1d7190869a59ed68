"""Arrays for programs, drawn by numpy: jax would compile the drawing for each shape, which takes longer than most do."""

import math

import jax
import jax.numpy as jnp
import numpy as np

DIFFERENT = 65521  # values of an array, at most: to draw a hundred million takes seconds. A prime, so that rows differ


def normal(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """Normal deviates in f32."""
    return np.resize(np.random.default_rng(seed).standard_normal(_count(shape), np.float32), shape)


def values(seed: int, shape: tuple[int, ...], integers: bool = False) -> jax.Array:
    """Normal deviates of a layer, or integers so small that f32 holds every sum of their products."""
    if integers:
        drawn = np.random.default_rng(seed).integers(-1, 2, _count(shape))
        return jnp.array(np.resize(drawn, shape).astype(np.float32))
    return jnp.array(normal(seed, shape) / np.float32(np.sqrt(shape[-1])))


def _count(shape: tuple[int, ...]) -> int:
    return min(math.prod(shape), DIFFERENT)
