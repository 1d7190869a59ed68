"""Selects by an induction variable: an update written with `jnp.where` that only every fourth iteration keeps.

A select reads both of its operands in every iteration, so the ops that compute them read the sum of gradients in every
iteration. In a branch, they would run only in the iterations that take it. The same holds of ops between two ifs or
cases that take their branches by the same counter, as in Keras: as one case, it would contain them.
"""

import operator
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from jaxlib.mlir import ir

from paropt.passes.dataflow.execution_bounds import most_trips
from paropt.passes.dataflow.loop_eval import Known, evaluated_in, trips_of
from paropt.passes.dataflow.scalar_masks import by_truth, scalar_under, truth_under, unconverted
from paropt.passes.dataflow.side_effects import is_plain
from paropt.passes.ir.branches import BRANCHES, chosen, ends_of
from paropt.passes.ir.loops import Loop
from paropt.passes.ir.op_table import is_collective, is_exposed
from paropt.passes.ir.types import is_float
from paropt.passes.sharding.annotations import MOVES
from paropt.passes.support.remarks import require
from paropt.passes.support.traversal import is_in, nested, op_of, ops_of, parent_of, reads

SELECT, MULTIPLY = "stablehlo.select", "stablehlo.multiply"
_OURS = "paropt"


Sides = tuple[ir.Value | None, ir.Value | None]  # None: zeros


class Selected(NamedTuple):
    """`value` as a selection: the first of `sides` where the predicate is false, the second where it is true."""

    value: ir.Value
    sides: Sides
    branches: tuple[ir.Block, ir.Block] | None = None  # of an if or case, those that return the sides

    @property
    def op(self) -> ir.Operation:
        """The select, product, if or case whose result it is."""
        return op_of(self.value)

    def opposite(self) -> "Selected":
        """The same by the opposite predicate."""
        return Selected(self.value, self.sides[::-1], self.branches[::-1] if self.branches else None)


class Selection(NamedTuple):
    """The selects of a loop body on the same predicate of the counter."""

    predicate: ir.Value  # a number: not 0 in the trips that make the values on the second side
    selected: list[Selected]  # in program order

    @property
    def at(self) -> ir.Operation:
        """The last op that selects: all that any of them reads is computed before it."""
        return self.selected[-1].op

    @property
    def made(self) -> dict[ir.Value, Selected]:
        """The selected values, by the select's result."""
        return {each.value: each for each in self.selected}

    @property
    def ops(self) -> list[ir.Operation]:
        """The ops that select, in program order."""
        return list({each.op.results[0]: each.op for each in self.selected}.values())

    @property
    def parts(self) -> list["Selection"]:
        """Each if or case alone, and the selects; nothing where all are selects."""
        made = self.made
        branched = [op for op in self.ops if made[op.results[0]].branches is not None]
        each = [self._replace(selected=[made[result] for result in op.results]) for op in branched]
        rest = [each for each in self.selected if each.branches is None]
        return [*each, *([self._replace(selected=rest)] if each and rest else [])]


class _Table(NamedTuple):
    """The trips in which something holds: for all values of `root`, or where it is false, and where it is true."""

    root: ir.Value | None
    holds: tuple[bool, ...]

    @classmethod
    def of(cls, root: ir.Value | None, numbers: Sequence[np.ndarray | None]) -> "_Table | None":
        if any(number is None or number not in (0, 1) for number in numbers):
            return None
        holds = tuple(bool(number) for number in numbers)
        return cls(root, holds) if len(set(holds)) == 2 else None

    def opposite(self) -> "_Table":
        return _Table(self.root, tuple(not each for each in self.holds))


def selections(loop: Loop, *, finite: bool) -> list[Selection]:
    """The selects in the body of `loop` on predicates that are known to hold in some trips only.

    Where ifs and cases take their branches by the same scalar, first the selections with these, then those without.
    With `finite`, also products by a scalar that is 0 or 1: as if 0 times anything were 0.
    """
    names = (SELECT, *BRANCHES, *((MULTIPLY,) if finite else ()))
    ops = [op for op in ops_of(loop.op, *names) if op.block == loop.body]
    by_scalar = [by for op in ops if (by := _by_scalar(op)) is not None]
    trips = trips_of(loop) if by_scalar else None
    if not trips:
        return []
    tables: dict[ir.Value, _Table | None] = {}
    found: dict[_Table, Selection] = {}
    for predicate, selected in by_scalar:
        if predicate not in tables:
            tables[predicate] = _table(predicate, loop, trips)
        table = tables[predicate]
        if table is None:
            continue
        opposite = table.opposite()
        if opposite in found:
            found[opposite].selected.extend(each.opposite() for each in selected)
        else:
            found.setdefault(table, Selection(predicate, [])).selected.extend(selected)
    return [each for full in found.values() for each in _either(full)]


def _either(full: Selection) -> list[Selection]:
    """All of it, if that is more than one if or case; then the selects."""
    parts = full.parts
    return [*([full] if len(parts) != 1 else []), *(part for part in parts if not part.parts)]


