"""A schedule run on paper: when each instruction runs, who waits, what is kept, in exact fractions.

It knows no schedule by name: each device runs its instructions in order, and each starts once the device is free and
what it depends on has ended (and arrived, from another device).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from paropt.schedules.costs import Checked, Costs
from paropt.schedules.dependencies import Dependencies
from paropt.schedules.memory import peak_live, peak_memory
from paropt.schedules.table import Instruction, Schedule, ScheduleError
from paropt.schedules.versions import Versions, versions


class Event(NamedTuple):
    """An instruction, and when it ran."""

    instruction: Instruction
    start: Fraction
    end: Fraction
    step: int = 0


class Slot(NamedTuple):
    """Instructions of one device that start and end together: one, or a forward beside a backward."""

    step: int
    instructions: tuple[Instruction, ...]


class Deadlock(ScheduleError):  # noqa: N818  the word that people search for
    """No device can go on; `waiting` has, by device, what it stands at and what that waits for."""

    def __init__(self, name: str, waiting: dict[int, tuple[Instruction, Instruction]], text: str) -> None:
        super().__init__(f"{name}: deadlock: {text}")
        self.waiting = waiting


@dataclass(frozen=True)
class Simulation:
    """What a schedule takes, with given costs, for one step or several in a row."""

    schedule: Schedule
    costs: Checked
    events: tuple[tuple[Event, ...], ...]  # by device, in order
    steps: int

    @cached_property
    def makespan(self) -> Fraction:
        return max((event.end for events in self.events for event in events), default=Fraction(0))

    @cached_property
    def busy(self) -> tuple[Fraction, ...]:
        """The time that each device works."""
        return tuple(sum((end - start for start, end in _intervals(events)), Fraction(0)) for events in self.events)

    @property
    def idle(self) -> tuple[Fraction, ...]:
        """The time that each device waits, until the last one has ended."""
        return tuple(self.makespan - busy for busy in self.busy)

    @property
    def bubble(self) -> Fraction:
        """The part of all devices' time that they wait."""
        whole = self.makespan * len(self.events)
        return sum(self.idle, Fraction(0)) / whole if whole else Fraction(0)

    @cached_property
    def live(self) -> tuple[int, ...]:
        """The most activations that each device keeps at once: one for each chunk, micro-batch and token slice."""
        return peak_live(self.schedule)

    @cached_property
    def peak(self) -> tuple[Fraction, ...]:
        """The most memory that activations take on each device, in the unit of the costs."""
        return peak_memory(self.schedule, self.costs)

    @cached_property
    def versions(self) -> Versions:
        return versions(self.schedule)

    @cached_property
    def transfers(self) -> int:
        """How many activations and gradients go from one device to another, in one step."""
        places = self.schedule.places
        depends = Dependencies(self.schedule)
        moves = (
            places[before].device != places[after].device
            for after in self.schedule.instructions()
            if after.kind in ("F", "B")
            for before in depends.of(after)
        )
        return sum(moves)


def simulate(schedule: Schedule, costs: Costs | None = None, *, steps: int = 1) -> Simulation:
    """Runs `steps` steps of `schedule` in a row; raises Deadlock, or ScheduleError for costs that do not fit."""
    checked = (costs or Costs()).checked(schedule)
    run = _Run(schedule, checked, steps)
    run.to_the_end()
    return Simulation(schedule, checked, tuple(map(tuple, run.events)), steps)


def period(schedule: Schedule, costs: Costs | None = None) -> Fraction:
    """The time from one step to the next when many follow each other.

    It is the makespan where all chunks are updated together, and less where a device may begin the next step while
    others still work on this one. Raises ScheduleError where steps do not settle to one time.
    """
    ends = [simulate(schedule, costs, steps=steps).makespan for steps in (1, 2)]
    for steps in range(3, 3 + 2 * schedule.stages):
        ends.append(simulate(schedule, costs, steps=steps).makespan)
        if ends[-1] - ends[-2] == ends[-2] - ends[-3]:
            return ends[-1] - ends[-2]
    raise ScheduleError(f"{schedule.name}: steps in a row do not settle to one time with these costs")


def _intervals(events: tuple[Event, ...]) -> set[tuple[Fraction, Fraction]]:
    """When a device works: two instructions that run at the same time count once."""
    return {(event.start, event.end) for event in events if event.end > event.start}


