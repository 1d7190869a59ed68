"""A schedule run on paper. It knows no schedule by name.

Each device runs its instructions in order, and each starts once the device is free and its dependencies have ended (and
arrived, from another device). Times are whole numbers of the largest unit that divides them all.
"""

from collections.abc import Iterator
from fractions import Fraction
from math import lcm
from typing import NamedTuple

from paropt.schedules.costs import Checked
from paropt.schedules.dependencies import Dependencies
from paropt.schedules.table import Instruction, Schedule, ScheduleError


class Deadlock(ScheduleError):  # noqa: N818  the word that people search for
    """No device can go on; `waiting` has, by device, the instruction that it stands at and the one that this waits
    for."""

    def __init__(self, name: str, waiting: dict[int, tuple[Instruction, Instruction]], text: str) -> None:
        super().__init__(f"{name}: deadlock: {text}")
        self.waiting = waiting


class Awaited(NamedTuple):
    """Who waits, for whom, and how long the awaited value travels."""

    instruction: Instruction
    before: Instruction
    transfer: int


class Slot(NamedTuple):
    """Instructions of one device that start and end together: one, or a forward beside a backward."""

    instructions: tuple[Instruction, ...]
    duration: int
    awaited: tuple[Awaited, ...]


class Ran(NamedTuple):
    """A slot that has ended."""

    slot: Slot
    step: int
    end: int


class Run:
    """The state of a simulation: how far each device is, and when instructions have ended."""

    def __init__(self, schedule: Schedule, costs: Checked, steps: int) -> None:
        self._schedule, self._steps = schedule, steps
        self.unit, self._slots = slots(schedule, costs)
        self._free = [0] * schedule.stages
        self._ends: dict[tuple[int, Instruction], int] = {}
        self.ran: list[list[Ran]] = [[] for _ in schedule.devices]

    def to_the_end(self) -> None:
        """Raises Deadlock."""
        devices = range(self._schedule.stages)
        advanced = True
        while advanced:
            advanced = False
            for device in devices:
                advanced |= self._advance(device)
        if any(self._current(device) for device in devices):
            raise self._deadlock()

    def step_ends(self) -> list[Fraction]:
        """When each step has ended on all devices."""
        ends = [0] * self._steps
        for ran in self.ran:
            for _, step, end in ran:
                ends[step] = max(ends[step], end)
        return [end * self.unit for end in ends]

    def _current(self, device: int) -> tuple[int, Slot] | None:
        """The step and the slot that a device stands at, unless it is done."""
        slots = self._slots[device]
        step, position = divmod(len(self.ran[device]), len(slots) or 1)
        return (step, slots[position]) if slots and step < self._steps else None

    def _advance(self, device: int) -> bool:
        """Runs all that a device can run now; whether there was anything."""
        before = len(self.ran[device])
        while (current := self._current(device)) and self._missing(*current) is None:
            self._execute(device, *current)
        return len(self.ran[device]) > before

    def _missing(self, step: int, slot: Slot) -> Awaited | None:
        """The first dependency of a slot that has not ended."""
        return next((awaited for awaited in slot.awaited if (step, awaited.before) not in self._ends), None)

    def _execute(self, device: int, step: int, slot: Slot) -> None:
        arrivals = [self._ends[step, awaited.before] + awaited.transfer for awaited in slot.awaited]
        end = max([self._free[device], *arrivals]) + slot.duration
        self._ends |= {(step, instruction): end for instruction in slot.instructions}
        self._free[device] = end
        self.ran[device].append(Ran(slot, step, end))

    def _deadlock(self) -> Deadlock:
        waiting = {}
        for device in range(self._schedule.stages):
            current = self._current(device)
            missing = current and self._missing(*current)
            if missing:
                waiting[device] = (missing.instruction, missing.before)
        return Deadlock(self._schedule.name, waiting, self._why(waiting))

    def _why(self, waiting: dict[int, tuple[Instruction, Instruction]]) -> str:
        """The devices that wait for each other in a circle, or the one that waits for an instruction that nobody
        runs."""
        places = self._schedule.places
        device, passed = next(iter(waiting)), list[int]()
        while device not in passed:
            passed.append(device)
            instruction, before = waiting[device]
            if before not in places:
                return f"device {device} stands at {instruction}, and waits for {before}, which no device runs"
            device = places[before].device
        circle = passed[passed.index(device) :]
        lines = (f"device {each} stands at {waiting[each][0]}, and waits for {waiting[each][1]}" for each in circle)
        return "; ".join(lines)


def slots(schedule: Schedule, costs: Checked) -> tuple[Fraction, list[list[Slot]]]:
    """The slots of each device, and the unit of their times."""
    writer = _SlotWriter(schedule, costs)
    devices = [[writer.slot(device, each) for each in _beside(schedule, device)] for device in range(schedule.stages)]
    return writer.unit, devices


def _beside(schedule: Schedule, device: int) -> Iterator[tuple[Instruction, ...]]:
    """The instructions of a device, each with those that run at the same time."""
    instructions = schedule.devices[device]
    position = 0
    while position < len(instructions):
        size = 2 if instructions[position] in schedule.paired else 1
        yield instructions[position : position + size]
        position += size


class _SlotWriter:
    """Makes slots of instructions, with times in whole units."""

    def __init__(self, schedule: Schedule, costs: Checked) -> None:
        self._schedule, self._costs = schedule, costs
        self._depends = Dependencies(schedule)
        self.unit = Fraction(1, lcm(*(time.denominator for time in costs.times())))

    def slot(self, device: int, instructions: tuple[Instruction, ...]) -> Slot:
        awaited = [
            Awaited(instruction, before, self._units(self._transfer(device, instruction, before)))
            for instruction in instructions
            for before in self._depends.of(instruction)
        ]
        return Slot(instructions, self._units(self._duration(instructions)), tuple(awaited))

    def _units(self, time: Fraction) -> int:
        return int(time / self.unit)

    def _duration(self, instructions: tuple[Instruction, ...]) -> Fraction:
        if len(instructions) > 1 and self._costs.pairs is not None:
            return self._costs.pairs[instructions[0].chunk]
        times = (self._costs.time(each, whole=self._depends.is_whole(each)) for each in instructions)
        return sum(times, Fraction(0))

    def _transfer(self, device: int, instruction: Instruction, before: Instruction) -> Fraction:
        place = self._schedule.places.get(before)
        if place is None or place.device == device or instruction.kind == "U" or instruction.chunk == before.chunk:
            return Fraction(0)
        return self._costs.transfers[min(instruction.chunk, before.chunk)]
