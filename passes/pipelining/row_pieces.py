"""Stacked arrays in pieces of whole rows: elementwise ops are done on each piece.

Tests: test/passes/split-layer-loop.mlir.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.ir.constants import is_zero, scalar_of
from paropt.passes.ir.induction_variable import create
from paropt.passes.ir.loops import Loop
from paropt.passes.ir.op_table import is_elementwise
from paropt.passes.ir.types import tensor_of
from paropt.passes.rewrite.loop_edits import carry, rebuilt, uncarry
from paropt.passes.rewrite.peel import recapture
from paropt.passes.sharding.collectives import ADD, combiner_of
from paropt.passes.support.traversal import defining_op, reads

_CONCATENATE = "stablehlo.concatenate"
_SLICE, _BROADCAST, _REDUCE = "stablehlo.slice", "stablehlo.broadcast_in_dim", "stablehlo.reduce"


class RowRange(NamedTuple):
    """Rows `start` to `end` of a stacked array."""

    start: int
    end: int


class Pieces:
    """The arrays of a function that exist in pieces. Where one is read whole, it is put together.

    Rows of values made before `loop`, or computed behind it from such values, are taken once.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._known: dict[ir.Value, dict[RowRange, ir.Value]] = {}
        self._taken: dict[tuple[ir.Value, RowRange], ir.Value] = {}
        self._replaced: list[ir.Operation] = []

    def set(self, value: ir.Value, pieces: dict[RowRange, ir.Value]) -> None:
        """`value` is there in pieces; its op is erased in the end."""
        self._known[value] = dict(sorted(pieces.items()))

    def rows_of(self, value: ir.Value, rows: RowRange) -> ir.Value:
        """These rows of `value`, at the insertion point; elementwise ops are done on these only."""
        if rows in self._known.get(value, {}):
            return self._known[value][rows]
        place = self._place_of(value)
        if place is None:
            return _rows_of(value, rows)
        if (value, rows) not in self._taken:
            op = defining_op(value)
            narrow = op is not None and op.block == self._loop.op.block and _is_by_elements(op)
            with ir.InsertionPoint(place):
                self._taken[value, rows] = self._clone(op, rows) if op is not None and narrow else _rows_of(value, rows)
        return self._taken[value, rows]

    def _place_of(self, value: ir.Value) -> ir.Operation | None:
        """Where rows of a value of the function are taken, once: before the loop, or where it is computed behind it."""
        op, block = defining_op(value), self._loop.op.block
        if op is None:
            return self._loop.op if ir.BlockArgument(value).owner == block else None
        if op.block != block:
            return None
        if op.is_before_in_block(self._loop.op):
            return self._loop.op
        return op if _is_by_elements(op) else None

    def sink(self, ops: Iterable[ir.Operation], split: Callable[[ir.Operation], bool] = lambda op: False) -> None:
        """Lets `ops` read pieces, as far as they can; others read the whole. `split` may replace an op itself."""
        for op in ops:
            if split(op):
                self._replaced.append(op)
            elif any(value in self._known for value in reads(op)):
                with ir.InsertionPoint(op), op.location:
                    if not (self._by_elements(op) or self._summed(op)):
                        self._put_together(op)

    def erase_replaced(self) -> None:
        """Erases the ops that nothing reads any more."""
        for op in reversed(self._replaced):
            for result in op.results:
                self._known.pop(result, None)  # another value may come to be where it was
            op.erase()
        self._replaced = []

    def _by_elements(self, op: ir.Operation) -> bool:
        """Computes an elementwise op of pieces."""
        if not _is_by_elements(op):
            return False
        known = [self._known[value] for value in op.operands if value in self._known]
        if any(each.keys() != known[0].keys() for each in known):
            return False
        self.set(op.results[0], {rows: self._clone(op, rows) for rows in known[0]})
        self._replaced.append(op)
        return True

    def _clone(self, op: ir.Operation, rows: RowRange) -> ir.Value:
        operands = [v if not ir.RankedTensorType(v.type).shape else self.rows_of(v, rows) for v in op.operands]
        new = op.clone()
        for i, operand in enumerate(operands):
            new.operands[i] = operand
        new.results[0].set_type(narrowed(op.results[0].type, rows))
        return new.results[0]

    def _summed(self, op: ir.Operation) -> bool:
        """Adds up all elements of an array piece by piece. Each begins with zero: XLA may add the init value of a sum
        any number of times.
        """
        tensor = tensor_of(op.results[0]) if len(op.results) == 1 else None
        if op.name != _REDUCE or tensor is None or tensor.shape or op.operands[0] not in self._known:
            return False
        if combiner_of(op) != ADD or not is_zero(op.operands[1]):
            return False
        total: ir.Value | None = None
        for piece in self._known[op.operands[0]].values():
            new = op.clone()
            new.operands[0] = piece
            total = new.results[0] if total is None else create(ADD, tensor, total, new.results[0])
        op.results[0].replace_all_uses_with(total)
        self._replaced.append(op)
        return True

    def _put_together(self, op: ir.Operation) -> None:
        wholes = {v: self._whole(v) for v in dict.fromkeys(reads(op)) if v in self._known}
        for i, operand in enumerate(op.operands):
            if operand in wholes:
                op.operands[i] = wholes[operand]
        recapture(op, wholes)

    def _whole(self, value: ir.Value) -> ir.Value:
        parts = list(self._known[value].values())
        dimension = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)
        return create(_CONCATENATE, value.type, *parts, dimension=dimension)

    def carry_pieces(self) -> None:
        """Lets the loop carry pieces where the results of its body are in pieces that the last pieces become."""
        loop = self._loop
        nexts = list(loop.next_values.operands)
        found = {i: slices for i, v in enumerate(nexts) if v in self._known and (slices := self._slices(i))}
        with ir.InsertionPoint(loop.next_values), loop.op.location:
            made = {v: self._whole(v) for i, v in enumerate(nexts) if v in self._known and i not in found}
        kept = [i for i in range(len(nexts)) if i not in found]
        starts, following = [loop.op.operands[i] for i in kept], [made.get(nexts[i], nexts[i]) for i in kept]
        for i, slices in found.items():
            with loop.op.location:
                starts += [self.rows_of(loop.op.operands[i], rows) for rows in slices]
            following += [self._known[nexts[i]][rows] for rows in slices]
            for each in slices.values():
                argument = carry(loop, each.results[0].type)
                each.results[0].replace_all_uses_with(argument)
                each.erase()
        new = rebuilt(loop, starts, following)
        self.erase_replaced()
        for i in sorted(found, reverse=True):
            uncarry(new, i)
        for i, result in zip(kept, new.op.results, strict=False):
            loop.op.results[i].replace_all_uses_with(result)
        self._after(loop, new, len(kept), found)
        self._replaced.append(loop.op)
        self._loop = new

    def _after(self, old: Loop, new: Loop, first: int, found: dict[int, dict[RowRange, ir.Operation]]) -> None:
        """Sets the results of the old loop, in pieces."""
        for i, slices in found.items():
            results = list(new.op.results)[first : first + len(slices)]
            self.set(old.op.results[i], dict(zip(slices, results, strict=True)))
            first += len(slices)

    def _slices(self, position: int) -> dict[RowRange, ir.Operation]:
        """The pieces of the last value that the body reads; nothing if it reads more, or has others for the next."""
        loop = self._loop
        last, pieces = loop.body.arguments[position], self._known[loop.next_values.operands[position]]
        found: dict[RowRange, ir.Operation] = {}
        for use in last.uses:
            op = use.owner.operation
            rows = sliced_rows(op)
            if op in self._replaced:
                continue
            if rows not in pieces or rows in found:
                return {}
            assert rows is not None
            found[rows] = op
        return dict(sorted(found.items())) if found.keys() == pieces.keys() else {}


