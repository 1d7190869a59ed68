"""Remarks that explain a collective of an executable: those about the ops that XLA made it of."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from paropt.hlo.census import KINDS, Collective
from paropt.hlo.origins import Origin
from paropt.modules.summary import FUSE, OF_PRODUCERS, OF_SUMS
from paropt.passes.support.remarks import Remark

_COLLECTIVE_OPS = frozenset(f"{dialect}.{kind.replace('-', '_')}" for kind in KINDS for dialect in ("stablehlo", "sdy"))
_LOOP = "while"
_UNKNOWN = ""  # the loop that an op has left which is in a function that jax outlined: its names begin there
SIZE = re.compile(r"(\d+) bytes\b")  # at the start of a remark
_SUM_KINDS = frozenset({"all-reduce", "reduce-scatter"})
# The kinds that passes speak of where they name another op: sums, or all-gathers. Others may speak of any kind.
_HOIST = "hoist-gathers"
_KINDS = {_HOIST: frozenset({"all-gather"}), **dict.fromkeys(OF_SUMS, _SUM_KINDS)}


class Reason(NamedTuple):
    """A remark about collectives, without its place."""

    pass_name: str
    applied: bool
    text: str


class Explanations:
    """Finds remarks by the labels of collectives."""

    def __init__(self, remarks: Iterable[Remark]) -> None:
        self._by_line: dict[tuple[str, int], list[Remark]] = defaultdict(list)
        self._by_scope: dict[str, list[Remark]] = defaultdict(list)
        self._by_loop: dict[str, list[Remark]] = defaultdict(list)
        self._fused: list[Remark] = []
        self._hoisted: list[Remark] = []  # about loops, of arrays that they no longer gather
        self._at_use: list[Remark] = []  # about loops, of parameters that they gather
        for remark in remarks:
            source = remark.source
            self._by_line[source.file, source.line].append(remark)
            self._by_scope[source.scope].append(remark)
            if remark.pass_name == FUSE and remark.saved is not None:
                self._fused.append(remark)
            if remark.pass_name == _HOIST and remark.applied and source.scope.endswith(_LOOP):
                self._hoisted.append(remark)
            if remark.choices and not remark.applied:
                self._at_use.append(remark)
            if remark.applied and remark.op in _COLLECTIVE_OPS:
                has_left = remark.certificate is not None
                for loop in list(_loops_around(source.scope)) or [_UNKNOWN] * has_left:
                    self._by_loop[loop].append(remark)

    def of(self, collective: Collective, *, is_new: bool = False) -> Iterator[Remark]:
        """The remarks about the op that `collective` comes from, or the ops.

        Of the same kind: one line of Python may gather a parameter and reduce its gradient. Same file and line, and a
        collective or the same name stack: one line of Python makes many ops. Where a remark has no position, or XLA
        combined collectives and kept the names of all and the line of one, the name stack alone. A reduction of which
        nothing is said like that is that of another op of its line and name stack but for the op. A collective that
        `is_new` after a loop, and has the loop's label, is one that passes took out of it.
        """
        labels = _labels(collective)
        kind = "all-gather" if collective.gathers else collective.kind
        found = [remark for label in labels for remark in self._about(label, is_new)]
        if not found and kind in _SUM_KINDS:
            found = [remark for label in labels for remark in self._beside(label)]
        each = {id(remark): remark for remark in found if _is_of_kind(remark, kind)}.values()
        yield from _of_its_arrays(list(each), collective)

    def of_partitioned_op(self, gathers: Iterable[Collective]) -> list[Remark]:
        """The remarks on the sums of ops whose labels these all-gathers have: XLA makes them to partition one."""
        found = [remark for each in gathers for label in _labels(each) for remark in self._about(label, is_new=False)]
        return [remark for remark in dict.fromkeys(found) if remark.pass_name in OF_SUMS]

    def of_fewer(self, collectives: Iterable[Collective]) -> list[Remark]:
        """The remarks on sums of these reductions, of which fewer are left: they are about the additions, elsewhere.

        These are known by the number of reduced arrays and their bytes, of one remark or of all together; or, where
        these reductions are some of those that are added, by the loop of the addition and the bytes of one array.
        """
        own = list(collectives)
        if any(each.kind not in _SUM_KINDS for each in own):
            return []
        size = sum(len(each.arrays) for each in own), sum(each.payload for each in own)
        alone = [remark for remark in self._fused if _fused(remark) == size]
        together = tuple(map(sum, zip(*map(_fused, self._fused), strict=True)))
        return alone[:1] or (self._fused if together == size else [each for each in self._fused if _adds(each, own)])

    def of_sums(self, collectives: Iterable[Collective]) -> list[Remark]:
        """The remarks on reductions that left a loop, of those behind it that are no longer there.

        XLA itself had taken these out of the loop, for GPUs, or made them of others that were in it.
        """
        own = [each for each in collectives if each.kind in _SUM_KINDS and not each.loops and not each.gathers]
        labels = {label for each in own for label in [each.op_name, *(origin.op_name for origin in each.origins)]}
        names = {name for label in labels for name in combined_names(label)}
        loops = {loop for name in names for loop in [*_loops_around(name), *([name] if name.endswith(_LOOP) else [])]}
        found = [remark for loop in loops for end in _ends(loop) for remark in self._by_loop.get(end, ())]
        return [remark for remark in found if _is_of_kind(remark, "all-reduce")]

    def of_new_sums(self, collectives: Iterable[Collective]) -> list[Remark]:
        """The remarks on reductions that left a loop, of those behind it that are labelled by another op.

        Known by their bytes: those of an array that is reduced here; of another loop's only where one sum has as many.
        """
        own = [each for each in collectives if each.kind in _SUM_KINDS and not each.loops]
        sizes = {array.bytes for each in own for array, joined in each.marked_arrays if not joined}
        found = _of_sizes(self.of_sums(own), sizes)
        if found:
            return found
        left = dict.fromkeys(remark for remarks in self._by_loop.values() for remark in remarks)
        alike = _of_sizes((remark for remark in left if _is_of_kind(remark, "all-reduce")), sizes)
        return alike if len({remark.source for remark in alike}) == 1 else []

    def of_hoisted(self, collectives: Iterable[Collective]) -> list[Remark]:
        """The remarks on loops before which parameters are gathered, of all-gathers that were, or are named, in these.

        For all-gathers that are no longer there, or are new: others of the loop stay. XLA makes all-reduces of some.
        """
        gathers = [each for each in collectives if each.kind == "all-gather" or any(each.joined)]
        names = {loop.name for each in gathers for loop in each.loops}
        names |= {loop for each in gathers for name in combined_names(each.op_name) for loop in _loops_around(name)}
        scopes = {end for name in names for end in _ends(name)}
        found = [remark for remark in self._hoisted if remark.source.scope in scopes]
        # XLA of jax 0.12 labels some by the argument, which tells the loop where there is but one.
        of_arguments = any(not each.loops and each.op_name and "/" not in each.op_name for each in gathers)
        return found or (self._hoisted if of_arguments and len(self._hoisted) == 1 else [])

    def of_parameters(self, collectives: Iterable[Collective]) -> list[Remark]:
        """The remarks on parameters that their loops gather, of all-gathers there of one's size, or of equal parts."""
        gathers = [each for each in collectives if each.gathers and each.loops]
        sizes = {array.bytes for each in gathers for array in each.arrays if array.bytes}
        loops = {end for each in gathers for loop in each.loops for end in _ends(loop.name)}
        return [
            remark
            for remark in self._at_use
            if remark.source.scope in loops
            and any(choice.once % size == 0 for choice in remark.choices for size in sizes)
        ]

    def _beside(self, label: Origin) -> Iterator[Remark]:
        """Those on sums of other ops of this line, with its name stack but for the op: XLA may reduce one there."""
        around = {name.rpartition("/")[0] for name in combined_names(label.op_name)}
        scopes = {end for scope in around if scope for end in _ends(scope)}
        for remark in self._by_line.get((label.source_file, label.source_line), ()) if label.source_line else ():
            if remark.pass_name in OF_PRODUCERS and remark.source.scope.rpartition("/")[0] in scopes:
                yield remark

    def _about(self, label: Origin, is_new: bool) -> Iterator[Remark]:
        names = combined_names(label.op_name)
        for name in names:
            for scope in filter(None, _ends(name)):
                found = self._by_scope.get(scope, ())
                yield from (remark for remark in found if len(names) > 1 or not remark.source.line)
            if is_new and name.endswith(_LOOP):
                for loop in _ends(name):
                    yield from self._by_loop.get(loop, ())
        if not label.source_line:
            return
        scopes = {"", *(end for name in names for end in _ends(name))}
        for remark in self._by_line.get((label.source_file, label.source_line), ()):
            if remark.op in _COLLECTIVE_OPS or remark.source.scope in scopes:
                yield remark


