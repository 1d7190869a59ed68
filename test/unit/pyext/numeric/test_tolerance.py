"""What `paropt.check` allows for: what other runs of the program do, and no more."""

import ml_dtypes
import numpy as np
import pytest

from paropt.numeric.data import Argument, drawn, perturbed
from paropt.numeric.tolerance import Result

NAN, INF = np.nan, np.inf
EXACT: list[np.ndarray] | None = None
STEADY = np.array([1.0, -2.0, 0.5, 0.0], np.float32)


def ratio(want: np.ndarray, got: np.ndarray, runs: list[np.ndarray] | None) -> float:
    """How much of what is allowed `got` is off; more than 1 is wrong."""
    result = Result(0, want, sums=2e-4)
    result.add(0, want, got, runs)
    found = result.found()
    assert found["difference"] == 0 or found["tolerance"] > 0 or found["must_be_equal"]
    return found["difference"] / (found["tolerance"] or 1e-30)


def noisy(want: np.ndarray, size: float) -> list[np.ndarray]:
    """Runs where each element is off by `size`, relative to it."""
    rng = np.random.default_rng(0)
    return [(want * (1 + size * rng.uniform(-1, 1, want.shape))).astype(want.dtype) for _ in range(6)]


@pytest.mark.parametrize("runs", [EXACT, [], noisy(STEADY, 1e-6)])
@pytest.mark.parametrize("kind", [np.float32, np.float64, ml_dtypes.bfloat16, np.complex64])
def test_not_finite(kind: type, runs: list[np.ndarray] | None) -> None:
    want: np.ndarray = np.array([NAN, INF, -INF, 1.0]).astype(kind)
    runs = runs and [want] * 6
    assert ratio(want, want.copy(), runs) == 0.0
    for place, other in [(0, 0.0), (0, INF), (1, -INF), (1, NAN), (2, 3.0), (3, NAN), (3, INF)]:
        got = want.copy()
        got[place] = other
        assert ratio(want, got, runs) > 1, (place, other)


def test_what_rounding_makes_no_number_of_in_another_run_is_not_compared() -> None:
    want, run = np.array([1e-9, 2.0], np.float32), np.array([NAN, 2.0], np.float32)
    assert ratio(want, run, [want] * 5 + [run]) == 0.0
    assert ratio(want, np.array([1e-9, NAN], np.float32), [want] * 5 + [run]) > 1


@pytest.mark.parametrize("size", [1e-7, 1e-5])
def test_as_far_off_as_other_runs(size: float) -> None:
    assert ratio(STEADY, noisy(STEADY, size)[0], noisy(STEADY, size)) <= 1
    assert ratio(STEADY, (STEADY * (1 + 30 * size + 2e-5)).astype(np.float32), noisy(STEADY, size)) > 1


def test_one_element_that_is_hard_to_compute_allows_nothing_for_the_others() -> None:
    runs = noisy(STEADY, 1e-7)
    for run in runs:
        run[1] = -2 + 0.1 * (run[1] + 2) / 1e-7
    assert ratio(STEADY, np.array([1.0, -2.05, 0.5, 0.0], np.float32), runs) <= 1
    assert ratio(STEADY, np.array([1.001, -2.0, 0.5, 0.0], np.float32), runs) > 1


def test_a_sign_that_other_runs_flip() -> None:
    """As by the first step of Adam for a gradient that is zero but for rounding."""
    want = np.array([0.01, 0.01, -0.01] * 10, np.float32)
    runs = [np.where(np.arange(30) % 7 == number, -want, want) for number in range(6)]
    assert ratio(want, np.where(np.arange(30) == 6, -want, want), runs) <= 1
    assert ratio(want, want * 40, runs) > 1


def test_integers_may_differ_only_where_other_runs_do() -> None:
    want, other = np.array([3, 4], np.int32), np.array([3, 5], np.int32)
    assert ratio(want, other, [want] * 6) > 1
    assert ratio(want, other, [want] * 5 + [other]) <= 1
    assert ratio(np.array([2**60], np.int64), np.array([2**60 + 1], np.int64), EXACT) > 1


def test_without_other_runs_sums_may_be_reassociated() -> None:
    assert ratio(STEADY, STEADY * np.float32(1.0001), []) <= 1
    assert ratio(STEADY, STEADY * np.float32(1.001), []) > 1


def test_arguments_nearby() -> None:
    types = [np.dtype(np.float32), np.dtype(ml_dtypes.bfloat16), np.dtype(np.complex64), np.dtype(np.int32)]
    arguments = [Argument((50,), dtype, False, dtype) for dtype in types]
    arguments.append(Argument((50,), types[0], True, types[1]))
    arrays = drawn(arguments, 0, None, is_exact=False)
    near = perturbed(arguments, arrays, 0)
    assert [array.dtype for array in near] == [*types, types[0]]
    assert np.array_equal(near[3], arrays[3]) and (arrays[0] == 0).any() and (arrays[4] > 0).all()
    for array, other, eps in [(arrays[0], near[0], 2**-23), (arrays[1], near[1], 2**-7), (arrays[4], near[4], 2**-7)]:
        off = np.abs(array.astype(float) - other.astype(float))
        assert ((off > 0) == (array != 0)).all() and (off <= 2 * eps * np.abs(array.astype(float))).all()


def test_integers_where_arithmetic_on_them_is_exact() -> None:
    dtype = np.dtype(np.float32)
    arrays = drawn([Argument((50,), dtype, False, dtype)], 0, 4, is_exact=True)
    assert arrays[0].shape == (4, 50) and set(np.unique(arrays[0])) == {-2, -1, 0, 1, 2}
