"""The comparison of an executable's reductions with those that its module asks for.

`annotate-unreduced` tells XLA by sharding constraints which values are unreduced. A compiler that loses one of them
computes something else, without a word: a value is reduced in a loop where nothing asks for it, or nowhere. Either
shows in the collectives of the executable. docs/jit.md lists the findings.
"""

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.hlo.census import SYNC_KINDS, Collective
from paropt.verify.predictions import ANY_GROUP, Key, Prediction, Reduced, prediction
from paropt.verify.tags import adds_tags, gaps, known_of

_MANY_SIZES = 10_000  # to try sums of more takes seconds


class Mismatch(NamedTuple):
    """Where what an executable reduces is not what was predicted."""

    text: str
    key: Key  # of the values in doubt; 0 elements for any

    def is_of(self, key: Key) -> bool:
        known = self.key.elements in (0, key.elements) and self.key.group == key.group
        return known and (not self.key.axes or not key.axes or self.key.axes == key.axes)


def differences(
    before: ir.Operation, after: ir.Operation, collectives: Iterable[Collective], alone: Iterable[Collective] = ()
) -> list[str]:
    """In words, where the executable with these collectives differs from the module `after`; empty when they agree.

    `alone` are those of the executable of `before`. Where the passes have added no tags to `before`, only the gaps that
    they have added are listed.
    """
    known = known_of(before)
    wrong = gaps(after, known.gaps)
    if not adds_tags(after, known):
        return wrong
    return [*wrong, *mismatches(prediction(after), collectives, alone)]


def mismatches(predicted: Prediction, collectives: Iterable[Collective], alone: Iterable[Collective] = ()) -> list[str]:
    """In words, where the reductions of an executable differ from the prediction; empty when they fit."""
    return [mismatch.text for mismatch in doubts(predicted, collectives, alone)]


def doubts(
    predicted: Prediction, collectives: Iterable[Collective], alone: Iterable[Collective] = ()
) -> list[Mismatch]:
    """Where the reductions of an executable differ from the prediction; empty when they fit.

    Compilers unroll loops, move reductions out of them, and concatenate arrays. So arrays are counted by how often they
    are reduced, wherever that is, and missing ones may be part of unexplained arrays. Reductions that the baseline
    executable, `alone`, has beside the moved ones are allowed here, too.
    """
    found, by_itself = (
        [reduced for c in each if c.kind in SYNC_KINDS for reduced in _reduced_by(c)] for each in (collectives, alone)
    )
    if any(reduced.group > 1 and not reduced.axes for reduced in (*found, *by_itself)):
        predicted = predicted.without_axes()
    if _fits(predicted, found):
        return []
    outside, closings = _outside(found), _outside(predicted.closings)
    return [
        *_unasked(predicted, predicted.others, _apart(found, closings), by_itself),
        *_lacking(closings, outside, predicted.others),
        *_lacking(predicted.kept, found, predicted.closings),
    ]


def _outside(reductions: Iterable[Reduced]) -> list[Reduced]:
    """Those that are in no loop."""
    return [reduced for reduced in reductions if not reduced.in_loop]


def _apart(found: list[Reduced], closings: list[Reduced]) -> list[Reduced]:
    """`found`, where an array outside of loops that has the size of all missing sums is replaced with these.

    So a compiler that concatenates two sums makes an array that may have the size of a third one.
    """
    apart = list(found)
    for matched in _matched(closings, _outside(found)):
        is_known = matched.lacking and all(reduced.fewest == reduced.most for reduced in matched.lacking)
        one = next((there for there in matched.unused if is_known and _is_joined(there, matched.lacking, [])), None)
        if one is not None:
            apart.remove(one)
            apart += matched.lacking
    return apart


def _fits(predicted: Prediction, found: list[Reduced]) -> bool:
    """Whether an executable has the reductions that the module asks for and none in doubt, whatever its compiler may
    add.

    The compiler's additions take a propagation of shardings to know, and could only explain reductions in doubt.
    """
    closings = _outside(predicted.closings)
    if next(_unasked(predicted, (), _apart(found, closings), []), None) is not None:
        return False
    asked = [(closings, _outside(found)), (predicted.kept, found)]
    return all(_is_there(matched) for pair in asked for matched in _matched(*pair))


def _is_there(matched: "_Matched") -> bool:
    """Whether all that is asked for is found, array by array but for those that are concatenated."""
    lacking = matched.lacking
    return not lacking or any(_is_joined(there, lacking, []) for there in matched.unused)


