"""The values of a step that are stored, as a compiler fuses it: what ops read and write, and what is live at once.

Element-wise ops, and moves of elements, are computed where their result is read: by the fusion that ends in a stored
value, or in a reduction. A value is stored that an op reads which is not fused: a contraction, a loop, a slice that is
written into an array. Nothing here knows a compiler's limits of a fusion, so bytes are estimates.

Tests: test/unit/pyext/planning/test_stored_values.py.
"""

from collections.abc import Iterator
from functools import cached_property

from jaxlib.mlir import ir

from paropt.passes.ir.barriers import BARRIER
from paropt.passes.ir.loops import WHILE, Loop
from paropt.passes.ir.op_table import is_end, keeps_elements, kind_of, looks_up, takes_block
from paropt.passes.ir.row_index import UPDATE
from paropt.passes.ir.types import bytes_of, tensor_of
from paropt.passes.support.traversal import captured, defining_op, op_of, terminator_of

_REDUCE, _ADD = "stablehlo.reduce", "stablehlo.add"
_LEAST = 0.25  # of the most bytes that are live at once, unsharded: of less, sharding makes no peak


class StoredValues:
    """Of a function's body, whose calls are inlined. Holds live values: use it at once."""

    def __init__(self, block: ir.Block, *, donates: bool) -> None:
        self._block, self._donates = block, donates
        self._leaves: dict[ir.Value, frozenset[ir.Value]] = {}
        self._alias: dict[ir.Value, ir.Value] = {}

    def traffic(self, op: ir.Operation) -> int:
        """Bytes that a run of `op` reads and writes; 0 of one that is computed in the fusion of its readers."""
        if op.name == UPDATE:
            row = op.operands[1]
            added = size_of(row) if op.results[0] in self.stacked_gradients else 0  # to what is there
            return sum(map(size_of, self._leaves_of(row))) + size_of(row) + added
        if len(op.regions) and op.name != _REDUCE and not op.name.endswith(("scatter", "sort", "reduce_window")):
            return 0  # of its regions' ops each has its own
        if is_end(op) or op.name == BARRIER or not any(map(self._is_stored, op.results)):
            return 0
        if _takes_part(op):
            return 2 * sum(map(size_of, op.results))
        read = {leaf for operand in op.operands for leaf in self._leaves_of(operand)}
        if _is_fused(op) or op.name == _REDUCE:
            read = {leaf for leaf in read if self._first.get((leaf, op.name == _REDUCE), op) == op}
        return sum(map(size_of, read)) + sum(map(size_of, op.results))

    @cached_property
    def _first(self) -> dict[tuple[ir.Value, bool], ir.Operation]:
        """Of what fusions read, the first of those that end in reductions, and of the others: they read it together."""
        found: dict[tuple[ir.Value, bool], ir.Operation] = {}
        for op in nested_in(self._block):
            is_reduction = op.name == _REDUCE
            if is_reduction or (_is_fused(op) and any(map(self._is_stored, op.results))):
                for leaf in (leaf for operand in op.operands for leaf in self._leaves_of(operand)):
                    found.setdefault((leaf, is_reduction), op)
        return found

    def moments(self) -> list[frozenset[ir.Value]]:
        """The values, but for the function's arguments, that are live at the moments at which most are."""
        found = list(self._moments(self._block, frozenset(), frozenset(self._block.arguments)))
        most = max((self._total(live) for live in found), default=0)
        kept = [live for live in found if self._total(live) > _LEAST * most]
        return [live for live, after in zip(kept, [*kept[1:], frozenset()], strict=False) if not live <= after]

    @cached_property
    def stacked(self) -> list[ir.Value]:
        """The arrays that a loop inside a loop stacks: what layers leave for the backward pass."""
        return [
            result
            for outer in _loops(self._block)
            for inner in _loops(Loop(outer).body)
            for result, end in zip(inner.results, terminator_of(Loop(inner).body).operands, strict=True)
            if _writes_row(end) and any(use.owner.operation.name == WHILE for use in result.uses)
        ]

    @cached_property
    def crossing(self) -> list[ir.Value]:
        """What goes from layer to layer in the first loop inside a loop that stacks: results that it replaces."""
        for result in self.stacked:
            loop = Loop(op_of(result))
            ends = terminator_of(loop.body).operands
            pairs = zip(loop.body.arguments, ends, loop.op.results, strict=True)
            return [made for arg, end, made in pairs if arg != end and not _writes_row(end) and size_of(made) > 8]
        return []

    @cached_property
    def stacking(self) -> frozenset[ir.Operation]:
        """The ops that add what a loop inside a loop stacks to a sum that the outer loop accumulates."""
        found = set()
        for outer in map(Loop, _loops(self._block)):
            for arg, end in zip(outer.body.arguments, terminator_of(outer.body).operands, strict=True):
                op = defining_op(end)
                if op is not None and op.name == _ADD and arg in op.operands and any(map(_is_stacked, op.operands)):
                    found.add(op)
        return frozenset(found)

    def is_stacking(self, op: ir.Operation) -> bool:
        """Whether `op` would not run if gradients of layers were added to rows of their sums."""
        makes_start = _is_fused(op) and any(each in self.stacked_gradients for each in op.results)
        return op in self.stacking or makes_start

    @cached_property
    def stacked_gradients(self) -> frozenset[ir.Value]:
        """What these ops read beside the sums, in the loop that stacks it and behind it."""
        found = set[ir.Value]()
        for result in (each for op in self.stacking for each in op.operands if _is_stacked(each)):
            loop, position = Loop(op_of(result)), _number(result)
            start = loop.op.operands[position]
            found |= {result, loop.body.arguments[position], terminator_of(loop.body).operands[position], start}
        return frozenset(map(self._canonical, found)) | frozenset(found)

    def _total(self, live: frozenset[ir.Value]) -> int:
        return sum(map(size_of, live))

    def _is_stored(self, value: ir.Value) -> bool:
        op = defining_op(value)
        if op is None or not (_is_fused(op) or op.name == BARRIER):
            return True
        if not op.operands or op.name == BARRIER:
            return False  # a constant, or what is before the barrier
        return any(_stores(use) for use in value.uses)

    def _leaves_of(self, value: ir.Value) -> frozenset[ir.Value]:
        """What a fusion that ends in `value` reads: stored values, and parts that it slices of them."""
        if value not in self._leaves:
            op = defining_op(value)
            if op is not None and op.name == BARRIER:
                self._leaves[value] = self._leaves_of(op.operands[_number(value)])
            elif op is None or self._is_stored(value) or _takes_part(op):
                self._leaves[value] = frozenset((value,))
            else:
                self._leaves[value] = frozenset(leaf for each in op.operands for leaf in self._leaves_of(each))
        return self._leaves[value]

    def _sources_of(self, value: ir.Value) -> Iterator[ir.Value]:
        """The stored values that have to live where `value` is read."""
        for leaf in self._leaves_of(value):
            op = defining_op(leaf)
            if op is not None and _takes_part(op) and not self._is_stored(leaf):
                yield from self._sources_of(op.operands[0])
            else:
                yield self._canonical(leaf)

    def _canonical(self, value: ir.Value) -> ir.Value:
        """Where a value is stored: what a loop hands on is in the place of what it was given."""
        while value in self._alias:
            value = self._alias[value]
        return value

    def _moments(
        self, block: ir.Block, outside: frozenset[ir.Value], given: frozenset[ir.Value]
    ) -> Iterator[frozenset[ir.Value]]:
        """`outside` is live throughout `block`; `given` are arguments of the step, which are counted elsewhere."""
        ops = [view.operation for view in block.operations]
        for op in (each for each in ops if each.name == WHILE):
            self._alias_handed_on(Loop(op))
        last: dict[ir.Value, int] = {}
        for number, op in enumerate(ops):
            last.update(dict.fromkeys(self._read_by(op), number))
        here = {arg for arg in map(self._canonical, block.arguments) if arg not in outside and arg not in given}
        live = frozenset(here)
        for number, op in enumerate(ops):
            dying = {value for value in (*live, *given) if last.get(value, -1) == number}
            if op.name == WHILE:
                yield from self._moments(Loop(op).body, outside | (live - dying), given)
            elif _is_fused(op) or op.name == UPDATE:
                self._overwrite(op, dying, given, last)
            made = {self._canonical(value) for value in op.results if self._is_stored(value)} - outside - given
            if op.name != WHILE and made:
                yield outside | live | made
            live = (live - dying) | made

    def _overwrite(
        self, op: ir.Operation, dying: set[ir.Value], given: frozenset[ir.Value], last: dict[ir.Value, int]
    ) -> None:
        """What `op` makes is written over an operand that nothing reads later, of the step's arguments if it may."""
        (value,) = op.results
        places = [old for old in dying if old.type == value.type and (self._donates or old not in given)]
        if places and self._is_stored(value):
            self._alias[value] = places[0]
            last[places[0]] = max(last[places[0]], last.pop(value, -1))
            dying.remove(places[0])

    def _read_by(self, op: ir.Operation) -> set[ir.Value]:
        if _is_fused(op) and not any(map(self._is_stored, op.results)):
            return set()
        operands = [*op.operands, *(captured(op) if len(op.regions) else ())]
        return {source for each in operands for source in self._sources_of(each)}

    def _alias_handed_on(self, loop: Loop) -> None:
        ends = terminator_of(loop.body).operands
        for start, arg, end, result in zip(loop.op.operands, loop.body.arguments, ends, loop.op.results, strict=True):
            if arg == end:
                self._alias[arg] = self._alias[result] = self._canonical(start)


