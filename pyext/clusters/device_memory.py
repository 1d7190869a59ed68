"""The memory of devices, and budgets for a program's part of it."""

import contextlib
import re
from collections.abc import Iterable
from numbers import Integral
from typing import Any, Literal, TypeAlias

from paropt.clusters.compiled import TargetError
from paropt.clusters.gpus import GPUS
from paropt.passes.support.byte_sizes import EXPECTED, byte_count

MemoryBudget: TypeAlias = int | float | str | None

AUTO: Literal["auto"] = "auto"
MEMORY_BUDGET = "memory-budget"  # the option of passes: of bytes that they may hold more
ASKS_AUTO = re.compile(rf"\b{MEMORY_BUDGET}=auto\b")
RESERVE = 10  # one part of so many is left to the runtime, other programs and fragmentation

_BARE = re.compile(r"\s*\d+(\.\d+)?\s*", re.A)  # a number without a unit
_GIB = 1 << 30
# By kinds of devices, of data sheets: for devices that are not here to tell.
_KNOWN = {
    "TPU v4": 32 * _GIB,
    "TPU v5 lite": 16 * _GIB,
    "TPU v5": 95 * _GIB,
    "TPU v6 lite": 32 * _GIB,
    **{gpu.description: gpu.memory for gpu in GPUS.values()},
}


def read_budget(budget: MemoryBudget, argument: str = "memory_budget") -> int | Literal["auto"] | None:
    """The budget in bytes, or `auto`. Raises ValueError in words of the `argument`.

    Text has a unit: who writes "60" for the memory of a device hardly means bytes.
    """
    if budget is None or budget == AUTO:
        return budget
    is_whole = isinstance(budget, Integral) or (isinstance(budget, float) and budget.is_integer())  # as 60e9
    if is_whole and not isinstance(budget, bool) and int(budget) >= 0:
        return int(budget)
    if isinstance(budget, str) and _BARE.fullmatch(budget) and float(budget):  # 0 is as much in each unit
        number = budget.strip()
        raise ValueError(f"{argument}={budget!r}: text takes a unit, as in {number}GiB, or {number}B for bytes")
    if isinstance(budget, str):
        with contextlib.suppress(ValueError):
            return byte_count(budget)
    raise ValueError(f"{argument}={budget!r}: expected {EXPECTED}, or auto")


def memory_budget_of(budget: int | Literal["auto"], devices: Iterable[Any]) -> int:
    """The bytes of the budget on each of `devices`. Raises TargetError where these do not tell their memory."""
    if budget != AUTO:
        return budget
    device = next(iter(devices))
    limit = _limit(device)
    if limit is None:
        raise TargetError(f"memory_budget=auto: {device.device_kind} does not tell how much memory it has; give bytes")
    return usable(limit)


def usable(memory: int) -> int:
    """The part of the `memory` of a device, in bytes, that a program may take."""
    return memory - memory // RESERVE


def _limit(device: Any) -> int | None:
    """The bytes of memory of a device, as it says itself, or as is known of its kind."""
    import jax

    try:
        told = device.memory_stats()
    except jax.errors.JaxRuntimeError:  # a device that is only described
        told = None
    if told and told.get("bytes_limit"):
        return int(told["bytes_limit"])
    return _KNOWN.get(device.device_kind)
