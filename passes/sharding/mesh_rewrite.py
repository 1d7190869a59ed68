"""Rewrites of an axis of the meshes, in every attribute that names it.

Attributes are rewritten as text: jaxlib has no classes for some of Shardy's, and in the text of all of them a string
in quotes is the name of an axis, unless it follows `@`.
"""

import re
from dataclasses import dataclass
from math import prod

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from paropt.passes.ir.signature import entries
from paropt.passes.sharding.shardings import GSPMD_SHARDING
from paropt.passes.support.remarks import require
from paropt.passes.support.traversal import all_ops_of

_STRING = r'"(?:[^"\\]|\\.)*"'
_SDY_NAME = re.compile(rf"(?P<symbol>@)?(?P<name>{_STRING})(?:=(?P<size>\d+)|:\((?P<before>\d+)\)(?P<part>\d+))?")
_STABLEHLO_NAME = re.compile(
    rf"#stablehlo\.axis_ref<name = (?P<name>{_STRING})(?:, sub_axis_info = \((?P<before>\d+)\)(?P<part>\d+))?>"
)
_STABLEHLO_MESH = "stablehlo.mesh"  # jax's copy of a mesh, beside the `sdy.mesh`
_FRONTEND, _EXPORTED = "mhlo.frontend_attributes", "xla.sdy."
_NO_AXES = "value"  # of constants; jaxlib cannot read some