def _of_sizes(remarks: Iterable[Remark], sizes: Collection[int]) -> list[Remark]:
    """Those on arrays of so many bytes."""
    return [remark for remark in remarks if (size := SIZE.match(remark.text)) and int(size[1]) in sizes]


def _labels(collective: Collective) -> tuple[Origin, ...]:
    own = Origin(collective.op_name, collective.source_file, collective.source_line)
    return collective.origins or (own,)


def _fused(remark: Remark) -> tuple[int, int]:
    """How many reduced arrays there were, and their bytes per device."""
    assert remark.saved is not None
    return remark.saved.arrays * remark.count, remark.saved.bytes * remark.count


def _adds(remark: Remark, collectives: Iterable[Collective]) -> bool:
    """Whether it is on an addition in the loop of the collectives, of arrays of the size of one that they reduce."""
    assert remark.saved is not None
    loops = {end for loop in _loops_around(remark.source.scope) for end in _ends(loop)}
    return any(
        not loops.isdisjoint(end for loop in each.loops for end in _ends(loop.name))
        and remark.saved.bytes == remark.saved.arrays * array.bytes
        for each in collectives
        for array in each.arrays
    )


def _is_of_kind(remark: Remark, kind: str) -> bool:
    """A reduction may become a scattering one, and the reverse."""
    if remark.op not in _COLLECTIVE_OPS:
        return kind in _KINDS.get(remark.pass_name, {kind})
    own = remark.op.partition(".")[2].replace("_", "-")
    return own == kind or {own, kind} <= _SUM_KINDS


