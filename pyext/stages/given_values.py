"""Comparison of the values that several processes are given in the first step: each must have the same batch, and the
same keys."""

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from paropt.hook.user_warnings import warn
from paropt.stages.coordination import Exchange
from paropt.stages.cut_step import CutStep
from paropt.stages.owners import Owners
from paropt.stages.step_plan import StageError, StepPlan


def require_same_values(cut: CutStep, plan: StepPlan, owners: Owners, leaves: Sequence[Any]) -> None:
    """Raises StageError for an argument that two processes read and that differs between them.

    Warns of a differing argument that only some of them read, state excepted: if it is another part of the batch,
    examples and targets do not belong together. Arrays over several processes are the same in all.
    """
    readers = _readers(plan, owners, cut)
    states = {old for old, _ in cut.manifest.states}
    wanted = [n for n in range(len(leaves)) if n not in states or len(readers[n]) > 1]
    digests = {str(n): _digest(leaves[n]) for n in wanted if _is_own(leaves[n])}
    exchange = Exchange(owners.processes)
    with exchange.building():
        for process, names in exchange.differences("values", digests).items():
            both = {process, jax.process_index()}
            read = [int(name) for name in names if both <= readers[int(name)]]
            unread = [int(name) for name in names if int(name) not in read]
            where = f"its values differ between processes {jax.process_index()} and {process}"
            if read:
                raise StageError(f"{_path(cut, read[0])}: {where}: each gives all of the batch, and the same keys")
            warn(
                f"paropt.pipeline: {_path(cut, unread[0])}: {where}, of which one does not read it; if each has loaded "
                "a part of the batch of its own, results are wrong: each gives all of it"
            )


def _readers(plan: StepPlan, owners: Owners, cut: CutStep) -> dict[int, set[int]]:
    """Of each argument of the step, the processes that are given it for their stages."""
    found: dict[int, set[int]] = defaultdict(set)
    for slot in plan.given.values():
        if slot.name.startswith("argument"):
            found[int(slot.name.removeprefix("argument"))].update(owners.places[slot.place])
        if slot.name.startswith("piece"):
            found[cut.manifest.pieces[slot.name].argument].update(owners.places[slot.place])
    return found


def _is_own(leaf: Any) -> bool:
    """Whether this process has all of it, and the others have theirs."""
    return not isinstance(leaf, jax.Array) or leaf.is_fully_addressable


def _digest(leaf: Any) -> str:
    return hashlib.blake2b(np.ascontiguousarray(leaf).tobytes(), digest_size=16).hexdigest()


def _path(cut: CutStep, argument: int) -> str:
    return cut.manifest.paths.get(f"argument{argument}", f"argument {argument}")
