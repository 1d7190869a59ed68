"""Targets whose compiler may not be installed, and what they compile."""

import re

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


def signs(hlo: str) -> list[str]:
    """What HLO consists of, in any order: the keys of JSON in it have none."""
    return sorted(re.findall(r"[\w.\-]+", hlo))
