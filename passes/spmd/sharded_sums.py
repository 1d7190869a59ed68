"""The axes over which a program shards the sums that it accumulates, as fully sharded training does.

A sum that is left unreduced over such an axis is replicated over it: every device holds an addend of the whole. Other
than `dataflow/unreduced.py`, this follows sums backward, from where the program says how they are sharded.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from paropt.passes.dataflow.engine import backward, exhaust, forward
from paropt.passes.ir.branches import BRANCHES
from paropt.passes.ir.constants import is_zero
from paropt.passes.ir.constraints import CONSTRAINT
from paropt.passes.ir.control_flow import carried, predecessors, successors
from paropt.passes.ir.loops import WHILE, Loop, loop_around, row_written_in, start_of
from paropt.passes.ir.op_table import adds, assembles, is_elementwise, is_tracked, keeps_elements
from paropt.passes.ir.types import tensor_of
from paropt.passes.sharding.annotations import shard_bytes
from paropt.passes.sharding.axes import Axis, names_of
from paropt.passes.sharding.propagation import Propagated
from paropt.passes.sharding.shardings import Sharding, is_idle, is_manual, rank_of, read_sharding, sharding_of
from paropt.passes.spmd.producers import PRODUCTS
from paropt.passes.support.traversal import captured, defining_op, is_within, only_user_of, op_of, ops_of, parent_of

_CONVERT, _RETURN, _TRANSPOSE = "stablehlo.convert", "stablehlo.return", "stablehlo.transpose"


class _Carried(NamedTuple):
    """One value that a loop carries."""

    start: ir.Value
    argument: ir.Value  # of the body
    next: ir.Value
    result: ir.Value

    @property
    def changes(self) -> bool:
        return bool(self.next != self.argument)

    @property
    def stacks(self) -> bool:
        """Whether each trip writes a row of it."""
        array = row_written_in(self.next)
        return array is not None and bool(array == self.argument)


def _carried(loop: Loop) -> list[_Carried]:
    every = zip(loop.op.operands, loop.body.arguments, loop.next_values.operands, loop.op.results, strict=True)
    return [_Carried(*each) for each in every]


def sharded_sums(
    module: ir.Operation,
    propagated: Propagated | None = None,
    inferred: Mapping[ir.Value, frozenset[Axis]] | None = None,
) -> dict[ir.Value, frozenset[Axis]]:
    """For each value that an accumulated sum is computed from, the axes over which the program shards that sum.

    A sum is sharded over an axis when the program says so in the loop that accumulates it (or before a sum outside of
    loops). So it is when the loop only reads a value that the user shards over the axis (the parameter), of the shape
    of the sum or of a value that the sum is assembled from, or when the sum begins with such a value; with
    `propagated`, only if Shardy shards the sum so, too.
    Results of loops that are `inferred` to be sharded are, too.
    """
    found: defaultdict[ir.Value, frozenset[Axis]] = defaultdict(frozenset)
    for op in ops_of(module, WHILE):
        if not is_manual(op):
            for value, axes, result in _like_parameters(Loop(op)):
                if propagated is not None:
                    axes = _split_over(propagated.sharding_of(result), axes)
                _spread(value, axes, found, through_sums=True)
    for value, axes in _constrained(module, in_loops=True):
        _spread(value, axes, found, through_sums=True)
    for result, axes in (inferred or {}).items():
        added = Loop(op_of(result)).next_values.operands[ir.OpResult(result).result_number]
        _spread(added, axes, found, through_sums=True)
    # After these: a value reached without a look through sums is not followed again.
    for value, axes in _constrained(module, in_loops=False):
        _spread(value, axes, found, through_sums=False)
    return found


def _constrained(module: ir.Operation, *, in_loops: bool) -> Iterator[tuple[ir.Value, frozenset[Axis]]]:
    """The values that constraints in loops, or outside of them, shard, and over which axes."""
    for op in ops_of(module, CONSTRAINT):
        axes = read_sharding(op.attributes["sharding"]).axes
        if axes and not is_manual(op) and (loop_around(op.block) is not None) == in_loops:
            yield op.operands[0], axes


def sums_said_around(
    module: ir.Operation, split: Mapping[ir.Value, frozenset[Axis]]
) -> dict[ir.Value, frozenset[Axis]]:
    """Results of outermost loops whose sums the program shards without a constraint in the loop: with the axes over
    which they are sharded as parameters, none where only a constraint behind the loop says so.

    `split` are all that the program splits.
    """
    said: defaultdict[ir.Value, frozenset[Axis]] = defaultdict(frozenset)
    for value, axes in _constrained(module, in_loops=True):
        _spread(value, axes, said, through_sums=True)
    found: dict[ir.Value, frozenset[Axis]] = {}
    for loop in _outermost_loops(module):
        alike = {result: axes for _, axes, result in _like_parameters(loop)}
        open_ = [each for each in _carried(loop) if each.changes and split.get(each.next) and not said.get(each.next)]
        found |= {each.result: alike.get(each.result, frozenset()) for each in open_}
    return found


def _split_over(lies: Sharding | None, axes: frozenset[Axis]) -> frozenset[Axis]:
    return frozenset(axis for axis in axes if lies is not None and names_of([axis]) & names_of(lies.axes))


def _like_parameters(loop: Loop) -> Iterator[tuple[ir.Value, frozenset[Axis], ir.Value]]:
    """The changed loop-carried values with the shape of a sharded value that the loop only reads, or assembled from
    values of that shape, or that begin with a sharded value, as sums of a state do: the next value of each, the axes,
    and the result."""
    carried = _carried(loop)
    by_shape: defaultdict[str, frozenset[Axis]] = defaultdict(frozenset)
    for each in carried:
        if not each.changes:
            by_shape[_shape(each.next)] |= _given_axes(each.start)
    for value in captured(loop.op):  # as of a loop that was unrolled; gathered before it, perhaps
        if rank_of(value):
            by_shape[_shape(value)] |= _given_axes(value, through_constraints=True)
    for each in (each for each in carried if each.changes):
        shapes = _shapes_of(each.next) & by_shape.keys() if any(by_shape.values()) else ()
        axes = _started_over(each).union(*(by_shape[shape] for shape in shapes))
        if axes:
            yield each.next, axes, each.result


def _started_over(each: _Carried) -> frozenset[Axis]:
    """The axes over which the user shards the value that a sum begins with, as that of a state; none of activations."""
    axes = _given_axes(each.start)
    return frozenset[Axis]() if axes and is_activation(each.argument, names_of(axes), set()) else axes


def _shapes_of(value: ir.Value) -> frozenset[str]:
    """The shapes of the values that `value` is assembled from: gradients may be accumulated in a row, or transposed."""
    return frozenset(map(_shape, backward([value], _terms)))


def _terms(value: ir.Value) -> Sequence[ir.Value]:
    op = defining_op(value)
    return op.operands if op is not None and _puts_together(op) else ()


def _puts_together(op: ir.Operation) -> bool:
    """Whether the result of `op` is put together of its operands, or copies one of them."""
    return assembles(op) or keeps_elements(op) or op.name == CONSTRAINT


class Cut(NamedTuple):
    """Where a sum that one op takes becomes split."""

    value: ir.Value  # the sum, in the type in which it is taken
    converts: list[ir.Operation]  # of it to other types, where only the last one becomes split
    wholes: list[ir.Operation]  # constraints that ask for the whole of it, and that only the next one reads
    shard: Sharding  # how it lies then


def cut_of(value: ir.Value, propagated: Propagated, axes: frozenset[str]) -> Cut | None:
    """Where `value` becomes split over the axes of these names: as Shardy would have it, by a constraint, or, where a
    constraint asks for the whole of it, as automatic differentiation does of parameters that a constraint gathers,
    where it is added to a sharded value.

    None when an op reads all of `value`, or of a copy of it on the way to the constraint.
    """
    alone = propagated.sharding_of(value)
    if alone is not None and axes <= names_of(alone.axes):
        return Cut(value, [], [], alone)
    value, is_whole = _followed(value, propagated, axes)
    user = only_user_of(value)
    converts: list[ir.Operation] = []
    while user is not None and user.name == _CONVERT:
        converts.append(user)
        user = only_user_of(user.results[0])
    wholes: list[ir.Operation] = []
    while user is not None and user.name == CONSTRAINT:
        sharding = read_sharding(user.attributes["sharding"])
        if sharding.unreduced:
            return None
        lies = propagated.sharding_of(user.results[0]) or sharding
        if names_of(sharding.axes) & axes:
            return Cut(value, converts, wholes, lies) if axes <= names_of(lies.axes) else None
        wholes.append(user)
        user = only_user_of(user.results[0])
    if not (wholes or is_whole) or user is None or not adds(user):
        return None
    summed = propagated.sharding_of(user.results[0])  # of each addend, a device reads the part for its shard
    return Cut(value, converts, wholes, summed) if summed is not None and axes <= names_of(summed.axes) else None


def turned(cut: Cut, propagated: Propagated) -> Cut:
    """`cut` behind a transpose that alone reads its sum and puts the dimension that is split first; else `cut`.

    XLA:TPU makes no reduce_scatter of minor dimensions in some layouts, which it chooses by sizes: it reduces the whole
    sum there, and cuts that.
    """
    user = only_user_of(cut.value)
    if user is None or user.name != _TRANSPOSE or cut.converts or cut.wholes:
        return cut
    lies = propagated.sharding_of(user.results[0])
    is_first = lies is not None and bool(lies.dimensions[0]) and lies.axes == cut.shard.axes
    return Cut(user.results[0], [], [], lies) if lies is not None and is_first else cut


def _followed(value: ir.Value, propagated: Propagated, axes: frozenset[str]) -> tuple[ir.Value, bool]:
    """The end of the chain of copies of `value` and loops that accumulate it; whether a constraint asks for all of
    it."""
    is_whole = False
    while True:
        user = only_user_of(value)
        total = _total_of(value)
        lies = propagated.sharding_of(total) if total is not None else None
        if total is not None and (lies is None or not names_of(lies.axes) & axes):
            value = total
        elif user is not None and user.name != _CONVERT and _is_copy(user, axes):
            is_whole |= user.name == CONSTRAINT
            value = user.results[0]
        else:
            return value, is_whole


def _total_of(value: ir.Value) -> ir.Value | None:
    """The result of the loop that only accumulates `value`, and its other addends, from zero; None without one."""
    end = _end_of_sum(value)
    loop = loop_around(end.owner.operation.block) if end is not None else None
    if end is None or loop is None or end.owner.operation != loop.next_values:
        return None
    number = end.operand_number
    own = _end_of_sum(loop.body.arguments[number])
    alone = own is not None and own.owner.operation == end.owner.operation and own.operand_number == number
    unread = next(loop.condition.arguments[number].uses, None) is None
    zero = is_zero(loop.op.operands[number])
    return loop.op.results[number] if alone and unread and zero else None


def _end_of_sum(value: ir.Value) -> ir.OpOperand | None:
    """The only use of `value`, or of the sum that it is a term of, that adds nothing more."""
    while True:
        uses = list(value.uses)
        if len(uses) != 1:
            return None
        if not adds(uses[0].owner.operation):
            return uses[0]
        value = uses[0].owner.results[0]


def is_activation(value: ir.Value, axes: frozenset[str], others: set[ir.Value]) -> bool:
    """Whether contractions, or the sum of an embedding's rows, read a value computed from `value`, in its loop or the
    next trip: it is no gradient.

    How activations are gathered and scattered XLA decides with these products, which it may overlap with that. The sum
    would stay sharded over `axes`. `others` are known to be no activations, and grow: all values computed from
    gradients may meet in their norm.
    """

    def made_by(use: ir.OpOperand) -> Iterator[ir.Value]:
        return (made for made in _made_by(use, axes) if made not in others)

    seen: set[ir.Value] = set()
    for each in forward([value], made_by):
        for use in each.uses:
            user = use.owner.operation
            if user.name in PRODUCTS or _adds_up_rows(user, use.operand_number):
                return True
        seen.add(each)
    others |= seen
    return False


def _adds_up_rows(op: ir.Operation, operand: int) -> bool:
    """Whether that operand has the rows of a scatter: one would be a gradient, put in its place among others."""
    if op.name != "stablehlo.scatter" or operand != len(op.operands) - 1:
        return False
    window = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"]).update_window_dims
    shape = ir.RankedTensorType(op.operands[operand].type).shape
    return any(size > 1 for dimension, size in enumerate(shape) if dimension not in window)


def _made_by(use: ir.OpOperand, axes: frozenset[str]) -> list[ir.Value]:
    """The values that an op computes from an operand, but for two kinds: results of an outermost loop, and the next
    trip's value of an updated parameter, which the user shards over one of `axes`.
    """
    op, operand = use.owner.operation, use.operand_number
    if op.name != WHILE and op.name != _RETURN:
        return list(op.results)
    loop = loop_around(op.block) if op.name == _RETURN else None
    if loop is None:
        return successors(use, conditions=False) or list(parent_of(op).results)  # the latter of a predicate or reducer
    argument, result = carried(loop.op, operand, conditions=False)
    inner = [result] if is_within(loop.op, WHILE) else []
    updated = _is_parameter(loop.op.operands[operand], axes)
    return inner if updated else [argument, *inner]


def _is_copy(op: ir.Operation, axes: frozenset[str]) -> bool:
    """Whether `op` copies its operand, not sharded over `axes`: in JAX's explicit mode each op is constrained."""
    if op.name != CONSTRAINT:
        return keeps_elements(op)
    sharding = read_sharding(op.attributes["sharding"])
    return not names_of(sharding.axes) & axes and (not sharding.unreduced or is_idle(op))


