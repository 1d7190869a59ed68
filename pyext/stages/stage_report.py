"""What each stage of a pipeline computes, holds and sends: as text, numbers for JSON, a page and a picture."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from paropt.base.wording import counted, flops_text, size_text
from paropt.reports.html_document import document, frame, table
from paropt.schedules import Costs, Simulation, simulate
from paropt.schedules.page import timeline
from paropt.schedules.picture import Words, plot
from paropt.stages.cut_step import CutStep
from paropt.stages.step_plan import StepPlan

_OF_TRIPS = ("forward", "backward", "weights")
_INTRO = (
    "A place is the devices that run the same stages. An instruction takes as long as its FLOPs, and a transfer no "
    "time. FLOPs are of one micro-batch; bytes are of all devices of a place together, temporary ones of one device, "
    "and sent in one step."
)
_OF_A_PLACE = ("place", "devices", "micro-batches kept", "their bytes", "temporary bytes")


@dataclass(frozen=True)
class StageRow:
    """One stage of the model."""

    stage: int
    place: int  # the group of devices that runs it
    flops: dict[str, int]  # of one micro-batch, by phase
    state_bytes: int  # of the state that it keeps between steps


@dataclass(frozen=True)
class PlaceRow:
    """The devices of one place in the pipeline."""

    place: int
    peak_live: int  # micro-batches, of one chunk each, that wait for their backward
    peak_bytes: int  # of values of micro-batches, on all devices of the place together
    temporary_bytes: int  # of the program that needs most beside them, on one device; 0 where XLA does not say
    sent: dict[int, int] = field(default_factory=dict)  # bytes to each other place, in one step
    devices: int = 1


@dataclass(frozen=True)
class StageReport:
    """A pipeline in numbers. `str()` is a table; in a notebook, it is the page."""

    schedule: str
    microbatches: int
    stages: list[StageRow]
    places: list[PlaceRow]
    simulation: Simulation = field(repr=False)  # where an instruction takes 1 per FLOP, and a transfer no time

    @property
    def bubble(self) -> Fraction:
        """The part of all devices' time that they wait, in the simulation."""
        return self.simulation.bubble

    def as_dict(self) -> dict[str, Any]:
        """All of it but the timeline; bytes and FLOPs are integers, the bubble is a fraction such as `3/11`."""
        rows = {"stages": [asdict(row) for row in self.stages], "places": [asdict(row) for row in self.places]}
        return {"schedule": self.schedule, "microbatches": self.microbatches, "bubble": str(self.bubble), **rows}

    def json(self) -> str:
        """The same as JSON."""
        return json.dumps(self.as_dict(), indent=1)

    def html(self) -> str:
        """One self-contained HTML page, with the schedule as a timeline."""
        return document(
            self._title(), self._title(), _INTRO, f"{timeline(self.simulation, self._rows())}{self._tables()}"
        )

    def plot(self, path: str | Path | BinaryIO) -> None:
        """Writes the timeline in the format of the suffix. Raises ImportError without matplotlib."""
        words = Words([self._title()], self._rows(), "time, as FLOPs of a stage", flops_text)
        plot([self.simulation], path, words=words)

    def _rows(self) -> list[str]:
        return [f"place {row.place}" for row in self.places]

    def _repr_html_(self) -> str:
        return frame(self.html())

    def _title(self) -> str:
        sizes = self._sizes()
        return f"{self.schedule}: {sizes}; bubble {float(self.bubble):.1%} by FLOPs, without transfers"

    def _sizes(self) -> str:
        batches = counted(self.microbatches, "micro-batch", "micro-batches")
        return f"{counted(len(self.stages), 'stage')}, {batches}"

    def _tables(self) -> str:
        kinds = [kind for kind in _OF_TRIPS if any(kind in row.flops for row in self.stages)]
        stages = [("stage", "place", *kinds, "state")]
        for stage in self.stages:
            work = (flops_text(stage.flops.get(kind, 0)) for kind in kinds)
            stages.append((str(stage.stage), str(stage.place), *work, size_text(stage.state_bytes)))
        places = [(*_OF_A_PLACE, *(f"bytes sent to {place.place}" for place in self.places))]
        for row in self.places:
            kept = (str(row.peak_live), size_text(row.peak_bytes), size_text(row.temporary_bytes))
            sent = (size_text(row.sent.get(other.place, 0)) for other in self.places)
            places.append((str(row.place), str(row.devices), *kept, *sent))
        return f"<h2>Stages</h2>{table(stages, 'narrow')}<h2>Places</h2>{table(places, 'narrow')}"

    def __str__(self) -> str:
        bubble = f"bubble {float(self.bubble):.1%} by FLOPs"
        lines = [f"{self.schedule}, {self._sizes()}, {bubble}"]
        for row in self.stages:
            work = ", ".join(f"{kind} {flops_text(flops)}" for kind, flops in row.flops.items())
            lines.append(f"  stage {row.stage} at place {row.place}: {work}; state {size_text(row.state_bytes)}")
        for place in self.places:
            sent = "".join(f"; to {other}: {size_text(size)}" for other, size in sorted(place.sent.items()))
            kept = f"at most {counted(place.peak_live, 'micro-batch', 'micro-batches')}, {size_text(place.peak_bytes)}"
            head = f"place {place.place}, {counted(place.devices, 'device')}"
            lines.append(f"  {head}: {kept}, {size_text(place.temporary_bytes)} temporary{sent}")
        return "\n".join(lines)


