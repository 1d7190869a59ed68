"""The best choices by an integer linear program: communication and arithmetic, within the memory of a device.

A variable says whether an axis shards a class of dimensions. The cost of a choice is a product over axes, such as a
gather over one axis of an array that another shards: of two axes, that is linear in variables that are 1 where both
are. With more than two axes, one or two at a time are chosen while the others stay, until nothing gains.

Sources: Alpa (Zheng et al., OSDI 2022); scipy's HiGHS.
Tests: test/unit/pyext/planning/test_sharding_choices.py: against a search over all choices.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import inf, prod
from typing import NamedTuple

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from paropt.planning.strategies import WHOLE, Choices, Classes, Move, Sum, Work

Sharded = frozenset[tuple[int, str]]  # classes, and the axes that shard them


class InfeasibleError(Exception):
    """No choice fits; the message, one line, says by how many bytes the best one that is known does not."""


class Rates(NamedTuple):
    """The speed of devices and links: an estimate is in seconds per step."""

    flops: Callable[[str], float]  # per second and device, of products of this type
    memory: float  # bytes per second and device
    links: Mapping[str, float]  # bytes per second and device, by axis
    latency: float  # seconds per collective


class Plan(NamedTuple):
    """A choice, and the model's estimate of it."""

    sharded: Sharded
    seconds: float  # per step
    wire_bytes: float  # sent per device and step
    held_bytes: float  # of arguments, per device

    def axes_of(self, classes: Classes, axes: Iterable[str]) -> tuple[tuple[str, ...], ...]:
        """The axes that shard each dimension."""
        return tuple(tuple(axis for axis in axes if (each, axis) in self.sharded) for each in classes)


def judged(choices: Choices, axes: Mapping[str, int], rates: Rates, sharded: Sharded) -> Plan:
    """The model's estimate of the choice `sharded`, with any number of axes. Arguments are read once."""

    def shards(classes: Classes, axis: str) -> bool:
        return any((each, axis) in sharded for each in classes)

    def parts(classes: Classes) -> int:
        return prod(size for axis, size in axes.items() if shards(classes, axis))

    def stays(made: Classes, read: Classes, axis: str) -> bool:
        return any((a, axis) in sharded and (b, axis) in sharded for a, b in zip(made, read, strict=True))

    seconds = wire = 0.0
    for each, made, read in _transfers(choices):
        for axis, size in axes.items():
            others = prod(n for other, n in axes.items() if other != axis and stays(made, read, other))
            part = each.bytes * each.executions * (size - 1) / size / others
            sent = 0.0
            if shards(made, axis) and not stays(made, read, axis):
                sent += part / size if shards(read, axis) else part
            if isinstance(each, Sum) and shards(each.over, axis):
                sent += part if shards(read, axis) else 2 * part
            wire += sent
            seconds += sent / rates.links[axis] + (rates.latency * each.executions if sent else 0.0)
    seconds += sum(_seconds(work, rates) / parts(work.classes) for work in choices.work)
    held = sum(each.bytes / parts(each.classes) for each in choices.arguments)
    return Plan(sharded, seconds + held / rates.memory, wire, held)


def best(
    choices: Choices,
    axes: Mapping[str, int],
    rates: Rates,
    *,
    memory: int | None = None,
    pinned: Mapping[int, frozenset[str]] | None = None,
    start: Sharded = frozenset(),
    together: int = 2,
    time_limit: float = 60.0,
) -> Plan:
    """The choice that takes the least time. Optimal for at most `together` axes, unless the time limit is met.

    `axes` are sizes, `memory` bytes of arguments per device, `together` 1 or 2: how many axes one program chooses.
    `pinned` says of classes which axes shard them, and no others.
    With more axes, it is as good as no change of `together` axes can make it, from `start`. `time_limit` is in seconds,
    for each program. Raises InfeasibleError when the arguments do not fit.
    """
    pinned = pinned or {}
    given = frozenset((each, axis) for each, over in pinned.items() for axis in over)
    kept = frozenset((each, axis) for each, axis in start if each not in pinned)
    found = judged(choices, axes, rates, kept | given)
    groups: list[tuple[str, ...]] = list(combinations(axes, min(together, len(axes))))
    until_no_gain = len(groups) > 1
    while True:
        before = _rank(found, memory)
        for group in groups:
            sharded, is_optimal = _Program(choices, axes, rates, found.sharded, group, memory, pinned).solved(
                time_limit
            )
            other = judged(choices, axes, rates, sharded) if sharded is not None else found
            found = min(found, other, key=lambda plan: _rank(plan, memory))
            if not is_optimal and len(group) > 1:  # too large for the time: one axis after the other
                groups, until_no_gain = [(axis,) for axis in axes], True
                break
        if not until_no_gain or _rank(found, memory) >= before:
            break
    if memory is not None and found.held_bytes > memory:
        raise InfeasibleError(
            f"arguments take {found.held_bytes:.0f} bytes per device, {found.held_bytes - memory:.0f} too many"
        )
    return found


