"""The control values of a loop, counters and predicates, for each iteration, evaluated at compile time.

Only values that count trips are followed: small tensors made of constants, of loop-carried values (those that a loop
leaves as they are, from outside of it), and of values that the caller knows. Everything else is None, unknown.
"""

from collections.abc import Callable, Iterable
from math import prod
from typing import Any, NamedTuple

import numpy as np
from jaxlib.mlir import ir

from paropt.passes.ir.branches import branch_around, chosen
from paropt.passes.ir.constraints import CONSTRAINT
from paropt.passes.ir.loops import Loop, start_of, trip_count
from paropt.passes.ir.types import tensor_of
from paropt.passes.support.traversal import defining_op

MOST_TRIPS = 1024
_MOST_ELEMENTS = 4096  # of a tensor that is computed
_DEEPEST = 64  # ops on top of each other
_INTEGERS = {
    **{f"i{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"ui{bits}": np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)},
    "i1": np.dtype(bool),
}
_DTYPES = {**_INTEGERS, "f32": np.dtype(np.float32), "f64": np.dtype(np.float64)}

Known = dict[ir.Value, np.ndarray]


class _Recipe(NamedTuple):
    """How a value is computed, in each trip: from `operands` by `rule`, or it is `operands[0]` of an outer block."""

    dtype: np.dtype
    operands: list[ir.Value]
    op: ir.Operation | None = None
    rule: "_Rule | None" = None


class _Trip:
    """Evaluates values in one trip. The recipes are those of all trips: to ask MLIR takes longer than to compute."""

    def __init__(self, recipes: dict[ir.Value, _Recipe | None], *, of_devices: bool = False) -> None:
        self.of_devices, self.recipes = of_devices, recipes
        self.unknown: set[ir.Value] = set()  # so that no value is followed twice; all, unless ops were too deep
        self.is_too_deep = False

    def number(self, value: ir.Value, known: Known, depth: int = 0) -> np.ndarray | None:
        if value in known:
            return known[value]
        if value in self.unknown:
            return None
        found = self._computed(value, known, depth)
        if found is not None:
            known[value] = found
        elif not self.is_too_deep:
            self.unknown.add(value)
        return found

    def _computed(self, value: ir.Value, known: Known, depth: int) -> np.ndarray | None:
        if value not in self.recipes:
            self.recipes[value] = _recipe(value, of_devices=self.of_devices)
        recipe = self.recipes[value]
        if recipe is None:
            return None
        if depth > _DEEPEST:
            self.is_too_deep = True
            return None
        operands = []
        for operand in recipe.operands:
            number = self.number(operand, known, depth + 1)
            if number is None:
                return None
            operands.append(number)
        if recipe.op is None or recipe.rule is None:
            return operands[0]
        with np.errstate(all="ignore"):  # integers wrap
            result = recipe.rule.function(recipe.op, operands)
        if result is None:
            return None
        array = np.asarray(result, recipe.dtype)
        return array if self.of_devices else array.reshape(ir.RankedTensorType(value.type).shape)


def _recipe(value: ir.Value, *, of_devices: bool) -> _Recipe | None:
    dtype = integer_type(value) if of_devices else _dtype(value)
    if dtype is None:
        return None
    if (start := start_of(value)) is not None:
        return _Recipe(dtype, [start])
    op = defining_op(value)
    if op is None or not is_computed(op, of_devices=of_devices):
        return None
    rule = _RULES[op.name]
    if rule.rounds and not np.issubdtype(dtype, np.integer):
        return None  # how XLA rounds is its own affair
    return _Recipe(dtype, list(op.operands), op, rule)


class Evaluator:
    """Evaluates values in the trips of a loop that nothing rewrites meanwhile."""

    def __init__(self, *, of_devices: bool = False) -> None:
        self._of_devices = of_devices
        self._recipes: dict[ir.Value, _Recipe | None] = {}

    def __call__(self, value: ir.Value, known: Known) -> np.ndarray | None:
        """One value, as `evaluated` says."""
        return self.all_of([value], known)[0]

    def all_of(self, values: Iterable[ir.Value], known: Known) -> list[np.ndarray | None]:
        """Those of several values in one trip, of which none is followed twice."""
        trip = _Trip(self._recipes, of_devices=self._of_devices)
        return [trip.number(value, known) for value in values]


def evaluated(value: ir.Value, known: Known, *, of_devices: bool = False) -> np.ndarray | None:
    """The constant that `value` is, given the `known` ones; results on the way are added to `known`.

    Of several devices at once, when each of `known` lists one integer of rank 0 for each of them: then so does the
    result, or it is the same on all of them and has rank 0. Nothing else is followed.
    """
    return Evaluator(of_devices=of_devices)(value, known)


def evaluated_in(trips: Iterable[Known], value: ir.Value) -> list[np.ndarray | None]:
    """The constants that `value` is in each of these trips."""
    evaluator = Evaluator()
    return [evaluator(value, known) for known in trips]


def is_computed(op: ir.Operation, *, of_devices: bool = False) -> bool:
    """Whether ops like `op` can be evaluated on numbers: with `of_devices`, on one for each device."""
    rule = _RULES.get(op.name)
    return rule is not None and not (of_devices and rule.by_shape)


def trips_of(loop: Loop) -> list[Known] | None:
    """The known loop-carried values at the start of each trip; None when the trip count is unknown."""
    count = trip_count(loop)
    if count is None or count > MOST_TRIPS:
        return None
    outside: Known = {}
    starts = [evaluated(start, outside) for start in loop.op.operands]
    trips: list[Known] = []
    evaluator = Evaluator()
    for trip in range(count):
        values = starts if trip == 0 else evaluator.all_of(loop.next_values.operands, trips[-1])
        trips.append({a: v for a, v in zip(loop.body.arguments, values, strict=True) if v is not None})
    return trips


def executions(op: ir.Operation, loop: Loop, trips: list[Known] | None) -> int | None:
    """How often `op`, in the body of `loop` or in branches there, runs; None when that is not known."""
    if trips is None:
        return None
    reached = [_is_reached(op, loop, known) for known in trips]
    return None if None in reached else sum(map(bool, reached))


def branch_taken(branch: ir.Operation, known: Known) -> int | None:
    """Which region of the if or case `branch` is run."""
    number = evaluated(branch.operands[0], known)
    return None if number is None else chosen(branch, int(number))


def _is_reached(op: ir.Operation, loop: Loop, known: Known) -> bool | None:
    while (branch := branch_around(op, loop.body)) is not None:
        taken = branch_taken(branch, known)
        if taken is None:
            return None
        if branch.regions[taken].blocks[0] != op.block:
            return False
        op = branch
    return True


def integer_type(value: ir.Value) -> np.dtype | None:
    """The type of `value`, if it is one integer or truth value."""
    tensor = tensor_of(value)
    return None if tensor is None or tensor.rank else _INTEGERS.get(str(tensor.element_type))


def _dtype(value: ir.Value) -> np.dtype | None:
    tensor = tensor_of(value)
    if tensor is None or prod(tensor.shape) > _MOST_ELEMENTS:
        return None
    return _DTYPES.get(str(tensor.element_type))


def _constant(op: ir.Operation, _: list[np.ndarray]) -> np.ndarray | None:
    attribute = op.attributes["value"]
    return np.array(attribute) if isinstance(attribute, ir.DenseElementsAttr) else None


def _iota(op: ir.Operation, _: list[np.ndarray]) -> np.ndarray:
    shape = ir.RankedTensorType(op.results[0].type).shape
    dimension = ir.IntegerAttr(op.attributes["iota_dimension"]).value
    return np.indices(shape)[dimension]


def _broadcast(op: ir.Operation, operands: list[np.ndarray]) -> np.ndarray:
    shape = ir.RankedTensorType(op.results[0].type).shape
    places = ir.DenseI64ArrayAttr(op.attributes["broadcast_dimensions"])
    lined_up = [1] * len(shape)
    for place, size in zip(places, operands[0].shape, strict=True):
        lined_up[place] = size
    return np.broadcast_to(operands[0].reshape(lined_up), shape)


def _dynamic_slice(op: ir.Operation, operands: list[np.ndarray]) -> np.ndarray:
    values, *starts = operands
    sizes = list(ir.DenseI64ArrayAttr(op.attributes["slice_sizes"]))
    first = [min(max(int(s), 0), n - size) for s, n, size in zip(starts, values.shape, sizes, strict=True)]
    return values[tuple(slice(s, s + size) for s, size in zip(first, sizes, strict=True))]


def _compare(op: ir.Operation, operands: list[np.ndarray]) -> np.ndarray | None:
    words = str(op.attributes["comparison_direction"])
    function: Any = next((f for name, f in _COMPARISONS.items() if f" {name}>" in words), None)
    return None if function is None else function(*operands)


def _quotient(_: ir.Operation, operands: list[np.ndarray]) -> np.ndarray | None:
    a, b = operands
    return a // b if np.all(a >= 0) and np.all(b > 0) else None  # else rounding would need care


def _remainder(_: ir.Operation, operands: list[np.ndarray]) -> np.ndarray | None:
    a, b = operands
    return np.fmod(a, b) if np.all(b > 0) else None  # with the sign of `a`


def _sign(_: ir.Operation, operands: list[np.ndarray]) -> np.ndarray | None:
    (a,) = operands
    return np.sign(a) if np.issubdtype(a.dtype, np.integer) else None  # of a NaN and of zeros: XLA's own affair


def _converted(op: ir.Operation, operands: list[np.ndarray]) -> np.ndarray | None:
    """`evaluated` gives the result its type; how XLA converts a float that no integer equals is left to it."""
    floats = np.issubdtype(operands[0].dtype, np.floating)
    return None if floats and not isinstance(_element(op), ir.FloatType) else operands[0]


def _element(op: ir.Operation) -> ir.Type:
    return ir.RankedTensorType(op.results[0].type).element_type


def _plain(function: Callable[..., Any]) -> Callable[[ir.Operation, list[np.ndarray]], Any]:
    return lambda _, operands: function(*operands)


_COMPARISONS = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}


