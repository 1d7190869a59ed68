"""Stacks that are added to accumulators, added row by row in the loop that would stack them: the edit.

Tests: test/passes/accumulate-in-place.mlir, test/numeric/test_in_place_sums.py.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.accumulators.row_stack import RowStack
from paropt.passes.accumulators.stack_additions import TRANSPOSE, Addition
from paropt.passes.ir.constants import scalar_of
from paropt.passes.ir.induction_variable import create
from paropt.passes.ir.loops import Loop
from paropt.passes.ir.op_table import is_elementwise
from paropt.passes.ir.row_index import DYNAMIC_SLICE, RESHAPE, UPDATE
from paropt.passes.rewrite.erase import erase_unread
from paropt.passes.rewrite.loop_edits import carry, rebuilt, uncarry
from paropt.passes.rewrite.residual_split import scalar_spread
from paropt.passes.sharding.annotations import ALONE, SHARDINGS, WANTED, noted_sharding
from paropt.passes.sharding.shardings import closed_sharding, read_sharding
from paropt.passes.spmd.global_form import remember
from paropt.passes.support.traversal import module_of, op_of


class Found(NamedTuple):
    """A stack, and the additions that are to be done in its loop."""

    stack: RowStack
    additions: Sequence[Addition]


def add_in_loop(loop: Loop, found: Sequence[Found]) -> Loop:
    """The loop that adds the rows of these stacks to accumulators, which it carries in place of the stacks."""
    starts, nexts = list(loop.op.operands), list(loop.next_values.operands)
    sums: dict[int, Found] = {}  # by the number of the loop-carried value: a stack and one addition
    parts_of: list[int] = []
    for stack, additions in found:
        begun = [_start(addition, stack) for addition in additions]
        ends = _added(stack, additions, begun) if stack.read is None else [nexts[stack.position]]
        starts[stack.position], nexts[stack.position] = begun[0], ends[0]
        sums[stack.position] = Found(stack, additions[:1])
        for number in range(1, len(additions)):
            sums[len(starts)] = Found(stack, additions[number : number + 1])
            starts.append(begun[number])
            nexts.append(ends[number])
            parts_of.append(stack.position)
    new = rebuilt(loop, starts, nexts, parts_of)
    _note_results(new, sums)
    _replace_results(loop, new, sums)
    return new


def _start(addition: Addition, stack: RowStack) -> ir.Value:
    """The accumulator before the loop, in the shape in which the stack's rows are added."""
    loop = stack.loop.op
    for op in addition.before:
        op.move_before(loop)
    shape = _shape(stack.result)
    for step in addition.way.steps:
        shape = shape if is_elementwise(step) else _shape(step.results[0])
    return _reshaped(addition.accumulator, shape, addition, ir.InsertionPoint(loop))


def _reshaped(value: ir.Value, shape: list[int], addition: Addition, at: ir.InsertionPoint) -> ir.Value:
    if _shape(value) == shape:
        return value
    with at, addition.op.location:
        return create(RESHAPE, ir.RankedTensorType.get(shape, _element(value)), value)


def _added(stack: RowStack, additions: Sequence[Addition], begun: Sequence[ir.Value]) -> list[ir.Value]:
    """Adds the rows to accumulators that the loop carries, the first of them in place of the stack."""
    loop = stack.loop
    arguments = [carry(loop, start.type) for start in begun]
    ends = [_added_row(stack, each, to) for each, to in zip(additions, arguments, strict=True)]
    end = loop.next_values
    stacked = end.operands[stack.position]
    end.operands[stack.position] = ends[0]
    erase_unread([stacked])
    for block in (loop.condition, loop.body):
        block.arguments[stack.position].set_type(begun[0].type)
    arguments[0].replace_all_uses_with(stack.argument)
    uncarry(loop, ir.BlockArgument(arguments[0]).arg_number)
    return ends


