"""A simulation as boxes, for pictures of any form."""

from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from paropt.schedules.simulation import Event, Simulation
from paropt.schedules.table import Instruction, Kind

# By kind, for the first chunk of a device and for the others (or for the other direction).
COLORS: dict[Kind, tuple[str, str]] = {
    "F": ("#4f7cac", "#9dbbd8"),
    "B": ("#d98141", "#efbd92"),
    "W": ("#5b9a68", "#a9cfb1"),
    "U": ("#7d7d85", "#b9b9c0"),
}
LEGEND: dict[Kind, str] = {"F": "forward", "B": "backward", "W": "gradient of weights", "U": "update"}


class Box(NamedTuple):
    """An event in the row of a device; `top` and `bottom` are 0 and 1 for the whole height of the row."""

    device: int
    start: Fraction
    end: Fraction
    top: float
    bottom: float
    kind: Kind
    color: str
    label: str
    title: str


def boxes(simulation: Simulation) -> Iterator[Box]:
    """One box for each instruction that takes time; simultaneous ones are one above the other."""
    for device, events in enumerate(simulation.events):
        for event in events:
            if event.end > event.start:
                yield _box(simulation, device, event)


def kinds(simulation: Simulation) -> list[Kind]:
    """The kinds of boxes that there are."""
    found = {box.kind for box in boxes(simulation)}
    return [kind for kind in COLORS if kind in found]


def short(instruction: Instruction) -> str:
    """`3F0` is the forward of chunk 3 for micro-batch 0; `3^F0` of the copy that runs up; `3F0.1` of token slice 1."""
    direction = "^" * instruction.direction
    token_slice = f".{instruction.token_slice}" if instruction.token_slice else ""
    return f"{instruction.chunk}{direction}{instruction.kind}{instruction.microbatch}{token_slice}"


def _box(simulation: Simulation, device: int, event: Event) -> Box:
    instruction, start, end, step = event
    top, bottom = _part(simulation, instruction)
    sliced = simulation.schedule.token_slices > 1
    label = f"{instruction.microbatch}.{instruction.token_slice}" if sliced else f"{instruction.microbatch}"
    title = f"{instruction}{f', step {step}' if simulation.steps > 1 else ''}: {start} to {end}"
    color = COLORS[instruction.kind][_is_second(simulation, device, instruction)]
    return Box(device, start, end, top, bottom, instruction.kind, color, label, title)


def _part(simulation: Simulation, instruction: Instruction) -> tuple[float, float]:
    schedule = simulation.schedule
    if instruction in schedule.paired:
        return 0, 0.5
    device, position = schedule.places[instruction]
    beside = position > 0 and schedule.devices[device][position - 1] in schedule.paired
    return (0.5, 1) if beside else (0, 1)


def _is_second(simulation: Simulation, device: int, instruction: Instruction) -> bool:
    """Whether a device has chunks before this one, or the copy runs up."""
    homes = simulation.schedule.homes[instruction.direction]
    return bool(instruction.direction) or device in homes[: instruction.chunk]
