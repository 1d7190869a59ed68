"""Shardings as the module says them: the mesh axes that shard each dimension of a value. Not to be compared between
meshes: see `distributions.py`.
"""

from collections.abc import Collection, Iterable, Sequence
from math import prod
from typing import NamedTuple

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from paropt.passes.ir.control_flow import MANUAL as MANUAL
from paropt.passes.ir.op_table import says_sharding
from paropt.passes.sharding.axes import Axes, Axis, axes_in, joined_parts, names_of, spelled, units
from paropt.passes.sharding.meshes import Mesh, mesh_named, mesh_of
from paropt.passes.support.memoize import Remembered
from paropt.passes.support.traversal import defining_op, is_within, module_of

SHARDING = "sdy.sharding"  # the attribute
GSPMD_SHARDING = "mhlo.sharding"


class Sharding(NamedTuple):
    """The sharding of one value on a mesh."""

    mesh: str  # `@mesh`, or the mesh spelled out
    dimensions: tuple[Axes, ...]
    unreduced: Axes = ()  # over these, each device holds an addend of the value

    @property
    def axes(self) -> frozenset[Axis]:
        """The axes that shard some dimension."""
        return frozenset(axis for axes in self.dimensions for axis in axes)


def refines(sharding: Sharding, other: Sharding | None) -> bool:
    """Whether `sharding` shards further than `other`, without moving anything."""
    if other is None:
        return bool(sharding.axes)
    pairs = list(zip(sharding.dimensions, other.dimensions, strict=True))
    return sharding.axes > other.axes and all(mine[: len(theirs)] == theirs for mine, theirs in pairs)


def parts_in(module: ir.Operation, sharding: Sharding) -> int:
    """Into how many parts `sharding` cuts a value."""
    if not sharding.axes:  # the usual case, and free
        return 1
    sizes = _sizes(module, sharding.mesh)
    return prod(axis.size(sizes) for axis in sharding.axes)


def is_even(value: ir.Value, sharding: Sharding, module: ir.Operation) -> bool:
    """Whether `sharding` cuts each dimension of `value` into equal parts."""
    sizes = ir.RankedTensorType(value.type).shape
    cuts = [parts_in(module, Sharding(sharding.mesh, (over,))) if over else 1 for over in sharding.dimensions]
    return all(size % parts == 0 for size, parts in zip(sizes, cuts, strict=True))


def unsplit(value: ir.Value, mesh: str) -> Sharding:
    """All of `value` on each device."""
    return Sharding(mesh, ((),) * rank_of(value))


def rank_of(value: ir.Value) -> int:
    """The rank; 0 for other types than tensors, as Shardy has it."""
    return value.type.rank if isinstance(value.type, ir.RankedTensorType) else 0


def without(dimensions: Sequence[Axes], axes: Axes) -> tuple[Axes, ...]:
    """`dimensions`, sharded over none of `axes` nor parts of them."""
    return tuple(tuple(a for a in over if not names_of([a]) & names_of(axes)) for over in dimensions)


def read_sharding(attribute: ir.Attribute) -> Sharding:
    return _READ(attribute, attribute.context)


def _read(attribute: ir.Attribute) -> Sharding:
    sharding = sdy.TensorShardingAttr(attribute)
    dimensions = [axes_in(dimension) for dimension in sharding.dimension_shardings]
    mesh = str(sharding.mesh_or_ref).removeprefix("#sdy.")  # as it stands inside of a sharding
    return Sharding(mesh, tuple(dimensions), _joined(sharding.unreduced_axes))


_READ = Remembered(_read)


def open_sharding(
    mesh: str, dimensions: Sequence[Axes], unreduced: Axes = (), closed: Collection[int] = ()
) -> ir.Attribute:
    """Sharded at least like that, and the dimensions `closed` exactly so; Shardy may add further axes.

    Unreduced axes come in the mesh's order.
    """
    return _written(mesh, [axes if i in closed else (*axes, "?") for i, axes in enumerate(dimensions)], unreduced)


def closed_sharding(mesh: str, dimensions: Sequence[Axes], unreduced: Axes = ()) -> ir.Attribute:
    """The closed sharding over these axes."""
    return _written(mesh, dimensions, unreduced)


def _written(mesh: str, dimensions: Sequence[Sequence[Axis | str]], unreduced: Axes) -> ir.Attribute:
    dims = ", ".join(map(spelled, dimensions))
    tail = f", unreduced={spelled(unreduced)}" if unreduced else ""
    return _PARSED(f"#sdy.sharding<{mesh}, [{dims}]{tail}>", ir.Context.current)


def says(attribute: ir.Attribute, asked: ir.Attribute) -> bool:
    """Whether a sharding equals `asked`, but for dimensions that `asked` leaves open."""
    own, other = map(sdy.TensorShardingAttr, (attribute, asked))
    if own.mesh_or_ref != other.mesh_or_ref or own.unreduced_axes != other.unreduced_axes:
        return False
    for said, dimension in zip(own.dimension_shardings, other.dimension_shardings, strict=True):
        wanted = sdy.DimensionShardingAttr(dimension)
        if said != dimension and (wanted.is_closed or len(wanted.axes)):
            return False
    return True


def closed_as_said(asked: ir.Attribute, said: ir.Attribute) -> ir.Attribute:
    """The sharding `asked`; of dimensions that it leaves open, those that `said` closes are as that says."""
    own, other = map(sdy.TensorShardingAttr, (said, asked))
    if own.mesh_or_ref != other.mesh_or_ref or len(own.unreduced_axes):
        return asked
    used = names_of(read_sharding(asked).axes)
    dimensions = list(other.dimension_shardings)
    for i, (mine, theirs) in enumerate(zip(own.dimension_shardings, dimensions, strict=True)):
        closed, wanted = map(sdy.DimensionShardingAttr, (mine, theirs))
        if closed.is_closed and not wanted.is_closed and not len(wanted.axes) and not used & names_of(axes_in(mine)):
            dimensions[i] = mine
    return sdy.TensorShardingAttr.get(other.mesh_or_ref, dimensions, unreduced_axes=list(other.unreduced_axes))


