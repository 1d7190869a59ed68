"""What a training program of the tests is: a step to jit, its arguments, and what becomes of its gradient sums."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh


@dataclass(frozen=True)
class Program:
    """A data-parallel training step that accumulates gradients over micro-batches."""

    step: Callable[..., Any]  # to be jitted; its first argument may be donated
    args: tuple[Any, ...]
    mesh: Mesh
    expected: str  # in words: what a pipeline that defers gradient sums makes of it
    gradient_bytes: int  # of one device's gradients: what one reduction per step combines
    is_deferrable: bool  # False: the sums must stay where they are
    tolerance: float  # relative, between sums taken in different order; 0.0: bit-equal


def data_mesh(devices: int = 8) -> Mesh:
    """A mesh of the first devices with the one axis `data`."""
    return Mesh(np.array(jax.devices()[:devices]), ("data",), axis_types=(AxisType.Auto,))


def tree_bytes(tree: Any) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
