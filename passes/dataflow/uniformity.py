"""Which values are equal on all devices of each replica group.

A factor, predicate or index may cross a reduction only if it is: XLA miscompiled this twice. Computed as a greatest
fixpoint: everything is uniform unless a varying value reaches it, through data, through a region, or through the
number of trips of a loop.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from paropt.passes.dataflow.correspondence import keeps_groups_equal
from paropt.passes.dataflow.device_ids import DeviceNumbers
from paropt.passes.ir.barriers import BARRIER, before_barrier, made_of
from paropt.passes.ir.op_table import is_deterministic, is_device_id, is_same_in_group
from paropt.passes.sharding.collectives import Reduction, reduced_over, replica_count
from paropt.passes.sharding.meshes import Mesh, mesh_named, mesh_of
from paropt.passes.sharding.shardings import MANUAL
from paropt.passes.support.remarks import require, source_of
from paropt.passes.support.traversal import defining_op, module_of, parent_of, terminator_of

_RETURN = "stablehlo.return"
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
        self._fresh: list[ir.Value] = []
        self._reasons: dict[ir.Value, str] = {}  # what `why` found
        self._numbers: DeviceNumbers | None = None
        self._terminators: dict[ir.Value, list[ir.Operation]] = {}  # by the first result of the op around them
        self._root = _per_device_region(block)
        self._seed(self._root)
        while self._fresh:
            self._propagate(self._fresh.pop())

    def require_uniform(self, value: ir.Value, what: str, reader: ir.Operation) -> None:
        """Declines unless `value`, which `reader` reads as `what`, is equal on all devices of each group."""
        cause = self._varying.get(value)
        why = f"{what} is not proven uniform over the replica groups"
        require(cause is None, f"{why}: {cause}", reader)

    def why(self, value: ir.Value) -> str:
        """Why `value` is uniform, which must be so: what it is computed from."""
        if value not in self._reasons:
            self._reasons[value] = self._reason(value)
        return self._reasons[value]

    def _reason(self, value: ir.Value) -> str:
        origins = list(dict.fromkeys(self._origins(value)))
        shown = origins[:_MOST_ORIGINS]
        more = [f"{len(origins) - len(shown)} more"] if len(origins) > len(shown) else []
        return (
            f"computed on every device from {', '.join(shown + more)}"
            if origins
            else "computed on every device from constants"
        )

    def _origins(self, value: ir.Value) -> Iterator[str]:
        """The values, other than constants, from which `value` is computed and that are uniform by themselves."""
        waiting, seen = [value], {value}
        while waiting and len(seen) < _MOST_VALUES:
            value = waiting.pop(0)
            origin, sources = self._origin(value)
            if origin:
                yield origin
            for source in sources:
                if source not in seen:
                    seen.add(source)
                    waiting.append(source)

    def _origin(self, value: ir.Value) -> tuple[str, list[ir.Value]]:
        """What makes `value` uniform by itself, "" if other values do, and these."""
        op = defining_op(value)
        if op is not None:
            if self._restores(op):
                return f"{op.name} at {source_of(op.location)}, which all devices of a group get", []
            if is_device_id(op):
                return f"{op.name} at {source_of(op.location)}, of which all devices of a group make the same", []
            if op.name == BARRIER:
                return "", [op.operands[before_barrier(value)]]
            return "", [*op.operands, *(v for end in self._ends(op) for v in end.operands)]
        argument: Any = ir.BlockArgument(value)
        holder, number = argument.owner.owner.operation, argument.arg_number
        if holder.name == "stablehlo.while":
            return "", [holder.operands[number], *(end.operands[number] for end in self._ends(holder)[1:])]
        if holder.name == MANUAL and holder == self._root:
            return f"argument {number} of the manual computation, which is not sharded over the groups", []
        return "", [holder.operands[number]] if holder.name == MANUAL else []

    def _ends(self, op: ir.Operation) -> list[ir.Operation]:
        """The terminators of the regions of `op`; finding one takes as long as its block."""
        key = op.results[0]
        if key not in self._terminators:
            blocks = [region.blocks[0] for region in op.regions if len(region.blocks)]
            self._terminators[key] = [terminator_of(block) for block in blocks]
        return self._terminators[key]

    def _mark(self, values: Iterable[ir.Value], cause: Cause) -> None:
        for value in values:
            if value not in self._varying:
                self._varying[value] = cause
                self._fresh.append(value)

    def _seed(self, root: ir.Operation) -> None:
        """Marks the values that vary by themselves: arguments, and results of ops not known to be deterministic."""
        if root.name != MANUAL:
            self._mark(root.regions[0].blocks[0].arguments, Cause("an argument of the function may vary", None))

        def visit(op: ir.Operation) -> ir.WalkResult:
            if op.name == MANUAL:
                self._seed_manual(op)
            elif not is_deterministic(op) and not self._restores(op) and not self._is_made_alike(op):
                self._mark(op.results, Cause(f"{op.name} may give each device another result", op))
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

    def _propagate(self, value: ir.Value) -> None:
        for use in value.uses:
            op = use.owner.operation
            if not self._restores(op):
                self._mark(self._differing(value, op, use.operand_number), self._varying[value])

    def _differing(self, value: ir.Value, op: ir.Operation, operand: int) -> list[ir.Value]:
        """The values that vary because `value`, operand number `operand` of `op`, does.

        Not those that are computed of the numbers of devices, and come out equal all the same.
        """
        reached = list(_reached(op, operand))
        if self._numbers is None or value not in self._numbers:
            return reached
        return [each for each in reached if not self._numbers.are_equal(each)]


def _reached(op: ir.Operation, operand: int) -> Iterator[ir.Value]:
    """The values that vary because operand number `operand` of `op` does."""
    match op.name:
        case "stablehlo.while":
            yield from _carried(op, operand)
        case "sdy.manual_computation":
            yield op.regions[0].blocks[0].arguments[operand]
        case "stablehlo.return" | "sdy.return":
            yield from _reached_around(op, operand)
        case "stablehlo.optimization_barrier":
            yield made_of(op, operand)
        case _:
            yield from op.results


def _reached_around(terminator: ir.Operation, operand: int) -> Iterator[ir.Value]:
    """What the op around `terminator` makes of a varying value that leaves its region."""
    parent = parent_of(terminator)
    match parent.name:
        case "stablehlo.while" if terminator.block == parent.regions[1].blocks[0]:
            yield from _carried(parent, operand)
        case "stablehlo.while":  # the predicate: devices make different numbers of trips
            for position in range(len(parent.results)):
                yield from _carried(parent, position)
        case "stablehlo.case" | "stablehlo.if" | "sdy.manual_computation":
            yield parent.results[operand]
        case _:
            yield from parent.results


def _carried(loop: ir.Operation, position: int) -> Iterator[ir.Value]:
    """A carried value, wherever it shows: in the condition, in the body and after the loop."""
    for region in loop.regions:
        yield region.blocks[0].arguments[position]
    yield loop.results[position]


def _per_device_region(block: ir.Block) -> ir.Operation:
    """The outermost op around `block` whose region runs per device.

    That is the outermost `sdy.manual_computation`: around it, JAX's programs are global, and what they pass in is one
    array. Without one, or with several replicas, it is the function.
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