def _unasked(
    predicted: Prediction, others: Sequence[Reduced], found: list[Reduced], alone: list[Reduced]
) -> Iterator[Mismatch]:
    """Reductions that nothing in the module asks for, and a lost constraint would cause; `others` are allowed, too."""
    if predicted.are_floats:
        found, alone = ([reduced for reduced in each if not reduced.is_exact] for each in (found, alone))
    allowed = [*predicted.closings, *others]
    stacked = [reduced.stacked() for reduced in others if reduced.in_loop and reduced.times < inf]
    for key, place in predicted.unreduced.items():
        for runs, asked, where in _counted(key, found, [*allowed, *stacked], key in predicted.in_loops):
            if runs > asked and not (key in predicted.in_loops and _is_alike_alone(key, predicted, found, alone)):
                what = f"{_named(key)} runs {runs:g} times {where}, not {asked:g} times"
                yield Mismatch(f"{what}: maybe the value at {place}{_seen(key, found)}", key)
                break
    for group, axes in dict.fromkeys((key.group, key.axes) for key in predicted.unreduced if key in predicted.in_loops):
        there = [reduced for reduced in found if reduced.in_loop and reduced.is_over(group, axes)]
        unknown = [reduced for reduced in there if not _is_explained(reduced, allowed)]
        explained = sum(reduced.most * reduced.times for reduced in there if reduced not in unknown)
        alike = [reduced for reduced in allowed if reduced.in_loop and reduced.is_over(group, axes)]
        asked = sum(reduced.most * reduced.times for reduced in alike)
        if sum(reduced.most * reduced.times for reduced in unknown) <= max(0, asked - explained):
            continue
        if not _are_alike_alone(unknown, predicted, there, [each for each in alone if each.is_over(group, axes)]):
            text = f"{_named(_key(unknown[0]))} runs in loops, which no value of the module explains"
            yield Mismatch(f"{text}{_seen(_key(unknown[0]), unknown)}", Key(0, group, axes))


def _is_alike_alone(key: Key, predicted: Prediction, found: list[Reduced], alone: list[Reduced]) -> bool:
    """Whether the baseline executable reduces such arrays as often, beside those that have moved."""
    moved = predicted.moved[key].times if key in predicted.moved else 0.0
    inside, everywhere = (_times(key, found, place) for place in (True, False))
    asked = min(_times(key, predicted.closings, False), everywhere - inside)
    is_in_loops = inside + moved <= _times(key, alone, True)
    return is_in_loops and everywhere - asked + moved <= _times(key, alone, False)


def _are_alike_alone(unknown: list[Reduced], predicted: Prediction, found: list[Reduced], alone: list[Reduced]) -> bool:
    """The same of arrays of a size that nothing has, where the total that loops reduce is less by the moved sums,
    too."""
    inside = [reduced for reduced in alone if reduced.in_loop]
    if any(_times(_key(each), found, True) > _times(_key(each), inside, True) for each in unknown):
        return False
    moved = sum(key.elements * each.times for key, each in predicted.moved.items() if unknown[0].is_over(*key[1:]))
    return _volume(found) + moved <= _volume(inside)


def _volume(reductions: Iterable[Reduced]) -> float:
    return sum(reduced.most * reduced.times for reduced in reductions)


def _seen(key: Key, found: Iterable[Reduced]) -> str:
    """A reduction of the executable with this key, in words; those in loops first."""
    names = [each.name for each in sorted(found, key=lambda each: not each.in_loop) if each.fits(key)]
    return f" ({names[0]})" if names else ""


def _counted(key: Key, found: list[Reduced], allowed: list[Reduced], in_loops: bool) -> list[tuple[float, float, str]]:
    """How often such reductions run and may run, and where: in loops and in all, or else only after loops."""
    inside, everywhere = ((_times(key, found, place), _times(key, allowed, place)) for place in (True, False))
    if in_loops:
        return [(*inside, "in loops"), (*everywhere, "in all")]
    after = _times(key, [reduced for reduced in allowed if not reduced.in_loop], False)
    return [(everywhere[0] - inside[0], max(after, everywhere[1] - inside[0]), "after loops")]


class _Matched(NamedTuple):
    """The reductions asked for over the same devices, against those found over them."""

    group: int
    axes: frozenset[str]
    asked: list[Reduced]
    lacking: list[Reduced]  # those of these that are not found
    unused: list[Reduced]  # found, and not asked for


