"""The plan of one step: which function runs when and where, which values are sent, and when a value is no longer
needed.

From a manifest and a schedule, before anything is compiled: a flat list of actions on numbered slots, which the driver
goes through. So a step costs Python little, and the plan tells the values that a step keeps and sends.

- a `Slot` is one value in one place: its name, the place, its micro-batch and copy of the model;
- an `Action` runs a function of one stage, or sends a slot to another place;
- a `StepPlan` has all of them in an order in which operands are there.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Literal, NamedTuple

from paropt.passes.pipelining.stage_manifest import ProgramKind, StageManifest, StageProgram
from paropt.schedules import Instruction, Schedule

_GIVEN = ("argument", "piece", "trip")
_KINDS: dict[str, ProgramKind] = {"F": "forward", "B": "backward", "W": "weights"}


class StageError(ValueError):
    """A step that cannot be run as stages, in one line that gives the remedy."""


class Slot(NamedTuple):
    """A value in one place."""

    name: str  # as in the manifest
    place: int  # a group of devices
    microbatch: int = -1  # of values of one micro-batch
    direction: int = 0  # the copy of the model
    whole: bool = False  # of an array that is sharded between steps: its elements are on each device of the place


@dataclass
class Action:
    """A call of a function of the step; a transfer; the zeros that a copy of the model starts from; the addition of two
    sums; or, of all arrays of a place over its devices, the gathering of parameters or the reduction of sums. Slots are
    numbers; those in `frees` end with it.
    """

    what: StageProgram | Literal["send", "zeros", "add", "gather", "reduce"]
    place: int
    inputs: list[int]
    outputs: list[int]
    instruction: Instruction | None = None  # of the schedule, for parts of a trip
    frees: list[int] = field(default_factory=list)


class StepPlan:
    """The actions of one step of `manifest` in the order of `schedule`.

    Of the arguments and pieces `gathered`, the parts of all trips read one array that is gathered before the first.
    Those in `at_home` are given where they are between steps only, and sent from there to each other place.
    """

    def __init__(
        self,
        manifest: StageManifest,
        schedule: Schedule,
        gathered: frozenset[str] = frozenset(),
        at_home: frozenset[str] = frozenset(),
    ) -> None:
        self.manifest, self.schedule, self._gathered = manifest, schedule, gathered
        self._from_home: set[int] = set()
        if manifest.stages > schedule.chunks:
            raise StageError(f"the step has {manifest.stages} stages, the schedule is for {schedule.chunks}")
        self.slots: list[Slot] = []
        self.actions: list[Action] = []
        self._numbers: dict[Slot, int] = {}
        self._programs: dict[tuple[ProgramKind, int], list[StageProgram]] = defaultdict(list)
        for program in manifest.programs:
            self._programs[program.kind, program.stage].append(program)
        self._readers: dict[str, list[StageProgram]] = defaultdict(list)
        for program in manifest.programs:
            for name in program.arguments:
                self._readers[name].append(program)
        self._carried: dict[Slot, int] = {}  # the slot that now has each carried value
        self._start()
        self._gather()
        self._trips()
        self._add_copies()
        self._add_shares()
        self._reduce()
        self._updates()
        # Of each result its slots: one, or those of its pieces.
        self.results = [[*map(self._current, manifest.joined.get(name, [name]))] for name in manifest.results]
        self._leave_home(at_home)
        self._free()

    def __repr__(self) -> str:
        places = len(self.schedule.devices)
        return f"<StepPlan: {self.schedule.name}, {len(self.actions)} actions at {places} places>"

    def place_of(self, stage: int, direction: int = 0) -> int:
        return self.schedule.chunk_device(stage, direction)

    @property
    def given(self) -> dict[int, Slot]:
        """The slots that are filled before a step: arguments, and numbers of trips."""
        given = {n: slot for n, slot in enumerate(self.slots) if slot.name.startswith(_GIVEN) and not slot.whole}
        return {n: slot for n, slot in given.items() if n not in self._from_home}

    def home(self, given: str) -> int:
        """Where an argument, or a piece, is between steps: where its new value is made, or where it is read first."""
        new = self.new_values.get(given)
        maker = self.manifest.maker_of(new) if new is not None else None
        stages = [maker.stage] if maker is not None else self.manifest.stages_of(given) or [0]
        return self.place_of(stages[0])

    @cached_property
    def new_values(self) -> dict[str, str]:
        """Of each argument of the step that is replaced, or of its pieces, the new value."""
        found = {}
        for old, new in self.manifest.states:
            result = self.manifest.results[new]
            found[f"argument{old}"] = result
            pieces, joined = self.manifest.pieces_of(old), self.manifest.joined.get(result, [])
            if len(pieces) == len(joined):
                found |= dict(zip(pieces, joined, strict=True))
        return found

    def _start(self) -> None:
        for direction in range(self.schedule.directions):
            for stage in range(self.manifest.stages):
                for program in self._programs["init", stage]:
                    self._run(program, -1, direction)
                    self._from_zero(program, direction)

    def _from_zero(self, program: StageProgram, direction: int) -> None:
        """The sums of further copies of the model: the init operand of a sum counts once."""
        carried = [name for name in program.results if name.startswith("carried")] if direction else []
        for name in carried:
            if name not in self.manifest.sums:
                why = "a loop-carried array is no sum: copies of the model cannot share it"
                raise StageError(f"{self.schedule.name}: {why}")
            slot = Slot(name, self.place_of(program.stage, direction), -1, direction)
            start, self._carried[slot] = self._carried[slot], self._new(slot)
            self.actions.append(Action("zeros", slot.place, [start], [self._carried[slot]]))

    def _add_copies(self) -> None:
        """Adds the sums of the copies of the model, at the place of the first one."""
        for slot in list(self._carried):
            if slot.direction:
                self._add(slot, Slot(slot.name, self.place_of(self._stage_of(slot.name))))

    def _add_shares(self) -> None:
        """Adds the shares of other stages in the same sum, as of a tied embedding's gradient."""
        for share, total in self.manifest.shares.items():
            source, home = (Slot(name, self.place_of(self._stage_of(name))) for name in (share, total))
            self._add(source, home)

    def _add(self, source: Slot, home: Slot) -> None:
        """Adds the carried value `source` to `home`, where that is."""
        number = self._carried[source]
        if source.place != home.place:
            number = self._new(source._replace(place=home.place))
            self.actions.append(Action("send", home.place, [self._carried[source]], [number]))
        before, self._carried[home] = self._carried[home], self._new(home)
        self.actions.append(Action("add", home.place, [before, number], [self._carried[home]]))

    def _gather(self) -> None:
        """Gathers the sharded arrays that parts of trips read, once in a step."""
        found: dict[int, dict[str, None]] = defaultdict(dict)
        for direction in range(self.schedule.directions):
            for program in (each for each in self.manifest.programs if each.kind in _KINDS.values()):
                names = [name for name in program.arguments if name in self._gathered]
                found[self.place_of(program.stage, direction)] |= dict.fromkeys(names)
        for place in sorted(found):
            slots = [Slot(name, place) for name in found[place]]
            if slots:
                inputs = [self._number(slot) for slot in slots]
                outputs = [self._number(slot._replace(whole=True)) for slot in slots]
                self.actions.append(Action("gather", place, inputs, outputs))

    def _leave_home(self, names: frozenset[str]) -> None:
        """Sends arguments and pieces from where they are between steps to where else they are read."""
        sends = []
        for number, slot in self.given.items():
            home = self.home(slot.name) if slot.name in names else slot.place
            if home != slot.place:
                sends.append(Action("send", slot.place, [self._number(slot._replace(place=home))], [number]))
                self._from_home.add(number)
        self.actions[:0] = sends

    def _reduce(self) -> None:
        """Takes the sums of each place over its devices, once in a step."""
        sums = [slot for slot in self._carried if slot.direction == 0 and slot.name in self.manifest.sums]
        for place in range(len(self.schedule.devices)):
            own = [slot for slot in sums if slot.place == place and slot.name not in self.manifest.shares]
            before = [self._carried[slot] for slot in own]
            self._carried |= {slot: self._new(slot) for slot in own}
            if own:
                self.actions.append(Action("reduce", place, before, [self._carried[slot] for slot in own]))

    def _stage_of(self, name: str) -> int:
        maker = self.manifest.maker_of(name)
        assert maker is not None, name
        return maker.stage

    def _trips(self) -> None:
        """Goes round the devices: each runs its next instruction when the inputs of that are there."""
        queues = [[each for each in device if each.kind in _KINDS] for device in self.schedule.devices]
        positions = [0] * len(queues)
        left = sum(map(len, queues))
        while left:
            before = left
            for device, queue in enumerate(queues):
                if positions[device] < len(queue) and self._is_ready(queue[positions[device]]):
                    self._instruct(queue[positions[device]])
                    positions[device] += 1
                    left -= 1
            if left == before:
                waiting = next(queue[at] for at, queue in zip(positions, queues, strict=True) if at < len(queue))
                raise StageError(f"{self.schedule.name}: {waiting} waits for what no device has made")

    def _of(self, instruction: Instruction) -> list[StageProgram]:
        """The functions of an instruction: of a backward also the gradients of weights that no other one takes."""
        found = self._programs[_KINDS[instruction.kind], instruction.chunk]
        whole = instruction.kind == "B" and instruction._replace(kind="W") not in self.schedule.places
        return [*found, *self._programs["weights", instruction.chunk]] if whole else found

    def _is_ready(self, instruction: Instruction) -> bool:
        place = self.place_of(instruction.chunk, instruction.direction)
        programs = self._of(instruction)
        own = {name for program in programs for name in program.results}
        needed = {name for program in programs for name in program.arguments if name.startswith("value")}
        return all(
            Slot(name, place, instruction.microbatch, instruction.direction) in self._numbers for name in needed - own
        )

    def _instruct(self, instruction: Instruction) -> None:
        chunk, microbatch, direction = instruction.chunk, instruction.microbatch, instruction.direction
        for program in self._of(instruction):
            for rows in self._programs["rows", chunk]:
                new = Slot(rows.results[0], self.place_of(chunk, direction), microbatch, direction)
                if new not in self._numbers and set(rows.results) & {*program.arguments}:
                    self._run(rows, microbatch, direction)
            self._run(program, microbatch, direction, instruction)

    def _updates(self) -> None:
        for program in self.manifest.programs:
            if program.kind == "update":
                self._run(program, -1, 0)

    def _run(
        self, program: StageProgram, microbatch: int, direction: int, instruction: Instruction | None = None
    ) -> None:
        place = self.place_of(program.stage, direction)
        in_trip = program.kind in _KINDS.values()
        inputs = [
            self._number(Slot(name, place, whole=True))
            if in_trip and name in self._gathered
            else self._read(name, place, microbatch, direction)
            for name in self.read_by(program)
        ]
        outputs = [self._make(name, place, microbatch, direction) for name in program.results]
        self.actions.append(Action(program, place, inputs, outputs, instruction))
        for name, number in zip(program.results, outputs, strict=True):
            self._send(name, number, program.kind)

    def _slot(self, name: str, place: int, microbatch: int, direction: int) -> Slot:
        if name.startswith(("value", "row")):
            return Slot(name, place, microbatch, direction)
        if name == "trip":
            return Slot(name, place, microbatch)
        return Slot(name, place, -1, direction if name.startswith(("carried", "kept")) else 0)

    def read_by(self, program: StageProgram) -> list[str]:
        """The arguments of a function, but for those that have been added to others: of these it is given zeros."""
        shares = self.manifest.shares if program.kind == "update" else {}
        return [name for name in program.arguments if name not in shares]

    def _read(self, name: str, place: int, microbatch: int, direction: int) -> int:
        slot = self._slot(name, place, microbatch, direction)
        if name.startswith("carried"):
            if slot not in self._carried:  # an update reads a sum of another stage
                self._send_to(name, self._current(name), place)
            return self._carried[slot]
        return self._number(slot)

    def _make(self, name: str, place: int, microbatch: int, direction: int) -> int:
        slot = self._slot(name, place, microbatch, direction)
        if name.startswith("carried"):
            self._carried[slot] = self._new(slot)
            return self._carried[slot]
        return self._number(slot)

    def _send(self, name: str, number: int, kind: ProgramKind) -> None:
        """Sends a value to the other places where functions of its micro-batch read it."""
        if not name.startswith(("value", "update")):
            return
        source = self.slots[number]
        places = {self.place_of(program.stage, source.direction) for program in self._readers[name]}
        for place in sorted(places - {source.place}):
            self.actions.append(Action("send", place, [number], [self._number(source._replace(place=place))]))

    def _send_to(self, name: str, number: int, place: int) -> None:
        slot = self.slots[number]._replace(place=place)
        self._carried[slot] = self._new(slot)
        self.actions.append(Action("send", place, [number], [self._carried[slot]]))

    def _current(self, name: str) -> int:
        """The slot of a value after the trips, where it was made."""
        if name.startswith(("argument", "piece")):
            return self._number(Slot(name, self.home(name)))
        slot = self._slot(name, self.place_of(self._stage_of(name)), -1, 0)
        return self._carried[slot] if name.startswith("carried") else self._number(slot)

    def _number(self, slot: Slot) -> int:
        if slot not in self._numbers:
            self._numbers[slot] = self._new(slot)
        return self._numbers[slot]

    def _new(self, slot: Slot) -> int:
        self.slots.append(slot)
        return len(self.slots) - 1

    def _free(self) -> None:
        """Ends each slot with the last action that reads it, or makes it for nobody."""
        last: dict[int, Action] = {}
        for action in self.actions:
            for number in (*action.inputs, *action.outputs):
                last[number] = action
        kept = {*chain.from_iterable(self.results), *self.given}
        for number, action in last.items():
            if number not in kept:
                action.frees.append(number)

    def transfers(self) -> Iterator[Slot]:
        """The slots that a step sends, as they arrive."""
        for action in self.actions:
            if action.what == "send":
                yield self.slots[action.outputs[0]]

    def peak_live(self) -> list[int]:
        """For each place, the most chunks and micro-batches of which it has run the forward and keeps values."""
        kept: list[dict[tuple[int, int, int], set[int]]] = [{} for _ in self.schedule.devices]
        peak = [0] * len(kept)
        for action in self.actions:
            each = action.instruction
            if each is not None and each.kind == "F":
                key = (each.chunk, each.microbatch, each.direction)
                kept[action.place][key] = {n for n in self._later(each) if n not in action.frees}
                peak[action.place] = max(peak[action.place], sum(map(bool, kept[action.place].values())))
            for held in kept[action.place].values():
                held.difference_update(action.frees)
        return peak

    def _later(self, forward: Instruction) -> set[int]:
        """The values that the backward of `forward`, or its weight gradients, read and that are there by then."""
        place = self.place_of(forward.chunk, forward.direction)
        made = {name for each in self._of(forward) for name in (*each.results, *each.arguments) if "value" in name}
        later = (*self._programs["backward", forward.chunk], *self._programs["weights", forward.chunk])
        read = {name for each in later for name in each.arguments}
        return {self._numbers[Slot(name, place, forward.microbatch, forward.direction)] for name in made & read}
