"""Typed random keys, as of `jax.random.key`: programs of stages take and return the numbers that they are made of.

Tests: test/numeric/test_pipeline_framework_steps.py.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from paropt.stages.step_plan import StageError


def is_key(leaf: Any) -> bool:
    """Whether `leaf`, an array or a shape, has typed keys."""
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def numbers_of(leaf: Any) -> Any:
    """The numbers of an array of keys; else `leaf`."""
    return jax.random.key_data(leaf) if is_key(leaf) and isinstance(leaf, jax.Array) else leaf


def like(numbers: jax.Array, key: Any) -> jax.Array:
    """The array of keys, of the kind of `key`, that is made of `numbers`; these, where `key` is none."""
    return jax.random.wrap_key_data(numbers, impl=jax.random.key_impl(key)) if is_key(key) else numbers


def with_keys(results: Any, wanted: Mapping[int, Any], leaves: Sequence[Any]) -> Any:
    """The `results` of a step, where those at some positions are keys of `wanted` types, as some of its arguments are.

    Raises StageError where no argument is of that type.
    """
    flat, tree = jax.tree.flatten(results)
    for position, dtype in wanted.items():
        key = next((leaf for leaf in leaves if is_key(leaf) and leaf.dtype == dtype), None)
        if key is None:
            raise StageError(f"result {position} is of {dtype}, and no argument is: return its jax.random.key_data")
        flat[position] = like(flat[position], key)
    return jax.tree.unflatten(tree, flat)
