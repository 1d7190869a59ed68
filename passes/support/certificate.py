"""Certificates: the reasons why a reduction may stand where a pass put it, as data, for `--certificate` and remarks.

Plain values only, so that it outlives the module. The fields are documented in docs/certificate.md.
"""

from typing import Any, NamedTuple

from paropt.passes.support.sources import Source


class Scope(NamedTuple):
    """An op around a reduction, in whose region it is."""

    op: str
    source: Source
    trips: int | None  # of a loop, where known


class Step(NamedTuple):
    """An op that is now done before the reduction, and the law that allows it."""

    op: str
    source: Source
    law: str


class Uniform(NamedTuple):
    """A value that is the same on all devices of each group: its role, the op that uses it, and why it is uniform."""

    role: str
    op: str
    source: Source
    why: str


class Within(NamedTuple):
    """A branch in the loop that needs the sum reduced: it is reduced in there, too."""

    op: str
    source: Source
    bytes: int  # per device, each time
    runs: int | None  # in one execution of the loop; None: not known


class Certificate(NamedTuple):
    """One reduction that moved."""

    form: str  # manual: a collective of the program; global: one that a sharding implies
    kind: str  # the op
    combiner: str
    element_type: str  # that the program reduced
    bytes: int  # per device, each time
    runs: int | None  # in one execution of the innermost scope that it left; None: not known
    bytes_after: int  # per device, of the reductions that close the values that it led to
    groups: tuple[tuple[int, ...], ...]  # () for all devices
    axes: tuple[str, ...] | None  # None: not those of mesh axes
    source: Source
    moved_from: tuple[Scope, ...]  # outermost first
    moved_to: tuple[Scope, ...]
    chain: tuple[Step, ...]
    uniform: tuple[Uniform, ...]
    branches: tuple[Within, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in ("form", "kind", "combiner", "element_type")},
            **{name: getattr(self, name) for name in ("bytes", "runs", "bytes_after")},
            "groups": [list(group) for group in self.groups],
            "axes": None if self.axes is None else list(self.axes),
            "source": self.source._asdict(),
            "from": [_with_source(scope) for scope in self.moved_from],
            "to": [_with_source(scope) for scope in self.moved_to],
            "chain": [_with_source(step) for step in self.chain],
            "uniform": [_with_source(fact) for fact in self.uniform],
            "branches": [_with_source(each) for each in self.branches],
        }


def _with_source(given: Scope | Step | Uniform | Within) -> dict[str, Any]:
    return {**given._asdict(), "source": given.source._asdict()}