def is_stacked(op: ir.Operation) -> bool:
    """Whether `op` puts an array together of pieces of whole rows."""
    return op.name == _CONCATENATE and ir.IntegerAttr(op.attributes["dimension"]).value == 0


def _is_by_elements(op: ir.Operation) -> bool:
    return is_elementwise(op) and len(op.results) == 1 and not len(op.regions)


def _rows_of(value: ir.Value, rows: RowRange) -> ir.Value:
    type_, scalar = narrowed(value.type, rows), scalar_of(value)
    if scalar is not None and not ir.RankedTensorType(scalar.type).shape:
        return create(_BROADCAST, type_, scalar, broadcast_dimensions=ir.DenseI64ArrayAttr.get([]))
    rest = list(type_.shape)[1:]
    return create(
        _SLICE,
        type_,
        value,
        start_indices=ir.DenseI64ArrayAttr.get([rows.start, *[0] * len(rest)]),
        limit_indices=ir.DenseI64ArrayAttr.get([rows.end, *rest]),
        strides=ir.DenseI64ArrayAttr.get([1] * (1 + len(rest))),
    )


def sliced_rows(op: ir.Operation) -> RowRange | None:
    """The rows that a slice takes, whole ones and one after the other; None for other ops."""
    if op.name != _SLICE or set(ir.DenseI64ArrayAttr(op.attributes["strides"])) != {1}:
        return None
    starts, limits = (list(ir.DenseI64ArrayAttr(op.attributes[name])) for name in ("start_indices", "limit_indices"))
    shape = list(ir.RankedTensorType(op.operands[0].type).shape)
    return RowRange(starts[0], limits[0]) if starts and limits[1:] == shape[1:] and not any(starts[1:]) else None


def narrowed(type_: ir.Type, rows: RowRange) -> ir.RankedTensorType:
    """The type of these rows of an array of `type_`."""
    tensor = ir.RankedTensorType(type_)
    shape = [rows.end - rows.start, *list(tensor.shape)[1:]]
    return ir.RankedTensorType.get(shape, tensor.element_type, loc=ir.Location.unknown(tensor.context))
