"""Kinds of locations: jaxlib has a class for each, but in 0.10.0, where all are of one class, which is asked.

Tests: test/unit/passes/support/test_pipeline.py.
"""

from collections.abc import Callable
from typing import Any

from jaxlib.mlir import ir


def _kind(name: str, question: str) -> Callable[[Any], bool]:
    kind = getattr(ir, name, None)
    if kind is not None:
        return lambda location: isinstance(location, kind)
    return lambda location: bool(getattr(location, question)())


is_position = _kind("FileLineColLoc", "is_a_file")
is_name = _kind("NameLoc", "is_a_name")
is_call_site = _kind("CallSiteLoc", "is_a_callsite")
is_fused = _kind("FusedLoc", "is_a_fused")
