"""Collectives: their participants, and their combiners."""

import functools
import math
from collections.abc import Mapping
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from paropt.passes.ir.constraints import CONSTRAINT, unconstrained
from paropt.passes.ir.metadata import METADATA, group_of, told_apart_by
from paropt.passes.ir.op_table import ops_of_kind, ops_with
from paropt.passes.ir.types import is_number, tensor_of
from paropt.passes.sharding.axes import Axes, axes_in, names_of
from paropt.passes.sharding.meshes import Mesh, mesh_named
from paropt.passes.sharding.shardings import SHARDING, read_sharding
from paropt.passes.support.remarks import require
from paropt.passes.support.traversal import module_of

ALL_REDUCE = "stablehlo.all_reduce"
REDUCE_SCATTER = "stablehlo.reduce_scatter"
# In a program that is written for all devices at once: over mesh axes, a sum of each device's addend of the value.
GLOBAL_ALL_REDUCE = "sdy.all_reduce"
GLOBAL_REDUCE_SCATTER = "sdy.reduce_scatter"

REDUCTIONS = ops_with("reduction")
PER_DEVICE = tuple(op for op in REDUCTIONS if op in ops_of_kind("collective"))  # the others are global
ALL_GATHER = "stablehlo.all_gather"

ADD, MAXIMUM, MINIMUM = "stablehlo.add", "stablehlo.maximum", "stablehlo.minimum"

Groups = tuple[tuple[int, ...], ...]

# What a reducer may do: anything known; return one of its operands; combine a value, no matter how often.
COMBINERS = frozenset(ops_with("combines"))
EXTREMES = frozenset(ops_with("extreme"))
IDEMPOTENT = frozenset(ops_with("idempotent"))

# On a reduction that a running pass took out of a loop.
DEFERRED = "paropt.deferred"
# On one in a branch of a loop, that reduces a loop-carried value for the branch.
IN_BRANCH = "paropt.in_branch"

# On an all_reduce that the program has written as a reduce_scatter, all_reduces of shards and an all_gather: an array
# of their attributes. Part of a reduction's equality, so that those that merge were written in the same way.
DECOMPOSED = "paropt.decomposed"

# Attributes of a reduction that need not be equal to be mergeable: those that `Reduction` models, metadata (some of its
# keys must be), and the sharding of the result over axes that are not manual, which places a value without changing it.
_MODELLED = {
    METADATA,
    "replica_groups",
    "channel_handle",
    "use_global_device_ids",
    "scatter_dimension",
    SHARDING,
    DEFERRED,
    IN_BRANCH,
}


class Moved(NamedTuple):
    """An op that moves the elements of a reduced value. Holds live values: use it at once."""

    op: str
    attributes: str
    operands: tuple[ir.Value, ...]  # the others: indices, of each device perhaps
    types: tuple[ir.Type, ir.Type]  # of the operand, and the result


class Reduction(NamedTuple):
    """How values are reduced. Two reductions may be merged if and only if these are equal.

    The element type is not part of it: a merged reduction works in the type of the value it closes, and the `convert`
    row of the linearity table decides on types on the way.
    """

    kind: str  # one of REDUCTIONS, or ALL_GATHER
    combiner: str  # one of COMBINERS
    groups: Groups  # of device ids as the mode counts them; sorted
    crosses_partitions: bool  # a channel is given
    global_ids: bool  # ids count all devices, not replicas
    scatter_dimension: int | None  # of a reduce_scatter
    attributes: str  # whatever else the op carries, but for metadata that only hints
    place: tuple[str, Axes] = ("", ())  # the mesh and its axes, of a global all_reduce
    moved: tuple[Moved, ...] = ()  # the moves of the reduced value, the same in each place; see there

    @property
    def is_sum(self) -> bool:
        return self.combiner == ADD

    @property
    def is_whole(self) -> bool:
        """Whether each device gets all of the reduced value."""
        return self.scatter_dimension is None

    @property
    def is_global(self) -> bool:
        """Whether values are those of all devices together, not one device's."""
        return self.kind == GLOBAL_ALL_REDUCE


def difference(a: Reduction, b: Reduction) -> str:
    """Why `a` and `b` may not be merged, in words; "" when they may."""
    for field, words in _DIFFERENCES:
        if getattr(a, field) != getattr(b, field):
            return words if field != "attributes" else f"{words}: {_unlike(a.attributes, b.attributes)}"
    return ""


def _unlike(*attributes: str) -> str:
    """Those that only one of two reductions has, or has so."""
    one, other = (set(each.splitlines()) for each in attributes)
    return ", ".join(sorted(one ^ other))


