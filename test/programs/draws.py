"""Arrays for programs, drawn by numpy: for each shape jax would compile the drawing, which takes longer than they do."""

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

DIFFERENT = 65521  # values of an array, at most: to draw a hundred million takes seconds. A prime, so that rows differ

_nothing = False


@contextlib.contextmanager
def nothing_drawn() -> Iterator[None]:
    """Within the block, arrays are what jax calls abstract: for `jax.eval_shape`."""
    global _nothing
    before, _nothing = _nothing, True
    try:
        yield
    finally:
        _nothing = before


def normal(seed: int, shape: tuple[int, ...]) -> Any:
    """Normal deviates in f32, of numpy."""
    if _nothing:
        return jnp.zeros(shape, jnp.float32)
    return np.resize(np.random.default_rng(seed).standard_normal(_count(shape), np.float32), shape)


def values(seed: int, shape: tuple[int, ...], integers: bool = False) -> jax.Array:
    """Normal deviates of a layer, or integers so small that f32 holds every sum of their products."""
    if integers and not _nothing:
        drawn = np.random.default_rng(seed).integers(-1, 2, _count(shape)).astype(np.float32)
        return jnp.array(np.resize(drawn, shape))
    return jnp.array(normal(seed, shape) / np.float32(np.sqrt(shape[-1])))


def stacked(arrays: tuple[Any, ...]) -> Any:
    """Arrays that `normal` has drawn, as one."""
    return jnp.stack(arrays) if _nothing else np.stack(arrays)


def _count(shape: tuple[int, ...]) -> int:
    return min(math.prod(shape), DIFFERENT)