_PARSED = Remembered[str, ir.Attribute](ir.Attribute.parse)


def mesh_behind(module: ir.Operation, mesh: str) -> Mesh | None:
    """The mesh of a `Sharding`; None for the name of one that `module` lacks."""
    if mesh.startswith("@"):
        return mesh_named(module, mesh[1:])
    return mesh_of(ir.Attribute.parse(f"#sdy.{mesh}", module.context))


def in_mesh_order(module: ir.Operation, mesh: str, axes: Iterable[Axis]) -> Axes:
    """`axes` in the order in which the mesh names them; parts of one from major to minor, joined where they meet."""
    return joined_parts(axes, _sizes(module, mesh))


def units_of(module: ir.Operation, mesh: str, axes: Iterable[Axis]) -> Axes:
    """`axes` as parts of prime size, major first."""
    return units(axes, _sizes(module, mesh))


def _sizes(module: ir.Operation, mesh: str) -> dict[str, int]:
    found = mesh_behind(module, mesh)
    return dict(found.axes) if found is not None else {}


def sharding_of(value: ir.Value) -> Sharding | None:
    """The sharding that the module gives `value`; None without one."""
    op = defining_op(value)
    if op is None:
        return _of_argument(ir.BlockArgument(value))
    if op.name.startswith("sdy."):  # collectives, constraints and reshards
        for name in ("out_sharding", "sharding"):
            if name in op.attributes:
                return read_sharding(op.attributes[name])
    name = "out_shardings" if op.name == MANUAL else SHARDING
    return _listed(op, name, ir.OpResult(value).result_number)


def is_idle(constraint: ir.Operation) -> bool:
    """Whether `constraint` declares unreduced a value that the program has just declared so: a no-op for XLA."""
    before = defining_op(constraint.operands[0])
    if before is None or not says_sharding(before):
        return False
    was, now = sharding_of(constraint.operands[0]), sharding_of(constraint.results[0])
    return was is not None and not was.unreduced and now is not None and bool(now.unreduced)


def operand_sharding(computation: ir.Operation, position: int) -> Sharding:
    """How the manual `computation` takes that operand."""
    return read_sharding(_all_listed(computation, "in_shardings")[position])


def result_shardings(computation: ir.Operation) -> list[Sharding]:
    """How the manual `computation` returns each of its results: many at once, because one takes as long as all."""
    return [read_sharding(sharding) for sharding in _all_listed(computation, "out_shardings")]


def _of_argument(argument: ir.BlockArgument) -> Sharding | None:
    op = argument.owner.owner.operation
    match op.name:
        case "stablehlo.while":
            return _listed(op, SHARDING, argument.arg_number)
        case "func.func" if "arg_attrs" in op.attributes:
            noted = ir.DictAttr(ir.ArrayAttr(op.attributes["arg_attrs"])[argument.arg_number])
            return read_sharding(noted[SHARDING]) if SHARDING in noted else None
        case "sdy.manual_computation":
            outside = operand_sharding(op, argument.arg_number)
            return outside._replace(dimensions=without(outside.dimensions, axes_in(op.attributes["manual_axes"])))
        case _:
            return None


def _listed(op: ir.Operation, name: str, position: int) -> Sharding | None:
    attribute = op.attributes.get(name)
    return _LISTED(attribute, attribute.context)[position] if attribute is not None else None


def _read_listed(attribute: ir.Attribute) -> list[Sharding]:
    return [read_sharding(sharding) for sharding in sdy.TensorShardingPerValueAttr(attribute).shardings]


_LISTED = Remembered(_read_listed)


def _all_listed(op: ir.Operation, name: str) -> Sequence[ir.Attribute]:
    return sdy.TensorShardingPerValueAttr(op.attributes[name]).shardings


def _joined(axes: Sequence[ir.Attribute]) -> Axes:
    return tuple(axis for attribute in axes for axis in axes_in(attribute))


def is_manual(op: ir.Operation) -> bool:
    """Whether `op` is inside an `sdy.manual_computation`, where values are one device's."""
    return is_within(op, MANUAL)


def shardings_across(manual: ir.Operation) -> list[Sharding]:
    """The shardings of operands and results of the manual computation."""
    return [read_sharding(s) for name in ("in", "out") for s in _all_listed(manual, f"{name}_shardings")]


def leaves_axes(manual: ir.Operation) -> bool:
    """Whether the manual computation has axes of its mesh that it leaves to the partitioner."""
    shardings = shardings_across(manual)
    if not shardings:
        return False
    mesh = mesh_behind(module_of(manual), shardings[0].mesh)
    return mesh is not None and not set(mesh.names) <= names_of(axes_in(manual.attributes["manual_axes"]))


def manual_around(op: ir.Operation) -> ir.Operation | None:
    """The innermost `sdy.manual_computation` that `op` is in."""
    while op.parent is not None:
        op = op.parent.operation
        if op.name == MANUAL:
            return op
    return None


def is_all_manual(manual: ir.Operation) -> bool:
    """Whether no axis of the mesh, which is known, is left to the partitioner, but those of size 1."""
    axes = names_of(axes_in(manual.attributes["manual_axes"]))
    shardings = shardings_across(manual)
    mesh = mesh_behind(module_of(manual), shardings[0].mesh) if shardings else None
    return mesh is not None and all(name in axes or size == 1 for name, size in mesh.axes)