_DIFFERENCES = (
    ("kind", "one is an all_reduce, the other a reduce_scatter"),
    ("combiner", "the reductions differ in reducer"),
    ("groups", "the reductions differ in replica groups"),
    ("crosses_partitions", "the reductions differ in channel mode"),
    ("global_ids", "the reductions differ in channel mode"),
    ("scatter_dimension", "the reduce_scatters differ in dimension"),
    ("attributes", "the reductions differ in attributes"),
    ("place", "the reductions differ in mesh axes"),
    ("moved", "the reduced values are cut or moved in different ways"),
)


def reduction_of(op: ir.Operation) -> Reduction:
    """The `Reduction` of the op `op`, one of REDUCTIONS. Raises Declined when it cannot be moved."""
    if op.name == GLOBAL_ALL_REDUCE:
        return global_reduction(
            read_sharding(op.attributes["out_sharding"]).mesh, axes_in(op.attributes["reduction_axes"])
        )
    combiner = combiner_of(op)
    require(combiner is not None, "the reducer is not one add, multiply, maximum, minimum, and, or of its arguments")
    for operand, result in zip(op.operands, op.results, strict=True):
        reduced, given = tensor_of(result), tensor_of(operand)
        require(reduced is not None and given is not None, "a shape is dynamic")
        assert reduced is not None and given is not None
        same = given.element_type == reduced.element_type == _reducer_type(op)
        require(same, "the reducer works in another element type than its operand")
    element = ir.RankedTensorType(op.results[0].type).element_type
    require(is_number(element) or combiner in IDEMPOTENT, "a sum of i1 is not linear")
    groups = replica_groups(op)
    require(groups is not None, "the replica groups are not known")
    group = group_of(op)
    require(not group, f"its metadata binds the reduction to other ops of its block: {group}")
    assert combiner is not None and groups is not None
    attributes = op.attributes
    scatters = op.name == REDUCE_SCATTER
    return Reduction(
        kind=op.name,
        combiner=combiner,
        groups=_canonical(groups, ordered=scatters),
        crosses_partitions=_channel(op) > 0,
        global_ids="use_global_device_ids" in attributes,
        scatter_dimension=ir.IntegerAttr(attributes["scatter_dimension"]).value if scatters else None,
        attributes=_spelled(
            {name: attributes[name] for name in attributes if name not in _MODELLED} | told_apart_by(op)
        ),
    )


def gathering_of(op: ir.Operation) -> Reduction:
    """Who takes part in the all_gather `op`, as if it reduced. Raises Declined when that is not known."""
    groups = replica_groups(op)
    require(groups is not None, "the replica groups are not known")
    assert groups is not None
    return Reduction(
        kind=op.name,
        combiner="",
        groups=_canonical(groups, ordered=True),
        crosses_partitions=_channel(op) > 0,
        global_ids="use_global_device_ids" in op.attributes,
        scatter_dimension=None,
        attributes="",
    )


def _spelled(attributes: Mapping[str, ir.Attribute]) -> str:
    return "\n".join(f"{name}={attributes[name]}" for name in sorted(attributes))


def global_reduction(mesh: str, axes: Axes) -> Reduction:
    """The sum over these axes of a mesh, in a global-view program."""
    return Reduction(
        kind=GLOBAL_ALL_REDUCE,
        combiner=ADD,
        groups=(),
        crosses_partitions=True,
        global_ids=True,
        scatter_dimension=None,
        attributes="",
        place=(mesh, axes),
    )


def replica_groups(op: ir.Operation) -> Groups | None:
    """The groups of the collective `op`, spelled out; None when they are in a notation not known here.

    Empty groups mean everyone; they stay empty when the module does not say how many that is.
    """
    attribute = op.attributes["replica_groups"]
    if isinstance(attribute, ir.DenseIntElementsAttr):
        rows = np.array(attribute)
        groups = tuple(tuple(int(i) for i in row if i >= 0) for row in rows.tolist()) if rows.size else ()
        return groups or _everyone(op)
    return _mesh_groups(op, attribute)


def replica_count(module: ir.Operation) -> int:
    """The number of replicas that `module` is compiled for, 0 when it does not say."""
    return _count(module, "mhlo.num_replicas")


def partition_count(module: ir.Operation) -> int:
    """The number of partitions of each replica, 0 when `module` does not say."""
    return _count(module, "mhlo.num_partitions")


def _everyone(op: ir.Operation) -> Groups:
    """Empty replica groups: all replicas, or with global ids, all devices, in one group."""
    module = module_of(op)
    count = replica_count(module)
    if "use_global_device_ids" in op.attributes:
        count *= partition_count(module)
    return (tuple(range(count)),) if count else ()


