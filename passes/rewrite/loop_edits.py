"""Edits of a `stablehlo.while`: other init operands, more loop-carried values.

Tests: test/passes/defer-sync-nests.mlir, test/numeric/test_accumulator_updates.py.
"""

from collections.abc import Sequence

from jaxlib.mlir import ir

from paropt.passes.dataflow.equivalent_ops import writes_back
from paropt.passes.ir.loops import Loop
from paropt.passes.rewrite.erase import erase_unread
from paropt.passes.sharding.annotations import notes_of_results


def carry(loop: Loop, type_: ir.Type) -> ir.Value:
    """Gives both blocks one more argument; returns the body's. `rebuilt` must follow, with its init operand."""
    loop.condition.add_argument(type_, loop.op.location)
    return loop.body.add_argument(type_, loop.op.location)


def uncarry(loop: Loop, position: int) -> None:
    """Takes back an argument that nothing reads."""
    loop.condition.erase_argument(position)
    loop.body.erase_argument(position)


def kept(value: ir.Value | None, argument: ir.Value, loop: Loop) -> ir.Value | None:
    """`value`, which the loop is to carry on for `argument`: that itself where the loop only writes parts of it back as
    they were, which it no longer does then.
    """
    if value is None or not writes_back(value, argument, loop.body):
        return value
    erase_unread([value])
    return argument


def rebuilt(loop: Loop, starts: Sequence[ir.Value], nexts: Sequence[ir.Value], parts_of: Sequence[int] = ()) -> Loop:
    """The loop with these init operands and next values, in front of the old one, which loses its blocks.

    `parts_of` has the numbers of the loop-carried values of which further ones are parts, and which they lie like.
    """
    notes = notes_of_results(loop.op, [*range(len(loop.op.results)), *parts_of]) if parts_of else {}
    with ir.InsertionPoint(loop.op), loop.op.location:
        new = ir.Operation.create(
            loop.op.name,
            results=[value.type for value in starts],
            operands=list(starts),
            attributes=dict(loop.op.attributes) | notes,
            regions=2,
        )
    end = loop.next_values
    with ir.InsertionPoint(end), end.location:
        ir.Operation.create(end.name, operands=list(nexts))
    end.erase()
    for old, region in zip((loop.condition, loop.body), new.regions, strict=True):
        old.append_to(region)
    return Loop(new)
