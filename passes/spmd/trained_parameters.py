"""The parameters that a loop trains: the values with a gradient among those that it reads, and the bytes that XLA moves
for one that it does not gather.

A sharded float that is the same in each trip may be a parameter or examples, and its sharding does not tell: XLA may
take features of activations for sharded as the parameter is. But the loop adds up a gradient of a parameter.

Tests: test/passes/hoist-gathers-trained.mlir, test/numeric/test_parameter_forms.py.
"""

from collections.abc import Iterable
from math import prod

from jaxlib.mlir import ir

from paropt.passes.ir.barriers import BARRIER, before_barrier
from paropt.passes.ir.control_flow import Use
from paropt.passes.ir.loops import WHILE, Loop, start_of, trip_count
from paropt.passes.ir.op_table import is_identity, takes_block
from paropt.passes.ir.types import is_float, tensor_of
from paropt.passes.sharding.annotations import shard_bytes
from paropt.passes.sharding.op_rules import parse_rule
from paropt.passes.sharding.propagation import Propagated
from paropt.passes.support.traversal import defining_op, parent_of

_CONVERT = "stablehlo.convert"


def is_trained(loop: Loop, value: ir.Value) -> bool:
    """Whether `value` is a copy of an argument of the program, and `loop` changes a float of its shape: a sum of
    gradients.
    """
    shape = ir.RankedTensorType(value.type).shape
    changed = (argument for argument in loop.body.arguments if start_of(argument) is None)
    floats = (tensor for tensor in map(tensor_of, changed) if tensor is not None and is_float(tensor.element_type))
    return _is_copy_of_argument(value) and any(list(tensor.shape) == list(shape) for tensor in floats)


def _is_copy_of_argument(value: ir.Value) -> bool:
    while (op := defining_op(value)) is not None:
        if not (takes_block(op) or is_identity(op) or op.name == _CONVERT):
            return False
        value = op.operands[before_barrier(value) if op.name == BARRIER else 0]
    return isinstance(value.owner, ir.Block) and value.owner.owner.operation.name == "func.func"


def moved_by(loop: Loop, readers: Iterable[Use], propagated: Propagated) -> int:
    """Bytes per device that XLA moves, at least, in a trip of `loop` where `readers` read shards of a parameter: the
    size of the smallest other operand or result of each. It is gathered; or, where each device has other experts,
    exchanged in shards.
    """
    return sum(_moved_by(use, propagated) * _times(loop, use.op) for use in readers)


def _moved_by(use: Use, propagated: Propagated) -> int:
    values = [*use.op.operands, *use.op.results]
    shardings = [*propagated.operand_shardings(use.op), *map(propagated.sharding_of, use.op.results)]
    is_exchanged = has_other_rows(use, propagated)
    sizes = list[int]()
    for number, (value, lies) in enumerate(zip(values, shardings, strict=True)):
        tensor = tensor_of(value)
        if number != use.position and tensor is not None and tensor.rank and is_float(tensor.element_type):
            sizes.append(shard_bytes(value, lies if is_exchanged else None))
    return min(sizes, default=0)


def has_other_rows(use: Use, propagated: Propagated) -> bool:
    """Whether each device has other rows of a batch dimension of the reader and of the parameter, as of experts."""
    text, lies = propagated.sharding_rule(use.op), propagated.operand_shardings(use.op)[use.position]
    if not text or lies is None:
        return False
    rule = parse_rule(text)
    split = {
        factor
        for factors, axes in zip(rule.operands[use.position], lies.dimensions, strict=True)
        if axes
        for factor in factors
    }
    others = (*rule.operands[: use.position], *rule.operands[use.position + 1 :])
    return all(any(split & set(factors) for factors in each) for each in (*others, *rule.results))


def _times(loop: Loop, op: ir.Operation) -> int:
    """How often a trip of `loop` runs `op`, at least."""
    around = list[Loop]()
    while (op := parent_of(op)) != loop.op:
        if op.name == WHILE:
            around.append(Loop(op))
    return prod(trip_count(each) or 1 for each in around)