def _rank(plan: Plan, memory: int | None) -> tuple[float, float]:
    """A choice that does not fit is worse than any that does."""
    return max(0.0, plan.held_bytes - memory) if memory is not None else 0.0, plan.seconds


def _transfers(choices: Choices) -> Iterator[tuple[Move | Sum, Classes, Classes]]:
    """The tensors that may be sent, as they are made and as they are read."""
    yield from ((move, move.made, move.read) for move in choices.moves)
    yield from ((each, each.made, each.kept) for each in choices.sums)


def _seconds(work: Work, rates: Rates) -> float:
    """On one device that does all of it; of a contraction and its writes, whichever takes longer."""
    return work.executions * max(work.flops / rates.flops(work.dtype), work.bytes / rates.memory)


@dataclass(frozen=True)
class _Linear:
    """A linear expression of variables."""

    terms: dict[int, float]
    constant: float = 0.0

    def __add__(self, other: "_Linear") -> "_Linear":
        terms = dict(self.terms)
        for variable, factor in other.terms.items():
            terms[variable] = terms.get(variable, 0.0) + factor
        return _Linear(terms, self.constant + other.constant)

    def scaled(self, factor: float) -> "_Linear":
        return _Linear({variable: factor * old for variable, old in self.terms.items()}, factor * self.constant)

    def __sub__(self, other: "_Linear") -> "_Linear":
        return self + other.scaled(-1.0)


_ZERO = _Linear({})
_ONE = _Linear({}, 1.0)