def _matched(asked: Sequence[Reduced], found: list[Reduced]) -> Iterator[_Matched]:
    for group, axes in dict.fromkeys((reduced.group, reduced.axes) for reduced in asked if reduced.group > 1):
        of_group = [reduced for reduced in asked if (reduced.group, reduced.axes) == (group, axes)]
        matched = _Matched(group, axes, of_group, [], [reduced for reduced in found if reduced.is_over(group, axes)])
        added = set[int]()  # additions of which one term is found
        for reduced in sorted(of_group, key=lambda r: r.most - r.fewest):  # those that fit least first
            one = next((there for there in matched.unused if reduced.fits(_key(there))), None)
            if one is None:
                matched.lacking.append(reduced)
            else:
                matched.unused.remove(one)
                added |= {reduced.addition} - {0}
        yield matched._replace(lacking=[reduced for reduced in matched.lacking if reduced.addition not in added])


def _lacking(asked: Sequence[Reduced], found: list[Reduced], others: Iterable[Reduced]) -> Iterator[Mismatch]:
    """Those of `asked` that are not among `found`, where `others` may be, too."""
    others = tuple(others)
    for group, axes, of_group, lacking, unused in _matched(asked, found):
        unknown = sum(
            there.most for there in unused if not _is_explained(there, others) or _holds_some(there, lacking, others)
        )
        there_too = [reduced for reduced in of_group if reduced not in lacking]
        joined = any(_is_joined(there, lacking, [*there_too, *others]) for there in unused)
        if sum(reduced.fewest for reduced in lacking) > unknown and not joined:
            text = f"{_named(_key(lacking[0]))} is missing, one of {len(lacking)}"
            yield Mismatch(text, Key(0, group, axes))


def _is_joined(found: Reduced, arrays: list[Reduced], others: list[Reduced]) -> bool:
    """Whether `found` may be all of `arrays` in one, and some of the `others` with them."""
    alike = [reduced for reduced in others if reduced.in_loop == found.in_loop and reduced.is_over(*_key(found)[1:])]
    rest = found.most - sum(reduced.most for reduced in arrays)
    return rest == 0 or (0 < rest <= sum(reduced.most for reduced in alike) and not _is_explained(found, alike))


def _holds_some(found: Reduced, arrays: Iterable[Reduced], others: Iterable[Reduced]) -> bool:
    """Whether the size of `found` is that of some of `arrays`, and maybe of `others` over the same devices, in one.

    Others of any size and over any devices would explain every array, and so are left out. Compilers move reductions
    out of loops, too: the sum of others in loops may be in an array outside.
    """
    known = [reduced for reduced in others if reduced.group != ANY_GROUP and reduced.in_loop >= found.in_loop]
    known = [reduced for reduced in known if reduced.is_over(found.group, found.axes)]
    if any(found.most in (reduced.fewest, reduced.most) for reduced in known):
        return False
    without, holding = {0}, set[int]()  # sizes of some of `known`, and of these with some of `arrays`
    for reduced in known:
        without |= _one_more(without, reduced, found.most)
    for reduced in arrays:
        holding |= _one_more(without | holding, reduced, found.most)
    return found.most in holding


def _one_more(sizes: set[int], term: Reduced, most: int) -> set[int]:
    """Elements, `most` at most, of each of `sizes` with `term`; none where there are very many."""
    if len(sizes) > _MANY_SIZES:
        return set()
    added = {size + more for size in sizes for more in (term.fewest, term.most)}
    return {size for size in added if size <= most}


def _is_explained(found: Reduced, predicted: Iterable[Reduced]) -> bool:
    return any(reduced.fits(_key(found)) for reduced in predicted)


def _named(key: Key) -> str:
    return f"a reduction of {key.elements} elements over {key.group} devices"


def _key(reduced: Reduced) -> Key:
    return Key(reduced.most, reduced.group, reduced.axes)


def _times(key: Key, reductions: Iterable[Reduced], in_loop: bool) -> float:
    return sum(reduced.times for reduced in reductions if reduced.fits(key) and reduced.in_loop >= in_loop)


def _reduced_by(collective: Collective) -> Iterator[Reduced]:
    times = collective.executions
    axes = frozenset(collective.axes)
    joined = collective.joined or (False,) * len(collective.arrays)
    for array, is_joined in zip(collective.arrays, joined, strict=True):
        if is_joined:
            continue  # an all-gather
        size = array.elements
        runs = 1 if times is None else times
        is_exact = not array.dtype.startswith(("f", "bf", "c"))
        in_loop, name = collective.depth > 0, _name(collective)
        yield Reduced(size, size, collective.group, in_loop, runs, axes, name, is_exact=is_exact)


def _name(collective: Collective) -> str:
    place = f" of {collective.source_file}:{collective.source_line}" if collective.source_file else ""
    return f"{collective.name}{place}"
