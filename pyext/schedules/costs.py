"""How long instructions and transfers take, and how much memory activations take."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from itertools import chain

from paropt.schedules.table import KINDS, Instruction, Schedule, ScheduleError

Number = int | float | str | Fraction
# One number for all, or one for each.
Numbers = Number | Sequence[Number]
_ALL = Fraction(1)


@dataclass(frozen=True)
class Costs:
    """Times of a whole micro-batch, in one unit of the caller's choice.

    Each is one number, for a device's share of the model, or one for each chunk. `B` is the gradient of the inputs
    alone: a backward that is one instruction takes `B + W`. `pair` is the time of a forward and a whole backward that
    run at the same time (default: as long as one after the other). A transfer takes `transfer`, one number or one for
    each boundary between chunks, after its instruction and beside all others; chunks of one device hand over at no
    cost.

    `activations` is the memory that one micro-batch needs between forward and backward, of which the part `kept` stays
    between `B` and `W`. `slices` are the parts of a micro-batch that token slices are (default: equal ones).
    """

    F: Numbers = 1
    B: Numbers = 1
    W: Numbers = 1
    U: Numbers = 0
    pair: Numbers | None = None
    transfer: Numbers = 0
    activations: Numbers = 1
    kept: Number = 1
    slices: Sequence[Number] | None = None

    def checked(self, schedule: Schedule) -> "Checked":
        """These costs for one schedule; raises ScheduleError where there are not as many as it has chunks."""
        chunks, slices = schedule.chunks, schedule.token_slices
        share = Fraction(schedule.stages, chunks)
        return Checked(
            {kind: _each(kind, getattr(self, kind), chunks, share) for kind in KINDS},
            None if self.pair is None else _each("pair", self.pair, chunks, share),
            _each("transfer", self.transfer, chunks - 1),
            _each("activations", self.activations, chunks, share),
            _part("kept", self.kept),
            _each("slices", Fraction(1, slices) if self.slices is None else self.slices, slices),
        )


@dataclass(frozen=True)
class Checked:
    """Exact costs of one schedule."""

    kinds: dict[str, tuple[Fraction, ...]]
    pairs: tuple[Fraction, ...] | None
    transfers: tuple[Fraction, ...]
    activations: tuple[Fraction, ...]
    kept: Fraction
    slices: tuple[Fraction, ...]

    def times(self) -> Iterator[Fraction]:
        """All times: those of token slices, and of whole micro-batches."""
        wholes = [*chain.from_iterable(self.kinds.values()), *(self.pairs or ()), *self.transfers]
        yield from wholes
        yield from (whole * part for whole in wholes for part in self.slices)

    def time(self, instruction: Instruction, *, whole: bool) -> Fraction:
        """The time of an instruction; `whole` is for a backward that is one instruction."""
        if instruction.kind == "U":
            return self.kinds["U"][instruction.chunk]
        time = self.kinds[instruction.kind][instruction.chunk]
        if whole:
            time += self.kinds["W"][instruction.chunk]
        return time * self.slices[instruction.token_slice]

    def memory(self, instruction: Instruction) -> Fraction:
        return self.activations[instruction.chunk] * self.slices[instruction.token_slice]


def exact(name: str, number: Numbers) -> Fraction:
    """A time or a size as a fraction; `0.1` is a tenth. Raises ScheduleError for other text."""
    try:
        found = Fraction(str(number))
    except (ValueError, ZeroDivisionError) as error:
        raise ScheduleError(f"{name}: expected a number such as 2, 0.5 or 1/3, not {number!r}") from error
    if found < 0:
        raise ScheduleError(f"{name}: expected a number from 0 up, not {number}")
    return found


def _part(name: str, number: Number) -> Fraction:
    found = exact(name, number)
    if found > 1:
        raise ScheduleError(f"{name}: expected a part from 0 to 1, not {number}")
    return found


def _each(name: str, numbers: Numbers, count: int, share: Fraction = _ALL) -> tuple[Fraction, ...]:
    """`count` numbers; one for all is that of a device, of which each has its `share`."""
    if isinstance(numbers, int | float | str | Fraction):
        return (exact(name, numbers) * share,) * count
    if len(numbers) != count:
        raise ScheduleError(f"{name}: expected one number or {count} of them, not {len(numbers)}")
    return tuple(exact(name, number) for number in numbers)


NAMES = tuple(field.name for field in fields(Costs))
