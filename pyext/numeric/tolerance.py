"""The rounding error allowed for a result: its movement when each argument moves by an ulp, in several runs.

Passes reassociate sums. The effect on a result depends on how well the program is conditioned: the first step of Adam
divides a gradient by its size, and one that is zero but for rounding becomes a whole step up or down. So the program
itself is run again with arguments that are one or two ulps away, and each element may differ by a few times its
difference in these runs. How many times, they say themselves: by how much one of them exceeds all others.
"""

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from paropt.numeric.data import epsilon, is_float

_ULPS = 8  # of the element: rounding at the end, after which runs are often equal
_MARGIN = 4  # times the largest excess of a run over the others
_CAP = 16  # times the largest movement of an element


class _Worst(NamedTuple):
    """An element that differs."""

    apart: float
    scale: float  # its movement
    largest: float  # element of the result
    device: int


class Result:
    """One result, over sets of data and devices: the differences, and how far it moves by rounding."""

    def __init__(self, number: int, piece: np.ndarray, sums: float) -> None:
        """`sums`: the difference allowed for reassociated sums, relative to the largest element, where no run says."""
        self._number, self._sums = number, sums
        self._type = f"{piece.dtype.name}[{','.join(map(str, piece.shape))}]"
        self._is_float = is_float(piece.dtype)
        self._is_exact = True  # until it is not
        self._excess = 1.0  # how far a run may exceed the others
        self._moves = 0.0  # how far any element does
        self._worst: list[_Worst] = []

    def add(self, device: int, want: np.ndarray, got: np.ndarray, runs: list[np.ndarray] | None) -> None:
        """One device's part; `runs` with other arguments, [] where there are none, None if `got` must be `want`."""
        if want.shape != got.shape or want.dtype != got.dtype:
            self._worst.append(_Worst(np.inf, 0.0, 1.0, device))
            return
        apart = _apart(want, got)
        moved = [_apart(want, run) for run in runs or []]
        numbers = np.abs(_finite(want))
        largest = float(numbers.max(initial=0)) or float(np.finfo(np.float64).tiny)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            least = self._least(want, numbers, largest, runs)
            scale = self._scale(moved, least)
            apart[scale == np.inf] = 0.0  # a run is NaN there and another is not
            shares = apart / scale
        if runs is not None and (self._is_float or any(move.any() for move in moved)):
            self._is_exact = False
        for place in {int(np.argmax(shares)), int(np.argmax(apart))} if apart.any() else ():
            self._worst.append(_Worst(float(apart[place]), float(scale[place]), largest, device))

    def _least(
        self, want: np.ndarray, numbers: np.ndarray, largest: float, runs: list[np.ndarray] | None
    ) -> np.ndarray:
        """How far each element may move at least."""
        if not self._is_float or runs is None:
            return np.full(numbers.shape, np.finfo(np.float64).tiny)
        if not runs:
            return np.full(numbers.shape, largest * self._sums / _MARGIN)
        return numbers * epsilon(want.dtype) * _ULPS + float(ml_dtypes.finfo(want.dtype).tiny)

    def _scale(self, moved: list[np.ndarray], least: np.ndarray) -> np.ndarray:
        """How far each element moves."""
        if not moved:
            self._moves = max(self._moves, float(least.max(initial=0)))
            return least
        moves = np.stack(moved)
        most, second = (np.sort(moves, axis=0)[place] for place in (-1, -2))
        steady = most < np.inf
        if steady.any():
            self._excess = max(self._excess, float((most / (second + least))[steady].max()))
            self._moves = max(self._moves, float((most + least)[steady].max()))
        return most + least

    def found(self) -> dict[str, Any]:
        """The fields of `check.Compared`."""
        worst = max(self._worst, key=lambda w: w.apart / self._allowed(w), default=_Worst(0.0, 0.0, 1.0, 0))
        return {
            "number": self._number,
            "type": self._type,
            "must_be_equal": self._is_exact,
            "difference": worst.apart / worst.largest,
            "tolerance": 0.0 if self._is_exact else self._allowed(worst) / worst.largest,
            "device": worst.device,
        }

    def _allowed(self, worst: _Worst) -> float:
        return min(_MARGIN * self._excess * worst.scale, _CAP * self._moves) or float(np.finfo(np.float64).tiny)


def are_equal(want: np.ndarray, got: np.ndarray) -> bool:
    """Whether all bits are the same; of NaNs, that they are NaN."""
    return want.dtype == got.dtype and np.array_equal(want, got, equal_nan=is_float(want.dtype))


def _flat(piece: np.ndarray) -> np.ndarray:
    """The numbers in `piece`, of complex ones both parts."""
    if piece.dtype.kind == "c":
        return np.stack([piece.real, piece.imag]).astype(np.float64).ravel()
    return piece.astype(np.float64).ravel()


def _finite(piece: np.ndarray) -> np.ndarray:
    return np.nan_to_num(_flat(piece), nan=0.0, posinf=0.0, neginf=0.0)


def _apart(want: np.ndarray, got: np.ndarray) -> np.ndarray:
    """How far each number is off: 0 if both are NaN or the same infinity, inf if only one of them is finite."""
    if not is_float(want.dtype):  # large integers are the same as floats when they are not
        return np.where(want == got, 0.0, np.maximum(np.abs(_flat(want).reshape(want.shape) - got), 1.0)).ravel()
    one, other = _flat(want), _flat(got)
    with np.errstate(invalid="ignore"):
        apart = np.abs(one - other)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    return np.where(same, 0.0, np.where(np.isnan(apart), np.inf, apart))
