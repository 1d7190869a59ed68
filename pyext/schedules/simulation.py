"""The times and memory of a schedule: when each instruction runs, who waits, the values kept, in exact fractions."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from paropt.base.argument_types import require_type
from paropt.schedules.costs import Checked, Costs
from paropt.schedules.dependencies import Dependencies
from paropt.schedules.memory import peak_live, peak_memory
from paropt.schedules.run import Ran, Run
from paropt.schedules.table import Instruction, Schedule, ScheduleError
from paropt.schedules.versions import Versions, versions


class Event(NamedTuple):
    """An instruction, and when it ran."""

    instruction: Instruction
    start: Fraction
    end: Fraction
    step: int = 0


@dataclass(frozen=True)
class Simulation:
    """The times and memory of a schedule, with given costs, for one step or several in a row."""

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
    def weights(self) -> tuple[Fraction, ...]:
        """The weights that each device keeps, all copies and versions; its share of one model is 1."""
        kept = [Fraction(0)] * self.schedule.stages
        for homes in self.schedule.homes:
            for chunk, device in enumerate(homes):
                kept[device] += Fraction(self.schedule.stages, self.schedule.chunks) * self.versions.kept[chunk]
        return tuple(kept)

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
    require_type(schedule, Schedule, "simulate", "what `paropt.schedules.schedule` returns")
    require_type(costs, (Costs, type(None)), "costs", "paropt.schedules.Costs")
    checked = (costs or Costs()).checked(schedule)
    run = Run(schedule, checked, steps)
    run.to_the_end()
    return Simulation(schedule, checked, tuple(tuple(_events(ran, run.unit)) for ran in run.ran), steps)


def _events(ran: list[Ran], unit: Fraction) -> Iterator[Event]:
    for slot, step, end in ran:
        start = (end - slot.duration) * unit
        for instruction in slot.instructions:
            yield Event(instruction, start, end * unit, step)


def period(schedule: Schedule, costs: Costs | None = None) -> Fraction:
    """The time from one step to the next when many follow each other.

    It is the makespan where all chunks are updated together, and less where a device may begin the next step while
    others still work on this one. Raises ScheduleError where steps do not settle to one time.
    """
    checked = (costs or Costs()).checked(schedule)
    for steps in (3, 3 + 2 * schedule.stages):
        run = Run(schedule, checked, steps)
        run.to_the_end()
        first, middle, last = run.step_ends()[-3:]
        if last - middle == middle - first:
            return last - middle
    raise ScheduleError(f"{schedule.name}: steps in a row do not settle to one time with these costs")


def steady_bubble(schedule: Schedule, costs: Costs | None = None) -> Fraction:
    """The part of all devices' time that they wait, when many steps follow each other."""
    whole = period(schedule, costs) * schedule.stages
    return 1 - sum(simulate(schedule, costs).busy) / whole if whole else Fraction(0)


def _intervals(events: tuple[Event, ...]) -> set[tuple[Fraction, Fraction]]:
    """When a device works: two instructions that run at the same time count once."""
    return {(event.start, event.end) for event in events if event.end > event.start}