def whole_sums(module: ir.Operation, split: dict[ir.Value, frozenset[Axis]]) -> list[ir.Value]:
    """The results of outermost loops, except sums that the program shards, which are all of `split`, and rows that the
    next loop reads one by one, as a backward pass does activations.
    """
    found: list[ir.Value] = []
    for loop in _outermost_loops(module):
        for each in _carried(loop):
            is_sum = each.changes and not split.get(each.next) and rank_of(each.next)  # no token nor induction variable
            if is_sum and not (each.stacks and _is_for_loops(each.result)):
                found.append(each.result)
    return found


def _outermost_loops(module: ir.Operation) -> Iterator[Loop]:
    for op in ops_of(module, WHILE):
        if not is_manual(op) and not is_within(op, WHILE):
            yield Loop(op)


def are_layers_sharded(module: ir.Operation, propagated: Propagated) -> bool:
    """Whether a loop over layers, not in another loop, reads parameters most bytes of which the user splits over axes
    that split its activations, too: XLA all-gathers these. The ops after such a loop are more layers.
    """
    for loop in _outermost_loops(module):
        arrays = [each for each in _carried(loop) if rank_of(each.start)]
        over = _axes_of_activations([each for each in arrays if each.changes], propagated)
        read = [(shard_bytes(each.start, None), _given_axes(each.start)) for each in arrays if not each.changes]
        split = sum(size for size, axes in read if names_of(axes) & over)
        if 2 * split > sum(size for size, _ in read):
            return True
    return False


