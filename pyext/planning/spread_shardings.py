"""The classes of dimensions that axes shard, once the arguments' shardings are given: as a partitioner spreads them.

Axes go from what an op reads to what it makes, and on, those of the examples first. A parameter whose axis shards
examples, too, is gathered where it is read: that axis goes no further.

Tests: test/unit/pyext/planning/test_estimates.py.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from paropt.planning.ilp import Sharded
from paropt.planning.strategies import WHOLE, Choices, Classes, Held

Dimensions = Sequence[Sequence[str]]  # of an argument: the axes that shard each


class Placed(NamedTuple):
    """What axes shard, and which of them are gathered where parameters are read."""

    sharded: Sharded
    gathered: Sharded


def spread(choices: Choices, axes: Mapping[str, int], given: Mapping[int, Dimensions]) -> Placed:
    """The shardings of all classes, of arguments that are sharded as `given` by their numbers.

    Of state, parameters count: their gradients, and what an optimizer keeps of them, are in the same classes.
    """
    spreading = _Spreading(choices, axes)
    batches = [each for each in choices.arguments if each.examples != WHOLE]
    examples = {axis for each in batches for over in given.get(each.number, ()) for axis in over}
    for each in batches:
        spreading.take(each, given.get(each.number, ()), frozenset())
    spreading.run()
    for each in (held for held in choices.arguments if held.is_parameter):
        spreading.take(each, given.get(each.number, ()), frozenset(examples))
    spreading.run()
    return Placed(frozenset(spreading.sharded), frozenset(spreading.gathered))


class _Spreading:
    def __init__(self, choices: Choices, axes: Mapping[str, int]) -> None:
        self._choices, self._axes = choices, axes
        self.sharded: set[tuple[int, str]] = set()
        self.gathered: set[tuple[int, str]] = set()
        self._together: defaultdict[int, set[int]] = defaultdict(set)
        for classes in choices.exclusive:
            for each in classes:
                self._together[each].update(classes)

    def take(self, held: Held, dimensions: Dimensions, gathered: frozenset[str]) -> None:
        """The axes of an argument, as far as no other dimension that is there as well has them."""
        for each, over in zip(held.classes, dimensions, strict=False):
            for axis in over:
                if self._shard(each, axis) and axis in gathered:
                    self.gathered.add((each, axis))

    def run(self) -> None:
        """Until no op spreads an axis any more."""
        pairs = list(dict.fromkeys(self._pairs()))
        before = -1
        while len(self.sharded) > before:
            before = len(self.sharded)
            for source, to, is_part in pairs:
                for axis in (axis for axis in self._axes if (source, axis) in self.sharded):
                    is_gathered = (source, axis) in self.gathered
                    if (is_part or not is_gathered) and self._shard(to, axis) and is_gathered:
                        self.gathered.add((to, axis))

    def _pairs(self) -> Iterator[tuple[int, int, bool]]:
        transfers: tuple[tuple[Classes, Classes, bool], ...] = (
            *((each.made, each.read, each.is_part) for each in self._choices.moves),
            *((each.made, each.kept, False) for each in self._choices.sums),
        )
        for made, read, is_part in transfers:
            for a, b in zip(made, read, strict=True):
                if a != b and WHOLE not in (a, b):
                    yield a, b, is_part
                    yield from [(b, a, True)] if is_part else []

    def _shard(self, each: int, axis: str) -> bool:
        """Whether `axis` shards the class, now or before."""
        if (each, axis) in self.sharded:
            return True
        parts = self._axes[axis]
        for other, size in self._axes.items():
            parts *= size if (each, other) in self.sharded else 1
        others = self._together[each] - {each}
        if each == WHOLE or self._choices.sizes[each] % parts or any((other, axis) in self.sharded for other in others):
            return False
        self.sharded.add((each, axis))
        return True