def nested_in(block: ir.Block) -> Iterator[ir.Operation]:
    """The ops of a block, and of the bodies of its loops, in their order."""
    for op in (view.operation for view in block.operations):
        yield op
        if op.name == WHILE:
            yield from nested_in(Loop(op).body)


def size_of(value: ir.Value) -> int:
    """Bytes of a tensor; 0 of others."""
    tensor = tensor_of(value)
    return bytes_of(tensor) if tensor is not None else 0


def size_at_barrier(value: ir.Value) -> int:
    """Bytes of what `value` is a conversion of, at the barrier that rematerialization has; 0 where there is none.

    XLA:GPU gathers a parameter there, and converts it behind.
    """
    op = defining_op(value)
    while op is not None and op.name != BARRIER and len(op.operands) == 1 and _is_fused(op):
        value = op.operands[0]
        op = defining_op(value)
    return size_of(value) if op is not None and op.name == BARRIER else 0


def is_part(op: ir.Operation) -> bool:
    """Whether `op` takes a part of an array, or puts one in."""
    return op.name == UPDATE or (takes_block(op) and not keeps_elements(op))


def _takes_part(op: ir.Operation) -> bool:
    """Whether `op` reads as much as it makes."""
    return (takes_block(op) and not keeps_elements(op)) or looks_up(op)