def _count(module: ir.Operation, name: str) -> int:
    return ir.IntegerAttr(module.attributes[name]).value if name in module.attributes else 0


def _mesh_groups(op: ir.Operation, attribute: ir.Attribute) -> Groups | None:
    """Groups given as mesh axes: devices that differ only in these axes form a group."""
    kind = getattr(stablehlo, "ReplicaGroupMeshAxesAttr", None)  # jaxlib 0.10.0 cannot read these
    if kind is None or not kind.isinstance(attribute):
        return None
    axes_of: Any = kind(attribute)
    references = [stablehlo.AxisRefAttr(axis) for axis in axes_of.axes]
    mesh = mesh_named(module_of(op), str(axes_of.mesh).removeprefix("@"))
    if mesh is None or any(reference.sub_axis_info is not None for reference in references):
        return None
    return mesh.groups([reference.name for reference in references])


def _canonical(groups: Groups, *, ordered: bool) -> Groups:
    """The same groups, written one way. Order within a group matters to a reduce_scatter only."""
    return tuple(sorted(groups if ordered else (tuple(sorted(group)) for group in groups)))


def _channel(op: ir.Operation) -> int:
    if "channel_handle" not in op.attributes:
        return 0
    return stablehlo.ChannelHandle(op.attributes["channel_handle"]).handle


def combiner_of(op: ir.Operation) -> str | None:
    """The op that the reducer applies to its two arguments, if it does nothing else."""
    block = op.regions[0].blocks[0]
    match [inner.operation for inner in block.operations if inner.operation.name != CONSTRAINT]:
        case [combine, end] if combine.name in COMBINERS and [*map(unconstrained, end.operands)] == [*combine.results]:
            used = set(map(unconstrained, combine.operands))
            return combine.name if used == set(block.arguments) else None
    return None


def not_a_sum(op: ir.Operation) -> str:
    """Why `op`, which has a reducer and is no sum, is not linear."""
    kind, combiner = op.name.removeprefix("stablehlo."), combiner_of(op)
    if combiner in (None, ADD):  # of several arrays, such as that of `jax.numpy.argmax`
        return f"a {kind} does more than add"
    return f"a {kind} applies {combiner}, and only a sum is linear"


def _reducer_type(op: ir.Operation) -> ir.Type:
    return ir.RankedTensorType(op.regions[0].blocks[0].arguments[0].type).element_type


def neutral_number(combiner: str, element: ir.Type) -> int | float | None:
    """The number that `combiner` leaves every other as it is; None when `element` has none, or none is known here."""
    if combiner == ADD:
        return 0
    if combiner not in EXTREMES:
        return None
    sign = -1 if combiner == MAXIMUM else 1
    if isinstance(element, ir.F64Type | ir.F32Type | ir.F16Type | ir.BF16Type):
        return sign * math.inf
    if not isinstance(element, ir.IntegerType) or element.width == 1:
        return None
    least, bits = (0, element.width) if element.is_unsigned else (-(1 << element.width - 1), element.width - 1)
    return least if combiner == MAXIMUM else (1 << bits) - 1


def works_like(op: ir.Operation, reduction: Reduction) -> bool:
    """Whether the groups of the collective `op` count devices as those of `reduction` do."""
    mode = (_channel(op) > 0, "use_global_device_ids" in op.attributes)
    return mode == (reduction.crosses_partitions, reduction.global_ids)


def reduced_over(op: ir.Operation, reduction: Reduction) -> bool:
    """Whether `op` brings together, in each of its groups, all devices of a group of `reduction`."""
    groups = replica_groups(op)
    if not works_like(op, reduction) or groups is None:
        return False
    if not groups:
        return True  # everyone
    return bool(reduction.groups) and all(
        any(set(group) <= set(wider) for wider in groups) for group in reduction.groups
    )


@functools.lru_cache(maxsize=64)
def axes_of(reduction: Reduction, meshes: tuple[Mesh, ...]) -> tuple[str, ...] | None:
    """The mesh axes over which `reduction` reduces; None when its groups are not those of any axes."""
    if reduction.is_global:
        return tuple(sorted(names_of(reduction.place[1])))
    if not (reduction.global_ids and reduction.crosses_partitions and reduction.groups):
        return None
    wanted = _as_sets(reduction.groups)
    for mesh in meshes:
        names = [name for name, size in mesh.axes if size > 1]
        for count in range(len(names) + 1):
            for axes in combinations(names, count):
                groups = mesh.groups(axes)
                if groups is not None and _as_sets(groups) == wanted:
                    return axes
    return None


def _as_sets(groups: Groups) -> frozenset[frozenset[int]]:
    return frozenset(frozenset(group) for group in groups)
