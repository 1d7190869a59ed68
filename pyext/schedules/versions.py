"""Weights that change within a step: how many versions are kept, how old that of a gradient is."""

from collections import Counter
from dataclasses import dataclass

from paropt.schedules.table import Instruction, Schedule


@dataclass(frozen=True)
class Versions:
    """By chunk, the greatest over all micro-batches; 1, 0 and 0 where weights change between steps only."""

    kept: tuple[int, ...]  # versions of the weights that are kept at once
    staleness: tuple[int, ...]  # updates between a forward and the update that its gradient makes
    skew: tuple[int, ...]  # updates between a forward and its backward, which the backward sees


def versions(schedule: Schedule) -> Versions:
    """Both copies of a chunk are updated together: they count as one."""
    kept, staleness, skew = Counter[int](), Counter[int](), Counter[int]()
    for instructions in schedule.devices:
        _count(schedule, instructions, kept, staleness, skew)
    chunks = range(schedule.chunks)
    return Versions(*(tuple(each[chunk] for chunk in chunks) for each in (kept, staleness, skew)))


def _count(
    schedule: Schedule,
    instructions: tuple[Instruction, ...],
    kept: Counter[int],
    staleness: Counter[int],
    skew: Counter[int],
) -> None:
    current = Counter[int]()
    used: dict[int, dict[tuple[int, int, int], int]] = {}  # by chunk, the versions of batches not yet in an update
    for instruction in instructions:
        chunk, batch = instruction.chunk, (instruction.direction, instruction.microbatch, instruction.token_slice)
        waiting = used.setdefault(chunk, {})
        match instruction.kind:
            case "F":
                waiting[batch] = current[chunk]
            case "B" if not schedule.stashed:
                skew[chunk] = max(skew[chunk], current[chunk] - waiting[batch])
            case "U":
                done = [each for each in waiting if each[1] <= instruction.microbatch]
                ages = [current[chunk] - waiting.pop(each) for each in done]
                staleness[chunk] = max([staleness[chunk], *ages])
                current[chunk] += 1
        needed = {*waiting.values(), current[chunk]} if schedule.stashed else {current[chunk]}
        kept[chunk] = max(kept[chunk], len(needed))
