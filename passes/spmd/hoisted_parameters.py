"""Parameters gathered in front of a loop, and their users in it: the edit behind `hoist-gathers` in programs for all
devices.

Tests: test/passes/hoist-gathers.mlir, test/passes/hoist-gathers-stacked.mlir, test/numeric/test_hoisted_all_gathers.py.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from paropt.passes.ir.barriers import BARRIER
from paropt.passes.ir.branches import CASE
from paropt.passes.ir.control_flow import Use
from paropt.passes.ir.induction_variable import constant, create
from paropt.passes.ir.loops import Loop, start_of
from paropt.passes.ir.row_index import DYNAMIC_SLICE, UPDATE
from paropt.passes.ir.types import in_element_type
from paropt.passes.rewrite.erase import erase_unread
from paropt.passes.rewrite.loop_edits import carry, rebuilt
from paropt.passes.rewrite.residual_split import neutral
from paropt.passes.sharding.axes import Axes
from paropt.passes.sharding.explicit_ops import constrained
from paropt.passes.sharding.shardings import closed_sharding, without
from paropt.passes.spmd.layer_stacks import row_copies
from paropt.passes.spmd.loop_parameters import CONVERT, Parameter, Reading, constrains_over, copy_by, readings_of
from paropt.passes.spmd.renewed_parameters import Change
from paropt.passes.support.traversal import is_defined_in, ops_of, parent_of


def hoist(loop: Loop, parameter: Parameter, element: ir.Type) -> None:
    """Gathers `parameter` in front of `loop` in that element type, and has its `readings` read that."""
    readers = _readers(loop, parameter)
    with loop.op.context, ir.InsertionPoint(loop.op), loop.op.location:
        gathered = _gathered(parameter.value, parameter, element)
    _have_read(readers, gathered, parameter)


def hoist_renewed(loop: Loop, parameters: Sequence[tuple[Parameter, ir.Type]]) -> Loop:
    """Has `loop` carry these parameters gathered, each in its element type, and its readings read that: gathered in the
    first trip, and in each that follows one that changes it. Returns the loop that takes the place of `loop`.
    """
    readers = [_readers(loop, parameter) for parameter, _ in parameters]
    starts, nexts = list(loop.op.operands), list(loop.next_values.operands)
    groups: defaultdict[Change, list[int]] = defaultdict(list)
    for number, (parameter, _) in enumerate(parameters):
        assert parameter.renewal is not None, "the caller asks first"
        groups[parameter.renewal.change].append(number)
    for change, numbers in groups.items():
        made = _carried_gathers(loop, change, [parameters[number] for number in numbers])
        starts += made.starts
        nexts += made.nexts
        for number, gathered in zip(numbers, made.gathered, strict=True):
            _have_read(readers[number], gathered, parameters[number][0])
    old = loop.op
    new = rebuilt(loop, starts, nexts)
    for result, following in zip(old.results, new.op.results, strict=False):
        result.replace_all_uses_with(following)
    old.erase()
    return new


class _Readers(NamedTuple):
    """The readings of a parameter, and those by shard, which stay."""

    readings: list[Reading]
    by_shard: list[Reading]


def _readers(loop: Loop, parameter: Parameter) -> _Readers:
    _drop_constraints(parameter)
    return _Readers(*_from_rows(loop, parameter))


def _have_read(readers: _Readers, gathered: ir.Value, parameter: Parameter) -> None:
    shared = {copy_by(use) for reading in readers.by_shard for use in reading.copies}
    copied: dict[ir.Value, ir.Value] = {}
    erase_unread([_read_instead(gathered, each, copied, shared, parameter.axes) for each in readers.readings])


class _Carried(NamedTuple):
    """Values that a loop carries further: their init operands and next values, and the gathered parameters in it."""

    starts: list[ir.Value]
    nexts: list[ir.Value]
    gathered: list[ir.Value]


def _carried_gathers(loop: Loop, change: Change, parameters: Sequence[tuple[Parameter, ir.Type]]) -> _Carried:
    """Carries the parameters gathered, and whether they are to be gathered again: at first, and where they change.

    The loop begins with zeros, which it never reads.
    """
    types = [in_element_type(ir.RankedTensorType(each.value.type), element) for each, element in parameters]
    with loop.op.context, ir.InsertionPoint(loop.op), loop.op.location:
        zeros = [
            constrained(neutral(type_), _unsharded(each)) for type_, (each, _) in zip(types, parameters, strict=True)
        ]
        truth = ir.RankedTensorType.get([], ir.IntegerType.get_signless(1))
        starts = [*zeros, constant(truth, ir.IntegerAttr.get(truth.element_type, 1))]
    before, is_changed = [carry(loop, type_) for type_ in types], carry(loop, truth)
    with loop.op.context, ir.InsertionPoint.at_block_begin(loop.body), loop.op.location:
        number = create(CONVERT, ir.RankedTensorType.get([], ir.IntegerType.get_signless(32)), is_changed)
        case = ir.Operation.create(CASE, types, [number], regions=2)
        pairs = zip(case.results, parameters, strict=True)
        gathered = [constrained(result, _unsharded(each)) for result, (each, _) in pairs]
    kept, again = (region.blocks.append() for region in case.regions)
    with loop.op.context, ir.InsertionPoint(kept), loop.op.location:
        stablehlo.return_(before)
    with loop.op.context, ir.InsertionPoint(again), loop.op.location:
        stablehlo.return_([_gathered_again(loop, each, element) for each, element in parameters])
    with loop.op.context, ir.InsertionPoint(loop.next_values), loop.op.location:
        direction = stablehlo.ComparisonDirectionAttr.get("NE" if change.where_true else "EQ")
        changes = stablehlo.compare(change.predicate, neutral(change.predicate.type), direction)
    return _Carried(starts, [*gathered, changes], gathered)


def _gathered_again(loop: Loop, parameter: Parameter, element: ir.Type) -> ir.Value:
    """The parameter as a trip finds it, gathered at the insertion point, in a branch.

    Without a constraint that says how it is sharded, XLA would gather it for both branches.
    """
    assert parameter.renewal is not None, "the caller asks first"
    sharding = parameter.sharding
    value = loop.body.arguments[parameter.renewal.position]
    return _gathered(constrained(value, closed_sharding(sharding.mesh, sharding.dimensions)), parameter, element)


def _drop_constraints(parameter: Parameter) -> None:
    """Erases constraints that would shard the parameter again, but for those on the way to users of its shards."""
    kept = {copy_by(use) for reading in parameter.by_shard for use in reading.copies}
    uses = (use for reading in parameter.readings for use in reading.copies)
    dropped = {copy_by(use): use.op for use in uses if constrains_over(use.op, parameter.axes)}
    for copy, op in dropped.items():
        if copy not in kept:
            copy.replace_all_uses_with(op.operands[0])
            op.erase()


def _from_rows(loop: Loop, parameter: Parameter) -> tuple[list[Reading], list[Reading]]:
    """The readings once none reads a stack of copies: each row of one is made of a row of the parameter. And those by
    shard, which stay.
    """
    readings = readings_of(loop, parameter.value)
    while stacked := [each for each in readings if any(use.op.name == UPDATE for use in each.copies)]:
        rows: dict[ir.Value, list[Use]] = {}
        for reading in stacked:
            number = next(i for i, use in enumerate(reading.copies) if use.op.name == UPDATE)
            written, read = reading.copies[number : number + 2]
            rows[read.op.results[0]] = row_copies(written, reading.copies[:number])
        for row, made_by in rows.items():
            _make_row(row, made_by)
        erase_unread([*rows])
        readings = readings_of(loop, parameter.value)
    ends = [reading.end for reading in parameter.by_shard]
    return [each for each in readings if each.end not in ends], [each for each in readings if each.end in ends]


def _make_row(row: ir.Value, copies: Sequence[Use]) -> None:
    """Makes `row` of a stack as the loop made it that wrote it, of a row of the array that it read."""
    read = ir.OpResult(row).owner
    writer = parent_of(copies[0].op)
    value = copies[0].op.operands[0]
    while is_defined_in(value, writer):
        start = start_of(value)
        assert start is not None, "it is a copy of what is defined outside"
        value = start
    index = read.operands[1]
    with ir.InsertionPoint(read), read.location:
        for op in (use.op for use in copies):
            operands = [value]
            if op.name == DYNAMIC_SLICE:
                tensor = ir.RankedTensorType(index.type)
                zero = constant(tensor, ir.IntegerAttr.get(tensor.element_type, 0))
                operands += [index, *[zero] * (ir.RankedTensorType(value.type).rank - 1)]
            types = [result.type for result in op.results]
            value = ir.Operation.create(op.name, types, operands, attributes=dict(op.attributes)).results[0]
        if value.type != row.type:  # the loop writes it as it is, and keeps a first dimension
            value = ir.Operation.create("stablehlo.reshape", [row.type], [value]).results[0]
    row.replace_all_uses_with(value)


def _gathered(value: ir.Value, parameter: Parameter, element: ir.Type) -> ir.Value:
    """`value`, which is the parameter, gathered in that element type at the insertion point."""
    sharding = parameter.sharding
    type_ = in_element_type(ir.RankedTensorType(value.type), element)
    if type_ != value.type:
        value = create(CONVERT, type_, value)
        value = constrained(value, closed_sharding(sharding.mesh, sharding.dimensions))
    return constrained(value, _unsharded(parameter))


def _unsharded(parameter: Parameter) -> ir.Attribute:
    """The sharding of the gathered parameter."""
    sharding = parameter.sharding
    return closed_sharding(sharding.mesh, without(sharding.dimensions, parameter.axes))


def _read_instead(
    gathered: ir.Value, reading: Reading, copied: dict[ir.Value, ir.Value], shared: set[ir.Value], axes: Axes
) -> ir.Value:
    """Has `reading` copy elements of `gathered`, in its type. Returns a value that may be dead now.

    `copied` maps copies to those already made for other readings. Copies that are `shared` with others stay. No
    constraint shards over `axes` again.
    """
    value = gathered
    for use in reading.copies:
        op, position = use
        old = copy_by(use)
        if constrains_over(op, axes):  # it stays for others
            continue
        if old not in shared and value.type == op.operands[position].type:
            read, op.operands[position] = op.operands[position], value
            return read
        if op.name == CONVERT and old not in shared:
            old.replace_all_uses_with(_converted(value, old.type, op))
            return old
        if old not in copied:
            copied[old] = _converted(value, old.type, op) if op.name == CONVERT else _copied(use, value)
        value = copied[old]
    op, position = reading.end
    read = op.operands[position]
    op.operands[position] = _converted(value, read.type, op)
    return read


def _converted(value: ir.Value, type_: ir.Type, before: ir.Operation) -> ir.Value:
    """`value` in that type, converted in front of the op `before` if it has another."""
    if value.type == type_:
        return value
    with ir.InsertionPoint(before), before.location:
        return ir.Operation.create(CONVERT, results=[type_], operands=[value]).results[0]


def _copied(use: Use, value: ir.Value) -> ir.Value:
    """The part of `value` that the op of `use` copies, in its type."""
    op, position = use
    is_barrier = op.name == BARRIER  # the other operands are none of its business
    own = ir.RankedTensorType(op.results[position if is_barrier else 0].type)
    type_ = in_element_type(own, ir.RankedTensorType(value.type).element_type)
    operands = [value] if is_barrier else [value, *list(op.operands)[1:]]
    with ir.InsertionPoint(op), op.location:
        attributes = {} if is_barrier else dict(op.attributes)
        return ir.Operation.create(op.name, [type_], operands, attributes=attributes).results[0]


def erase_unread_in_barriers(loop: Loop) -> None:
    """Erases operands of barriers that are dead behind them, with the ops that compute these: XLA would keep both."""
    for op in ops_of(loop.op, BARRIER):
        kept = [i for i, result in enumerate(op.results) if any(True for _ in result.uses)]
        if not kept or len(kept) == len(op.results) or len(op.attributes):
            continue
        unread = [operand for i, operand in enumerate(op.operands) if i not in kept]
        operands = [op.operands[i] for i in kept]
        with ir.InsertionPoint(op), op.location:
            new = ir.Operation.create(BARRIER, [each.type for each in operands], operands)
        for i, result in zip(kept, new.results, strict=True):
            op.results[i].replace_all_uses_with(result)
        op.erase()
        erase_unread(unread)
