"""Copies (isomorphic subgraphs of a block): the same ops on different data.

Values of M copies are aligned: the op that defines the value of each copy must be the same op, and its operands are
aligned in turn, until a value is met that is one for all copies, or an argument, or a value of the copy before.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.dataflow.op_comparison import difference
from paropt.passes.dataflow.side_effects import require_repeatable
from paropt.passes.dataflow.unreduced import said_unreduced
from paropt.passes.ir.constraints import CONSTRAINT as SHARDING_CONSTRAINT
from paropt.passes.support.remarks import Declined, require
from paropt.passes.support.traversal import defining_op, reads

Values = tuple[ir.Value | None, ...]  # of one value, that of each copy; None: the last copy has none


class Shared(NamedTuple):
    """One value for all copies, from outside of them."""

    value: ir.Value


class Inner(NamedTuple):
    """A result of the op of the same copy."""

    group: int
    result: int


class Carried(NamedTuple):
    """A result of the op of the copy before; of the first copy, `start`."""

    start: ir.Value
    group: int
    result: int


class Each(NamedTuple):
    """An argument of the block for each copy."""

    values: tuple[ir.Value, ...]


Source = Shared | Inner | Carried | Each


class Place(NamedTuple):
    """Where a value is computed."""

    group: int
    copy: int
    result: int


@dataclass
class Group:
    """The op of each copy that does the same. The last copy may lack it: then nothing there reads it."""

    ops: list[ir.Operation | None]
    operands: list[Values]  # then the values that its regions read

    @property
    def first(self) -> ir.Operation:
        assert self.ops[0] is not None, "only the last copy may lack an op"
        return self.ops[0]

    @property
    def present(self) -> list[ir.Operation]:
        return [op for op in self.ops if op is not None]


class Copies:
    """The ops that are known to be equal in `count` copies. Holds live values: use it at once."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.groups: list[Group] = []
        self.places: dict[ir.Value, Place] = {}
        self.sources: dict[Values, Source] = {}
        self.work = 0  # how many ops were looked at
        self._undo: list[Callable[[], object]] = []

    def align(self, *wanted: Values) -> None:
        """Adds the ops that compute `wanted`. Raises Declined with the first difference; then nothing is added."""
        self._undo.clear()
        try:
            self._align(list(wanted))
        except Declined:
            self.retract()
            raise

    def retract(self) -> None:
        """Reverts the last `align`."""
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()

    def _align(self, waiting: list[Values]) -> None:
        unlike: list[tuple[Values, Declined]] = []  # taken last, when the values of the copy before are known
        while waiting or unlike:
            if not waiting:
                values, declined = unlike.pop(0)
                waiting += self._carried_on(values, declined) if values not in self.sources else []
                continue
            values = waiting.pop()
            if values in self.sources:
                continue
            try:
                waiting += self._settle(values)
            except _Unlike as difference:
                unlike.append((values, difference))

    def _settle(self, values: Values) -> list[Values]:
        """Says where `values` come from; returns the values to settle then. Raises _Unlike for a difference."""
        present = _present(values)
        places = [self.places.get(value) for value in present]
        if places[0] is None and len(places) > 1 and places[1] is not None:
            return self._carry(values, places)
        if len(present) > 1 and all(value == present[0] for value in present):
            return self._set(values, Shared(present[0]))
        if places[0] is not None:
            return self._known(values, places)
        ops = [defining_op(value) for value in present]
        if len(present) == self.count and self._is_said_of_before(ops[1:]):
            self._require_alike(present[1:], ops[1:])
            return [values, *self._add((*present[1:], None), [op for op in ops[1:] if op is not None])]
        if len(present) == 1:  # of two copies the first one computes it for nobody
            return self._set(values, Shared(present[0]))
        if all(op is None for op in ops) and len({value.type for value in present}) == 1:
            return self._set(values, Each(tuple(present)))
        self._require_alike(present, ops)
        return self._add(values, [op for op in ops if op is not None])

    def _set(self, values: Values, source: Source) -> list[Values]:
        self.sources[values] = source
        self._undo.append(partial(self.sources.pop, values))
        return []

    def _known(self, values: Values, places: Sequence[Place | None]) -> list[Values]:
        """`values` of which the first is already placed in a copy."""
        group, _, result = first = places[0] or Place(0, 0, 0)
        fits = all(place == Place(group, i, result) for i, place in enumerate(places[:-1]))
        last = len(places) - 1
        if fits and places[-1] is None and last == self.count - 1 and self.groups[group].ops[-1] is None:
            return self._complete(values, first)
        same = fits and places[-1] == Place(group, last, result)
        require(same, "a value is of one copy here and of another there", defining_op(_present(values)[0]))
        return self._set(values, Inner(group, result))

    def _complete(self, values: Values, place: Place) -> list[Values]:
        """The last copy has the op after all."""
        group = self.groups[place.group]
        ops = [defining_op(value) for value in _present(values)]
        self._require_alike(_present(values), ops)
        operands, last = group.operands, ops[-1]
        assert last is not None, "it is like the others"
        self._place(last, place.group, self.count - 1)
        group.ops[-1] = last
        group.operands = _transposed([reads(op) for op in group.present], self.count)

        def undo() -> None:
            group.ops[-1], group.operands = None, operands

        self._undo.append(undo)
        self._set(values, Inner(place.group, place.result))
        return list(group.operands)

    def _carry(self, values: Values, places: Sequence[Place | None]) -> list[Values]:
        """`values` of which the second is computed in a copy: it must be the first one."""
        group, _, result = places[1] or Place(0, 0, 0)
        present = _present(values)
        follows = all(place == Place(group, i, result) for i, place in enumerate(places[1:]))
        require(follows, "a copy reads a value of another one, which is not the one before", defining_op(present[1]))
        same = present[0].type == present[1].type
        require(same, "a value changes its type from copy to copy", defining_op(present[1]))
        return self._set(values, Carried(present[0], group, result))

    def _is_said_of_before(self, ops: Sequence[ir.Operation | None]) -> bool:
        """Whether `ops`, which define operands of all copies but the first, each say of a value of the copy before that
        it is unreduced. They belong to that copy then: a loop has to carry the annotated value itself.
        """
        said = [op for op in ops if op is not None and op.name == SHARDING_CONSTRAINT and said_unreduced(op.results[0])]
        if not said or len(said) < len(ops):
            return False
        places = [self.places.get(op.operands[0]) for op in said]
        first = places[0]
        return first is not None and places == [first._replace(copy=i) for i in range(len(places))]

    def _carried_on(self, values: Values, difference: Declined) -> list[Values]:
        """`values` that are not alike: perhaps each copy computes the one that the next copy reads."""
        present = _present(values)
        places = [self.places.get(value) for value in present]
        if places[0] is None and places[1] is not None:
            return self._carry(values, places)
        following = [defining_op(value) for value in present[1:]]
        is_defined = all(op is not None for op in following)
        if places[0] is not None or not is_defined or len(present) < self.count or self.count < 3:
            raise difference
        try:
            self._require_alike(present[1:], following)
        except _Unlike:
            raise difference from None
        if present[0].type != present[1].type:
            raise difference
        shifted = (*present[1:], None)
        more = self._add(shifted, [op for op in following if op is not None])
        return [values, *more]

    def _add(self, values: Values, ops: list[ir.Operation]) -> list[Values]:
        number = len(self.groups)
        require_repeatable(ops[0])
        block = (self.groups[0].first if self.groups else ops[0]).block
        for op in ops:
            require(op.block == block, "live-ins of some copies are computed outside of their block", op)
        for i, op in enumerate(ops):
            self._place(op, number, i)
        missing = self.count - len(ops)
        group = Group([*ops, *[None] * missing], _transposed([reads(op) for op in ops], self.count))
        self.groups.append(group)
        self._undo.append(self.groups.pop)
        self._set(values, Inner(number, self.places[_present(values)[0]].result))
        return list(group.operands)

    def _place(self, op: ir.Operation, group: int, copy: int) -> None:
        self.work += 1
        for i, result in enumerate(op.results):
            require(result not in self.places, "an op would be in two copies", op)
            self.places[result] = Place(group, copy, i)
            self._undo.append(partial(self.places.pop, result))

    def _require_alike(self, values: Sequence[ir.Value], ops: Sequence[ir.Operation | None]) -> None:
        """Raises _Unlike, with the first difference between the ops that define `values`."""
        self.work += len(ops)
        first = ops[0]
        number, are_apart = _number(values[0]), len(set(values)) == len(values)
        for i, (value, op) in enumerate(zip(values, ops, strict=True)):
            if i == 0 or (first is None and value == values[0]):
                continue
            copy = f"copy {i + 1} of {self.count}"
            if first is None and op is None:
                raise _Unlike(f"{copy} differs: it reads another argument than the first")
            if first is None or op is None:
                reason = f"{copy} differs: {_said(op)}, which is {_said(first)} in the first"
                raise _Unlike(reason, op if op is not None else first)
            if not are_apart and value in values[:i]:
                raise _Unlike(f"{copy} differs: it reads the same {op.name} as another copy, but not all do", op)
            if _number(value) != number:
                raise _Unlike(f"{copy} differs: it reads another result of {op.name} than the first", op)
            if unlike := difference(first, op):
                raise _Unlike(f"{copy} differs: {unlike}", op)


class _Unlike(Declined):
    """Two copies do not do the same."""


def _present(values: Values) -> list[ir.Value]:
    return [value for value in values if value is not None]


def _number(value: ir.Value) -> int:
    return ir.OpResult(value).result_number if isinstance(value, ir.OpResult) else 0


def _said(op: ir.Operation | None) -> str:
    return str(op.name) if op is not None else "an argument"


def _transposed(reads: Sequence[Sequence[ir.Value]], count: int) -> list[Values]:
    """For each operand, the values of all copies."""
    missing = [None] * (count - len(reads))
    return [(*each, *missing) for each in zip(*reads, strict=True)]
