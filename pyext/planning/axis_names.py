"""Modules that differ in the names of mesh axes only: XLA makes the same of them.

Tests: test/unit/pyext/planning/test_axis_names.py.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence

from jaxlib.mlir import ir

from paropt.passes.sharding.meshes import meshes_of
from paropt.reports.totals import Audit


def axis_names(module: ir.Operation) -> tuple[str, ...]:
    """Of all meshes of `module`, each name once."""
    return tuple(dict.fromkeys(name for mesh in meshes_of(module).values() for name in mesh.names))


def nameless(module: ir.Operation, names: Sequence[str]) -> str:
    """The text of `module` without positions, its axes called by their numbers."""
    text = str(module.get_asm())
    if not names:
        return text
    numbers = {f'"{name}"': f'"{number}"' for number, name in enumerate(names)}
    return re.sub("|".join(map(re.escape, numbers)), lambda found: numbers[found[0]], text)


def renamed(audit: Audit, names: Mapping[str, str]) -> Audit:
    """`audit`, its collectives over axes of other names."""

    def of(axis: str) -> str:
        name, colon, part = axis.partition(":")  # as in `data:(2)4`
        return f"{names.get(name, name)}{colon}{part}"

    found = (dataclasses.replace(each, axes=tuple(map(of, each.axes))) for each in audit.collectives)
    return dataclasses.replace(audit, collectives=tuple(found))