class _Rule(NamedTuple):
    """The evaluation of an op on numbers: None where that is not known."""

    function: Callable[[ir.Operation, list[np.ndarray]], Any]
    rounds: bool = False  # floats
    by_shape: bool = False  # of its operands, or its result


_RULES = {
    "stablehlo.constant": _Rule(_constant),
    "stablehlo.iota": _Rule(_iota, by_shape=True),
    "stablehlo.broadcast_in_dim": _Rule(_broadcast, by_shape=True),
    "stablehlo.dynamic_slice": _Rule(_dynamic_slice, by_shape=True),
    "stablehlo.compare": _Rule(_compare),
    "stablehlo.divide": _Rule(_quotient, rounds=True),
    "stablehlo.remainder": _Rule(_remainder, rounds=True),
    "stablehlo.reshape": _Rule(_plain(lambda operand: operand)),  # `evaluated` gives it its shape
    CONSTRAINT: _Rule(_plain(lambda operand: operand)),
    "stablehlo.convert": _Rule(_converted),
    "stablehlo.add": _Rule(_plain(np.add), rounds=True),
    "stablehlo.subtract": _Rule(_plain(np.subtract), rounds=True),
    "stablehlo.multiply": _Rule(_plain(np.multiply), rounds=True),
    "stablehlo.maximum": _Rule(_plain(np.maximum)),
    "stablehlo.minimum": _Rule(_plain(np.minimum)),
    "stablehlo.clamp": _Rule(_plain(lambda least, x, most: np.minimum(np.maximum(x, least), most))),
    "stablehlo.and": _Rule(_plain(np.bitwise_and)),
    "stablehlo.or": _Rule(_plain(np.bitwise_or)),
    "stablehlo.not": _Rule(_plain(np.bitwise_not)),
    "stablehlo.xor": _Rule(_plain(np.bitwise_xor)),
    "stablehlo.sign": _Rule(_sign),
    "stablehlo.select": _Rule(_plain(np.where)),
}
