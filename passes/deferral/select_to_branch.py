"""Selects by an induction variable as branches, so that only the iterations that keep an update compute it.

Ifs and cases in the body that take their branches by the same counter become part of it.

Tests: test/passes/defer-sync-selects.mlir, test/numeric/test_select_to_branch.py.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from paropt.passes.dataflow.op_comparison import is_same
from paropt.passes.dataflow.partial_values import BlockFacts
from paropt.passes.deferral.counter_selects import Selected, Selection, in_block, made_of_selected, only_for, selections
from paropt.passes.deferral.sink_into_branches import WAS_OUTSIDE
from paropt.passes.ir.branches import CASE, ends_of
from paropt.passes.ir.loops import Loop
from paropt.passes.rewrite.erase import erase_unread
from paropt.passes.rewrite.residual_split import neutral
from paropt.passes.sharding.annotations import SHARDINGS, WANTED, notes_of_results
from paropt.passes.sharding.collectives import IN_BRANCH, REDUCTIONS
from paropt.passes.sharding.shardings import open_sharding, read_sharding, unsplit
from paropt.passes.support.remarks import Declined, Remark, applied, missed
from paropt.passes.support.traversal import is_defined_in, nested, op_of, ops_of, reads

_WAS_SELECTS = "paropt.was_selects"  # on a case
_SIDES = (0, 1)


def selects_branched(
    loop: Loop, facts: Callable[[], BlockFacts], pass_name: str, *, finite: bool
) -> tuple[bool, list[Remark]]:
    """Makes a case of the selects on one counter, where reductions of the body are among their operands.

    Ops that only one side reads are computed in its branch. Returns whether there are such cases, and why others may
    not be; `selects_taken_back` must follow. `facts` makes facts of the body as it is.
    """
    made = False
    while True:  # one after the other, and looked for anew: one may select the result of another
        done, remarks = _one_branched(loop, facts(), pass_name, finite=finite)
        if not done:
            return made, remarks
        made = True


def _one_branched(loop: Loop, facts: BlockFacts, pass_name: str, *, finite: bool) -> tuple[bool, list[Remark]]:
    found = selections(loop, finite=finite) if facts.reductions.kinds else []
    sums = facts.sums() if found else set()
    remarks: list[Remark] = []
    for selection in found:
        moved = _moved(selection, loop)
        if sums.isdisjoint(_read_by(selection, moved, loop)):
            continue
        try:
            behind = made_of_selected(selection, moved, loop)
        except Declined as declined:
            remarks.append(missed(pass_name, selection.at, declined))
            continue
        _branch(selection, [only_for(side, selection, loop) for side in _SIDES], behind)
        return True, remarks
    return False, remarks


def _moved(selection: Selection, loop: Loop) -> list[ir.Operation]:
    """The ops that may be computed on one side only."""
    return [op for side in _SIDES for op in only_for(side, selection, loop)]


def _read_by(selection: Selection, moved: Sequence[ir.Operation], loop: Loop) -> list[ir.Value]:
    """The values that are read in some trips only once this is one branch.

    If it has branches already: values selected and read there, and those that several of the branches read. A value
    that only one reads may be computed in there as it is.
    """
    parts = selection.parts
    if not parts:
        sides = [side for each in selection.selected for side in each.sides if side is not None]
        return sides + [operand for op in moved for operand in op.operands]
    alone = {op.results[0] for part in parts for op in _moved(part, loop)}
    together = [operand for op in moved if op.results[0] not in alone for operand in op.operands]
    made = selection.made
    return together + [value for op in (*moved, *selection.ops) for value in reads(op) if value in made]


def _branch(selection: Selection, moved: Sequence[Sequence[ir.Operation]], behind: Sequence[ir.Operation]) -> None:
    """Makes the case, with the ops `moved` to either side, and those that are to be `behind` it."""
    at, made = selection.at, selection.made
    kept = _read_behind(selection, [op for ops in moved for op in ops])
    only_selects = all(each.branches is None for each in selection.selected)
    attributes = {_WAS_SELECTS: ir.BoolAttr.get(only_selects, at.context), **_notes(kept)}
    with at.context, ir.InsertionPoint(at), at.location:
        number = stablehlo.convert(ir.RankedTensorType.get([], ir.IntegerType.get_signless(32)), selection.predicate)
        case = ir.Operation.create(CASE, [value.type for value in kept], [number], attributes, regions=len(_SIDES))
    for side, region, ops in zip(_SIDES, case.regions, moved, strict=True):
        block = region.blocks.append()
        with at.context, ir.InsertionPoint(block), at.location:
            chosen = {value: _chosen(value, side, made) for value in made}
            end = stablehlo.return_([chosen[value] for value in kept])
        for op in list(_in_order(side, ops, selection)):
            op.move_before(end.operation)
            _read_chosen(op, chosen)
    for value, result in zip(kept, case.results, strict=True):
        value.replace_all_uses_with(result)
    _hoist_common(case)
    for op in reversed(behind):
        op.move_after(case)
    read = [operand for op in selection.ops for operand in op.operands if operand not in made]
    for op in reversed(selection.ops):
        op.erase()
    erase_unread(read)


def _in_order(side: int, moved: Sequence[ir.Operation], selection: Selection) -> Iterator[ir.Operation]:
    """The ops `moved` to that side, and those of the branches that are there already, in program order."""
    made, going = selection.made, {op.results[0] for op in moved}
    for op in (view.operation for view in selection.at.block.operations):
        first = op.results[0] if len(op.results) else None
        if first in going:
            yield op
        elif first in made and (branches := made[first].branches) is not None:
            *ops, _ = [view.operation for view in branches[side].operations]
            for each in ops:
                if WAS_OUTSIDE in each.attributes:  # and stays here: it may read ops that are now in the same branch
                    del each.attributes[WAS_OUTSIDE]
                yield each


def _hoist_common(case: ir.Operation) -> None:
    """Hoists before the case the ops on values from outside that both branches do, such as the sum of gradients."""
    first, second = (region.blocks[0] for region in case.regions)
    *computed, _ = [view.operation for view in first.operations]  # both may return the same
    for op in computed:
        read = list(op.operands)
        if len(op.regions) or not read or any(is_defined_in(value, case) for value in read):
            continue
        users = (use.owner.operation for use in read[0].uses)
        likely = (user for user in users if user.block == second and list(user.operands) == read)
        same = next((user for user in likely if is_same(op, user)), None)
        if same is not None:
            op.move_before(case)
            for old, new in zip(same.results, op.results, strict=True):
                old.replace_all_uses_with(new)
            same.erase()


def _chosen(value: ir.Value, side: int, made: Mapping[ir.Value, Selected]) -> ir.Value:
    """The operand on that side of the select `value`; zeros are made at the insertion point."""
    chosen: ir.Value | None = value
    while chosen is not None and chosen in made:
        chosen = made[chosen].sides[side]
    return chosen if chosen is not None else neutral(value.type)


def _read_chosen(op: ir.Operation, chosen: Mapping[ir.Value, ir.Value]) -> None:
    """Has `op`, and the ops in its regions, read the chosen operands in place of the selects."""
    for each in (op, *nested(op)):
        for i, operand in enumerate(each.operands):
            if operand in chosen:
                each.operands[i] = chosen[operand]


def _read_behind(selection: Selection, moved: Sequence[ir.Operation]) -> list[ir.Value]:
    """The selected values with a user outside of the selection, which neither selects nor is `moved` to one side."""
    own = {*selection.made, *(op.results[0] for op in moved)}  # ops by first results
    body = selection.at.block

    def is_own(user: ir.Operation) -> bool:
        op = in_block(user, body)
        return len(op.results) > 0 and op.results[0] in own

    return [value for value in selection.made if not all(is_own(use.owner.operation) for use in value.uses)]


def _notes(values: Sequence[ir.Value]) -> dict[str, ir.Attribute]:
    """The annotations of `values`, for an op that returns all of them."""
    results: list[ir.OpResult] = [ir.OpResult(value) for value in values]
    notes: dict[str, ir.Attribute] = {}
    for name in (SHARDINGS, WANTED):
        found = [notes_of_results(op_of(result), [result.result_number]).get(name) for result in results]
        noted = [ir.ArrayAttr(each)[0] if each is not None else None for each in found]
        mesh = next((read_sharding(each).mesh for each in noted if each is not None), None)
        if mesh is None:
            continue
        with values[0].context:  # which is as if nothing were noted
            others = [open_sharding(mesh, unsplit(result, mesh).dimensions) for result in results]
            notes[name] = ir.ArrayAttr.get([a or b for a, b in zip(noted, others, strict=True)])
    return notes


def selects_taken_back(loop: Loop, pass_name: str) -> list[Remark]:
    """Reverts to selects those branches made by `selects_branched` that reduce no sum now.

    Ops that were in branches before stay in the one branch that these have become.
    """
    remarks: list[Remark] = []
    for case in [op for op in ops_of(loop.op, CASE) if _WAS_SELECTS in op.attributes]:
        only_selects = ir.BoolAttr(case.attributes[_WAS_SELECTS]).value
        del case.attributes[_WAS_SELECTS]
        if any(IN_BRANCH in op.attributes for op in ops_of(case, *REDUCTIONS)):
            text = "what the loop selects by its counter is a branch of it now, which alone reads the sum"
            remarks.append(applied(pass_name, case, text))
        elif only_selects:
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
