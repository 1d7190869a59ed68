"""Makes branches of what a loop selects by its counter, so that only the trips that keep an update compute it."""

from collections.abc import Callable, Mapping, Sequence

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from paropt.passes.analysis.branches import CASE, ends_of
from paropt.passes.analysis.collectives import IN_BRANCH, REDUCTIONS
from paropt.passes.analysis.congruence import nested
from paropt.passes.analysis.loops import Loop
from paropt.passes.analysis.noted import SHARDINGS, WANTED, notes_of_results
from paropt.passes.analysis.partial import BlockFacts
from paropt.passes.analysis.selects import Selected, Selection, made_of_selected, only_for, selections
from paropt.passes.analysis.shardings import open_sharding, read_sharding, unsplit
from paropt.passes.core.erasing import erase_unread
from paropt.passes.core.remarks import Declined, Remark, applied, missed
from paropt.passes.core.split import neutral
from paropt.passes.core.traversal import op_of, ops_of

_WAS_SELECTS = "paropt_was_selects"  # on a case
_SIDES = (0, 1)


def selects_branched(
    loop: Loop, facts: Callable[[], BlockFacts], pass_name: str, *, finite: bool
) -> tuple[bool, list[Remark]]:
    """Makes a case of all that the body selects by one counter, where sums that the trip reduces are part of that.

    What only one side reads is computed in its branch. Returns whether there are such cases, and why others may not
    be; `selects_taken_back` must follow. `facts` makes facts of the body as it is.
    """
    made = False
    while True:  # one after the other, and looked for anew: one may select what another one makes
        done, remarks = _one_branched(loop, facts(), pass_name, finite=finite)
        if not done:
            return made, remarks
        made = True


def _one_branched(loop: Loop, facts: BlockFacts, pass_name: str, *, finite: bool) -> tuple[bool, list[Remark]]:
    found = selections(loop, finite=finite) if facts.reductions.kinds else []
    sums = facts.sums() if found else set()
    remarks: list[Remark] = []
    for selection in found:
        moved = [op for side in _SIDES for op in only_for(side, selection, loop)]
        read = [value for op in moved for value in op.operands]
        sides = [value for each in selection.selected for value in each.sides if value is not None]
        if sums.isdisjoint([*read, *sides]):
            continue
        try:
            behind = made_of_selected(selection, moved, loop)
        except Declined as declined:
            remarks.append(missed(pass_name, selection.at, declined))
            continue
        _branch(selection, [only_for(side, selection, loop) for side in _SIDES], behind)
        return True, remarks
    return False, remarks


def _branch(selection: Selection, moved: Sequence[Sequence[ir.Operation]], behind: Sequence[ir.Operation]) -> None:
    """Makes the case, with the ops `moved` to either side, and those that are to be `behind` it."""
    at, made = selection.at, selection.made
    attributes = {_WAS_SELECTS: ir.UnitAttr.get(at.context), **_notes(selection)}
    with at.context, ir.InsertionPoint(at), at.location:
        number = stablehlo.convert(ir.RankedTensorType.get([], ir.IntegerType.get_signless(32)), selection.predicate)
        case = ir.Operation.create(CASE, [value.type for value in made], [number], attributes, regions=len(_SIDES))
    for side, region, ops in zip(_SIDES, case.regions, moved, strict=True):
        block = region.blocks.append()
        with at.context, ir.InsertionPoint(block), at.location:
            chosen = {value: _chosen(value, side, made) for value in made}
            end = stablehlo.return_(list(chosen.values()))
        for op in ops:
            op.move_before(end.operation)
            _read_chosen(op, chosen)
    for value, result in zip(made, case.results, strict=True):
        value.replace_all_uses_with(result)
    for op in reversed(behind):
        op.move_after(case)
    read = [operand for each in selection.selected for operand in each.op.operands]
    for each in reversed(selection.selected):
        each.op.erase()
    erase_unread(read)


def _chosen(value: ir.Value, side: int, made: Mapping[ir.Value, Selected]) -> ir.Value:
    """What is made on that side, where `value` is selected; zeros are made at the insertion point."""
    chosen: ir.Value | None = value
    while chosen is not None and chosen in made:
        chosen = made[chosen].sides[side]
    return chosen if chosen is not None else neutral(value.type)


def _read_chosen(op: ir.Operation, chosen: Mapping[ir.Value, ir.Value]) -> None:
    """Has `op`, and what is in its regions, read what is chosen in place of what selects that."""
    for each in (op, *nested(op)):
        for i, operand in enumerate(each.operands):
            if operand in chosen:
                each.operands[i] = chosen[operand]


def _notes(selection: Selection) -> dict[str, ir.Attribute]:
    """What is noted of what is selected, for an op that returns all of it."""
    ops = [each.op for each in selection.selected]
    notes: dict[str, ir.Attribute] = {}
    for name in (SHARDINGS, WANTED):
        noted = [ir.ArrayAttr(op.attributes[name])[0] if name in op.attributes else None for op in ops]
        mesh = next((read_sharding(each).mesh for each in noted if each is not None), None)
        if mesh is None:
            continue
        with selection.at.context:  # which is as if nothing were noted
            others = [open_sharding(mesh, unsplit(op.results[0], mesh).dimensions) for op in ops]
            notes[name] = ir.ArrayAttr.get([a or b for a, b in zip(noted, others, strict=True)])
    return notes


def selects_taken_back(loop: Loop, pass_name: str) -> list[Remark]:
    """Makes selects again of what `selects_branched` made branches of that reduce no sum now."""
    remarks: list[Remark] = []
    for case in [op for op in ops_of(loop.op, CASE) if _WAS_SELECTS in op.attributes]:
        del case.attributes[_WAS_SELECTS]
        if any(IN_BRANCH in op.attributes for op in ops_of(case, *REDUCTIONS)):
            text = "what the loop selects by its counter is a branch of it now, which alone reads the sum"
            remarks.append(applied(pass_name, case, text))
        else:
            _select(case)
    return remarks


def _select(case: ir.Operation) -> None:
    if_false, if_true = ends_of(case)
    number = op_of(case.operands[0])
    for end in (if_false, if_true):
        for op in [view.operation for view in end.block.operations if view.operation != end]:
            op.move_before(case)
    with case.context, ir.InsertionPoint(case), case.location:
        predicate = _truth(number.operands[0])
        for i, result in enumerate(case.results):
            selected = stablehlo.select(predicate, if_true.operands[i], if_false.operands[i])
            for name, noted in notes_of_results(case, [i]).items():
                op_of(selected).attributes[name] = noted
            result.replace_all_uses_with(selected)
    case.erase()
    number.erase()


def _truth(number: ir.Value) -> ir.Value:
    """Whether `number` is not 0, made at the insertion point."""
    tensor = ir.RankedTensorType(number.type)
    if tensor.element_type == ir.IntegerType.get_signless(1):
        return number
    return stablehlo.compare(number, neutral(tensor), stablehlo.ComparisonDirectionAttr.get("NE"))
