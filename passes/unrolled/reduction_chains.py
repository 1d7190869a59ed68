"""Reduction chains, sums of terms that look alike: where an unrolled program accumulates.

By criteria that are cheap to see: the op that computes a term, and its type. Whether terms are computed alike is for
`congruence`.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.dataflow.engine import depth_first, post_order
from paropt.passes.ir.constants import CONSTANT, splat_of
from paropt.passes.ir.op_table import is_identity, may_squeeze
from paropt.passes.sharding.collectives import combiner_of
from paropt.passes.support.traversal import defining_op, op_of, ops_of

_REDUCE, _CONCATENATE, _CONVERT = "stablehlo.reduce", "stablehlo.concatenate", "stablehlo.convert"
_RESHAPE = "stablehlo.reshape"


class Accumulation(NamedTuple):
    """`((start + terms[0]) + terms[1]) + ...`, of whatever combining op.

    Without a start it begins with `terms[0] + terms[1]`. Nothing reads the sums in between. Or the terms are the rows
    of an array that is made for nothing but a reduce, which adds them up from the number `initial`.
    """

    ops: tuple[ir.Operation, ...]  # in program order; with a start, the one that takes terms[i] is ops[i]
    terms: tuple[ir.Value, ...]
    start: ir.Value | None
    is_tree: bool  # the terms are added in another order: pairs first
    initial: ir.Attribute | None = None  # of a reduce, the order of which is open

    @property
    def combiner(self) -> str:
        last = self.ops[-1]
        return str(combiner_of(last) if last.name == _REDUCE else last.name)

    @property
    def has_parts(self) -> bool:
        """Whether the sum of all but the first, or last, terms is computed on the way."""
        return not self.is_tree and self.initial is None


def accumulations(root: ir.Operation, *combiners: str) -> list[Accumulation]:
    """The sums of at least two terms that look alike, in program order of their last op; those of rows last."""
    found: list[Accumulation] = []
    trees = _Trees(ops_of(root, *combiners))
    for end in trees.ends:
        chains = _chains(trees.path(end))
        found += chains or _tree(end, trees)
    of_rows = [sum_ for op in ops_of(root, _REDUCE) if combiner_of(op) in combiners for sum_ in _of_rows(op)]
    return found + of_rows


class _Trees:
    """The ops whose result only another op of the same kind reads, with that op."""

    def __init__(self, ops: Sequence[ir.Operation]) -> None:
        self._below: dict[ir.Value, list[ir.Value]] = {}  # by the result of an op: its operands that are such sums
        inner: list[ir.Operation] = []
        for op in ops:
            reader = _only_reader(op)
            if reader is not None:
                self._below.setdefault(reader[0], []).append(op.results[0])
                inner.append(op)
        results = {op.results[0] for op in inner}
        self.ends = [op_of(value) for value in self._below if value not in results]
        self._depths: dict[ir.Value, int] = {}

    def below(self, value: ir.Value) -> list[ir.Value]:
        return self._below.get(value, [])

    def path(self, end: ir.Operation) -> list[ir.Operation]:
        """The longest way up from `end`, the ops that come first in the program first."""
        ops = [end]
        while below := self.below(ops[-1].results[0]):
            ops.append(op_of(max(below, key=self._depth)))
        return ops[::-1]

    def _depth(self, value: ir.Value) -> int:
        def unknown(value: ir.Value) -> list[ir.Value]:
            return [each for each in self.below(value) if each not in self._depths]

        for each in post_order([value], unknown):
            self._depths[each] = 1 + max((self._depths[inner] for inner in self.below(each)), default=0)
        return self._depths[value]


def _only_reader(op: ir.Operation) -> tuple[ir.Value] | None:
    """The result of the op of the same kind that alone reads `op`, perhaps through ops that pass it on."""
    result, name = op.results[0], op.name
    while True:
        uses = result.uses
        use = next(uses, None)
        if use is None or next(uses, None) is not None:
            return None
        reader = use.owner.operation
        if reader.name == name:
            same = reader.block == op.block and reader.results[0].type == op.results[0].type
            return (reader.results[0],) if same else None
        if not is_identity(reader):
            return None
        result = reader.results[use.operand_number]


def _passed(value: ir.Value) -> ir.Value:
    """The value that `value` is, before the ops that pass it on."""
    op = defining_op(value)
    while op is not None and is_identity(op):
        value = op.operands[ir.OpResult(value).result_number]
        op = defining_op(value)
    return value


def _chains(path: Sequence[ir.Operation]) -> list[Accumulation]:
    """The runs of ops of `path` whose terms look alike."""
    terms = [_other(op, before.results[0]) for before, op in pairwise(path)]
    looks = [_look(term) for term in terms]
    found: list[Accumulation] = []
    begin = 0
    while begin < len(terms):
        end = begin + 1
        while end < len(terms) and looks[end] == looks[begin]:
            end += 1
        if end - begin > 1 or _starts(path[begin], looks[begin]):
            found.append(_chain(path[begin], path[begin + 1 : end + 1], terms[begin:end], looks[begin]))
        begin = end
    return found


def _other(op: ir.Operation, sum_: ir.Value) -> ir.Value:
    """The operand of `op` that is not the sum so far."""
    return op.operands[1] if _passed(op.operands[0]) == sum_ else op.operands[0]


def _starts(op: ir.Operation, look: tuple[str, ir.Type]) -> bool:
    return any(_look(operand) == look for operand in op.operands)


def _chain(
    first: ir.Operation, ops: Sequence[ir.Operation], terms: list[ir.Value], look: tuple[str, ir.Type]
) -> Accumulation:
    """`ops` with `terms`, after `first`, which may add a term too, or two."""
    alike = [_look(operand) == look for operand in first.operands]
    if all(alike) and _is_direct([first, *ops]):
        return Accumulation((first, *ops), (*first.operands, *terms), None, is_tree=False)
    if any(alike):
        term, start = (first.operands[0], first.operands[1]) if alike[0] else (first.operands[1], first.operands[0])
        return Accumulation((first, *ops), (term, *terms), start, is_tree=False)
    return Accumulation(tuple(ops), tuple(terms), first.results[0], is_tree=False)


def _tree(end: ir.Operation, trees: _Trees) -> list[Accumulation]:
    """The sum at `end` of at least three terms that all look alike."""

    def inner(value: ir.Value) -> list[ir.Value]:
        operands = map(_passed, reversed(list(op_of(value).operands)))
        return [operand for operand in operands if operand in trees.below(value)]

    ops = [op_of(value) for value in depth_first([end.results[0]], inner)][::-1]
    terms = _leaves(ops)
    alike = len(terms) > 2 and len({_look(term) for term in terms}) == 1 and _is_direct(ops)
    return [Accumulation(tuple(ops), tuple(terms), None, is_tree=True)] if alike else []


def _of_rows(reduce: ir.Operation) -> list[Accumulation]:
    """The sum that `reduce` takes of arrays that are put side by side only for that, and converted perhaps."""
    if len(reduce.operands) != 2:
        return []
    start, ops = defining_op(reduce.operands[1]), [reduce]
    initial = splat_of(start) if start is not None and start.name == CONSTANT else None
    array = _read_once(reduce.operands[0])
    if array is not None and array.name == _CONVERT:
        ops.append(array)
        array = _read_once(array.operands[0])
    if initial is None or array is None or array.name != _CONCATENATE:
        return []
    dimension = ir.IntegerAttr(array.attributes["dimension"]).value
    rows = [row for value in array.operands if (row := _row(value, dimension)) is not None]
    if list(ir.DenseI64ArrayAttr(reduce.attributes["dimensions"])) != [dimension] or len(rows) < len(array.operands):
        return []
    terms = tuple(row.operands[0] for row in rows)
    alike = len(terms) > 1 and len({_look(term) for term in terms}) == 1
    is_here = all(op.block == reduce.block for op in (*ops, array, *rows))
    all_ops = (*rows, array, *ops[::-1])
    return [Accumulation(all_ops, terms, None, is_tree=False, initial=initial)] if alike and is_here else []


def _row(value: ir.Value, dimension: int) -> ir.Operation | None:
    """The op that does nothing but give an array another dimension, of size 1, and that is read once."""
    op = _read_once(value)
    if op is None or not may_squeeze(op):
        return None
    before, after = (ir.RankedTensorType(each.type) for each in (op.operands[0], value))
    if [*before.shape[:dimension], 1, *before.shape[dimension:]] != list(after.shape):
        return None
    kept = [i for i in range(after.rank) if i != dimension]
    in_order = op.name == _RESHAPE or list(ir.DenseI64ArrayAttr(op.attributes["broadcast_dimensions"])) == kept
    return op if in_order else None


def _read_once(value: ir.Value) -> ir.Operation | None:
    """The op that defines `value`, if that is read once."""
    uses = value.uses
    once = next(uses, None) is not None and next(uses, None) is None
    return defining_op(value) if once else None


def _is_direct(ops: Sequence[ir.Operation]) -> bool:
    """Whether nothing stands between these ops, each of which but the last is read by a later one."""
    return all(next(op.results[0].uses).owner.name == op.name for op in ops[:-1])


def _leaves(ops: Sequence[ir.Operation]) -> list[ir.Value]:
    """The terms of the last of `ops`, from left to right; each comes behind those of which it adds up the results."""
    leaves: dict[ir.Value, list[ir.Value]] = {}
    for op in ops:
        each = (leaves.pop(_passed(operand), [operand]) for operand in op.operands)
        leaves[op.results[0]] = [leaf for term in each for leaf in term]
    return leaves[ops[-1].results[0]]


def _look(value: ir.Value) -> tuple[str, ir.Type]:
    """The kind of op that defines `value`, and its type."""
    op = defining_op(_passed(value))
    return (op.name if op is not None else "argument", value.type)
