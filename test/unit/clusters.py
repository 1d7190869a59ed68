"""Targets whose compiler may not be installed, and what they compile."""

import re

from paropt.clusters import targets


def available(name: str) -> targets.Target:
    """The target, with its compiler: the test is skipped where that is not installed (test/missing_compilers.py)."""
    target = targets.get(name)
    target.require_compiler()
    return target


def signs(hlo: str) -> list[str]:
    """What HLO consists of, in any order: the keys of JSON in it have none."""
    return sorted(re.findall(r"[\w.\-]+", hlo))
