"""Targets whose compiler may not be installed."""

import pytest

from paropt.clusters import targets


def available(name: str) -> targets.Target:
    """The target; skips the test where its compiler is not installed."""
    target = targets.get(name)
    try:
        target.require_compiler()
    except targets.TargetError as error:
        pytest.skip(f"{error}, or `make extras`")
    return target
