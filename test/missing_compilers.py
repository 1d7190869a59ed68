"""Skips a test where it asks for a compiler that is not installed: those for TPU and GPU are optional (`make extras`)."""

import re
from collections.abc import Generator

import pytest

from paropt.clusters.compiled import TargetError

_MISSING = re.compile(r"\S+ needs (libtpu|jax's CUDA plugin): pip install ")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    try:
        return (yield)
    except TargetError as error:
        if _MISSING.match(str(error)):
            pytest.skip(f"{error}, or `make extras`")
        raise
