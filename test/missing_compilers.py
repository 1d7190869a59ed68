"""Skips a test where it asks for a compiler that is not installed: those for TPU and GPU are optional (`make extras`).

Which are not is asked when the tests start: a test that plays without one is to fail where it should not need it.
"""

import re
from collections.abc import Generator

import pytest

from paropt.clusters import targets
from paropt.clusters.compiled import TargetError

_NEEDS = re.compile(r"\S+ needs (libtpu|jax's CUDA plugin): pip install ")


def missing() -> frozenset[str]:
    """What is not installed, as errors call it."""
    found: set[str] = set()
    for name in ("tpu:v5e:2x4", "gpu:h100:1x1x8"):
        try:
            targets.get(name).require_compiler()
        except TargetError as error:
            needed = _NEEDS.match(str(error))
            assert needed is not None, f"the error has other words: {error}"
            found.add(needed[1])
    return frozenset(found)


MISSING = missing()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    try:
        return (yield)
    except TargetError as error:
        needed = _NEEDS.match(str(error))
        if needed is not None and needed[1] in MISSING:
            pytest.skip(f"{error}, or `make extras`")
        raise


pytest_runtest_setup = pytest_runtest_call  # fixtures ask for compilers, too
