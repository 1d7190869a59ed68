"""Pipeline schedules as data: for each device, the instructions that it runs, in order."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

Kind = Literal["F", "B", "W", "U"]
KINDS: tuple[Kind, ...] = ("F", "B", "W", "U")
_WORDS = {"F": "forward", "B": "backward", "W": "weight gradient", "U": "update"}


class ScheduleError(ValueError):
    """A schedule that cannot be made, or a table that cannot run; one line that gives the remedy."""


class Instruction(NamedTuple):
    """The work of a device at one time: one kind, for one chunk of the model and one micro-batch.

    `F` is the forward, `B` the gradient of the inputs, `W` the gradient of the weights, `U` the update of the weights.
    A `B` whose `W` no device runs is the whole backward. A `U` takes the gradients of all micro-batches up to its own.
    """

    kind: Kind
    chunk: int  # in the order of the forward
    microbatch: int
    direction: int = 0  # the copy of the model: 0 runs down the devices; 1, of a bidirectional schedule, runs up
    token_slice: int = 0  # of the micro-batch, where sequences are cut, too

    def __str__(self) -> str:
        slices = f", token slice {self.token_slice}" if self.token_slice else ""
        up = " up" if self.direction else ""
        return f"{_WORDS[self.kind]} of chunk {self.chunk}{up}, micro-batch {self.microbatch}{slices}"


class Place(NamedTuple):
    """Where an instruction stands in a schedule."""

    device: int
    position: int


@dataclass(frozen=True)
class Schedule:
    """The order of work on each device; the dependencies follow from the chunks (`dependencies`)."""

    name: str
    devices: tuple[tuple[Instruction, ...], ...]
    homes: tuple[tuple[int, ...], ...]  # for each direction, the device of each chunk
    microbatches: int
    token_slices: int = 1
    # When weights change: all chunks together, once all gradients are there, so that a norm over all of them can be
    # taken; or each chunk once its own gradients are there.
    update: Literal["together", "by chunk"] = "together"
    # Whether a backward uses the weights that its forward used, where updates come between the two.
    stashed: bool = True
    # Forwards that run at the same time as the backward that follows them on their device.
    paired: frozenset[Instruction] = frozenset()

    def __post_init__(self) -> None:
        """Raises ScheduleError for an instruction that is there twice, on a wrong device or in no pair."""
        for forward in self.paired:
            device, position = self.places[forward]
            following = self.devices[device][position + 1 : position + 2]
            if forward.kind != "F" or [each.kind for each in following] != ["B"]:
                raise ScheduleError(f"{self.name}: {forward}, is paired, but no backward follows it")
        _ = self.places

    @property
    def stages(self) -> int:
        return len(self.devices)

    @property
    def chunks(self) -> int:
        """How many chunks one copy of the model has."""
        return len(self.homes[0])

    @property
    def directions(self) -> int:
        """How many copies of the model there are: 2 in a bidirectional schedule."""
        return len(self.homes)

    def chunk_device(self, chunk: int, direction: int = 0) -> int:
        return self.homes[direction][chunk]

    def instructions(self) -> Iterator[Instruction]:
        for device in self.devices:
            yield from device

    @cached_property
    def places(self) -> dict[Instruction, Place]:
        """Where each instruction stands."""
        found: dict[Instruction, Place] = {}
        for device, instructions in enumerate(self.devices):
            for position, instruction in enumerate(instructions):
                if instruction in found:
                    raise ScheduleError(f"{self.name}: {instruction}, runs twice")
                if self.chunk_device(instruction.chunk, instruction.direction) != device:
                    raise ScheduleError(f"{self.name}: {instruction}, runs on device {device}, where its chunk is not")
                found[instruction] = Place(device, position)
        return found