def report_of(
    cut: CutStep, plan: StepPlan, executables: dict[tuple[str, int], Any], devices: Sequence[int]
) -> StageReport:
    """`devices` counts those of each place."""
    live, peak, sent = plan.peak_live(), peak_bytes(cut, plan), sent_bytes(cut, plan)
    places = [
        PlaceRow(place, live[place], peak[place], _temporary(executables, place), sent[place], devices[place])
        for place in range(len(plan.schedule.devices))
    ]
    stages = _stages(cut, plan)
    forward, backward, weights = ([row.flops.get(kind, 0) for row in stages] for kind in _OF_TRIPS)
    simulation = simulate(plan.schedule, Costs(F=forward, B=backward, W=weights))
    return StageReport(plan.schedule.name, plan.schedule.microbatches, stages, places, simulation)


def _stages(cut: CutStep, plan: StepPlan) -> list[StageRow]:
    rows = []
    for stage in range(cut.manifest.stages):
        programs = [program for program in cut.manifest.programs if program.stage == stage]
        flops: dict[str, int] = {each.kind: cut.flops[each.symbol] for each in programs if each.kind in _OF_TRIPS}
        rows.append(StageRow(stage, plan.place_of(stage), flops, _state(cut, plan, stage)))
    return rows


def _state(cut: CutStep, plan: StepPlan, stage: int) -> int:
    """The bytes of what the stage makes new in each step."""
    made = {name for each in cut.manifest.programs if each.stage == stage for name in each.results}
    joined = {f"argument{old}" for old, new in cut.manifest.states if cut.manifest.results[new] in cut.manifest.joined}
    olds = (old for old, new in plan.new_values.items() if new in made and old not in joined)
    return sum(size_of(cut.shapes[old]) for old in olds)


def size_of(shape: Any) -> int:
    return prod(shape.shape) * int(np.dtype(shape.dtype).itemsize)


def peak_bytes(cut: CutStep, plan: StepPlan) -> list[int]:
    """For each place, the most bytes of values of micro-batches at once."""
    now, most = Counter[int](), Counter[int]()
    for action in plan.actions:
        for number, sign in (*((n, 1) for n in action.outputs), *((n, -1) for n in action.frees)):
            slot = plan.slots[number]
            if slot.microbatch >= 0 and slot.name != "trip":
                now[slot.place] += sign * size_of(cut.shapes[slot.name])
                most[slot.place] = max(most[slot.place], now[slot.place])
    return [most[place] for place in range(len(plan.schedule.devices))]


def sent_bytes(cut: CutStep, plan: StepPlan) -> list[dict[int, int]]:
    """For each place, the bytes that it sends to each other in one step."""
    found: list[Counter[int]] = [Counter() for _ in plan.schedule.devices]
    for action in plan.actions:
        if action.what == "send":
            slot = plan.slots[action.inputs[0]]
            found[slot.place][action.place] += size_of(cut.shapes[slot.name])
    return [dict(each) for each in found]


def _temporary(executables: dict[tuple[str, int], Any], place: int) -> int:
    stats = [each.memory_analysis() for (_, where), each in executables.items() if where == place]
    return max((int(each.temp_size_in_bytes) for each in stats if each is not None), default=0)
