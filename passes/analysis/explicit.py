"""What Shardy makes of a program for all devices: where it has to reduce, and how each value lies on the mesh.

In a `jax.jit` program with shardings no reduction is written: the partitioner adds one after each op that adds up
over a split dimension. Shardy's own passes say where, on a copy, so nothing here decides how anything is split.
"""

from collections.abc import Callable
from typing import NamedTuple

from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager

from paropt.passes.analysis.collectives import GLOBAL_ALL_REDUCE
from paropt.passes.analysis.shardings import (
    Axes,
    Sharding,
    axes_in,
    in_mesh_order,
    is_manual,
    names_of,
    sharding_of,
)
from paropt.passes.core.traversal import defining_op, ops_of

_PROPAGATION = "sdy-propagation-pipeline"
# After propagation: every collective as an op of Shardy's. Types stay global.
_COLLECTIVES = (
    "func.func(sdy-insert-explicit-reshards{enable-full-version=true}),"
    "canonicalize{enable-patterns=sdy-reshard},"
    "func.func(sdy-reshard-to-collectives)"
)
_REDUCE_SCATTER = "sdy.reduce_scatter"
_NUMBER = "paropt.number"  # of an op, the same in the module and in its copy


class Producer(NamedTuple):
    """An op whose result is, on each device, an addend of the value: over `axes` of `mesh`."""

    value: ir.Value
    mesh: str
    axes: Axes
    operands: tuple[tuple[Axes, ...], ...]  # per operand and dimension: how what is added up is split


class Propagated:
    """How the values of a module lie on the mesh, by Shardy's propagation on a copy of it.

    `prepare` may edit the copy first, if only by erasing ops.
    """

    def __init__(self, module: ir.Operation, prepare: Callable[[ir.Operation], object] | None = None) -> None:
        self._ops = _all_ops(module)
        self._numbers = {op.results[0]: number for number, op in enumerate(self._ops) if len(op.results)}
        self._copy = module.operation.clone()
        kind = ir.IntegerType.get_signless(64, module.context)
        for number, op in enumerate(_all_ops(self._copy)):
            op.attributes[_NUMBER] = ir.IntegerAttr.get(kind, number)
        if prepare is not None:
            prepare(self._copy)
        self._run(_PROPAGATION)
        self._copies = {self._number_of(op): op for op in _all_ops(self._copy) if _NUMBER in op.attributes}

    def sharding_of(self, result: ir.Value) -> Sharding | None:
        """How the op result `result` lies on the mesh; None when nothing splits it, or the copy lacks it."""
        op = defining_op(result)
        assert op is not None, "a result, not an argument"
        copy = self._copies.get(self._numbers[op.results[0]])
        return sharding_of(copy.results[ir.OpResult(result).result_number]) if copy is not None else None

    def producers(self) -> list[Producer]:
        """The ops after which Shardy reduces, in program order; those in manual computations left out. Once only."""
        self._run(_COLLECTIVES)
        found: list[Producer] = []
        for reduction in ops_of(self._copy, GLOBAL_ALL_REDUCE, _REDUCE_SCATTER):
            made = defining_op(reduction.operands[0])
            if made is None or _NUMBER not in made.attributes or is_manual(made):
                continue
            sharding = sharding_of(reduction.results[0])
            assert sharding is not None, "a collective of Shardy's has one"
            axes = in_mesh_order(self._copy, sharding.mesh, _reduced(reduction))
            result = ir.OpResult(reduction.operands[0]).result_number
            splits = tuple(_split_over(sharding_of(operand), axes) for operand in made.operands)
            value = self._ops[self._number_of(made)].results[result]
            found.append(Producer(value, sharding.mesh, axes, splits))
        return found

    def _run(self, passes: str) -> None:
        PassManager.parse(f"builtin.module({passes})", self._copy.context).run(self._copy)

    def _number_of(self, op: ir.Operation) -> int:
        return ir.IntegerAttr(op.attributes[_NUMBER]).value


def _all_ops(root: ir.Operation) -> list[ir.Operation]:
    found: list[ir.Operation] = []

    def seen(op: ir.Operation) -> ir.WalkResult:
        found.append(op)
        return ir.WalkResult.ADVANCE

    root.walk(seen)
    return found


def _reduced(reduction: ir.Operation) -> Axes:
    """The axes over which Shardy reduces, by one collective or by several in a row."""
    name = "reduction_axes" if reduction.name == GLOBAL_ALL_REDUCE else "reduce_scatter_axes"
    axes = axes_in(reduction.attributes[name])
    uses = list(reduction.results[0].uses)
    if len(uses) == 1 and uses[0].owner.operation.name in (GLOBAL_ALL_REDUCE, _REDUCE_SCATTER):
        axes += _reduced(uses[0].owner.operation)
    return axes


def _split_over(sharding: Sharding | None, axes: Axes) -> tuple[Axes, ...]:
    """The dimensions of an operand that `axes` split, and how; the others are left to Shardy."""
    reduced = names_of(axes)
    dimensions = sharding.dimensions if sharding is not None else ()
    return tuple(split if names_of(split) & reduced else () for split in dimensions)