def _of_its_arrays(remarks: list[Remark], collective: Collective) -> list[Remark]:
    """`remarks` without those that begin with the bytes of other arrays, where some begin with the bytes of one of
    `collective`."""
    own = {array.bytes for array in collective.arrays}
    sizes = [int(size[1]) if (size := SIZE.match(remark.text)) else None for remark in remarks]
    if own.isdisjoint(sizes):
        return remarks
    return [remark for remark, size in zip(remarks, sizes, strict=True) if size is None or size in own]


def combined_names(op_name: str) -> list[str]:
    """The names in that of ops which XLA combined: `loop/(a/psum:b/psum)` is `loop/a/psum` and `loop/b/psum`."""
    opened: list[int] = []
    for place, character in enumerate(op_name):
        if character == "(":
            opened.append(place)
        elif character == ")" and opened:
            start = opened.pop()
            parts = _parts(op_name[start + 1 : place])
            if len(parts) > 1:
                written_out = (op_name[:start] + part + op_name[place + 1 :] for part in parts)
                return list(dict.fromkeys(name for each in written_out for name in combined_names(each)))
    return _parts(op_name)


def _parts(text: str) -> list[str]:
    """`text` at the colons that are in no parentheses; one at the end is no separator."""
    parts, depth = [""], 0
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == ":" and depth == 0 and place + 1 < len(text):
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _ends(name: str) -> Iterator[str]:
    """`name`, and its ends without the first parts: XLA's names start further out than those of a remark."""
    yield name
    for place, character in enumerate(name):
        if character == "/":
            yield name[place + 1 :]


def _loops_around(scope: str) -> Iterator[str]:
    """The names of the loops in whose bodies an op with this name stack is."""
    start = scope.find(f"{_LOOP}/body")
    while start >= 0:
        yield scope[: start + len(_LOOP)]
        start = scope.find(f"{_LOOP}/body", start + 1)


def reasons(remarks: Iterable[Remark], is_gone: bool) -> tuple[Reason, ...]:
    """The passes' reasons on collectives: of those that are gone, how; of others, first why they stayed."""
    found = dict.fromkeys(Reason(remark.pass_name, remark.applied, remark.text) for remark in remarks)
    applied = [reason for reason in found if reason.applied]
    missed = [reason for reason in found if not reason.applied]
    return tuple(applied or missed if is_gone else [*missed, *applied])