class _Run:
    """The state of a simulation: how far each device is, and what has ended when."""

    def __init__(self, schedule: Schedule, costs: Checked, steps: int) -> None:
        self._schedule, self._costs = schedule, costs
        self._places = schedule.places
        self._depends = Dependencies(schedule)
        self._before = {instruction: self._depends.of(instruction) for instruction in schedule.instructions()}
        self._slots = [list(_slots(schedule, device, steps)) for device in range(schedule.stages)]
        self._next = [0] * schedule.stages
        self._free = [Fraction(0)] * schedule.stages
        self._ends: dict[tuple[int, Instruction], Fraction] = {}
        self.events: list[list[Event]] = [[] for _ in schedule.devices]

    def to_the_end(self) -> None:
        devices = range(self._schedule.stages)
        while any(self._advance(device) for device in devices):
            pass
        if any(self._next[device] < len(self._slots[device]) for device in devices):
            raise self._deadlock()

    def _advance(self, device: int) -> bool:
        """Runs all that a device can run now; whether there was anything."""
        first = self._next[device]
        for slot in self._slots[device][first:]:
            if self._awaited(slot):
                break
            self._execute(device, slot)
        return self._next[device] > first

    def _execute(self, device: int, slot: Slot) -> None:
        start = max([self._free[device], *self._arrivals(device, slot)])
        end = start + self._time(slot)
        for instruction in slot.instructions:
            self._ends[slot.step, instruction] = end
            self.events[device].append(Event(instruction, start, end, slot.step))
        self._free[device] = end
        self._next[device] += 1

    def _awaited(self, slot: Slot) -> tuple[Instruction, Instruction] | None:
        """An instruction of the slot, and what it depends on that has not ended."""
        for instruction in slot.instructions:
            for before in self._before[instruction]:
                if (slot.step, before) not in self._ends:
                    return instruction, before
        return None

    def _arrivals(self, device: int, slot: Slot) -> Iterator[Fraction]:
        for instruction in slot.instructions:
            for before in self._before[instruction]:
                yield self._ends[slot.step, before] + self._transfer(device, instruction, before)

    def _transfer(self, device: int, instruction: Instruction, before: Instruction) -> Fraction:
        if instruction.chunk == before.chunk or instruction.kind == "U" or self._places[before].device == device:
            return Fraction(0)
        return self._costs.transfers[min(instruction.chunk, before.chunk)]

    def _time(self, slot: Slot) -> Fraction:
        if len(slot.instructions) == 2 and self._costs.pairs is not None:
            return self._costs.pairs[slot.instructions[0].chunk]
        return sum((self._costs.time(each, whole=self._is_whole(each)) for each in slot.instructions), Fraction(0))

    def _is_whole(self, instruction: Instruction) -> bool:
        return instruction.kind == "B" and not self._depends.has_weight_gradient(instruction)

    def _deadlock(self) -> Deadlock:
        waiting = {}
        for device, slots in enumerate(self._slots):
            if self._next[device] < len(slots):
                awaited = self._awaited(slots[self._next[device]])
                assert awaited is not None
                waiting[device] = awaited
        return Deadlock(self._schedule.name, waiting, self._why(waiting))

    def _why(self, waiting: dict[int, tuple[Instruction, Instruction]]) -> str:
        """The devices that wait for each other in a circle, or the one that waits for what nobody runs."""
        device, passed = next(iter(waiting)), list[int]()
        while device not in passed:
            passed.append(device)
            instruction, before = waiting[device]
            if before not in self._places:
                return f"device {device} stands at {instruction}, and waits for {before}, which no device runs"
            device = self._places[before].device
        circle = passed[passed.index(device) :]
        lines = (f"device {each} stands at {waiting[each][0]}, and waits for {waiting[each][1]}" for each in circle)
        return "; ".join(lines)


def _slots(schedule: Schedule, device: int, steps: int) -> Iterator[Slot]:
    instructions = schedule.devices[device]
    for step in range(steps):
        index = 0
        while index < len(instructions):
            size = 2 if instructions[index] in schedule.paired else 1
            yield Slot(step, instructions[index : index + size])
            index += size
