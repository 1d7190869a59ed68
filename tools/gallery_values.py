"""Whether a step of the gallery gives the same results with par-opt as by XLA alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]

# Of differences. Adam makes the last bits of a gradient that is 0 an update as large as others.
TOLERANCE, NOISE, MORE = 1e-4, 1e-3, 4


@dataclass(frozen=True)
class Values:
    """How par-opt's results differ from those of XLA alone, relative to the largest element of each array."""

    largest: float  # of the arrays that rounding does not make
    arrays: int
    noise: int  # arrays that rounding makes: those of XLA alone change as much with the last bit of its inputs
    wrong: int  # arrays that differ by more than rounding explains


class Difference(NamedTuple):
    """Of an array, relative to its largest element."""

    largest: float
    elements: int  # how many differ by more than TOLERANCE


def values_of(alone: Sequence[Array], ours: Sequence[Array], nudged: Sequence[Array]) -> Values:
    """The results of both, and those of XLA alone of inputs whose last bits are changed."""
    pairs = [
        (_difference(want, got), _difference(want, rounded))
        for want, got, rounded in zip(alone, ours, nudged, strict=True)
    ]
    return Values(
        largest=max((found.largest for found, rounded in pairs if rounded.largest <= NOISE), default=0.0),
        arrays=len(pairs),
        noise=sum(rounded.largest > NOISE for _, rounded in pairs),
        wrong=sum(not _is_rounding(*pair) for pair in pairs),
    )


def _difference(want: Array, got: Array) -> Difference:
    whole = want.astype(np.float64)
    scale = float(np.abs(whole).max(initial=0.0)) or 1.0
    apart = np.abs(got.astype(np.float64) - whole) / scale
    return Difference(float(apart.max(initial=0.0)), int(np.sum(~(apart <= TOLERANCE))))


def _is_rounding(found: Difference, rounded: Difference) -> bool:
    """Whether an array differs by no more than rounding does, or at no more elements."""
    if found.largest <= max(TOLERANCE, MORE * rounded.largest):
        return True
    return bool(np.isfinite(found.largest)) and found.elements <= MORE * rounded.elements
