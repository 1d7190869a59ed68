"""Loops that all devices of a group leave after the same number of trips, because each trip has a collective of theirs.

A device that made another trip would wait in it for the others, for ever: the program would not end. So the number of
trips is the same, whatever the predicate is made of. That holds of all executions of the loop together: within another
loop, devices could share their trips out differently.
"""

from jaxlib.mlir import ir

from paropt.passes.analysis.collectives import ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER, Reduction, reduced_over
from paropt.passes.analysis.loops import WHILE, Loop
from paropt.passes.core.traversal import is_within, module_of, ops_of, parent_of

_WAIT_FOR_ALL = (ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER)
_FUNCTION, _CALL = "func.func", "func.call"


def keeps_in_step(loop: ir.Operation, reduction: Reduction) -> ir.Operation | None:
    """A collective in each trip of `loop` in which the devices of each group of `reduction` wait for each other."""
    found = [op for op in ops_of(loop, *_WAIT_FOR_ALL) if _is_in_each_trip(op, loop) and reduced_over(op, reduction)]
    return found[0] if found and _runs_once(loop) else None


def _is_in_each_trip(op: ir.Operation, loop: ir.Operation) -> bool:
    """Whether a trip does `op`, and XLA does not leave it out because nothing reads it in the end."""
    body = loop.regions[1].blocks[0]
    return op.block == body and _is_read_in_the_end(op, Loop(loop))


def _is_read_in_the_end(op: ir.Operation, loop: Loop) -> bool:
    waiting: list[ir.Value] = list(op.results)
    seen = set(waiting)
    while waiting:
        for use in waiting.pop().uses:
            made = _made_in_the_end(use, loop)
            if made is None:
                return True
            waiting += [value for value in made if value not in seen]
            seen.update(made)
    return False


def _made_in_the_end(use: ir.OpOperand, loop: Loop) -> list[ir.Value] | None:
    """What `use`, of a value in the body, makes there, also in the next trip; None where it has an effect."""
    reader, number = use.owner.operation, use.operand_number
    while reader.block != loop.body:
        if reader.block == loop.condition:
            return None  # it decides whether the loop continues
        reader, number = parent_of(reader), -1
    if reader == loop.next_values:
        read_behind = next(loop.op.results[number].uses, None) is not None
        return None if read_behind else [loop.body.arguments[number], loop.condition.arguments[number]]
    return list(reader.results) or None


def _runs_once(loop: ir.Operation) -> bool:
    """Whether a device runs `loop` once, or not at all."""
    if is_within(loop, WHILE):
        return False
    function = loop
    while function.name != _FUNCTION:
        function = parent_of(function)
    name = ir.StringAttr(function.attributes["sym_name"]).value
    callees = [ir.FlatSymbolRefAttr(op.attributes["callee"]).value for op in ops_of(module_of(loop), _CALL)]
    return name not in callees
