"""The bytes that a device sends, by which executables of one program are compared."""

from collections.abc import Iterable
from typing import NamedTuple

from paropt.hlo.census import Collective


class Traffic(NamedTuple):
    """The bytes that a device sends, by which executables of one program are compared. Fewer is less."""

    unknown: float  # bytes per iteration, in loops of unknown trip counts
    known: float  # bytes per step, in all other places

    def __str__(self) -> str:
        loops = f" and {self.unknown:.0f} per iteration of loops with unknown trip counts" if self.unknown else ""
        return f"{self.known:.0f} bytes per device and step{loops}"


def traffic(collectives: Iterable[Collective]) -> Traffic:
    """The sum over `collectives`, scalars and branches of conditionals included."""
    unknown = known = 0.0
    for collective in collectives:
        executions = collective.executions
        unknown += collective.wire_bytes if executions is None else 0
        known += collective.wire_bytes * (executions or 0)
    return Traffic(unknown, known)


def traffic_by_axes(collectives: Iterable[Collective]) -> dict[tuple[str, ...], Traffic]:
    """The same for each set of mesh axes that collectives span: links of one kind, where an axis is of hosts."""
    found = list(collectives)
    return {
        axes: traffic(collective for collective in found if collective.axes == axes)
        for axes in dict.fromkeys(collective.axes for collective in found)
    }