def _axes_of_activations(changed: list[_Carried], propagated: Propagated) -> frozenset[str]:
    """The mesh axes that shard the activations among a loop's changed values; none where it accumulates others beside
    them.

    It may put rows of others in their place: activations that a backward pass reads, or gradients of layers.
    """
    activations, others = list[ir.Value](), list[_Carried]()
    for each in changed:
        if is_activation(each.argument, frozenset(), set()):
            activations.append(each.result)
        else:
            others.append(each)
    if not all(other.stacks for other in others):
        return frozenset()
    lies = [propagated.sharding_of(activation) for activation in activations]
    return names_of(axis for sharding in lies if sharding is not None for axis in sharding.axes)


def _is_for_loops(result: ir.Value) -> bool:
    """Whether only loops that pass it through read `result`."""
    uses = [(use.owner.operation, use.operand_number) for use in result.uses]
    return bool(uses) and all(
        user.name == WHILE and start_of(user.results[operand]) is not None for user, operand in uses
    )


def _given_axes(value: ir.Value, *, through_constraints: bool = False) -> frozenset[Axis]:
    """The axes over which the user shards `value`, or its elementwise sources, or init operands.

    Parameters may be averages of others, or come from fewer bits, or from an earlier step. Propagation may split more.
    """
    found = [sharding_of(origin) for origin in _origins(value, through_constraints=through_constraints)]
    return frozenset(axis for given in found if given is not None for axis in given.axes)


