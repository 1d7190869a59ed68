"""The linear transfer laws: which ops a reduction may cross. The rows of the op table refer to them.

`f` may be crossed when `f(reduce(x), c) = reduce(f(x, c))`: for a sum, when `f` is linear in the partial operands and
the others (factors, indices, predicates) are uniform over the replica groups.
"""

from collections.abc import Callable
from math import prod
from typing import Literal, NamedTuple

from jaxlib.mlir import ir

from paropt.passes.dataflow.rounding import is_excess
from paropt.passes.dataflow.xla_tracking import require_followed
from paropt.passes.ir.constants import is_zero, scalar_of
from paropt.passes.ir.constraints import CONSTRAINT
from paropt.passes.ir.op_table import (
    OP_TABLE,
    adds,
    is_linear,
    is_shardwise,
    is_tracked,
    is_tracked_on_condition,
    looks_up,
    only_copies,
)
from paropt.passes.ir.types import is_float, tensor_of, unsqueezes, widens
from paropt.passes.sharding.annotations import is_source
from paropt.passes.sharding.collectives import ADD, REDUCE_SCATTER, Reduction, combiner_of, neutral_number, not_a_sum
from paropt.passes.sharding.shardings import SHARDING, is_all_manual, manual_around
from paropt.passes.support.remarks import require
from paropt.passes.support.traversal import defining_op, users_of

_CONVERT, _RESHAPE, _UPDATE = "stablehlo.convert", "stablehlo.reshape", "stablehlo.dynamic_update_slice"

# The converts that a reduction may cross; see the `convert` row.
ConvertPolicy = Literal["widening", "excess-precision", "any"]


class Crossing(NamedTuple):
    """The reduction that is to cross an op, for the condition of a row."""

    reduction: Reduction
    convert: ConvertPolicy
    accumulate: ir.Type | None  # the float type in which sums are carried, where it is wider than the program's
    partial: frozenset[int]  # the operands of the op that are partial
    require_uniform: Callable[[ir.Value, str, ir.Operation], None]
    leaves_loop: bool = True  # else it stays in its block, where it may be of activations, in each trip


Addends = tuple[int, ...]


# The operands in which an op is linear; raises Declined where it is not.
Law = Callable[[ir.Operation, Crossing], Addends]


def addends_of(op: ir.Operation, crossing: Crossing) -> Addends:
    """The operands in which `op` is linear, so that it may be done before `crossing.reduction`.

    Raises Declined with the reason when it may not.
    """
    name = op.name
    combines = name == crossing.reduction.combiner
    require(combines or is_linear(op), f"{name} does not commute with the reduction", op)
    law = _every if combines else LAWS[OP_TABLE[name].law]
    shapes = [tensor_of(value) for value in (*op.operands, *op.results)]
    require(None not in shapes, f"{name} has a dynamic shape", op)
    addends = law(op, crossing)
    if crossing.reduction.is_global:
        follows = is_tracked(op) or is_tracked_on_condition(op)
        require(follows, f"XLA is not known to track unreduced values through {name}", op)
        leaves = crossing.leaves_loop or not is_tracked_on_condition(op)
        require(leaves, f"{name} is crossed in a global-view program only by a reduction that leaves a loop", op)
        require_followed(op, addends, crossing.reduction.place[1])
        adds_up = any(is_source(user) for user in users_of(op))
        require(not adds_up, f"{name} reduces over axes itself, in a global-view program", op)
    scattered, moved = crossing.reduction.scatter_dimension, crossing.reduction.moved
    shardwise = combines or is_shardwise(op)
    fits = shardwise or not moved
    require(fits, f"{name} is not elementwise: it may not precede the op that moves the reduced elements", op)
    if scattered is not None and not shardwise:
        _require_shards_kept(op, scattered)
    require(crossing.reduction.is_sum or combines or only_copies(op), f"{name} is linear for sums only", op)
    if not combines and len(addends) > 1:  # which stands for those of them that are not partial
        element = ir.RankedTensorType(op.results[0].type).element_type
        combiner = crossing.reduction.combiner
        known = neutral_number(combiner, element) is not None
        require(known, f"{name} would need an identity element, which is not known for a {combiner} of {element}", op)
    return addends


def _require_shards_kept(op: ir.Operation, dimension: int) -> None:
    """Declines to do `op` before its operand is scattered over `dimension`, unless it does the same to each shard."""
    reshapes = op.name == _RESHAPE and _keeps_shards(op, dimension)
    kept = reshapes or (op.name == _UPDATE and _updates_shards(op, dimension))
    require(kept, f"a reduce_scatter may not cross {op.name}, which moves elements", op)
    # It may split a dimension over that axis, and would have to move data where the whole is joined with another.
    manual = manual_around(op)
    own = manual is None or is_all_manual(manual)
    require(own, f"a reduce_scatter may not cross {op.name} where a mesh axis is left to the partitioner", op)


