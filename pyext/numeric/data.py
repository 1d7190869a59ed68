"""Made-up arguments for a program: small integers where it is exact on them, else fractions as in training.

Fractions have no ties, such as inputs of a relu that are zero by chance: a gradient jumps there. Some are zero all the
same: an element of a state that is zero shows its gradient alone, and to the last bit.
"""

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

UNIFORM = (0, 3, 1)
_LARGEST = 0.25  # of fractions: sums of many products stay where activations are not saturated
_ZEROS = 0.2  # the share of fractions that are zero


class Argument(NamedTuple):
    """The type of an argument, and its use."""

    shape: tuple[int, ...]
    dtype: np.dtype
    not_negative: bool  # as a second moment
    used_as: np.dtype  # the float type of fewest bits that the program makes of it

    @property
    def is_uniform(self) -> bool:
        """A trip count or a predicate, maybe: equal on all devices."""
        return self.shape == () and self.dtype.kind in "iub"


def drawn(arguments: list[Argument], seed: int, devices: int | None, *, is_exact: bool) -> list[np.ndarray]:
    """An array for each argument; with `devices`, its first dimension has the array of each device."""
    rng = np.random.default_rng(seed)
    found = []
    for number, argument in enumerate(arguments):
        shape = argument.shape if devices is None else (devices, *argument.shape)
        if argument.is_uniform:
            found.append(np.full(shape, UNIFORM[(seed + number) % len(UNIFORM)]).astype(argument.dtype))
        else:
            found.append(_numbers(rng, shape, argument, is_exact=is_exact).astype(argument.dtype))
    return found


def perturbed(arguments: list[Argument], arrays: list[np.ndarray], seed: int) -> list[np.ndarray]:
    """`arrays`, where each float that is not zero is one or two ulps off: of the type that the program makes of it."""
    rng = np.random.default_rng(seed)
    return [
        _nearby(array, epsilon(argument.used_as), rng) if is_float(array.dtype) else array
        for argument, array in zip(arguments, arrays, strict=True)
    ]


def is_float(dtype: np.dtype) -> bool:
    """Also complex numbers."""
    return dtype.kind in "fc" or dtype == ml_dtypes.bfloat16


def epsilon(dtype: np.dtype) -> float:
    """From 1 to the next number."""
    return float(ml_dtypes.finfo(dtype).eps)


def _nearby(array: np.ndarray, step: float, rng: np.random.Generator) -> np.ndarray:
    factors: Any = 1 + step * rng.choice((-1, 1), array.shape)
    wide = np.complex128 if array.dtype.kind == "c" else np.float64
    return (array.astype(wide) * factors).astype(array.dtype)


def _numbers(rng: np.random.Generator, shape: tuple[int, ...], argument: Argument, *, is_exact: bool) -> np.ndarray:
    if argument.dtype.kind == "b":
        return rng.integers(0, 2, shape)
    if argument.dtype.kind in "iu":
        return rng.integers(0, 8, shape)  # most integers are indices
    parts = [_reals(rng, shape, argument, is_exact=is_exact) for _ in range(1 + (argument.dtype.kind == "c"))]
    return parts[0] if len(parts) == 1 else parts[0] + 1j * parts[1]


def _reals(rng: np.random.Generator, shape: tuple[int, ...], argument: Argument, *, is_exact: bool) -> np.ndarray:
    if is_exact:
        return rng.integers(-2, 3, shape)
    if argument.shape == ():  # a learning rate or decay, maybe
        return rng.uniform(0.25, 0.75, shape)
    if argument.not_negative:  # above the square of any other number: then a variance is not negative either
        return rng.uniform(_LARGEST**2, _LARGEST, shape)
    return rng.uniform(-_LARGEST, _LARGEST, shape) * (rng.random(shape) >= _ZEROS)