def _by_scalar(op: ir.Operation) -> tuple[ir.Value, list[Selected]] | None:
    """The scalar by which `op` selects, and the selected values: where it is 0, and else."""
    if MOVES in op.attributes:
        return None
    if op.name in BRANCHES:
        return _by_branch(op)
    if op.name == SELECT:
        predicate, if_true, if_false = op.operands
        scalar = scalar_under(predicate)
        return None if scalar is None else (scalar, [Selected(op.results[0], (if_false, if_true))])
    tensor = ir.RankedTensorType(op.results[0].type)
    for factor, value in (op.operands, reversed(op.operands)):
        scalar = scalar_under(factor) if tensor.shape and is_float(tensor.element_type) else None
        if scalar is not None:
            return unconverted(scalar), [Selected(op.results[0], (None, value))]
    return None


def _by_branch(op: ir.Operation) -> tuple[ir.Value, list[Selected]] | None:
    """The same for an if or case of two branches that only compute, and of which nothing is said but our own notes."""
    noted = all(name.startswith(_OURS) for name in op.attributes)
    if len(op.regions) != 2 or not noted or not _may_move(op):
        return None
    if_false, if_true = (ends_of(op)[chosen(op, number)] for number in (0, 1))
    sides = zip(op.results, if_false.operands, if_true.operands, strict=True)
    return op.operands[0], [Selected(made, (f, t), (if_false.block, if_true.block)) for made, f, t in sides]


def _table(predicate: ir.Value, loop: Loop, trips: list[Known]) -> _Table | None:
    """When `predicate` holds; None if it is unknown, constant over all trips, or takes other numbers than 0 and 1."""
    numbers = evaluated_in(trips, predicate)
    if all(number is not None for number in numbers):
        return _Table.of(None, numbers)
    root = truth_under(predicate)
    if root is None:
        return None
    often = [most_trips(root, loop, trips, partial(operator.eq, of)) for of in (0, 1)]
    if not any(most is not None and most < len(trips) for most in often):
        return None
    return _by_truth(predicate, root)


def _by_truth(value: ir.Value, root: ir.Value) -> _Table | None:
    """When `value`, which depends on the truth value `root` alone, is 1; None if it is not 0 and 1 by turns."""
    holds = by_truth(value, root)
    return _Table(root, holds) if holds is not None else None


def only_for(side: int, selection: Selection, loop: Loop) -> list[ir.Operation]:
    """The ops of the body, in program order, whose only users are those that select their results on that side."""
    made = selection.made

    def selects(user: ir.Operation, value: ir.Value) -> bool:
        op = in_block(user, loop.body)
        selected = made.get(op.results[0]) if len(op.results) else None
        if selected is not None and selected.branches is not None:
            return is_in(user, selected.branches[side])
        on_side = selected.sides[side] if selected is not None else None
        return on_side is not None and on_side == value and list(op.operands).count(value) == 1

    return only_read_by(selects, selection.at, loop, staying=made)


def only_read_by(
    reads_there: Callable[[ir.Operation, ir.Value], bool],
    at: ir.Operation,
    loop: Loop,
    *,
    staying: Collection[ir.Value] = (),
) -> list[ir.Operation]:
    """The ops of the body before `at`, in program order, that may be done in some trips only, and whose results nothing
    reads but ops of which `reads_there` says so, and others of these. None whose first result is one of `staying`.
    """
    ops = [view.operation for view in loop.body.operations]
    before = ops[: next(i for i, op in enumerate(ops) if op == at)]
    found: set[ir.Value] = set()  # by first results

    def is_among_them(user: ir.Operation) -> bool:
        user = in_block(user, loop.body)
        return len(user.results) > 0 and user.results[0] in found

    for op in reversed(before):
        uses = [(use.owner.operation, result) for result in op.results for use in result.uses]
        if not uses or op.results[0] in staying or not _may_move(op):
            continue
        if all(is_among_them(user) or reads_there(user, value) for user, value in uses):
            found.add(op.results[0])
    return [op for op in before if len(op.results) and op.results[0] in found]


def made_of_selected(selection: Selection, moved: Collection[ir.Operation], loop: Loop) -> list[ir.Operation]:
    """The ops before the last select that read a selected value and are not `moved`: to be done behind that select.

    Declines where that would not do.
    """
    made = selection.made
    own = {*made, *(op.results[0] for op in moved)}  # ops by first results
    later: set[ir.Value] = set()
    found: list[ir.Operation] = []
    for op in (view.operation for view in loop.body.operations):
        if op == selection.at:
            break
        read = reads(op)
        if len(op.results) and op.results[0] in own:
            require(later.isdisjoint(read), "it depends on another select with the same predicate", op)
        elif not later.isdisjoint(read) or any(value in made for value in read):
            require(_may_move(op), f"{op.name} reads a selected value before others are selected", op)
            later.update(op.results)
            found.append(op)
    require(later.isdisjoint(reads(selection.at)), "it depends on another select with the same predicate")
    return found


def _may_move(op: ir.Operation) -> bool:
    """Whether `op` may be done in some trips only: it computes its results, on each device by itself."""
    return all(is_exposed(each) or (is_plain(each) and not is_collective(each)) for each in (op, *nested(op)))


def in_block(op: ir.Operation, block: ir.Block) -> ir.Operation:
    """The op of `block` that is `op`, or that holds it."""
    while op.block != block:
        op = parent_of(op)
    return op