def _keeps_shards(reshape: ir.Operation, dimension: int) -> bool:
    """Whether `reshape`, of a value scattered over `dimension`, may be done first, and its result scattered over that.

    For each place in the dimensions before it, the whole has the shards one after the other. So has an array that is as
    large there: the same elements are shard number n of it, wherever dimensions behind are dropped, added, split or
    joined.
    """
    before, after = (ir.RankedTensorType(v.type).shape for v in (reshape.operands[0], reshape.results[0]))
    same = prod(before[:dimension]) == prod(after[:dimension])
    return same and dimension < len(after) and after[dimension] > 0


def _updates_shards(update: ir.Operation, dimension: int) -> bool:
    """Whether `update` writes all of `dimension`, wherever an index says it starts: such as one layer of a stack."""
    stack, part = (ir.RankedTensorType(operand.type).shape[dimension] for operand in list(update.operands)[:2])
    return stack == part


def _every(op: ir.Operation, _: Crossing) -> Addends:
    return tuple(range(len(op.operands)))


def _difference(op: ir.Operation, _: Crossing) -> Addends:
    """Compensated sums keep the difference of `(s + x) - s` and `x`, which depends on the order of the sum."""
    left, right = op.operands
    exact = isinstance(ir.RankedTensorType(op.results[0].type).element_type, ir.IntegerType)
    compensates = _has_term(left, right) or _has_term(right, left)
    require(exact or not compensates, "a sum less one of its terms tells how the sum was rounded", op)
    return (0, 1)


def _has_term(value: ir.Value, term: ir.Value) -> bool:
    """Whether `value` is a sum or difference of `term` and something."""
    op = defining_op(value)
    return op is not None and adds(op) and any(operand == term for operand in op.operands)


def _factor(op: ir.Operation, crossing: Crossing) -> Addends:
    """A product: one operand is partial, the other a uniform factor."""
    addend = _partial_factor(op, crossing.partial)
    _require_factor(op, 1 - addend, crossing)
    return (addend,)


def _partial_factor(op: ir.Operation, partial: frozenset[int]) -> int:
    """Which operand of a multiply is the addend: when both are partial, the one that is no broadcast scalar."""
    if len(partial) == 1:
        return next(iter(partial))
    return 1 if scalar_of(op.operands[0]) is not None else 0


def _product(op: ir.Operation, crossing: Crossing) -> Addends:
    """A contraction or convolution: a product that sums."""
    (addend,) = _factor(op, crossing)
    source, target = (ir.RankedTensorType(v.type).element_type for v in (op.operands[addend], op.results[0]))
    _require_kept(source, target, crossing, op)
    return (addend,)


def _dividend(op: ir.Operation, crossing: Crossing) -> Addends:
    element = ir.RankedTensorType(op.results[0].type).element_type
    require(not isinstance(element, ir.IntegerType), "an integer division rounds", op)
    require(0 in crossing.partial, "a divisor is not linear", op)
    _require_factor(op, 1, crossing)
    return (0,)


def _require_factor(op: ir.Operation, operand: int, crossing: Crossing) -> None:
    factor = op.operands[operand]
    crossing.require_uniform(factor, "a factor", op)
    whole = crossing.reduction.kind != REDUCE_SCATTER and not crossing.reduction.moved
    fits = whole or scalar_of(factor) is not None
    scattered = "a reduce_scatter" if crossing.reduction.kind == REDUCE_SCATTER else "moved elements"
    require(fits, f"a factor of {scattered} is not one scalar", op)


def _copied(op: ir.Operation, crossing: Crossing) -> Addends:
    keeps = not crossing.reduction.is_global or unsqueezes(op)
    require(keeps, "XLA does not track unreduced values through a broadcast that repeats elements", op)
    return (0,)


def _converted(op: ir.Operation, crossing: Crossing) -> Addends:
    source, target = (ir.RankedTensorType(v.type).element_type for v in (op.operands[0], op.results[0]))
    if source == target:  # as JAX writes it of values that have their type weakly
        return (0,)
    if isinstance(target, ir.ComplexType):
        _require_kept_as_parts(source, target, crossing, op)
        return (0,)
    real = not isinstance(source, ir.ComplexType)
    require(real, "a convert of complex numbers to real ones drops their imaginary parts", op)
    require(is_float(source) and is_float(target), "a convert of integers may wrap or round", op)
    left_out = crossing.accumulate is not None and widens(source, crossing.accumulate)
    if not left_out:  # the convert of a carried value in a type that holds the values before it needs not be made
        _require_kept(source, target, crossing, op)
    return (0,)