class _Program:
    """The integer linear program that chooses for the axes `free`, while the others shard their dimensions in
    `fixed`."""

    def __init__(
        self,
        choices: Choices,
        axes: Mapping[str, int],
        rates: Rates,
        fixed: Sharded,
        free: Sequence[str],
        memory: int | None,
        pinned: Mapping[int, frozenset[str]],
    ) -> None:
        self._choices, self._axes, self._rates = choices, axes, rates
        self._parts: dict[frozenset[int], _Linear] = {}
        self._rows: list[tuple[_Linear, float]] = []  # each at most that
        self._objective = _ZERO
        self._lower: list[float] = []
        self._upper: list[float] = []
        self._whole: list[bool] = []  # whether a variable is an integer
        self._fixed = {(each, axis) for each, axis in fixed if axis not in free}
        self._chosen = {
            (each, axis): self._choice(each, axis, pinned.get(each))
            for each in range(1, len(choices.sizes))
            for axis in free
        }
        self._require_possible(free)
        for each, made, read in _transfers(choices):
            self._add_transfer(each, made, read)
        seconds: defaultdict[Classes, float] = defaultdict(float)
        for work in choices.work:
            seconds[work.classes] += _seconds(work, rates)
        for argument in choices.arguments:
            seconds[argument.classes] += argument.bytes / rates.memory
        for classes, spent in seconds.items():
            self._cost(self._shared(classes), spent)
        if memory is not None:
            self._bound_memory(memory)

    def solved(self, time_limit: float) -> tuple[Sharded | None, bool]:
        """The best choice found in so many seconds (None: none), and whether it is proven to be the best."""
        cost = np.zeros(len(self._upper))
        for variable, factor in self._objective.terms.items():
            cost[variable] = factor
        cells = [(i, v, factor) for i, (row, _) in enumerate(self._rows) for v, factor in row.terms.items()]
        at, of, factors = zip(*cells, strict=True) if cells else ((), (), ())
        matrix = coo_array((factors, (at, of)), shape=(len(self._rows), len(cost))).tocsr()
        most = [bound - row.constant for row, bound in self._rows]
        scale = max(abs(cost).max(initial=0.0), 1e-30)
        found = milp(
            cost / scale,
            integrality=np.array(self._whole, dtype=int),
            bounds=Bounds(np.array(self._lower), np.array(self._upper)),
            constraints=LinearConstraint(matrix, -inf, np.array(most)),
            options={"time_limit": time_limit, "mip_rel_gap": 1e-6},
        )
        is_optimal = found.status == 0
        if found.x is None:
            return None, is_optimal
        chosen = {key for key, each in self._chosen.items() for v in each.terms if found.x[v] > 0.5}
        return frozenset(self._fixed | chosen), is_optimal

    def _choice(self, each: int, axis: str, pinned: frozenset[str] | None) -> _Linear:
        if pinned is not None:
            said = float(axis in pinned)
            return self._variable(lower=said, upper=said, whole=True)
        return self._variable(upper=self._fits(each, axis), whole=True)

    def _variable(self, *, lower: float = 0.0, upper: float = 1.0, whole: bool = False) -> _Linear:
        self._lower.append(lower)
        self._upper.append(upper)
        self._whole.append(whole)
        return _Linear({len(self._upper) - 1: 1.0})

    def _at_most(self, one: _Linear, other: _Linear) -> None:
        row = one - other
        self._rows.append((_Linear(row.terms), -row.constant))

    def _fits(self, each: int, axis: str) -> float:
        """1 where the devices along `axis`, and those that shard the class already, divide it."""
        parts = self._axes[axis] * prod(self._axes[other] for known, other in self._fixed if known == each)
        return float(self._choices.sizes[each] % parts == 0)

    def _require_possible(self, free: Sequence[str]) -> None:
        """An axis shards one dimension of a tensor at most, and the devices divide the dimensions that they shard."""
        for classes in self._choices.exclusive:
            for axis in free:
                self._at_most(self._shards(classes, axis), _ONE)
        for each, size in enumerate(self._choices.sizes):
            fixed = prod(self._axes[axis] for known, axis in self._fixed if known == each)
            for one, other in combinations(free, 2):
                if each != WHOLE and size % (fixed * self._axes[one] * self._axes[other]):
                    self._at_most(self._shards((each,), one) + self._shards((each,), other), _ONE)

    def _shards(self, classes: Classes, axis: str) -> _Linear:
        """1 where `axis` shards a dimension of these classes."""
        known = sum((each, axis) in self._fixed for each in classes)
        found = _Linear({}, float(known))
        for each in classes:
            found += self._chosen.get((each, axis), _ZERO)
        return found

    def _stays(self, made: Classes, read: Classes, axis: str) -> _Linear:
        """1 where `axis` shards a dimension in both."""
        found = _ZERO
        for one, other in zip(made, read, strict=True):
            found += (
                self._both(self._shards((one,), axis), self._shards((other,), axis))
                if one != other
                else (self._shards((one,), axis))
            )
        return found

    def _both(self, one: _Linear, other: _Linear) -> _Linear:
        """At most 1 where both are: to be used where more of it costs less."""
        if not one.terms:
            return other.scaled(one.constant)
        if not other.terms:
            return one.scaled(other.constant)
        found = self._variable()
        self._at_most(found, one)
        self._at_most(found, other)
        return found

    def _add_transfer(self, each: Move | Sum, made: Classes, read: Classes) -> None:
        stays = {axis: self._stays(made, read, axis) for axis in self._axes}
        for axis, size in self._axes.items():
            smaller = [(1 - 1 / n, stays[other]) for other, n in self._axes.items() if other != axis]
            seconds = each.bytes * each.executions * (size - 1) / size / self._rates.links[axis]
            latency = each.executions * self._rates.latency
            read_there = self._shards(read, axis)
            moved = self._moved(self._shards(made, axis) - stays[axis])
            exchanged = (1 - 1 / size, read_there - stays[axis])
            self._cost(self._product(moved, [exchanged, *smaller]), seconds)
            self._cost(moved, latency)
            if isinstance(each, Sum):
                summed = self._shards(each.over, axis)
                self._cost(self._product(summed, [(0.5, read_there), *smaller]), 2 * seconds)
                self._cost(summed, latency)

    def _moved(self, left: _Linear) -> _Linear:
        """At least `left`, and at least 0."""
        if not left.terms:
            return left
        found = self._variable()
        self._at_most(left, found)
        return found

    def _product(self, base: _Linear, discounts: Iterable[tuple[float, _Linear]]) -> _Linear:
        """`base` times (1 - share x expression) of each discount, of which at most two are not known."""
        scale, open_ones = 1.0, []
        for share, expression in discounts:
            if expression.terms:
                open_ones.append((share, self._both(base, expression)))
            else:
                scale *= 1 - share * expression.constant
        if not base.terms and not base.constant:
            return _ZERO
        found = base
        for share, expression in open_ones:
            found -= expression.scaled(share)
        if len(open_ones) == 2:
            (one, first), (other, second) = open_ones
            found += self._moved(first + second - base).scaled(one * other)
        return found.scaled(scale)

    def _shared(self, classes: Classes) -> _Linear:
        """The part of a whole that one device has: the same for all that have these classes, in whatever order."""
        key = frozenset(classes)
        if key not in self._parts:
            self._parts[key] = self._product(
                _ONE, [(1 - 1 / n, self._shards(classes, axis)) for axis, n in self._axes.items()]
            )
        return self._parts[key]

    def _bound_memory(self, memory: int) -> None:
        """Bytes that do not fit cost more than all else, so that a program with few free axes comes as near as it
        can."""
        held = _ZERO
        for each in self._choices.arguments:
            held += self._shared(each.classes).scaled(each.bytes)
        missing = self._variable(upper=inf)
        scale = max(1, sum(each.bytes for each in self._choices.arguments))
        self._at_most(held.scaled(1 / scale), missing + _Linear({}, memory / scale))
        whole = judged(self._choices, self._axes, self._rates, frozenset()).seconds
        self._cost(missing, 1e3 * whole)

    def _cost(self, expression: _Linear, factor: float) -> None:
        self._objective += expression.scaled(factor)
