"""Equal layers share their choices: classes with the same surroundings become one.

Colour refinement: a class has the colour of its size, and in each round that of the ops, as data, that read and make
it, with the colours of the other classes there. After a few rounds classes of one colour are alike as far as ops reach
in so many steps; farther facts, such as the number of layers before, are left out. The choice for them is restricted to
equal ones, so a plan of the smaller problem is one of the whole.

Sources: Weisfeiler and Leman (1968). Alpa clusters layers by hand.
Tests: test/unit/pyext/planning/test_equal_layers.py.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from paropt.planning.strategies import WHOLE, Choices, Classes, Move, Sum, Work

_ROUNDS = 3
_Op = TypeVar("_Op", Move, Sum, Work)
_Fact = tuple[object, ...]  # the data of an op, without its classes


def shared(choices: Choices) -> Choices:
    """`choices` with one class for those that are alike. Arguments keep their names and their order."""
    numbers = _numbered(choices, _colours(choices))

    def of(classes: Classes) -> Classes:
        return tuple(numbers[each] for each in classes)

    sizes = [0] * (max(numbers) + 1)
    for number, size in zip(numbers, choices.sizes, strict=True):
        sizes[number] = size
    moves = _summed(choices.moves, lambda m: m._replace(made=of(m.made), read=of(m.read)))
    sums = _summed(
        choices.sums, lambda s: s._replace(made=of(s.made), kept=of(s.kept), over=of(s.over), beside=of(s.beside))
    )
    work = _summed(choices.work, lambda w: w._replace(classes=of(w.classes)))
    arguments = tuple(
        held._replace(classes=of(held.classes), examples=numbers[held.examples]) for held in choices.arguments
    )
    exclusive = tuple(dict.fromkeys(of(classes) for classes in choices.exclusive))
    kept = tuple(move for move in moves if move.made != move.read)
    experts = tuple(dict.fromkeys(of(choices.experts)))
    moments = tuple(tuple(each._replace(classes=of(each.classes)) for each in moment) for moment in choices.moments)
    layers = choices.layers._replace(
        stacked=tuple(each._replace(classes=of(each.classes)) for each in choices.layers.stacked),
        crossing=tuple(each._replace(classes=of(each.classes)) for each in choices.layers.crossing),
    )
    return Choices(tuple(sizes), exclusive, kept, sums, work, arguments, experts, layers, moments)


def _summed(items: Iterable[_Op], renamed: Callable[[_Op], _Op]) -> tuple[_Op, ...]:
    """Items that are equal but for how often they run, once."""
    times: Counter[_Op] = Counter()
    for item in items:
        new = renamed(item)
        times[new._replace(executions=0)] += new.executions
    return tuple(item._replace(executions=count) for item, count in times.items())


def _numbered(choices: Choices, colours: list[int]) -> list[int]:
    """The class of each class. Two that an op or a value has at once stay apart, and so do all of their colour."""
    apart: set[int] = set()
    for classes in choices.exclusive:
        counts = Counter(colours[each] for each in set(classes) if each != WHOLE)
        apart |= {colour for colour, count in counts.items() if count > 1}
    numbers: dict[tuple[int, int], int] = {}
    found = [WHOLE]
    for each in range(1, len(choices.sizes)):
        key = colours[each], each if colours[each] in apart else WHOLE
        found.append(numbers.setdefault(key, len(numbers) + 1))
    return found


def _colours(choices: Choices) -> list[int]:
    facts = list(_facts(choices))
    known: dict[object, int] = {}

    def number(key: object) -> int:
        return known.setdefault(key, len(known))

    colours = [number(size) for size in choices.sizes]
    colours[WHOLE] = number("whole")
    for _ in range(_ROUNDS):
        seen: defaultdict[int, Counter[object]] = defaultdict(Counter)
        for fact, classes in facts:
            here = number((fact, tuple(colours[each] for each in classes)))
            for place, each in enumerate(classes):
                seen[each][here, place] += 1
        own = colours[WHOLE]
        colours = [number((colours[each], frozenset(seen[each].items()))) for each in range(len(colours))]
        colours[WHOLE] = own
    return colours


def _facts(choices: Choices) -> Iterator[tuple[_Fact, Classes]]:
    """Each op, and the classes in it."""
    for classes in choices.exclusive:
        yield ("exclusive", len(classes)), classes
    for move in choices.moves:
        yield ("move", len(move.made), move.bytes, move.executions), move.made + move.read
    for each in choices.sums:
        shape = len(each.made), len(each.kept)
        yield ("sum", *shape, each.bytes, each.executions), each.made + each.kept + each.over
    for work in choices.work:
        yield ("work", work.flops, work.dtype, work.bytes, work.executions), work.classes
    for held in choices.arguments:
        yield ("held", held.bytes, held.examples != WHOLE), held.classes