def _is_fused(op: ir.Operation) -> bool:
    """Whether `op` is computed where its result is read: moves of elements are, but lookups and updates in place."""
    if kind_of(op) == "move":
        return op.name != UPDATE and (takes_block(op) or not looks_up(op))
    return kind_of(op) in ("elementwise", "source", "annotation")


def _stores(use: ir.OpOperand) -> bool:
    """Whether a value has to be stored to be read here."""
    user = use.owner.operation
    if user.name == BARRIER:
        return any(map(_stores, user.results[use.operand_number].uses))
    is_row = user.name == UPDATE and use.operand_number == 1
    return not (_is_fused(user) or user.name == _REDUCE or is_row)


def _loops(block: ir.Block) -> list[ir.Operation]:
    return [view.operation for view in block.operations if view.operation.name == WHILE]


def _is_stacked(value: ir.Value) -> bool:
    """Whether a loop puts rows into `value`, and it is its result."""
    op = defining_op(value)
    return op is not None and op.name == WHILE and _writes_row(terminator_of(Loop(op).body).operands[_number(value)])


def _number(result: ir.Value) -> int:
    return int(ir.OpResult(result).result_number)


def _writes_row(value: ir.Value) -> bool:
    op = defining_op(value)
    return op is not None and op.name == UPDATE
