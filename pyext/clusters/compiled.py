"""What a compiler makes of a module for a target, or says of it.

Tests: test/unit/pyext/clusters/test_targets.py.
"""

import re
from typing import Any, NamedTuple

from paropt.hlo.participants import Device


class TargetError(ValueError):
    """There is no such target, it cannot be compiled for here, or XLA refused the module; one line."""


class Memory(NamedTuple):
    """Bytes per device, as XLA plans them."""

    argument: int
    output: int
    temp: int
    alias: int  # outputs that are written over donated arguments

    @property
    def peak(self) -> int:
        return self.argument + self.output + self.temp - self.alias


class Compiled(NamedTuple):
    """The executable that XLA made of a module."""

    hlo: str  # text of the optimized HLO
    memory: Memory | None  # None where the compiler does not tell
    seconds: float  # that the compiler took
    devices: tuple[Device, ...] = ()  # that the module's partitions run on, in their order


def memory_of(stats: Any) -> Memory | None:
    """XLA's memory statistics (None where it has none), as ours."""
    if stats is None:
        return None
    return Memory(
        stats.argument_size_in_bytes,
        stats.output_size_in_bytes,
        stats.temp_size_in_bytes,
        stats.alias_size_in_bytes,
    )


def first_line(error: Exception) -> str:
    """Of an error of XLA, without its status code."""
    return re.sub(r"^[A-Z_]+: ", "", str(error).strip()).partition("\n")[0].rstrip()
