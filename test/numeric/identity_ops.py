"""Identity ops, which leave a value as it is, in every way that XLA knows: the partitioner never sees them."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

Neutral = Callable[[jax.Array], jax.Array]

# Of matrices of floats.
NEUTRAL_OPS: dict[str, Neutral] = {
    "product with one": lambda v: v * 1.0,
    "product with a matrix of ones": lambda v: jnp.ones_like(v) * v,
    "product with a one that is converted and turned": lambda v: (
        v * jnp.ones(v.shape[::-1], jnp.int32).T.astype(v.dtype)
    ),
    "sum with zero": lambda v: 0.0 + v,
    "difference from zero": lambda v: v - 0.0,
    "choice": lambda v: jnp.where(jnp.ones(v.shape, bool), v, 2 * v),
    "choice of the other": lambda v: lax.select(jnp.zeros(v.shape, bool), 2 * v, v),
    "choice of two that are one": lambda v: lax.select(lax.iota(jnp.int32, v.size).reshape(v.shape) > 3, v, v),
    "reshapes": lambda v: lax.reshape(lax.reshape(v, (v.size,)), v.shape),
    "three reshapes": lambda v: lax.reshape(lax.reshape(lax.reshape(v, (v.size,)), v.shape[::-1]), v.shape),
    "transposes": lambda v: lax.transpose(lax.transpose(v, (1, 0)), (1, 0)),
    "pad with nothing": lambda v: lax.pad(v, jnp.zeros((), v.dtype), [(0, 0, 0)] * v.ndim),
    "slice of all": lambda v: lax.slice(v, (0,) * v.ndim, v.shape),
    "part of a complex number": lambda v: lax.real(lax.complex(v, 2 * v)),
    "other part of a complex number": lambda v: lax.imag(lax.complex(2 * v, v)),
    "several": lambda v: (lax.transpose(lax.transpose(v * 1.0, (1, 0)) + 0.0, (1, 0))) * 1.0,
}
