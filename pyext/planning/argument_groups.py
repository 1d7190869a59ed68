"""The shardings of a plan by group of arguments: arrays alike whose names differ in numbers only, such as layers.

Tests: test/unit/pyext/planning/test_plan_page.py.
"""

import re
from collections.abc import Iterable
from math import prod
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.base.wording import size_text
from paropt.passes.ir.signature import Slot, signatures
from paropt.passes.ir.types import bytes_of, tensor_of
from paropt.passes.sharding.shardings import SHARDING, read_sharding
from paropt.passes.state.argument_roles import plain_path
from paropt.planning.candidates import Candidate
from paropt.planning.sharded_programs import Step, module_by_rules

_Axes = tuple[tuple[str, ...], ...]  # of each dimension
_NUMBER = re.compile(r"(?<=/)\d+(?=/|$)")


class ArgumentGroup(NamedTuple):
    """Arguments of one type and sharding."""

    name: str  # as in `state/params/layers/*/kernel`
    arrays: int
    type: str  # as in `f32[128, 512]`
    axes: _Axes | None  # of each dimension; None where no rule says, so Shardy chooses
    held: int  # bytes per device, of all together, as far as rules say

    @property
    def sharding(self) -> str:
        """As in `[data, model]`, with an empty place for a dimension that is whole."""
        if self.axes is None:
            return "left to Shardy"
        if not any(self.axes):
            return "replicated"
        return "[" + ", ".join(" x ".join(axes) or "-" for axes in self.axes) + "]"


def argument_groups(step: Step, candidate: Candidate) -> tuple[ArgumentGroup, ...]:
    """Those of the step's arguments with a name, in their order."""
    module = module_by_rules(step, candidate.mesh, candidate.rules)
    sizes = dict(candidate.mesh.axes)
    slots = [slot for signature in signatures(module.operation) for slot in signature.arguments if slot.path]
    alike: dict[tuple[str, ArgumentGroup], list[str]] = {}
    for slot in slots:
        path, axes = plain_path(slot.path), _axes(slot)
        one = ArgumentGroup("", 1, _type(slot.value), axes, _held(slot, axes, sizes))
        alike.setdefault((_NUMBER.sub("*", path), one), []).append(path)
    return tuple(
        one._replace(name=_common([path.split("/") for path in paths]), arrays=len(paths), held=one.held * len(paths))
        for (_, one), paths in alike.items()
    )


def texts_of(groups: Iterable[ArgumentGroup]) -> list[tuple[str, ...]]:
    """The texts of the titles, and of each group."""
    rows = ((g.name, str(g.arrays), g.type, g.sharding, size_text(g.held)) for g in groups)
    return [("arguments", "arrays", "type", "sharding", "per device"), *rows]


def _common(paths: list[list[str]]) -> str:
    """The paths with a star where they differ."""
    return "/".join(parts[0] if len(set(parts)) == 1 else "*" for parts in zip(*paths, strict=True))


def _axes(slot: Slot) -> _Axes | None:
    if SHARDING not in slot.notes:
        return None
    return tuple(tuple(axis.name for axis in axes) for axes in read_sharding(slot.notes[SHARDING]).dimensions)


def _held(slot: Slot, axes: _Axes | None, sizes: dict[str, int]) -> int:
    """Bytes of an argument on each device; all of it where no rule says."""
    tensor = tensor_of(slot.value)
    parts = prod(sizes[axis] for dimension in axes or () for axis in dimension)
    return bytes_of(tensor) // parts if tensor is not None else 0


def _type(value: ir.Value) -> str:
    tensor = tensor_of(value)
    return f"{tensor.element_type}[{', '.join(map(str, tensor.shape))}]" if tensor is not None else str(value.type)
