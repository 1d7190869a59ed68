"""Maxima and minima that loops keep: the ops that take one in each trip, and those that take one over devices after it.

The edit: `spmd/running_maxima.py`.

Tests: test/passes/separate-reductions-maxima.mlir, test/numeric/test_running_maxima.py.
"""

from jaxlib.mlir import ir

from paropt.passes.ir.constraints import CONSTRAINT
from paropt.passes.ir.loops import WHILE, Loop, loop_around
from paropt.passes.ir.types import tensor_of
from paropt.passes.sharding.collectives import EXTREMES, combiner_of
from paropt.passes.sharding.shardings import is_manual
from paropt.passes.support.traversal import defining_op

REDUCE = "stablehlo.reduce"
_CONVERT = "stablehlo.convert"


def is_kept_extreme(op: ir.Operation) -> bool:
    """Whether `op` takes a maximum or minimum that a loop keeps: in each trip, or over devices after the loop."""
    return _is_extreme(op) and (combined(op) is not None or _is_over_devices(op))


def combined(op: ir.Operation) -> ir.Operation | None:
    """The op that combines the maximum or minimum `op` with a value that the loop around it carries into the next one.

    None where `op` is no such maximum or minimum of an array, or is in a manual computation.
    """
    if not _is_extreme(op) or is_manual(op) or loop_around(op.block) is None or tensor_of(op.operands[0]) is None:
        return None
    readers = [use.owner.operation for use in op.results[0].uses]
    alike = [reader for reader in readers if reader.name == combiner_of(op) and reader.block == op.block]
    if not alike:
        return None
    carried = [each for each in alike[0].operands if as_carried(each) in list(op.block.arguments)]
    return alike[0] if len(carried) == 1 else None


def as_carried(value: ir.Value) -> ir.Value:
    """`value` before a convert to its own type, which jax makes where the loop starts from a weakly typed one, as
    `jnp.full(8, -jnp.inf)`."""
    op = defining_op(value)
    is_same = op is not None and op.name == _CONVERT and op.operands[0].type == value.type
    return op.operands[0] if op is not None and is_same else value


def _is_extreme(op: ir.Operation) -> bool:
    return op.name == REDUCE and len(op.operands) == 2 and combiner_of(op) in EXTREMES


def _is_over_devices(op: ir.Operation) -> bool:
    """Whether `op` reduces an array in which a loop keeps a maximum or minimum for each device."""
    kept = _constrained(op.operands[0])
    loop = defining_op(kept) if kept is not None else None
    if kept is None or loop is None or loop.name != WHILE:
        return False
    number, inside = ir.OpResult(kept).result_number, Loop(loop)
    made = _constrained(inside.next_values.operands[number])
    combine = defining_op(made) if made is not None else None
    if combine is None or combine.name != combiner_of(op):
        return False
    makers = [defining_op(each) for each in combine.operands if each != inside.body.arguments[number]]
    maker = makers[0] if len(makers) == 1 else None
    return maker is not None and _is_extreme(maker) and combiner_of(maker) == combiner_of(op)


def _constrained(value: ir.Value) -> ir.Value | None:
    """What a constraint makes `value` of; None where none does."""
    constraint = defining_op(value)
    return constraint.operands[0] if constraint is not None and constraint.name == CONSTRAINT else None
