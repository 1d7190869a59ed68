"""Results that are new values of arguments, and later readers of these arguments.

Tests: test/passes/annotate-aliases.mlir, test/passes/annotate-contract.mlir.
"""

from collections.abc import Iterable, Iterator

from jaxlib.mlir import ir

from paropt.passes.dataflow.engine import forward
from paropt.passes.ir.control_flow import predecessors
from paropt.passes.ir.loops import Loop
from paropt.passes.ir.signature import Signature
from paropt.passes.ir.types import tensor_of
from paropt.passes.support.traversal import defining_op, parent_of

_MOST_VALUES = 256  # looked at for one result: a new value is near the old one


def distances(signature: Signature, result: int) -> dict[int, int]:
    """For the arguments that the result is computed from through values of its type: how many steps away they are.

    The result is the new value of the nearest one: `new = old - rate * gradient`. Loops hand a loop-carried value
    through. That is no condition of anything, only the best guess among arguments of one type.
    """
    taken = signature.function.regions[0].blocks[0]
    found: dict[int, int] = {}
    for value, steps in ancestors(signature.results[result].value):
        if isinstance(value, ir.BlockArgument) and value.owner == taken:
            found.setdefault(value.arg_number, steps)
    return found


def ancestors(value: ir.Value) -> Iterator[tuple[ir.Value, int]]:
    """`value` and the values of its type that it is computed from, with how many steps away they are; nearest first."""
    waiting, seen = [value], set[ir.Value]()
    steps = 0
    while waiting and len(seen) < _MOST_VALUES:
        behind: list[ir.Value] = []
        for value in waiting:
            if value not in seen:
                seen.add(value)
                yield value, steps
                behind += _behind(value)
        waiting = behind
        steps += 1


def accumulates(loop: Loop, position: int) -> bool:
    """Whether a loop computes the next value at that position, which is of no integer type, from the last one."""
    last, following = loop.body.arguments[position], loop.next_values.operands[position]
    tensor = tensor_of(last)
    if tensor is None or isinstance(tensor.element_type, ir.IntegerType):
        return False
    return last != following and any(value == last for value, _ in ancestors(following))


def reader_after(signature: Signature, argument: int, result: int) -> ir.Operation | None:
    """An op that reads the argument and needs the result: by then, the argument must not be overwritten."""
    old, new = signature.arguments[argument].value, signature.results[result].value
    if old == new:
        return None
    maker = defining_op(new)
    for reader in (_within(signature, use.owner.operation) for use in old.uses):
        if reader == signature.end or (maker is not None and reader != maker and _needs(reader, maker)):
            return reader
    return None


def _behind(value: ir.Value) -> Iterator[ir.Value]:
    """The values of the type of `value` that it is computed from, in one step."""
    before = predecessors(value, back_edges=False)
    if before is not None:
        yield from (use.value for use in before)
    elif (op := defining_op(value)) is None:
        return
    elif [operand.type for operand in op.operands] == [result.type for result in op.results]:
        yield op.operands[ir.OpResult(value).result_number]  # a variadic collective
    else:
        yield from (operand for operand in op.operands if operand.type == value.type)


def _within(signature: Signature, op: ir.Operation) -> ir.Operation:
    """The op of the function's own block that `op` is, or is in."""
    while parent_of(op) != signature.function:
        op = parent_of(op)
    return op


def _needs(reader: ir.Operation, maker: ir.Operation) -> bool:
    """Whether `reader` reads, through other ops, a result of `maker`; both are in one block."""
    if reader.is_before_in_block(maker):
        return False

    def reading(use: ir.OpOperand) -> ir.Operation:
        user = use.owner.operation
        while user.block != reader.block:
            user = parent_of(user)
        return user

    def made_by(use: ir.OpOperand) -> Iterable[ir.Value]:
        user = reading(use)
        return user.results if user.is_before_in_block(reader) else ()

    return any(reading(use) == reader for value in forward(maker.results, made_by) for use in value.uses)
