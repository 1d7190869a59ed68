"""Reductions written into a global-view program that has none, as ops of Shardy's explicit form.

    %p = op(...)                                                        adds up over a dimension split on "data"
    %u = sdy.sharding_constraint %p <@mesh, [...], unreduced={"data"}>  each device holds an addend
    %v = sdy.all_reduce {"data"} %u                                     their sum

Globally all three are one value: passes may move the all_reduce, and `take_back` can undo the exposure.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.dataflow.engine import forward
from paropt.passes.dataflow.unreduced import made_unreduced
from paropt.passes.dataflow.xla_tracking import is_followed
from paropt.passes.ir.branches import BRANCHES
from paropt.passes.ir.constraints import CONSTRAINT
from paropt.passes.ir.op_table import is_end, is_tracked_on_condition, says_sharding
from paropt.passes.sharding.annotations import (
    ALONE,
    GATHERED,
    MOVES,
    NOTED,
    OPERANDS,
    READ,
    SHARDINGS,
    SHARED,
    WANTED,
    is_source,
    noted_alone,
    noted_gather,
    noted_operands,
)
from paropt.passes.sharding.axes import Axes, axes_in, spelled
from paropt.passes.sharding.collectives import GLOBAL_ALL_REDUCE, GLOBAL_REDUCE_SCATTER
from paropt.passes.sharding.explicit_ops import all_reduce, constrained
from paropt.passes.sharding.propagation import Propagated
from paropt.passes.sharding.shardings import (
    Sharding,
    closed_as_said,
    closed_sharding,
    is_manual,
    open_sharding,
    read_sharding,
    says,
    unsplit,
)
from paropt.passes.spmd.producers import SCATTER, Producer
from paropt.passes.spmd.sharded_sums import Cut
from paropt.passes.spmd.xla_quirks.in_place import why_not_in_place
from paropt.passes.spmd.xla_quirks.operand_gathers import Gather, is_gathered_alike
from paropt.passes.support.traversal import defining_op, is_read_once, module_of, op_of, ops_of

_INDICES = 1  # the operand of a scatter
_WHOLE = "paropt.whole"  # of a reduce_scatter: the constraint that stood there


class Scattering(NamedTuple):
    """A reduce_scatter to be written."""

    cut: Cut
    whole: Sharding  # of the result of the op that reduces
    shard: Sharding
    computed: Sharding | None = None  # how devices compute that result, where they exchange their parts of its sum

    def leaves_loop(self, producer: Producer) -> bool:
        """Whether it stands behind a loop that `producer` is in."""
        return op_of(self.cut.value).block != producer.op.block


def expose(producer: Producer, axes: Axes, scattering: Scattering | None = None) -> None:
    """Writes the reduction of `producer` over `axes`: behind it, or behind its reduce_scatter where it has one."""
    value, mesh, location = producer.value, producer.mesh, producer.op.location
    with value.context:
        closed = producer.closed or ((),) * len(producer.operands)
        splits = [
            open_sharding(mesh, split, closed=dims) if any(split) else ir.UnitAttr.get()
            for split, dims in zip(producer.operands, closed, strict=True)
        ]
        pins: dict[str, ir.Attribute] = {OPERANDS: ir.ArrayAttr.get(splits)}
        if producer.shared:
            pins[SHARED] = ir.DenseI64ArrayAttr.get(producer.shared)
        if scattering is None:
            _write_sum(value, mesh, axes, pins, location)
            return
        cut, whole, shard, computed = scattering
        if computed is not None:
            op_of(value).attributes[SHARDINGS] = ir.ArrayAttr.get([closed_sharding(mesh, computed.dimensions)])
        with ir.InsertionPoint.after(op_of(value)), location:
            source = _source(value, closed_sharding(mesh, whole.dimensions, whole.unreduced), pins)
        value.replace_all_uses_except(source.results[0], source)
        if any(use.owner.operation.name == GLOBAL_REDUCE_SCATTER for use in cut.value.uses):
            return  # a loop adds up several terms of it
        scattered = _write_scatter(source.results[0] if cut.value == value else cut.value, cut, shard, whole.unreduced)
        if axes:
            _write_sum(scattered, mesh, axes, {OPERANDS: ir.ArrayAttr.get([])}, location)


def _write_sum(value: ir.Value, mesh: str, axes: Axes, pins: dict[str, ir.Attribute], location: ir.Location) -> None:
    """Has readers of `value`, which is unreduced over `axes`, read it through an all_reduce."""
    with ir.InsertionPoint.after(op_of(value)), location:
        source = _source(value, open_sharding(mesh, unsplit(value, mesh).dimensions, axes), pins)
        listed = ir.Attribute.parse(f"#sdy<axis_ref_list{spelled(axes)}>")
        value.replace_all_uses_except(all_reduce(source.results[0], mesh, listed), source)


def _write_scatter(value: ir.Value, cut: Cut, shard: Sharding, axes: Axes) -> ir.Value:
    """`value` is read through a reduce_scatter, and not through constraints that ask for the whole of it."""
    scattered = [[axis for axis in over if axis in axes] for over in shard.dimensions]
    listed = ", ".join(map(spelled, scattered))
    with ir.InsertionPoint.after(op_of(value)), op_of(value).location:
        attributes = {
            "reduce_scatter_axes": ir.Attribute.parse(f"#sdy<list_of_axis_ref_lists[{listed}]>"),
            "out_sharding": closed_sharding(shard.mesh, shard.dimensions),
        }
        op = ir.Operation.create(GLOBAL_REDUCE_SCATTER, results=[value.type], operands=[value], attributes=attributes)
    value.replace_all_uses_except(op.results[0], op)
    for convert in cut.converts:  # of shards now
        convert.attributes[SHARDINGS] = ir.ArrayAttr.get([op.attributes["out_sharding"]], value.context)
        if ALONE in convert.attributes:
            del convert.attributes[ALONE]
    for whole in cut.wholes:
        op.attributes[_WHOLE] = whole.attributes["sharding"]
        whole.results[0].replace_all_uses_with(whole.operands[0])
        whole.erase()
    return op.results[0]


def _source(value: ir.Value, sharding: ir.Attribute, pins: dict[str, ir.Attribute]) -> ir.Operation:
    """A constraint that says that `value` is unreduced, made at the insertion point."""
    source = op_of(constrained(value, sharding))
    for name, pinned in pins.items():
        source.attributes[name] = pinned
    return source


def note_shardings(module: ir.Operation, moved: Iterable[tuple[ir.Value, Axes]], propagated: Propagated) -> None:
    """Annotates the shardings of values, and of linear functions of them; annotations outlive moves and clones of ops.

    `moved` are values with the axes over which they are to be left unreduced.
    """
    by_axes: dict[Axes, list[ir.Value]] = {}
    for value, axes in moved:
        by_axes.setdefault(axes, []).append(value)
    remember(module, {name for axes, values in by_axes.items() for name in _note_shardings(values, axes, propagated)})


def note_gathers(module: ir.Operation, producers: Iterable[Producer], propagated: Propagated) -> None:
    """Annotates contractions that share an all-gathered operand with one of `producers`: one gather serves all."""
    names: set[str] = set()
    for producer in producers:
        for operand, gather in zip(producer.op.operands, producer.gathered, strict=False):  # constraints have none
            if gather is None:
                continue
            for use in operand.uses:
                if is_gathered_alike(use, gather, propagated):
                    _note_gather(use, gather)
                    names.add(use.owner.operation.name)
    remember(module, names)


def _note_gather(use: ir.OpOperand, gather: Gather) -> None:
    op = use.owner.operation
    with op.context:
        noted = list(ir.ArrayAttr(op.attributes[GATHERED])) if GATHERED in op.attributes else []
        noted = noted or [ir.UnitAttr.get()] * len(op.operands)
        noted[use.operand_number] = ir.ArrayAttr.get([closed_sharding(s.mesh, s.dimensions) for s in gather])
        op.attributes[GATHERED] = ir.ArrayAttr.get(noted)


def remember(module: ir.Operation, names: set[str]) -> None:
    """Records that ops of these names have annotations."""
    if NOTED in module.attributes:
        names = names | {ir.StringAttr(name).value for name in ir.ArrayAttr(module.attributes[NOTED])}
    if names:
        with module.context:
            module.attributes[NOTED] = ir.ArrayAttr.get([ir.StringAttr.get(name) for name in sorted(names)])


def _note_shardings(values: list[ir.Value], axes: Axes, propagated: Propagated) -> set[str]:
    """Returns the names of the ops that have notes now."""
    names, made = set[str](), set[ir.Value]()

    def reached(use: ir.OpOperand) -> list[ir.Value]:
        user, value = use.owner.operation, use.owner.operands[use.operand_number]
        if not is_tracked_on_condition(user):
            results = made_unreduced(use)
        else:
            names.add(user.name)
            results = list(user.results) if _follows(user, value, axes, propagated) else []
        if results and results == list(user.results) and (why := why_not_in_place(user, value, axes, propagated)):
            user.attributes[MOVES] = ir.StringAttr.get(why, user.context)
            names.add(user.name)
        return results

    for value in forward(values, reached):
        op = defining_op(value)
        if op is not None and op.results[0] not in made:
            made.add(op.results[0])
            if _note(op, propagated):
                names.add(op.name)
    return names


def _follows(op: ir.Operation, addend: ir.Value, axes: Axes, propagated: Propagated) -> bool:
    """Annotates the shardings of operands and results of `op`; returns whether XLA tracks `addend` through it."""
    _note(op, propagated)
    _note_operands(op, propagated)
    before = [addend] if (made := defining_op(addend)) is None else list(made.results)
    addends = [i for i, operand in enumerate(op.operands) if operand in before]
    return is_followed(op, addends, axes)


def _note_operands(op: ir.Operation, propagated: Propagated) -> None:
    found = propagated.operand_shardings(op)
    if not found:  # Shardy erased it
        return
    with op.context:
        noted = [ir.UnitAttr.get() if lies is None else closed_sharding(lies.mesh, lies.dimensions) for lies in found]
        op.attributes[READ] = ir.ArrayAttr.get(noted)


def _note(op: ir.Operation, propagated: Propagated) -> bool:
    """Whether there is something to note."""
    notes = {SHARDINGS: propagated.listed(op), WANTED: propagated.wanted(op)}
    found = {name: noted for name, noted in notes.items() if noted is not None}
    for name, noted in found.items():
        op.attributes[name] = noted
    return bool(found)


def sources(module: ir.Operation) -> list[ir.Operation]:
    return [op for op in ops_of(module, CONSTRAINT) if is_source(op)]


def global_all_reduces(module: ir.Operation) -> list[ir.Operation]:
    return [op for op in ops_of(module, GLOBAL_ALL_REDUCE) if not is_manual(op)]


def reduced_axes(op: ir.Operation) -> tuple[str, Axes]:
    """The mesh and the axes of the all_reduce or source `op`."""
    if op.name == GLOBAL_ALL_REDUCE:
        return read_sharding(op.attributes["out_sharding"]).mesh, axes_in(op.attributes["reduction_axes"])
    sharding = read_sharding(op.attributes["sharding"])
    return sharding.mesh, sharding.unreduced


def summed_axes(source: ir.Operation) -> Axes:
    """The axes that shard the reduced dimensions of the op before `source`."""
    splits = [split for split in ir.ArrayAttr(source.attributes[OPERANDS]) if not isinstance(split, ir.UnitAttr)]
    return tuple(axis for split in splits for axis in sorted(read_sharding(split).axes))


def pin_operands(source: ir.Operation) -> None:
    """Pins the operands of the op before `source` as Shardy found them, and makes `source` a plain constraint."""
    producer = op_of(source.operands[0])
    shared = ir.DenseI64ArrayAttr(source.attributes[SHARED]) if SHARED in source.attributes else ()
    for i, split in enumerate(ir.ArrayAttr(source.attributes[OPERANDS])):
        if _pin_gathered(producer, i):
            continue
        if not isinstance(split, ir.UnitAttr) and not _is_pinned(producer.operands[i], split):
            _pin(producer, i, split, for_all=i in shared)
    for name in (OPERANDS, SHARED):
        if name in source.attributes:
            del source.attributes[name]


def _pin_gathered(op: ir.Operation, position: int) -> bool:
    """Whether XLA all-gathers that operand for `op`: then once, for all ops for which it does, as it would alone."""
    if GATHERED not in op.attributes:
        return False
    value = op.operands[position]
    uses = [(use.owner.operation, use.operand_number, noted_gather(use)) for use in value.uses]
    gather = next((gather for user, number, gather in uses if user == op and number == position), None)
    if gather is None:
        return False
    before, after = gather
    if _is_constrained(value, after):
        return True
    with op.context, _behind(value), op.location:
        # Shardy would have a value that only a constraint reads lie like that from the start: gathered too early.
        made = value if _is_constrained(value, before) else constrained(value, before)
        pinned = constrained(made, after)
    for user, number, wanted in uses:
        if wanted is not None and wanted == gather:
            user.operands[number] = pinned
    if op.name != SCATTER or position != _INDICES:  # these are few bytes: later ops may look up, and gather, the less
        _keep_for_others(made)
    return True


def _keep_for_others(value: ir.Value) -> None:
    """Has the other users of the operand of the constraint `value` read `value`, before one op reads it through
    another.

    Where nothing but the second constraint reads the first, Shardy has all that comes behind read the second.
    """
    op = defining_op(value)
    if op is None or op.name != CONSTRAINT or not is_read_once(value):
        return
    read = op.operands[0]
    uses = [use for use in read.uses if use.owner.operation != op]
    if any(says_sharding(use.owner.operation) for use in uses):  # then it does not
        return
    for use in uses:
        user = use.owner.operation
        unchanged = is_end(user) and defining_op(read) is None  # a loop would change a value that it only reads
        if user.block == op.block and op.is_before_in_block(user) and not unchanged:
            user.operands[use.operand_number] = value


def _behind(value: ir.Value) -> ir.InsertionPoint:
    made = defining_op(value)
    if made is not None:
        return ir.InsertionPoint.after(made)
    return ir.InsertionPoint.at_block_begin(ir.BlockArgument(value).owner)


def _pin(op: ir.Operation, position: int, split: ir.Attribute, *, for_all: bool) -> None:
    """Pins an operand; with `for_all`, for all readers alike: XLA would all-gather it for each that differs."""
    value = op.operands[position]
    if not for_all:
        _keep_for_others(value)
        with op.context, ir.InsertionPoint(op), op.location:
            op.operands[position] = constrained(value, split)
        return
    made = defining_op(value)
    readers = [(use.owner.operation, use.operand_number) for use in value.uses]
    if made is not None and made.name == CONSTRAINT:  # a sharding that the program closes stays closed
        split = closed_as_said(split, made.attributes["sharding"])
    with op.context, _behind(value), op.location if made is None else made.location:
        pinned = constrained(value, split)
    alone = noted_alone(ir.OpResult(value)) if made is not None else None
    if alone is not None:  # a value left open for others keeps its baseline sharding
        op_of(pinned).attributes[ALONE] = alone
        remember(module_of(op), {CONSTRAINT})
    for reader, number in readers:
        if made is not None or not is_end(reader):  # else a loop would change a value that it only reads
            reader.operands[number] = pinned


def _is_constrained(value: ir.Value, sharding: ir.Attribute) -> bool:
    """Whether it is so already: XLA would all-gather it for another constraint again."""
    op = defining_op(value)
    return op is not None and op.name == CONSTRAINT and op.attributes["sharding"] == sharding


def _is_pinned(value: ir.Value, split: ir.Attribute) -> bool:
    """Whether it is constrained to `split`: open dimensions of that are not to be opened anew."""
    op = defining_op(value)
    return op is not None and op.name == CONSTRAINT and says(op.attributes["sharding"], split)


def pin_others(op: ir.Operation, addends: Sequence[int], mesh: str) -> None:
    """Pins operands of `op` that are no addends as Shardy found them: XLA might reshard them to fit an addend."""
    lies = noted_operands(op, addends) or []
    with op.context, ir.InsertionPoint(op), op.location:
        for i, sharding in enumerate(lies):
            if i not in addends:
                operand = op.operands[i]
                _keep_for_others(operand)
                dimensions = (sharding or unsplit(operand, mesh)).dimensions
                op.operands[i] = constrained(operand, closed_sharding(mesh, dimensions))


def global_reduce_scatters(module: ir.Operation) -> list[ir.Operation]:
    return [op for op in ops_of(module, GLOBAL_REDUCE_SCATTER) if not is_manual(op)]


def take_back_unmoved(module: ir.Operation) -> None:
    """Reverts the all_reduces that still stand behind the op that needs them. Reduce_scatters stay."""
    for source in sources(module):
        users = [use.owner.operation for use in source.results[0].uses]
        if all(user.name == GLOBAL_ALL_REDUCE for user in users):
            erase_exposed((*users, source))


def take_back(module: ir.Operation) -> None:
    """Erases all that was exposed, wherever it has moved."""
    erase_exposed((*global_all_reduces(module), *global_reduce_scatters(module), *sources(module)))


def noted_ops(module: ir.Operation) -> list[ir.Operation]:
    """The ops that may have annotations."""
    if NOTED not in module.attributes:
        return []
    names = [ir.StringAttr(name).value for name in ir.ArrayAttr(module.attributes[NOTED])]
    return ops_of(module, *names, *BRANCHES)  # of an if, `annotate-unreduced` may have made a case


def erase_notes(module: ir.Operation) -> None:
    for op in noted_ops(module):
        for name in (SHARDINGS, WANTED, READ, GATHERED, MOVES, ALONE):
            if name in op.attributes:
                del op.attributes[name]
    if NOTED in module.attributes:
        del module.attributes[NOTED]


def erase_exposed(ops: Sequence[ir.Operation]) -> None:
    """Erases ops that were exposed, all that have values in common: the program computes the same without them."""
    for op in ops:
        value = op.operands[0]
        if _WHOLE in op.attributes:
            with op.context, ir.InsertionPoint(op), op.location:
                value = constrained(value, op.attributes[_WHOLE])
        op.results[0].replace_all_uses_with(value)
        op.erase()