def _is_parameter(value: ir.Value, axes: frozenset[str]) -> bool:
    """Whether `value` comes, element by element, from an argument that the user splits over one of `axes`."""
    arguments = [origin for origin in _origins(value, through_constraints=True) if isinstance(origin.owner, ir.Block)]
    return any(given is not None and names_of(given.axes) & axes for given in map(sharding_of, arguments))


def _origins(value: ir.Value, *, through_constraints: bool = False) -> list[ir.Value]:
    """The values that `value` is computed from element by element, traced as far back as possible."""
    found: list[ir.Value] = []

    def sources(value: ir.Value) -> list[ir.Value]:
        known = _sources(value, through_constraints=through_constraints)
        found.extend([] if known else [value])
        return known

    exhaust(backward([value], sources))
    return found


def _sources(value: ir.Value, *, through_constraints: bool) -> list[ir.Value]:
    """The operands that `value` is computed from element by element, or its init operands; none for other ops."""
    op = defining_op(value)
    if op is not None and (keeps_elements(op) or (through_constraints and op.name == CONSTRAINT)):
        return list(op.operands)
    if op is not None and is_elementwise(op):
        return [operand for operand in op.operands if _shape(operand) == _shape(value)]
    return [use.value for use in predecessors(value, manual=False, back_edges=False) or ()]


def _shape(value: ir.Value) -> str:
    tensor = tensor_of(value)
    return str(tensor.shape) if tensor is not None else ""  # a token, with which callbacks are ordered


def _spread(
    value: ir.Value, axes: frozenset[Axis], found: defaultdict[ir.Value, frozenset[Axis]], *, through_sums: bool
) -> None:
    """Notes `axes` for all that `value` is made of by linear ops, in its loop and the loops and branches in it."""

    def made_of(value: ir.Value) -> Sequence[ir.Value]:
        if axes <= found[value]:
            return ()
        found[value] |= axes
        op = defining_op(value)
        if op is None or is_manual(op):
            return ()
        if op.name == WHILE or op.name in BRANCHES:
            return [use.value for use in predecessors(value) or () if use.op.name == _RETURN]
        return (
            op.operands if is_tracked(op) and (through_sums or not adds(op)) else ()
        )  # behind a sum, it is no longer one gradient

    exhaust(backward([value], made_of))
