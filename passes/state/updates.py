"""Which results are new values of which arguments, and what is still read once a result is there."""

from collections.abc import Iterator

from jaxlib.mlir import ir

from paropt.passes.ir.op_table import returns_of_regions
from paropt.passes.ir.signature import Signature
from paropt.passes.support.traversal import defining_op, op_of, parent_of, terminator_of

_MOST_VALUES = 256  # looked at for one result: a new value is near the old one


def distances(signature: Signature, result: int) -> dict[int, int]:
    """For the arguments that the result is computed from through values of its type: how many steps away they are.

    The nearest one is what the result is the new value of: `new = old - rate * gradient`. Loops hand a carried value
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
    if isinstance(value, ir.BlockArgument):
        around = value.owner.owner.operation
        if around.name == "sdy.manual_computation":
            yield around.operands[value.arg_number]
        return
    op, position = op_of(value), ir.OpResult(value).result_number
    if returns_of_regions(op):
        for region in op.regions:
            yield terminator_of(region.blocks[0]).operands[position]
    elif [operand.type for operand in op.operands] == [result.type for result in op.results]:
        yield op.operands[position]  # a loop, an optimization_barrier, a variadic collective
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
    seen: set[ir.Value] = set()
    waiting = [maker]
    while waiting:
        for value in waiting.pop().results:
            if value in seen:
                continue
            seen.add(value)
            for use in value.uses:
                user = use.owner.operation
                while user.block != reader.block:
                    user = parent_of(user)
                if user == reader:
                    return True
                if user.is_before_in_block(reader):
                    waiting.append(user)
    return False
