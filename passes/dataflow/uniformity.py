"""Uniform values: those that are equal on all devices of each replica group.

A reduction crosses uniform factors, predicates and indices only: XLA miscompiled this twice. Computed as a greatest
fixpoint: every value is uniform unless a divergent one reaches it, through data, through a region, or through the trip
count of a loop.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from paropt.passes.dataflow.correspondence import keeps_groups_equal
from paropt.passes.dataflow.device_ids import DeviceNumbers
from paropt.passes.dataflow.engine import exhaust, nearest_first, spread
from paropt.passes.ir.barriers import BARRIER
from paropt.passes.ir.control_flow import RETURNS, carried, predecessors, successors
from paropt.passes.ir.loops import WHILE
from paropt.passes.ir.op_table import is_deterministic, is_device_id, is_same_in_group
from paropt.passes.sharding.collectives import Reduction, reduced_over, replica_count
from paropt.passes.sharding.meshes import Mesh, mesh_named, mesh_of
from paropt.passes.sharding.shardings import MANUAL
from paropt.passes.support.remarks import require
from paropt.passes.support.sources import source_of
from paropt.passes.support.traversal import defining_op, module_of, parent_of, terminator_of

_MOST_VALUES, _MOST_ORIGINS = 500, 4  # that an explanation goes through, and names


class Cause(NamedTuple):
    """Why a value varies, and the op where that began (None for an argument)."""

    reason: str
    op: ir.Operation | None

    def __str__(self) -> str:
        return f"{self.reason} ({source_of(self.op.location)})" if self.op is not None else self.reason


class Uniformity:
    """The values that vary within a group of `reduction`, around `block`. Holds live values: use it at once."""

    def __init__(self, block: ir.Block, reduction: Reduction) -> None:
        self._reduction = reduction
        self._varying: dict[ir.Value, Cause] = {}
        self._reasons: dict[ir.Value, str] = {}  # the answers of `why`
        self._numbers: DeviceNumbers | None = None
        self._root = _per_device_region(block)
        self._seed(self._root)
        spread(self._varying, self._made_to_vary)

    def require_uniform(self, value: ir.Value, what: str, reader: ir.Operation) -> None:
        """Declines unless `value`, which `reader` reads as `what`, is equal on all devices of each group."""
        cause = self._varying.get(value)
        why = f"{what} is not proven uniform over the replica groups"
        require(cause is None, f"{why}: {cause}", reader)

    def why(self, value: ir.Value) -> str:
        """Why `value`, which must be uniform, is: the values that it is computed from."""
        if value not in self._reasons:
            self._reasons[value] = self._reason(value)
        return self._reasons[value]

    def _reason(self, value: ir.Value) -> str:
        origins = self._origins(value)
        shown = origins[:_MOST_ORIGINS]
        more = [f"{len(origins) - len(shown)} more"] if len(origins) > len(shown) else []
        return (
            f"computed on every device from {', '.join(shown + more)}"
            if origins
            else "computed on every device from constants"
        )

    def _origins(self, value: ir.Value) -> list[str]:
        """The values, other than constants, from which `value` is computed and that are uniform by themselves."""
        found: dict[str, None] = {}

        def sources(value: ir.Value) -> list[ir.Value]:
            origin, made_of = self._origin(value)
            found.update({origin: None} if origin else {})
            return made_of

        exhaust(nearest_first([value], sources, limit=_MOST_VALUES))
        return list(found)

    def _origin(self, value: ir.Value) -> tuple[str, list[ir.Value]]:
        """The reason why `value` is uniform by itself, "" if other values make it so, and these."""
        op = defining_op(value)
        if op is None:
            argument: Any = ir.BlockArgument(value)
            if argument.owner.owner.operation == self._root and self._root.name == MANUAL:
                number = argument.arg_number
                return f"argument {number} of the manual computation, which is not sharded over the groups", []
        elif self._restores(op):
            return f"{op.name} at {source_of(op.location)}, which all devices of a group get", []
        elif is_device_id(op):
            return f"{op.name} at {source_of(op.location)}, of which all devices of a group make the same", []
        elif op.name != BARRIER:
            ends = [terminator_of(region.blocks[0]) for region in op.regions if len(region.blocks)]
            return "", [*op.operands, *(returned for end in ends for returned in end.operands)]
        return "", [use.value for use in predecessors(value) or ()]

    def _mark(self, values: Iterable[ir.Value], cause: Cause) -> None:
        for value in values:
            self._varying.setdefault(value, cause)

    def _seed(self, root: ir.Operation) -> None:
        """Marks the values that vary by themselves: arguments, and results of ops not known to be deterministic."""
        if root.name != MANUAL:
            self._mark(
                root.regions[0].blocks[0].arguments,
                Cause("an argument of the function may differ between devices", None),
            )

        def visit(op: ir.Operation) -> ir.WalkResult:
            if op.name == MANUAL:
                self._seed_manual(op)
            elif not is_deterministic(op) and not self._restores(op) and not self._is_made_alike(op):
                self._mark(op.results, Cause(f"{op.name} may differ between devices", op))
            return ir.WalkResult.ADVANCE

        root.walk(visit)

    def _seed_manual(self, op: ir.Operation) -> None:
        """Marks the block arguments of a manual_computation that are sharded within a group."""
        shardings = sdy.TensorShardingPerValueAttr(op.attributes["in_shardings"]).shardings
        for argument, attribute in zip(op.regions[0].blocks[0].arguments, shardings, strict=True):
            if not self._replicated(op, sdy.TensorShardingAttr(attribute)):
                self._mark([argument], Cause("an argument of the manual computation is sharded over them", op))

    def _replicated(self, op: ir.Operation, sharding: sdy.TensorShardingAttr) -> bool:
        """Whether the devices of each group hold the same shard."""
        if sharding.unreduced_axes:
            return False
        dimensions = [sdy.DimensionShardingAttr(d) for d in sharding.dimension_shardings]
        axes = sorted({sdy.AxisRefAttr(axis).name for d in dimensions for axis in d.axes})
        if not axes:
            return True
        mesh = _mesh_of(op, sharding)
        counts_devices = self._reduction.global_ids and self._reduction.crosses_partitions
        if mesh is None or not counts_devices or replica_count(module_of(op)) > 1 or not self._reduction.groups:
            return False
        for group in self._reduction.groups:
            places = {mesh.coordinates(device, axes) for device in group}
            if len(places) != 1 or None in places:
                return False
        return True

    def _restores(self, op: ir.Operation) -> bool:
        """Whether `op` gives every device of a group the same result, whatever it reads."""
        return is_same_in_group(op) and reduced_over(op, self._reduction)

    def _is_made_alike(self, op: ir.Operation) -> bool:
        """Whether `op` gives the devices of each group the same, by their numbers or if its operands are the same."""
        if not is_device_id(op):
            return keeps_groups_equal(op, self._reduction)
        if self._numbers is None:  # made for the first only: most programs have none
            self._numbers = DeviceNumbers(module_of(op), self._reduction)
        self._numbers.learn(op)
        return self._numbers.are_equal(op.results[0])

    def _made_to_vary(self, value: ir.Value, use: ir.OpOperand) -> list[ir.Value]:
        """The values that vary because `value`, which `use` reads, does.

        Not those that are computed of the numbers of devices, and come out equal all the same.
        """
        if self._restores(use.owner.operation):
            return []
        reached = _reached(use)
        if self._numbers is None or value not in self._numbers:
            return reached
        return [each for each in reached if not self._numbers.are_equal(each)]


def _reached(use: ir.OpOperand) -> list[ir.Value]:
    """The values that vary because the operand at `use` does."""
    reached = successors(use) or list(use.owner.results)
    if reached or use.owner.name not in RETURNS:
        return reached
    op = parent_of(use.owner.operation)
    if op.name == WHILE:  # by the predicate: devices make different numbers of trips
        return [value for position in range(len(op.results)) for value in carried(op, position)]
    return list(op.results)


def _per_device_region(block: ir.Block) -> ir.Operation:
    """The outermost op around `block` whose region runs per device.

    That is the outermost `sdy.manual_computation`: around it, JAX's programs are global, and each value that they pass
    in is one array. Without one, or with several replicas, it is the function.
    """
    found = op = block.owner.operation
    while op.name != "func.func" and op.parent is not None:
        if op.name == MANUAL:
            found = op
        op = op.parent.operation
    is_global = found.name == MANUAL and replica_count(module_of(op)) <= 1
    return found if is_global else op


def _mesh_of(op: ir.Operation, sharding: sdy.TensorShardingAttr) -> Mesh | None:
    reference = sharding.mesh_or_ref
    if isinstance(reference, ir.FlatSymbolRefAttr):
        return mesh_named(module_of(op), reference.value)
    return mesh_of(reference)
