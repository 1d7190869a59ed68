"""Remarks for readers: a summary of the savings, then each decision once. Never imports jax."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from pathlib import PurePath
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.sharding.collectives import REDUCTIONS
from paropt.passes.spmd.unsynced import reason
from paropt.passes.support.pipeline import Pipeline
from paropt.passes.support.remarks import Declined, Remark, Saved, merged, missed
from paropt.passes.support.sources import Source

_DEFER, FUSE, _INLINE, _ANNOTATE = "defer-sync", "fuse-all-reduces", "inline-calls", "annotate-unreduced"
_EXPOSE, _SEPARATE = "expose-all-reduces", "separate-reductions"
OFFER = "policy"  # not a pass: reductions that stay in loops, and another policy's effect on them

_BLAMED = re.compile(r"(.*)( \([\w.-]+ at .*\))")  # at the end of a reason: an op and its place
_OPTION = re.compile(r" \((option [^()]+)\)")
_PLACES_SHOWN = 3

# The passes whose remarks name the ops that make sums over devices, before there are reductions.
OF_PRODUCERS = frozenset({_SEPARATE, _EXPOSE})
# The passes that say something wherever there is a sum over devices.
OF_SUMS = frozenset({_DEFER, FUSE, _ANNOTATE, *OF_PRODUCERS, "simplify-all-reduces", "compose-all-reduces"})


class Remarks(tuple[Remark, ...]):
    """The decisions of passes, in order.

    As text: reductions that stay in loops and a summary first, then the ops that keep these there; no word on inlined
    calls, and one line for all that is declined for one reason.
    """

    __slots__ = ()

    @property
    def summary(self) -> str:
        """One line on the reductions that moved; "" where there were none."""
        return summary(self)

    @property
    def offer(self) -> str:
        """One line on reductions that stay in loops, and the bytes that another policy would send and hold; "" without
        any."""
        return next((remark.text for remark in self if remark.pass_name == OFFER), "")

    @property
    def shown(self) -> "Remarks":
        """Those worth reading: without inlined calls, and without those that tell again where a reduction went."""
        return Remarks(shown(self))

    def matching(self, pattern: str) -> "Remarks":
        """Those of the passes whose name matches a regular expression: `--remarks-filter` of par-opt.

        Raises ValueError, with the position, for an invalid regular expression.
        """
        try:
            wanted = re.compile(pattern)
        except re.error as error:
            raise ValueError(f"Remarks.matching: {pattern!r} is no regular expression: {error}") from error
        return Remarks(remark for remark in self if wanted.search(remark.pass_name))

    def __str__(self) -> str:
        others = grouped(sorted((r for r in self.shown if r.pass_name != OFFER), key=lambda r: not _is_obstacle(r)))
        return "\n".join([line for line in (self.offer, self.summary, *others) if line])


def _is_obstacle(remark: Remark) -> bool:
    """Whether it names the op for which a reduction stays in a loop: others may stay only because that one does. Or it
    is on all reductions of a program."""
    if remark.pass_name == _DEFER and remark.op == "builtin.module":
        return True
    is_kept = remark.pass_name == _DEFER and not remark.applied and remark.op in REDUCTIONS
    return is_kept and _BLAMED.search(remark.text) is not None


def with_nothing_found(remarks: Iterable[Remark], module: ir.Operation, pipeline: Pipeline) -> list[Remark]:
    """`remarks`, each once; and where the pipeline was to synchronise but found no sum over devices, one on that."""
    found = merged(remarks)
    if not is_of_sums(pipeline) or any(remark.pass_name in OF_SUMS for remark in found):
        return found
    return [*found, missed("paropt", module, Declined(f"the program has nothing to synchronise: {reason(module)}"))]


def is_of_sums(pipeline: Pipeline) -> bool:
    """Whether it is a whole pipeline for gradients, as `grad-sync` is, and not a pass alone."""
    return {_INLINE, _DEFER} <= set(pipeline.pass_names)


def summary(remarks: Iterable[Remark]) -> str:
    """How many reduced arrays left loops or became fewer, and the bytes, per device and step, before and after."""
    found = list(remarks)
    moved = journeys(found)
    extremes = [r for r in found if r.pass_name == _SEPARATE and r.saved is not None and not _has_moved(r)]
    moved += [Journey(r.count, _saved(r), r.source) for r in extremes]
    fused = [remark for remark in found if remark.pass_name == FUSE and remark.saved is not None]
    stayed = {(r.source, r.op) for r in found if r.pass_name == _DEFER and not r.applied and r.op in REDUCTIONS}
    parts = []
    if moved or stayed:
        count = sum(each.times * each.saved.arrays for each in moved)
        verb = f"leave{'s' * (count + len(stayed) == 1)}"
        parts.append(f"{count} of {_arrays(count + len(stayed))} {verb} the loop{_in_loops(moved)}")
    if fused:
        saved = [(remark.count, _saved(remark)) for remark in fused]
        before, after = sum(n * s.arrays for n, s in saved), sum(n * s.arrays_after for n, s in saved)
        sizes = _size(sum(n * s.bytes for n, s in saved)), _size(sum(n * s.bytes_after for n, s in saved))
        verb = f"become{'s' * (before == 1)} {after if after < before else 'smaller'}"
        parts.append(f"{_arrays(before)} {verb}: {sizes[0]} -> {sizes[1]}")
    return "; ".join(parts)


def shown(remarks: Iterable[Remark], asked_for: Collection[str] = ()) -> list[Remark]:
    """`remarks` without inlined calls, and without those on where a sum is reduced whose move is told already.

    All are there of the passes that are `asked_for` by name.
    """
    found = list(remarks)
    moved = {r.source for r in found if _has_moved(r) or (r.pass_name == _DEFER and r.applied)}

    def is_shown(remark: Remark) -> bool:
        told = remark.pass_name == _INLINE or (remark.pass_name == _ANNOTATE and remark.source in moved)
        return not (told and remark.applied) or remark.pass_name in asked_for

    return [remark for remark in found if is_shown(remark)]


def grouped(remarks: Iterable[Remark]) -> list[str]:
    """A line for each, in order. Remarks that decline ops of one kind for one reason share a line, at the first of
    them.

    An option that would change the decision is told before its reason.
    """
    groups: dict[object, list[Remark]] = {}
    for number, remark in enumerate(remarks):
        key = number if remark.applied else (remark.pass_name, remark.op, *reason_parts(remark)[:2])
        groups.setdefault(key, []).append(remark)
    return [str(group[0]) if group[0].applied else _declined(group) for group in groups.values()]


def _declined(group: list[Remark]) -> str:
    first = group[0]
    option, reason, blamed = reason_parts(first)
    text = f"[{first.pass_name}] {first.op} missed: {option}{reason}{blamed}"
    position = first.source._replace(scope="")
    scope = f" ({first.source.scope})" if first.source.scope else ""
    others = list(dict.fromkeys(f"{PurePath(r.source.file).name}:{r.source.line}" for r in group[1:] if r.source.file))
    also = f"; also at {', '.join(others[:_PLACES_SHOWN])}{', ...' * (len(others) > _PLACES_SHOWN)}" if others else ""
    count = sum(remark.count for remark in group)
    return f"{position}: remark: {text}{scope}{f' ({count} times{also})' if count > 1 else ''}"


def reason_parts(remark: Remark) -> tuple[str, str, str]:
    """The option that would change it, as in `option convert=any allows it: `; the reason; and the op to blame."""
    found = _BLAMED.fullmatch(remark.text)
    reason, blamed = (found[1], found[2]) if found else (remark.text, "")
    option = _OPTION.search(reason)
    return (f"{option[1]}: ", _OPTION.sub("", reason, count=1), blamed) if option else ("", reason, blamed)


def _has_moved(remark: Remark) -> bool:
    """Whether it is on a reduction that left a loop; `separate-reductions` takes some out of loops in blocks."""
    return remark.saved is not None and remark.certificate is not None


def _saved(remark: Remark) -> Saved:
    assert remark.saved is not None
    return remark.saved


def _arrays(count: int) -> str:
    return f"{count} reduced array{'s' * (count != 1)}"


class Journey(NamedTuple):
    """An array that left a loop, or one loop after the other."""

    times: int  # that there is one
    saved: Saved
    place: Source  # where it was reduced first
    loops: int = 1


def journeys(remarks: Iterable[Remark]) -> list[Journey]:
    """Of the arrays that left loops, as `remarks` tell."""
    found: list[Journey] = []
    arrived: defaultdict[object, list[int]] = defaultdict(list)  # by where it is now: which of `found`
    for remark in filter(_has_moved, remarks):
        saved, certificate = _saved(remark), remark.certificate
        assert certificate is not None, "a reduction that moved has one"
        there = arrived[remark.source, certificate.moved_from] if certificate.moved_from else []
        if not there:
            inner = len(found)
            found.append(Journey(remark.count, saved, remark.source))
        else:
            inner = min(there, key=lambda i: found[i].saved.bytes_after != saved.bytes)  # several, of one source line
            there.remove(inner)
            before, loops = found[inner].saved, found[inner].loops
            trips = None if before.trips is None or saved.trips is None else before.trips * saved.trips
            both = before._replace(trips=trips, arrays_after=saved.arrays_after, bytes_after=saved.bytes_after)
            found[inner] = found[inner]._replace(saved=both, loops=loops + 1)
        arrived[remark.source, certificate.moved_to].append(inner)
    return found


def _in_loops(moved: list[Journey]) -> str:
    """`: 1.9 MB x 4 -> 441 kB x 1`; the trips are left out where they are not the same for all, or not known."""
    if not moved:
        return ""
    trip = sum(each.times * each.saved.bytes for each in moved)
    after = sum(each.times * each.saved.bytes_after for each in moved)
    trips = {each.saved.trips for each in moved}
    if len(trips) > 1 or None in trips:
        return f": {_size(trip)} in each trip -> {_size(after)} x 1"
    return f": {_size(trip)} x {trips.pop()} -> {_size(after)} x 1"


def _size(size: int) -> str:
    from paropt.base.wording import size_text  # here: most runs do not need the reports

    return size_text(size)
