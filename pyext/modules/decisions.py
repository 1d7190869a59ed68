"""What passes decide about each parameter and each sum of a step, as a table: bytes sent and held either way.

It is read from the remarks of two runs: with the pipeline that is asked for, and with one that may hold all.
Never imports jax.

Tests: test/unit/pyext/modules/test_decisions.py, test/par-opt/decisions.mlir.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple

from paropt.base.wording import counted, size_text
from paropt.modules.other_policies import ALL_ONCE, with_policy
from paropt.modules.summary import OF_PRODUCERS, journeys, reason_parts
from paropt.passes import DEFAULT_PIPELINE
from paropt.passes.decisions.sum_decisions import STAYS_SHARDED
from paropt.passes.sharding.collectives import REDUCTIONS
from paropt.passes.support.pipeline import Pipeline
from paropt.passes.support.remarks import RefusedError, Remark
from paropt.passes.support.sources import Source

AT_USE = "the policy gathers parameters where they are read, and holds none"
IN_LOOPS = "the policy keeps it sharded"
_HOOK, _STAYS = "paropt", "stays as it was"  # the remark where XLA alone has the last word
_OF_SUMS = OF_PRODUCERS | {"defer-sync"}
_HEAD = ("", "array", "where", "in loops", "once", "held more", "decided", "reason")


class Decision(NamedTuple):
    """A parameter, or all sums of one source line about which the same is decided; bytes per device and step."""

    what: Literal["parameter", "sum"]
    name: str  # of a parameter, as the program calls it; of a sum, the op that makes it, as jax calls it
    place: Source  # of a parameter, of the loop that reads it
    arrays: int
    in_loops: int | None  # bytes gathered or reduced in all trips of loops; None where the passes do not count them
    once: int | None  # the same outside of loops
    held: int | None  # that a device holds more, where it is once
    is_once: bool
    reason: str  # why it is not once; "" where it is

    @property
    def row(self) -> tuple[str, ...]:
        """Its cells, as text."""
        sizes = ("-" if size is None else size_text(size) for size in (self.in_loops, self.once, self.held))
        where = f"{self.place.file.rpartition('/')[2]}:{self.place.line}" if self.place.file else "-"
        what = self.what if self.arrays == 1 else counted(self.arrays, self.what)
        return (what, self.name, where, *sizes, self._decided, self.reason)

    @property
    def _decided(self) -> str:
        stays = "as it is" if self.in_loops is None else "in loops"
        return "once" if self.is_once else stays


class Decisions(tuple[Decision, ...]):
    """Parameters first, then sums, in program order. As text, a table."""

    __slots__ = ()

    def __str__(self) -> str:
        if not self:
            return "nothing is decided: the passes found no parameter and no sum"
        rows = [_HEAD, *(each.row for each in self)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(_HEAD) - 1)]
        lines = ["  ".join([*map(str.ljust, row[:-1], widths), row[-1]]).rstrip() for row in rows]
        return "\n".join(lines)


def decided(
    pipeline: Pipeline, run: Callable[[Pipeline], Iterable[Remark]], found: Iterable[Remark] | None = None
) -> Decisions:
    """The decisions of `pipeline`, if it is empty of `grad-sync`. `run` runs a pipeline on the module as it was.

    `found` are the remarks of the program that runs, if they are known: a compiler may have the last word.

    Raises RefusedError where no pass of the pipeline has a policy.
    """
    asked = pipeline if pipeline.stages else Pipeline.parse(DEFAULT_PIPELINE)
    with_all = with_policy(asked, ALL_ONCE)
    if with_all is None:
        raise RefusedError(
            f"decisions: no pass of `{asked.title}` gathers or reduces once; `grad-sync` has such passes"
        )
    return decisions(run(asked) if found is None else found, run(with_all))


def decisions(found: Iterable[Remark], possible: Iterable[Remark]) -> Decisions:
    """The decisions that the remarks `found` tell, beside those with room for everything, `possible`."""
    ours, theirs = list(found), list(possible)
    kept = next((remark.text for remark in ours if remark.pass_name == _HOOK and _STAYS in remark.text), "")
    return Decisions([*_parameters(ours, theirs, kept or AT_USE), *_sums(ours, theirs, kept or IN_LOOPS)])


def _parameters(found: list[Remark], possible: list[Remark], by_policy: str) -> Iterable[Decision]:
    once, stays = _gathers(found, applied=True), _gathers(found, applied=False)
    could, never = _gathers(possible, applied=True), _gathers(possible, applied=False)
    for name in once | stays | could | never:
        if name in once:
            yield once[name].decision(name, "", is_once=True)
        if name in stays:  # over some axes, perhaps, where it is once over others
            yield stays[name].decision(name, _reason(stays[name].remark), is_possible=name in could)
        elif name in could and name not in once:
            yield could[name].decision(name, by_policy)
        elif name not in once:
            yield never[name].decision(name, _reason(never[name].remark), is_possible=False)


class _Gathers(NamedTuple):
    """The gathers of the parameters that have one name."""

    arrays: int
    in_loops: int
    once: int
    remark: Remark  # the first on them

    def decision(self, name: str, reason: str, *, is_once: bool = False, is_possible: bool = True) -> Decision:
        once = self.once if is_possible else None
        return Decision("parameter", name, self.remark.source, self.arrays, self.in_loops, once, once, is_once, reason)


def _gathers(remarks: Iterable[Remark], *, applied: bool) -> dict[str, _Gathers]:
    found: dict[str, _Gathers] = {}
    for remark in remarks:
        for choice in remark.choices if remark.applied is applied else ():
            count = remark.count
            before = found.get(choice.name, _Gathers(0, 0, 0, remark))
            in_loops, once = before.in_loops + count * choice.in_loops, before.once + count * choice.once
            found[choice.name] = _Gathers(before.arrays + count, in_loops, once, before.remark)
    return found


def _reason(remark: Remark) -> str:
    option, reason, _ = reason_parts(remark)
    return f"{option}{reason}".partition("; at use, ")[0]


class _Sums(NamedTuple):
    """The sums of one place that leave loops."""

    arrays: int
    in_loops: int
    once: int
    held: int

    def __sub__(self, other: "_Sums") -> "_Sums":
        return _Sums(*(max(mine - its, 0) for mine, its in zip(self, other, strict=True)))


_NONE = _Sums(0, 0, 0, 0)


def _sums(found: list[Remark], possible: list[Remark], by_policy: str) -> Iterable[Decision]:
    ours, theirs, why = _leaving(found), _leaving(possible), _reasons(found)
    names = {place: op for op, place in _places([*found, *possible])}
    for place in sorted({*ours, *theirs, *why}, key=lambda place: (place.file, place.line, place.column)):
        leaves, most = ours.get(place, _NONE), theirs.get(place, _NONE)
        stays = most - leaves
        if not stays.arrays:  # only a budget has passes tell the bytes that are held
            leaves = leaves._replace(held=max(leaves.held, most.held))
        name = place.scope.rpartition("/")[2] or names[place].partition(".")[2]
        if leaves.arrays:
            yield Decision("sum", name, place, *leaves, is_once=True, reason="")
        reason = next(iter(why.get(place, ())), by_policy)
        sharded = next((each for each in why.get(place, ()) if each.endswith(STAYS_SHARDED)), "")
        if stays.arrays:
            yield Decision("sum", name, place, *stays, is_once=False, reason=reason)
        elif leaves.arrays and sharded:  # what leaves are shards, reduced over other axes
            yield Decision("sum", name, place, *most._replace(held=stays.held), is_once=False, reason=sharded)
        elif not leaves.arrays:
            yield Decision("sum", name, place, len(why[place]), None, None, None, is_once=False, reason=reason)


def _places(remarks: Iterable[Remark]) -> Iterable[tuple[str, Source]]:
    """The op that makes each sum, which the passes of `OF_PRODUCERS` name; before those, the reductions."""
    told = [remark for remark in remarks if remark.pass_name in _OF_SUMS]
    yield from sorted(
        ((remark.op, remark.source) for remark in told), key=lambda each: each[0] in REDUCTIONS, reverse=True
    )


def _leaving(remarks: list[Remark]) -> Mapping[Source, _Sums]:
    """By place; a loop of unknown trips counts as one that makes one."""
    held: defaultdict[Source, int] = defaultdict(int)
    for remark in remarks:
        held[remark.source] += remark.held * remark.count if remark.pass_name in _OF_SUMS else 0
    found: dict[Source, _Sums] = {}
    for each in journeys(remarks):
        arrays, in_loops, once, _ = found.get(each.place, _NONE)
        saved = each.saved
        found[each.place] = _Sums(
            arrays + each.times * saved.arrays,
            in_loops + each.times * saved.bytes * (saved.trips or 1),
            once + each.times * saved.bytes_after,
            held[each.place],
        )
    return found


def _reasons(remarks: Iterable[Remark]) -> Mapping[Source, list[str]]:
    """Why sums stay in loops, by place: the passes decline some other ops, too, of which no reduction is there."""
    found: defaultdict[Source, list[str]] = defaultdict(list)
    for remark in remarks:
        if remark.pass_name in _OF_SUMS and not remark.applied:
            found[remark.source] += [_reason(remark)] * remark.count
    return found
