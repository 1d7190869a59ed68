"""Live-outs of copies and other ops around them: other values that they can be made of, and their readers outside."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.dataflow.engine import backward
from paropt.passes.support.remarks import Declined
from paropt.passes.support.traversal import defining_op, parent_of, reads
from paropt.passes.unrolled.packs import Carried, Copies, Each, Group, Shared, Source, Values

CONCATENATE = "stablehlo.concatenate"


class Order:
    """Where the ops of a block stand. Not to be kept across a rewrite."""

    def __init__(self, block: ir.Block) -> None:
        self.ops = [op.operation for op in block.operations]
        self._of = {op.results[0]: i for i, op in enumerate(self.ops) if len(op.results)}
        self._block = block

    def position(self, op: ir.Operation) -> int:
        """Where `op` stands; an op without results is the last one."""
        return self._of[op.results[0]] if len(op.results) else len(self.ops) - 1

    def of(self, value: ir.Value) -> int | None:
        """Where the op stands that defines `value`; None for a value from outside."""
        op = defining_op(value)
        return self._of.get(op.results[0]) if op is not None else None

    def _here(self, op: ir.Operation) -> ir.Operation | None:
        """The op of the block that is `op`, or holds it; None when `op` is elsewhere."""
        while not self._stands_here(op):
            if op.parent is None:
                return None
            op = parent_of(op)
        return op

    def readers(self, value: ir.Value) -> list[tuple[ir.Operation, int]]:
        """The ops of the block that read `value`, in program order, and in which operand: -1 for in a region."""
        found: dict[tuple[int, int], tuple[ir.Operation, int]] = {}
        for use in value.uses:
            user = use.owner.operation
            reader = self._here(user)
            if reader is not None:
                operand = use.operand_number if reader is user else -1
                found[self.position(reader), operand] = (reader, operand)
        return [found[key] for key in sorted(found)]

    def _stands_here(self, op: ir.Operation) -> bool:
        if len(op.results):
            return op.results[0] in self._of
        return op.parent is not None and op.block == self._block


def inputs(sources: Iterable[Source]) -> list[ir.Value]:
    """The values from outside of the copies among `sources`."""
    found: list[ir.Value] = []
    for source in sources:
        match source:
            case Shared(value) | Carried(value, _, _):
                found.append(value)
            case Each(values):
                found += values
    return found


def grow(copies: Copies, order: Order, without: Sequence[ir.Operation] = ()) -> None:
    """Adds ops that compute the same in all copies from values of the copy; but no op of `without`."""
    apart = {op.results[0] for op in without}
    tried: set[Values] = set()
    begin, placed = first_position(copies, order), -1
    while placed != (placed := len(copies.places)):
        carried = [values for values, source in copies.sources.items() if isinstance(source, Carried)]
        for values in [*carried, *_results(copies.groups)]:
            for read in _read_alike(values, order):
                if read in tried or not apart.isdisjoint(read):
                    continue
                tried.add(read)
                known = len(copies.groups)
                _try(copies, read, order, begin)
                begin = min([begin, *(order.position(op) for new in copies.groups[known:] for op in new.present)])


def _results(groups: Sequence[Group]) -> Iterator[Values]:
    """The results of the groups, of those too that are added meanwhile."""
    for group in groups:
        for i in range(len(group.first.results)):
            yield tuple(op.results[i] if op is not None else None for op in group.ops)


def first_position(copies: Copies, order: Order) -> int:
    """Where the first op of the copies stands: copies may be added up from the last one to the first."""
    return min(order.position(op) for group in copies.groups for op in group.present)


def _read_alike(values: Values, order: Order) -> list[Values]:
    """Of the ops that read `values` in the same way in each copy, the first results."""
    ways: list[dict[tuple[str, int], list[ir.Operation]]] = []
    for value in values:
        if value is None:
            return []
        ways.append({})
        for reader, operand in order.readers(value):
            if len(reader.results):
                ways[-1].setdefault((reader.name, operand), []).append(reader)
    found: list[Values] = []
    for way, readers in ways[0].items():
        each = [readers, *(other.get(way, []) for other in ways[1:])]
        if len({len(ops) for ops in each}) == 1:
            found += [tuple(op.results[0] for op in ops) for ops in zip(*each, strict=True)]
    return [read for read in found if len(set(read)) == len(read)]


def _try(copies: Copies, values: Values, order: Order, begin: int) -> None:
    if all(value in copies.places for value in values):
        return
    before = len(copies.sources)
    try:
        copies.align(values)
    except Declined:
        return
    added = islice(reversed(copies.sources.values()), len(copies.sources) - before)
    if _depend(inputs(added), copies, order, begin):
        copies.retract()


def _depend(values: Iterable[ir.Value], copies: Copies, order: Order, begin: int) -> bool:
    """Whether one of `values` is computed from a value of `copies`, which start at position `begin`."""

    def read(value: ir.Value) -> Sequence[ir.Value]:
        position = order.of(value)
        return reads(order.ops[position]) if position is not None and position >= begin else ()

    return any(value in copies.places for value in backward(values, read))


def following(copies: Copies, order: Order, end: int) -> list[ir.Operation]:
    """The ops before position `end`, not of the copies, that depend on them; in program order."""
    late: set[ir.Value] = set(copies.places)
    found: list[ir.Operation] = []
    for op in order.ops[first_position(copies, order) : end]:
        if len(op.results) and op.results[0] in copies.places:
            continue
        if any(value in late for value in reads(op)):
            found.append(op)
            late.update(op.results)
    return found


class Exit(NamedTuple):
    """A result of a group that ops outside of the copies read."""

    group: int
    result: int
    joined: ir.Operation | None  # the concatenate that reads nothing but the values of all copies, in their order
    apart: tuple[int, ...]  # the copies whose value something else reads


def exits(copies: Copies, order: Order, without: Sequence[ir.Operation]) -> list[Exit]:
    """The live-outs of `copies`, with other readers than the ops `without`."""
    ignored = {op.results[0] for op in without}
    found: list[Exit] = []
    for number, group in enumerate(copies.groups):
        for result in range(len(group.first.results)):
            values = [op.results[result] for op in group.present]
            readers = [_outside(value, copies, order, ignored) for value in values]
            joined = _joined(values, readers[0], copies.count)
            apart = tuple(i for i, ops in enumerate(readers) if any(joined is None or op != joined for op in ops))
            if joined is not None or apart:
                found.append(Exit(number, result, joined, apart))
    return found


def _outside(value: ir.Value, copies: Copies, order: Order, ignored: set[ir.Value]) -> list[ir.Operation]:
    readers = [reader for reader, _ in order.readers(value)]
    return [op for op in readers if not len(op.results) or not (_first(op) in copies.places or _first(op) in ignored)]


def _first(op: ir.Operation) -> ir.Value:
    return op.results[0]


def _joined(values: Sequence[ir.Value], readers: Sequence[ir.Operation], count: int) -> ir.Operation | None:
    for op in readers:
        if op.name == CONCATENATE and len(values) == count and list(op.operands) == list(values):
            return op
    return None