def _require_kept_as_parts(source: ir.Type, target: ir.ComplexType, crossing: Crossing, op: ir.Operation) -> None:
    """Declines a convert to complex numbers that the parts of `target` do not hold. Complex numbers have no order."""
    require(crossing.reduction.is_sum, "a convert to complex numbers is linear for sums only", op)
    part = source.element_type if isinstance(source, ir.ComplexType) else source
    require(is_float(part), "a convert of integers may wrap or round", op)
    _require_kept(part, target.element_type, crossing, op)


def _require_kept(source: ir.Type, target: ir.Type, crossing: Crossing, op: ir.Operation) -> None:
    """Declines where values of type `source` are not values of type `target`."""
    floats = is_float(source) and is_float(target)
    keeps = widens(source, target) or (floats and crossing.convert == "any")
    keeps = keeps or (crossing.convert == "excess-precision" and op.name == _CONVERT and is_excess(op))
    hint = " (option convert=any allows it)" if floats else ""
    lost = "precision" if floats else "or wraps values"
    name = op.name.removeprefix("stablehlo.")
    require(keeps, f"a {name} from {source} to {target} loses {lost}{hint}", op)


def _padded(op: ir.Operation, _: Crossing) -> Addends:
    require(is_zero(op.operands[1]), "a pad adds values that are not zero", op)
    return (0,)


def _selected(op: ir.Operation, crossing: Crossing) -> Addends:
    require(0 not in crossing.partial, "a predicate is not linear", op)
    crossing.require_uniform(op.operands[0], "a predicate", op)
    return (1, 2)


def require_sum_from_zero(reduce: ir.Operation) -> None:
    """Declines a reduce that does more than add up the elements of one array."""
    require(len(reduce.operands) == 2 and combiner_of(reduce) == ADD, not_a_sum(reduce), reduce)
    require(is_zero(reduce.operands[1]), "a reduce starts from a value that is not zero", reduce)


def _summed(op: ir.Operation, _: Crossing) -> Addends:
    require_sum_from_zero(op)
    return (0,)


def _scattered(op: ir.Operation, crossing: Crossing) -> Addends:
    require(len(op.operands) == 3, "a scatter of several arrays", op)
    # In an overwrite, two updates of one element would race, on each device for itself.
    overwrites = _keeps_second(op) and ir.BoolAttr(op.attributes["unique_indices"]).value
    require(overwrites or combiner_of(op) == ADD, "a scatter does more than add, or write each element once", op)
    require(1 not in crossing.partial, "an index is not linear", op)
    crossing.require_uniform(op.operands[1], "an index", op)
    return (0, 2)


def _keeps_second(op: ir.Operation) -> bool:
    """Whether the region of `op` returns the second of its two arguments."""
    block = op.regions[0].blocks[0]
    first, *others = block.operations
    return not others and list(first.operands) == [block.arguments[1]]


def _sliced(op: ir.Operation, crossing: Crossing) -> Addends:
    return _indexed(op, crossing, addends=(0,))


def _updated(op: ir.Operation, crossing: Crossing) -> Addends:
    return _indexed(op, crossing, addends=(0, 1))


def _indexed(op: ir.Operation, crossing: Crossing, addends: Addends) -> Addends:
    require(crossing.partial <= set(addends), "an index is not linear", op)
    for index in list(op.operands)[len(addends) :]:
        crossing.require_uniform(index, "an index", op)
    return addends


def _held(op: ir.Operation, crossing: Crossing) -> Addends:
    require(SHARDING not in op.attributes, "the barrier says how its results are sharded", op)
    return tuple(sorted(crossing.partial))


# By the names that the rows of the op table have for them.
LAWS: dict[str, Law] = {
    "every": _every,
    "difference": _difference,
    "factor": _factor,
    "dividend": _dividend,
    "converted": _converted,
    "copied": _copied,
    "padded": _padded,
    "selected": _selected,
    "sliced": _sliced,
    "updated": _updated,
    "scattered": _scattered,
    "summed": _summed,
    "product": _product,
    "held": _held,
}


def is_mover(op: ir.Operation) -> bool:
    """Whether `op` only moves elements of its first operand: for operands of one type, `op(x) + op(y) = op(x + y)`.

    Wherever to: its other operands may be any values on each device, if they are the same for both.
    """
    moves = only_copies(op) and not is_shardwise(op) and op.name != CONSTRAINT
    alone = len(op.operands) == 1 or looks_up(op)  # the others are indices
    return moves and alone and all(tensor_of(value) is not None for value in (*op.operands, *op.results))


def law_of(op: ir.Operation, reduction: Reduction) -> str:
    """Why `reduction` may cross `op`."""
    if op.name == reduction.combiner:
        return "combining is associative and commutative"
    source, target = (tensor_of(value) for value in (op.operands[0], op.results[0]))
    narrows = op.name == _CONVERT and source and target and not widens(source.element_type, target.element_type)
    return "addends are rounded, and not their sum, or neither" if narrows else OP_TABLE[op.name].reason