def _added_row(stack: RowStack, addition: Addition, to: ir.Value) -> ir.Value:
    """The accumulator `to`, with a row of the stack added to its row."""
    write = stack.write
    _, row, *starts = write.operands
    order = list(range(len(starts)))
    made: list[ir.Value] = []
    with ir.InsertionPoint(write), addition.op.location:
        for step in addition.way.steps:
            row, order = _step_on(row, step, order, stack.row)
            for name, note in _notes(stack, order).items():
                op_of(row).attributes[name] = note
            made.append(row)
        notes, places = _notes(stack, order), [starts[i] for i in order]
        sizes = ir.DenseI64ArrayAttr.get(_shape(row))
        read = create(DYNAMIC_SLICE, row.type, to, *places, slice_sizes=sizes, **notes)
        added = create(addition.op.name, row.type, *((read, row) if addition.operand else (row, read)), **notes)
        new = create(UPDATE, to.type, to, added, *places, **notes)
    if notes:
        remember(module_of(write), {op_of(value).name for value in (*made, read, added, new)})
    return new


def _step_on(row: ir.Value, step: ir.Operation, order: list[int], rows: int) -> tuple[ir.Value, list[int]]:
    """The result of `step` on a row of the stack in place of all of it, and which dimensions of the stack that has."""
    new = step.clone()
    for name in (SHARDINGS, WANTED, ALONE):
        if name in new.attributes:
            del new.attributes[name]
    shape = _shape(row)
    if is_elementwise(step):
        _fill_operands(new, step, row)
    elif step.name == TRANSPOSE:
        new.operands[0] = row
        moved = list(ir.DenseI64ArrayAttr(step.attributes["permutation"]))
        shape, order = [shape[i] for i in moved], [order[i] for i in moved]
    else:
        new.operands[0] = row
        number = order.index(rows)
        ends = list(ir.DenseI64ArrayAttr(step.attributes["limit_indices"]))
        ends[number] = shape[number]
        new.attributes["limit_indices"] = ir.DenseI64ArrayAttr.get(ends)
        shape = [shape[i] if i == number else size for i, size in enumerate(_shape(step.results[0]))]
    new.results[0].set_type(ir.RankedTensorType.get(shape, _element(step.results[0])))
    return new.results[0], order


def _fill_operands(new: ir.Operation, step: ir.Operation, row: ir.Value) -> None:
    """Has `new`, a clone of the elementwise `step`, work on `row`, with the scalars that the others are made of."""
    for i, operand in enumerate(step.operands):
        if scalar_of(operand) is None:
            new.operands[i] = row
        elif _shape(operand):
            with ir.InsertionPoint(new):
                new.operands[i] = scalar_spread(operand, _shape(row))


def _notes(stack: RowStack, order: Sequence[int]) -> dict[str, ir.Attribute]:
    """The annotations of a row of the stack, or of an array of such rows, with its dimensions in this order."""
    lies = noted_sharding(stack.write.results[0])
    if lies is None:
        return {}
    with stack.write.context:
        sharding = closed_sharding(lies.mesh, [lies.dimensions[i] for i in order])
        return {SHARDINGS: ir.ArrayAttr.get([sharding])}


def _note_results(loop: Loop, sums: Mapping[int, Found]) -> None:
    """Annotates the sums that `loop` returns as the stacks were, with their dimensions in order."""
    for name in (SHARDINGS, WANTED):
        if name not in loop.op.attributes:
            continue
        listed = list(ir.ArrayAttr(loop.op.attributes[name]))
        for number, (_, additions) in sums.items():
            lies = read_sharding(listed[number])
            order = additions[0].way.dimensions
            with loop.op.context:
                listed[number] = closed_sharding(lies.mesh, [lies.dimensions[i] for i in order])
        loop.op.attributes[name] = ir.ArrayAttr.get(listed, loop.op.context)


def _replace_results(old: Loop, new: Loop, sums: Mapping[int, Found]) -> None:
    """Has `new` read for `old`, and its sums for the additions; erases ops that are dead then, and `old`."""
    stacked = []
    for number, (_, additions) in sums.items():
        addition = additions[0]
        made = addition.op.results[0]
        made.replace_all_uses_with(_reshaped(new.op.results[number], _shape(made), addition, ir.InsertionPoint(old.op)))
        stacked.append(addition.op.operands[addition.operand])
        addition.op.erase()
    for number, result in enumerate(old.op.results):
        if number not in sums:
            result.replace_all_uses_with(new.op.results[number])
    erase_unread(stacked)


def _shape(value: ir.Value) -> list[int]:
    return ir.RankedTensorType(value.type).shape


def _element(value: ir.Value) -> ir.Type:
    return ir.RankedTensorType(value.type).element_type
