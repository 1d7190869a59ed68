"""A program as XLA hands it to Shardy: simplified, as far as that changes the shardings that it infers.

XLA drops identities, turns pass-through values of loops into values that are read from outside, lets live-ins of loops
be sharded further than the program says, and makes reshapes of broadcasts that only add dimensions of one element.

Tests: test/numeric/test_predicted_shardings.py.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from jaxlib.mlir import ir

from paropt.passes.ir.constants import CONSTANT, splat_of
from paropt.passes.ir.constraints import CONSTRAINT
from paropt.passes.ir.loops import WHILE, Loop
from paropt.passes.ir.op_table import ops_with
from paropt.passes.ir.types import is_in_order, keeps_all
from paropt.passes.sharding.shardings import MANUAL, open_sharding, rank_of, sharding_of
from paropt.passes.support.traversal import op_of, ops_of, parent_of

_BROADCAST, _RESHAPE, _TRANSPOSE = "stablehlo.broadcast_in_dim", "stablehlo.reshape", "stablehlo.transpose"
_FOLDED = frozenset((_BROADCAST, *ops_with("keeps")))  # of a constant, MHLO's folders make another
_COMPLEX, _CUSTOM_CALL = "stablehlo.complex", "stablehlo.custom_call"


class Read(NamedTuple):
    """An operand of the op with that number."""

    op: int
    position: int


class Program:
    """The ops of a module, numbered in the order of a walk: those of a copy have the same numbers."""

    def __init__(self, ops: Sequence[ir.Operation]) -> None:
        self.ops = ops
        self.names = [op.name for op in ops]
        self.numbers = {results[0]: number for number, op in enumerate(ops) if len(results := op.results)}

    def named(self, name: str) -> list[int]:
        return [number for number, each in enumerate(self.names) if each == name]


class SameValues:
    """The values that XLA reads in place of the results of ops that leave a value as it is, such as a product with one.

    It drops these ops before it splits anything; `bypass` does it to a copy.
    """

    def __init__(self, program: Program) -> None:
        self.reads: dict[int, Read] = {}  # by the number of the op: where it, or an op before it, reads that value
        self.values: dict[ir.Value, ir.Value] = {}  # by its result
        self.program = program
        self._scalars: dict[int | None, Any] = {}  # by the op's number: the one number that its result is full of
        for number, (op, name) in enumerate(zip(program.ops, program.names, strict=True)):
            if name == CONSTANT or name in _FOLDED:
                self._note_scalar(number, op)
            if (rule := _SAME.get(name)) is not None and (read := rule(self, number, op)) is not None:
                self.reads[number] = read
                self.values[op.results[0]] = self.in_place_of(program.ops[read.op].operands[read.position])

    def _note_scalar(self, number: int, op: ir.Operation) -> None:
        if op.name == CONSTANT:
            splat: Any = splat_of(op)  # None of complex numbers, which XLA does not fold
            found = None if splat is None else splat.value
        else:
            found = self.scalar_of(op.operands[0])
        if found is not None:
            self._scalars[number] = found

    def in_place_of(self, value: ir.Value) -> ir.Value:
        return self.values.get(value, value)

    def scalar_of(self, value: ir.Value) -> Any:
        """The one number that `value` is known to be full of."""
        return self._scalars.get(self.program.numbers.get(value))

    def maker(self, value: ir.Value, name: str) -> int | None:
        """The number of the op that makes the value that XLA reads in place of `value`, if it is called `name`."""
        number = self.program.numbers.get(self.in_place_of(value))
        return number if number is not None and self.program.names[number] == name else None


def _with_number(scalar: int, *positions: int) -> Callable[[SameValues, int, ir.Operation], Read | None]:
    """The other operand, where one of those at `positions` is that number."""

    def other(found: SameValues, number: int, op: ir.Operation) -> Read | None:
        at = next((i for i in positions if found.scalar_of(op.operands[i]) == scalar), None)
        return None if at is None else Read(number, 1 - at)

    return other


def _all_ones(found: SameValues, number: int, op: ir.Operation) -> Read | None:
    for position in (0, 1):
        scalar = found.scalar_of(op.operands[position])
        if scalar is None:
            continue
        element = ir.RankedTensorType(op.results[0].type).element_type
        if int(scalar) in (-1, 2 ** ir.IntegerType(element).width - 1):
            return Read(number, 1 - position)
    return None


def _chosen(found: SameValues, number: int, select: ir.Operation) -> Read | None:
    predicate, on_true, on_false = select.operands
    if on_true == on_false:
        return Read(number, 1)
    scalar = found.scalar_of(predicate)
    return None if scalar is None else Read(number, 1 if scalar else 2)


def _whole(_: SameValues, number: int, op: ir.Operation) -> Read | None:
    """The operand of a slice, a pad, a conversion or the like of which the type says that it keeps all."""
    kept = op.operands[0].type == op.results[0].type
    return Read(number, 0) if kept and ir.RankedTensorType(op.results[0].type).has_static_shape else None


def _kept_by_pad(found: SameValues, number: int, op: ir.Operation) -> Read | None:
    amounts = (ir.DenseI64ArrayAttr(op.attributes[f"edge_padding_{side}"]) for side in ("low", "high"))
    return _whole(found, number, op) if not any(amount for side in amounts for amount in side) else None


def _kept_by_broadcast(found: SameValues, number: int, op: ir.Operation) -> Read | None:
    read = _whole(found, number, op)
    return read if read is not None and is_in_order(op) else None


def _reshaped_back(found: SameValues, number: int, op: ir.Operation) -> Read | None:
    read, value = Read(number, 0), op.operands[0]
    while (made := found.maker(value, _RESHAPE)) is not None:
        read, value = Read(made, 0), found.program.ops[made].operands[0]
    return read if value.type == op.results[0].type else None


def _transposed_back(found: SameValues, number: int, op: ir.Operation) -> Read | None:
    order = list(ir.DenseI64ArrayAttr(op.attributes["permutation"]))
    if order == sorted(order):
        return Read(number, 0)
    made = found.maker(op.operands[0], _TRANSPOSE)
    if made is None:
        return None
    first = ir.DenseI64ArrayAttr(found.program.ops[made].attributes["permutation"])
    return Read(made, 0) if [first[i] for i in order] == sorted(order) else None


def _part(position: int) -> Callable[[SameValues, int, ir.Operation], Read | None]:
    """The part of a complex number that is made of two."""

    def part(found: SameValues, _: int, op: ir.Operation) -> Read | None:
        made = found.maker(op.operands[0], _COMPLEX)
        return None if made is None else Read(made, position)

    return part


# Ops that may leave a value as it is, and which; measured on the programs that XLA hands to Shardy. Not division, nor
# maximum.
_SAME: dict[str, Callable[[SameValues, int, ir.Operation], Read | None]] = {
    "stablehlo.add": _with_number(0, 0, 1),
    "stablehlo.subtract": _with_number(0, 1),
    "stablehlo.multiply": _with_number(1, 0, 1),
    "stablehlo.or": _with_number(0, 0, 1),
    "stablehlo.xor": _with_number(0, 0, 1),
    "stablehlo.and": _all_ones,
    "stablehlo.select": _chosen,
    "stablehlo.convert": _whole,
    "stablehlo.slice": _whole,
    "stablehlo.concatenate": _whole,
    "stablehlo.pad": _kept_by_pad,
    _BROADCAST: _kept_by_broadcast,
    _RESHAPE: _reshaped_back,
    _TRANSPOSE: _transposed_back,
    "stablehlo.real": _part(0),
    "stablehlo.imag": _part(1),
}


def bypass(result: ir.Value, value: ir.Value) -> None:
    """Has all that reads `result` read `value`; its op stays, so that it can be asked about."""
    op = op_of(result)
    result.replace_all_uses_with(value)
    with op.context, ir.InsertionPoint.after(op), op.location:
        _call("keep", result)


def _call(name: str, *operands: ir.Value, result: ir.Type | None = None) -> ir.Operation:
    """Of a function about which nothing is known, made at the insertion point."""
    attributes = {"call_target_name": ir.StringAttr.get(name), "has_side_effect": ir.BoolAttr.get(True)}
    results = [] if result is None else [result]
    return ir.Operation.create(_CUSTOM_CALL, operands=list(operands), results=results, attributes=attributes)


def unsqueezing(program: Program) -> list[int]:
    """The numbers of the broadcasts that only add dimensions of one element."""
    found: list[int] = []
    known: dict[tuple[ir.Type, ir.Type], bool] = {}  # whether there are as many elements
    for number in program.named(_BROADCAST):
        op = program.ops[number]
        types = op.operands[0].type, op.results[0].type
        if types not in known:
            known[types] = ir.RankedTensorType(types[1]).has_static_shape and keeps_all(op)
        if known[types] and is_in_order(op):
            found.append(number)
    return found


def reshape(broadcast: ir.Operation) -> None:
    """Makes a reshape of `broadcast`, which only adds dimensions of one element."""
    operand, result = broadcast.operands[0], broadcast.results[0]
    with broadcast.context, ir.InsertionPoint(broadcast), broadcast.location:
        reshaped = ir.Operation.create(_RESHAPE, results=[result.type], operands=[operand])
    result.replace_all_uses_with(reshaped.results[0])
    broadcast.erase()


def lift_unchanged(loop: ir.Operation) -> list[int]:
    """Lets the loop read its pass-through values from outside. Returns their positions.

    It carries something else there: shardings that Shardy propagates along a loop would reach the value, which XLA has
    outside.
    """
    parts = Loop(loop)
    carried = zip(parts.body.arguments, parts.next_values.operands, strict=True)
    positions = [position for position, (argument, following) in enumerate(carried) if argument == following]
    for position in positions:
        value = loop.operands[position]
        for carrier in (parts.condition.arguments, parts.body.arguments, loop.results):
            carrier[position].replace_all_uses_with(value)
        parts.next_values.operands[position] = parts.body.arguments[position]
        with loop.context, ir.InsertionPoint(loop), loop.location:
            loop.operands[position] = _call("other", result=value.type).results[0]
    return positions


def open_read_by_loops(root: ir.Operation) -> list[ir.Operation]:
    """Lets each loop further shard the values from outside whose sharding the program gives.

    Returns the constraints that allow it, each in front of its loop.
    """
    constraints: list[ir.Operation] = []
    for value, mesh in list(_said(root)):
        while (inside := _read_in_a_loop(value)) is not None:
            loop, uses = inside
            with loop.context, ir.InsertionPoint(loop), loop.location:
                attributes = {"sharding": open_sharding(mesh, [()] * rank_of(value))}
                constraint = ir.Operation.create(CONSTRAINT, [value.type], [value], attributes)
            for use in uses:
                use.owner.operation.operands[use.operand_number] = constraint.results[0]
            constraints.append(constraint)
    return constraints


def _said(root: ir.Operation) -> Iterator[tuple[ir.Value, str]]:
    """The values of which the program says how they are split, and over which mesh."""
    functions = [function.regions[0].blocks for function in ops_of(root, "func.func")]
    arguments = [argument for blocks in functions if len(blocks) for argument in blocks[0].arguments]
    results = [result for op in ops_of(root, CONSTRAINT, MANUAL) for result in op.results]
    for value in (*arguments, *results):
        sharding = sharding_of(value)
        if sharding is not None and rank_of(value):
            yield value, sharding.mesh


def _read_in_a_loop(value: ir.Value) -> tuple[ir.Operation, list[ir.OpOperand]] | None:
    """A loop that reads `value` from outside, no loop in which does, and where it does; None when there is no more."""
    around = [(list(_loops_around(use.owner.operation, value)), use) for use in value.uses]
    depth = max((len(loops) for loops, _ in around), default=0)
    loop = next((loops[0] for loops, _ in around if depth and len(loops) == depth), None)
    return (loop, [use for loops, use in around if loops and loops[0] == loop]) if loop is not None else None


def _loops_around(op: ir.Operation, value: ir.Value) -> Iterator[ir.Operation]:
    """The loops around `op` that `value` is outside of, inner ones first."""
    block = value.owner if isinstance(value.owner, ir.Block) else value.owner.operation.block
    while op.block != block:
        op = parent_of(op)
        if op.name == WHILE:
            yield op
