"""Schedules in which each device has one stage, or several chunks in turn, and the backward is one instruction."""

from paropt.schedules.table import Instruction, Schedule


def gpipe(stages: int, microbatches: int) -> Schedule:
    """All forwards, then all backwards."""
    devices = [
        [Instruction("F", stage, m) for m in range(microbatches)]
        + [Instruction("B", stage, m) for m in range(microbatches)]
        for stage in range(stages)
    ]
    return synchronous("gpipe", devices, _one_each(stages), microbatches)


def one_f_one_b(stages: int, microbatches: int) -> Schedule:
    """As many forwards as there are stages from here to the last, then a backward and a forward in turn."""
    devices = [alternating(stage, stages - stage, microbatches) for stage in range(stages)]
    return synchronous("1f1b", devices, _one_each(stages), microbatches)


def interleaved(stages: int, microbatches: int, chunks: int) -> Schedule:
    """1F1B over `chunks` chunks per device, which a micro-batch visits in rounds.

    Micro-batches go in groups of as many as there are stages: a group through one chunk, then through the next.
    """
    homes = (tuple(chunk % stages for chunk in range(stages * chunks)),)
    devices = [_rounds(stage, stages, microbatches, chunks) for stage in range(stages)]
    return synchronous("interleaved", devices, homes, microbatches)


def _rounds(stage: int, stages: int, microbatches: int, chunks: int) -> list[Instruction]:
    count = microbatches * chunks
    ahead = min(count, (stages - stage - 1) * 2 + (chunks - 1) * stages)
    turns = [((n % (stages * chunks)) // stages, n // (stages * chunks) * stages + n % stages) for n in range(count)]
    forwards = [Instruction("F", turn * stages + stage, m) for turn, m in turns]
    backwards = [Instruction("B", (chunks - 1 - turn) * stages + stage, m) for turn, m in turns]
    steady = [each for pair in zip(forwards[ahead:], backwards[: count - ahead], strict=True) for each in pair]
    return [*forwards[:ahead], *steady, *backwards[count - ahead :]]


def alternating(stage: int, ahead: int, microbatches: int) -> list[Instruction]:
    """The first `ahead` forwards, then a backward before each further forward."""
    ahead = min(ahead, microbatches)
    found = [Instruction("F", stage, m) for m in range(ahead)]
    for m in range(microbatches):
        found.append(Instruction("B", stage, m))
        if m + ahead < microbatches:
            found.append(Instruction("F", stage, m + ahead))
    return found


def synchronous(
    name: str,
    devices: list[list[Instruction]],
    homes: tuple[tuple[int, ...], ...],
    microbatches: int,
    *,
    token_slices: int = 1,
    paired: frozenset[Instruction] = frozenset(),
) -> Schedule:
    """A schedule whose weights are updated once, after all that the devices do."""
    updated = [
        (
            *instructions,
            *(Instruction("U", chunk, microbatches - 1, direction) for chunk, direction in _of(homes, device)),
        )
        for device, instructions in enumerate(devices)
    ]
    return Schedule(name, tuple(updated), homes, microbatches, token_slices, paired=paired)


def _of(homes: tuple[tuple[int, ...], ...], device: int) -> list[tuple[int, int]]:
    """The chunks of a device, and their directions."""
    found = [(c, direction) for direction, each in enumerate(homes) for c, home in enumerate(each) if home == device]
    return sorted(found)


def _one_each(stages: int) -> tuple[tuple[int, ...], ...]:
    return (tuple(range(stages)),)