@dataclass(frozen=True)
class Split:
    """An axis, and the axes that it is split into, the most major one first."""

    name: str
    into: tuple[tuple[str, int], ...]  # name and size

    def __str__(self) -> str:
        return ", ".join(f"{name}:{size}" for name, size in self.into)

    @property
    def size(self) -> int:
        return prod(size for _, size in self.into)

    def parts(self, before: int, size: int) -> list[tuple[str, int, int]] | None:
        """A part of the old axis as parts of the new ones: name, product before it, size. None when it is none."""
        found = []
        start = 1  # of a new axis within the old one
        for name, length in self.into:
            low, high = max(start, before), min(start * length, before * size)
            if low < high:
                if low % start or high % low or length % (high // start):
                    return None
                found.append((name, low // start, high // low))
            start *= length
        return found


def rewrite_axis(module: ir.Operation, split: Split) -> int:
    """Splits the axis wherever it is named; returns in how many attributes. Raises Declined, and changes nothing then.

    Every mesh of `module` that has the axis is one that can be split.
    """
    rewriter = _Rewriter(split, module.context)
    changes = []
    for op in all_ops_of(module):
        for name in op.attributes:
            if name != _NO_AXES:
                old = op.attributes[name]
                changes.append((op, name, old, rewriter.rewritten(name, old, op)))
    changes = [change for change in changes if change[2] != change[3]]
    for op, name, _, new in changes:
        op.attributes[name] = new
    return len(changes)


class _Rewriter:
    def __init__(self, split: Split, context: ir.Context) -> None:
        self._split = split
        self._context = context
        self._sizes = dict(split.into)
        self._old = self._quoted(split.name)
        self._done: dict[tuple[str, ir.Attribute], ir.Attribute] = {}

    def rewritten(self, name: str, attribute: ir.Attribute, op: ir.Operation) -> ir.Attribute:
        """The attribute, which `op` calls `name`, after the split."""
        if (name, attribute) not in self._done:
            self._done[name, attribute] = self._rewritten(name, attribute, op)
        return self._done[name, attribute]

    def _rewritten(self, name: str, attribute: ir.Attribute, op: ir.Operation) -> ir.Attribute:
        match attribute:
            case ir.DictAttr():
                if name == _STABLEHLO_MESH:
                    return self._mesh_note(entries(attribute))
                return self._dictionary(name, entries(attribute), op)
            case ir.ArrayAttr():
                return ir.ArrayAttr.get([self.rewritten(name, element, op) for element in attribute], self._context)
            case ir.StringAttr():
                is_plain = name != GSPMD_SHARDING or f"'{self._split.name}'" not in attribute.value
                require(is_plain, f"{op.name} names the axis in a string, {name}", op)
                return attribute
        if type(attribute).__module__ == ir.Attribute.__module__ and type(attribute) is not ir.Attribute:
            return attribute  # numbers and symbols
        text = str(attribute)
        if self._old not in text:
            return attribute
        is_known = text.startswith(("#sdy", "#stablehlo.replica_group_mesh_axes")) and "#stablehlo.mesh<" not in text
        require(is_known, f"{op.name} names the axis in {name}, which is not known here", op)
        return ir.Attribute.parse(self._text(text, op), self._context)

    def _dictionary(self, name: str, given: dict[str, ir.Attribute], op: ir.Operation) -> ir.Attribute:
        for key, value in given.items():
            is_plain = name != _FRONTEND or not key.startswith(_EXPORTED) or self._split.name not in str(value)
            require(is_plain, f"{op.name} names the axis in a string, {key}", op)
        return ir.DictAttr.get({key: self.rewritten(key, value, op) for key, value in given.items()}, self._context)

    def _mesh_note(self, given: dict[str, ir.Attribute]) -> ir.Attribute:
        axes: list[ir.Attribute] = []
        for axis in ir.ArrayAttr(given["axes"]):
            size = entries(axis)["size"]
            is_old = ir.StringAttr(entries(axis)["name"]).value == self._split.name
            for name, length in self._split.into if is_old else ():
                new = {
                    "name": ir.StringAttr.get(name, self._context),
                    "size": ir.IntegerAttr.get(ir.IntegerAttr(size).type, length),
                }
                axes.append(ir.DictAttr.get(new, self._context))
            axes += [] if is_old else [axis]
        return ir.DictAttr.get({**given, "axes": ir.ArrayAttr.get(axes, self._context)}, self._context)

    def _text(self, text: str, op: ir.Operation) -> str:
        self._require_fitting_meshes(text, op)

        def sdy_name(found: re.Match[str]) -> str:
            if found["symbol"] or found["name"] != self._old:
                return found[0]
            if found["size"]:
                return ", ".join(f"{self._quoted(name)}={size}" for name, size in self._split.into)
            return ", ".join(self._sdy(*part) for part in self._parts(found, op))

        def stablehlo_name(found: re.Match[str]) -> str:
            if found["name"] != self._old:
                return found[0]
            return ", ".join(self._stablehlo(*part) for part in self._parts(found, op))

        if text.startswith("#sdy"):
            return _SDY_NAME.sub(sdy_name, text)
        return _STABLEHLO_NAME.sub(stablehlo_name, text)

    def _require_fitting_meshes(self, text: str, op: ir.Operation) -> None:
        """Declines when a mesh that is written out in the attribute cannot be split."""
        sizes = {found["name"]: found["size"] for found in _SDY_NAME.finditer(text) if found["size"]}
        if self._old not in sizes:
            return
        fits = int(sizes[self._old]) == self._split.size
        require(fits, f"{op.name} has a mesh with an axis {self._old} of size {sizes[self._old]}", op)
        taken = [name for name in map(self._quoted, self._sizes) if name != self._old and name in sizes]
        require(not taken, f"{op.name} has a mesh with an axis {next(iter(taken), '')} already", op)

    def _parts(self, found: re.Match[str], op: ir.Operation) -> list[tuple[str, int, int]]:
        if found["part"] is None:
            return [(name, 1, size) for name, size in self._split.into]
        before, size = int(found["before"]), int(found["part"])
        parts = self._split.parts(before, size)
        what = f"{found['name']}:({before}){size}"
        require(parts is not None, f"{op.name} names a part of the axis, {what}, that {self._split} cannot say", op)
        assert parts is not None, "the condition does not hold"
        return parts

    def _sdy(self, name: str, before: int, size: int) -> str:
        quoted = self._quoted(name)
        return quoted if size == self._sizes[name] else f"{quoted}:({before}){size}"

    def _stablehlo(self, name: str, before: int, size: int) -> str:
        part = "" if size == self._sizes[name] else f", sub_axis_info = ({before}){size}"
        return f"#stablehlo.axis_ref<name = {self._quoted(name)}{part}>"

    def _quoted(self, name: str) -> str:
        """The name as MLIR writes it: with quotes, and escapes for characters other than letters."""
        return str(sdy.AxisRefAttr.get(name, context=self._context)).removeprefix("#sdy<axis_ref").removesuffix(">")
