"""Annotations of `expose-all-reduces`: shardings of operands and results, as discardable attributes.

Tests: test/passes/annotate-unreduced.mlir, test/numeric/test_predicted_shardings.py.
"""

import re
from collections.abc import Collection, Sequence

from jaxlib.mlir import ir

from paropt.passes.ir.constraints import CONSTRAINT
from paropt.passes.ir.loops import WHILE, loop_around
from paropt.passes.ir.types import bytes_of
from paropt.passes.sharding.collectives import GLOBAL_ALL_REDUCE, GLOBAL_REDUCE_SCATTER, Reduction
from paropt.passes.sharding.shardings import Sharding, parts_in, read_sharding, without
from paropt.passes.support.traversal import defining_op, module_of

OPERANDS = "paropt.operands"  # of the constraint: how the op before it must shard its operands
SHARED = "paropt.shared"  # of the constraint: for which operands that holds for all that reads them
GATHERED = "paropt.gathered"  # of a product: how each operand lies that XLA all-gathers for it, before and after
SHARDINGS = "paropt.shardings"  # of an op behind it: how XLA alone would shard its results
READ = "paropt.read"  # of an op behind it that reads other values too: how XLA alone would shard its operands
WANTED = "paropt.wanted"  # of a loop: the shardings of its results that their users ask for
MOVES = "paropt.moves"  # of an op behind it: why its result can't be left unreduced in its baseline sharding
NOTED = "paropt.noted"  # of the module: which kinds of ops have notes
ALONE = "paropt.alone"  # of a product, window or lookup anywhere: how XLA alone would shard its result
LEFT_OUT = "paropt.left_out"  # of the module: the places of ops whose sums are left to the compiler
HELD = "paropt.held"  # of the module: the trades of policy=auto: bytes saved and held, collectives fewer, link cost

_END = re.compile(r" to (\d+)?:\d+")
_WRITTEN = {CONSTRAINT: "sharding", GLOBAL_REDUCE_SCATTER: "out_sharding"}  # where such an op says it itself


def place_of(op: ir.Operation) -> str:
    """The location of `op`, as another run of the passes finds it: bytecode keeps the ends of some ranges only."""
    return _END.sub("", str(op.location))


def is_source(op: ir.Operation) -> bool:
    """Whether `op` is a constraint that declares its operand unreduced."""
    return op.name == CONSTRAINT and OPERANDS in op.attributes


def noted_sharding(value: ir.Value) -> Sharding | None:
    """The sharding that XLA would infer for `value`; None: replicated, or not annotated."""
    return _noted(value, SHARDINGS)


def wanted_sharding(value: ir.Value) -> Sharding | None:
    """The sharding that readers of `value` ask for; None: replicated, or not annotated."""
    return _noted(value, WANTED) or noted_sharding(value)


def noted_alone(result: ir.OpResult) -> ir.ArrayAttr | None:
    """The sharding that XLA would infer for `result`, [] for replicated; None where its op is not annotated."""
    op = result.owner.operation
    listed = list(ir.ArrayAttr(op.attributes[ALONE])) if ALONE in op.attributes else None
    if listed is None or len(listed) not in (0, len(op.results)):  # a pass may give a barrier other results
        return None
    return ir.ArrayAttr.get(listed[result.result_number :][:1], op.context)


def _noted(value: ir.Value, name: str) -> Sharding | None:
    op = defining_op(value)
    if op is None:
        loop = loop_around(ir.BlockArgument(value).owner)
        return _noted(loop.op.results[ir.BlockArgument(value).arg_number], name) if loop is not None else None
    if op.name == GLOBAL_ALL_REDUCE or is_source(op):
        return _noted(op.operands[0], name)
    noted = op.attributes.get(SHARDINGS if op.name == CONSTRAINT else name)
    if noted is None and op.name in _WRITTEN:
        return read_sharding(op.attributes[_WRITTEN[op.name]])
    if noted is None:
        like = _behind_ours(op)
        return _noted(like, name) if like is not None else None
    listed = ir.ArrayAttr(noted)
    position = ir.OpResult(value).result_number
    return read_sharding(listed[position]) if position < len(listed) else None


def _behind_ours(op: ir.Operation) -> ir.Value | None:
    """The operand whose sharding the result of `op` has, if passes make such ops: a convert, a negate, an add behind a
    loop."""
    match op.name:
        case "stablehlo.convert" | "stablehlo.negate":
            return op.operands[0]
        case "stablehlo.add":  # of a loop's accumulated value, reduced or not yet, and its former value
            return next(filter(_is_accumulated, op.operands), None)
        case _:
            return None


def _is_accumulated(value: ir.Value) -> bool:
    op = defining_op(value)
    return op is not None and op.name in (GLOBAL_ALL_REDUCE, WHILE)


def notes_of_results(op: ir.Operation, numbers: Sequence[int]) -> dict[str, ir.Attribute]:
    """The annotations of the results of `op` with these numbers, for an op that returns them in that order."""
    noted = {name: ir.ArrayAttr(op.attributes[name]) for name in (SHARDINGS, WANTED) if name in op.attributes}
    return {name: ir.ArrayAttr.get([of[i] for i in numbers], op.context) for name, of in noted.items()}


def noted_operands(op: ir.Operation, addends: Collection[int]) -> list[Sharding | None] | None:
    """The shardings of the operands of `op`, as annotated, or where all but `addends` are constrained, of the operands
    themselves; else None."""
    if READ in op.attributes:
        listed = ir.ArrayAttr(op.attributes[READ])
        return [None if isinstance(lies, ir.UnitAttr) else read_sharding(lies) for lies in listed]
    owners = [defining_op(operand) for i, operand in enumerate(op.operands) if i not in addends]
    constrained = all(owner is not None and owner.name == CONSTRAINT for owner in owners)
    return [noted_sharding(operand) for operand in op.operands] if constrained else None


def noted_gather(use: ir.OpOperand) -> ir.ArrayAttr | None:
    """The shardings of the used operand before and after XLA all-gathers it; None where none is annotated."""
    noted = use.owner.operation.attributes.get(GATHERED)
    if noted is None:
        return None
    gather = ir.ArrayAttr(noted)[use.operand_number]
    return None if isinstance(gather, ir.UnitAttr) else ir.ArrayAttr(gather)


def shard_bytes(value: ir.Value, sharding: Sharding | None) -> int:
    """The bytes of one device's shard of `value`."""
    return -(-bytes_of(ir.RankedTensorType(value.type)) // parts_of(value, sharding))


def parts_of(value: ir.Value, sharding: Sharding | None) -> int:
    """Into how many parts `value` is cut."""
    owner = value.owner
    op = owner.owner.operation if isinstance(owner, ir.Block) else owner.operation
    return parts_in(module_of(op), sharding) if sharding is not None else 1


def parts_unreduced(value: ir.Value, reduction: Reduction) -> int:
    """Into how many parts `value` is cut before `reduction` takes its sum; 1 in the manual form: it is one device's."""
    alone = noted_sharding(value) if reduction.is_global else None
    if alone is None:
        return 1
    return parts_of(value, alone._replace(dimensions=without(alone.dimensions, reduction.place[1])))
