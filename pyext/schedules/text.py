"""A simulation as text and as JSON."""

from fractions import Fraction
from typing import Any

from paropt.schedules.catalog import SCHEDULES
from paropt.schedules.picture import title
from paropt.schedules.simulation import Simulation
from paropt.schedules.timeline import short


def text(simulation: Simulation) -> str:
    """The output of the command: the sizes, a row for each device, and the order of its instructions."""
    names = ("device", "works", "waits", "activations", "memory", "weights")
    numbers = zip(
        range(simulation.schedule.stages),
        simulation.busy,
        simulation.idle,
        simulation.live,
        simulation.peak,
        simulation.weights,
        strict=True,
    )
    rows = ["".join(f"{each!s:>13}" for each in row) for row in (names, *numbers)]
    orders = [
        f"device {device}: {' '.join(map(short, instructions))}"
        for device, instructions in enumerate(simulation.schedule.devices)
    ]
    return "\n".join([title(simulation), _origin(simulation), "", *rows, "", *orders])


def _origin(simulation: Simulation) -> str:
    row = SCHEDULES.get(simulation.schedule.name)
    published = f"; {row.semantics}; {row.published}" if row else ""
    return f"updated {simulation.schedule.update}, {simulation.transfers} transfers{published}"


def json_form(simulation: Simulation) -> dict[str, Any]:
    """All of it, for `json.dumps`; exact numbers are strings, such as `3/11`."""
    schedule = simulation.schedule
    return {
        "schedule": schedule.name,
        "stages": schedule.stages,
        "microbatches": schedule.microbatches,
        "chunks": schedule.chunks,
        "token_slices": schedule.token_slices,
        "update": schedule.update,
        "homes": schedule.homes,
        "steps": simulation.steps,
        "makespan": str(simulation.makespan),
        "bubble": str(simulation.bubble),
        "busy": _strings(simulation.busy),
        "idle": _strings(simulation.idle),
        "live": simulation.live,
        "peak": _strings(simulation.peak),
        "weights": _strings(simulation.weights),
        "weight_versions": simulation.versions.kept,
        "staleness": simulation.versions.staleness,
        "transfers": simulation.transfers,
        "events": [
            [
                {
                    "kind": event.instruction.kind,
                    "chunk": event.instruction.chunk,
                    "microbatch": event.instruction.microbatch,
                    "direction": event.instruction.direction,
                    "token_slice": event.instruction.token_slice,
                    "step": event.step,
                    "start": str(event.start),
                    "end": str(event.end),
                }
                for event in events
            ]
            for events in simulation.events
        ],
    }


def _strings(numbers: tuple[Fraction, ...]) -> list[str]:
    return [str(number) for number in numbers]
