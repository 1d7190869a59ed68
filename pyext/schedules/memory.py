"""Activations that a device keeps: from the forward to the last instruction that reads them."""

from fractions import Fraction

from paropt.schedules.costs import Checked
from paropt.schedules.dependencies import Dependencies
from paropt.schedules.table import Instruction, Schedule


def peak_live(schedule: Schedule) -> tuple[int, ...]:
    """The most activations at once, for each device; those that wait for `W` only count in full."""
    depends = Dependencies(schedule)
    return tuple(_peak_live(instructions, depends) for instructions in schedule.devices)


def _peak_live(instructions: tuple[Instruction, ...], depends: Dependencies) -> int:
    live = peak = 0
    for instruction in instructions:
        if instruction.kind == "F":
            live += 1
            peak = max(peak, live)
        elif instruction.kind == "W" or depends.is_whole(instruction):
            live -= 1
    return peak


def peak_memory(schedule: Schedule, costs: Checked) -> tuple[Fraction, ...]:
    """The most memory of activations at once, for each device."""
    depends = Dependencies(schedule)
    return tuple(_peak_memory(instructions, depends, costs) for instructions in schedule.devices)


def _peak_memory(instructions: tuple[Instruction, ...], depends: Dependencies, costs: Checked) -> Fraction:
    live = peak = Fraction(0)
    for instruction in instructions:
        size = costs.memory(instruction)
        match instruction.kind:
            case "F":
                live += size
                peak = max(peak, live)
            case "B":
                live -= size if depends.is_whole(instruction) else size * (1 - costs.kept)
            case "W":
                live -= size * costs.kept
    return peak
