"""Known properties of each schedule, on paper: waiting, memory and traffic, as text and as a number.

`S` devices, `M` micro-batches, `v` chunks per device, `T` token slices; `F`, `B`, `W` are the times of a device's share
of the model, `F&B` that of a pair. Tests compare the numbers with the simulator.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from paropt.schedules.costs import Costs, exact
from paropt.schedules.simulation import period, simulate
from paropt.schedules.table import Schedule


@dataclass(frozen=True)
class Sizes:
    """The numbers that formulas are of."""

    S: int
    M: int
    v: int
    T: int
    F: Fraction
    B: Fraction
    W: Fraction
    pair: Fraction

    @staticmethod
    def of(schedule: Schedule, costs: Costs) -> "Sizes":
        """For costs that have one number for all chunks."""
        forward, backward, weights = (exact("cost", each) for each in (costs.F, costs.B, costs.W))
        pair = forward + backward + weights if costs.pair is None else exact("pair", costs.pair)
        stages = schedule.stages
        chunks = schedule.chunks // stages
        return Sizes(stages, schedule.microbatches, chunks, schedule.token_slices, forward, backward, weights, pair)

    @property
    def whole(self) -> Fraction:
        """A forward and a whole backward."""
        return self.F + self.B + self.W


@dataclass(frozen=True)
class Formula:
    """A number, as text and as a function of the sizes."""

    text: str
    value: Callable[[Sizes], Fraction | int]


@dataclass(frozen=True)
class ClosedForm:
    """The formulas of one schedule, and where they hold."""

    idle: Formula  # the longest that a device waits in one step, of many in a row
    peak: Formula  # the most activations of a device; its share of the model and one micro-batch is 1
    traffic: Formula  # activations and gradients between devices, for each micro-batch
    weights: Formula  # versions and copies of its share of the model that a device keeps at most
    where: str = ""
    holds: Callable[[Sizes], bool] = lambda n: True

    def bubble(self, n: Sizes) -> Fraction:
        """The part of a device's time that it waits."""
        idle = Fraction(self.idle.value(n))
        return idle / (n.M * n.whole + idle)


_FILL = Formula("(S-1)(F+B+W)", lambda n: (n.S - 1) * n.whole)
_NO_WAITING = Formula("0", lambda n: 0)
_ALL = Formula("M", lambda n: n.M)
_FIRST_STAGE = Formula("min(S, M)", lambda n: min(n.S, n.M))
_CHAIN = Formula("2(S-1)", lambda n: 2 * (n.S - 1))
_V = Formula("4(S-1)", lambda n: 4 * (n.S - 1))
_ONE = Formula("1", lambda n: 1)
_TWO = Formula("2", lambda n: 2)


def _equal(n: Sizes) -> bool:
    return n.F == n.B == n.W


CLOSED_FORMS = {
    "gpipe": ClosedForm(_FILL, _ALL, _CHAIN, _ONE),
    "1f1b": ClosedForm(_FILL, _FIRST_STAGE, _CHAIN, _ONE),
    "interleaved": ClosedForm(
        Formula("(S-1)(F+B+W)/v", lambda n: (n.S - 1) * n.whole / n.v),
        Formula("S + (S-1)/v", lambda n: n.S + Fraction(n.S - 1, n.v)),
        Formula("2(vS-1)", lambda n: 2 * (n.v * n.S - 1) * (n.S > 1)),
        _ONE,
        where="M > S",
        holds=lambda n: n.M > n.S,
    ),
    "zb-h1": ClosedForm(
        Formula("(S-1)(F+B-W)", lambda n: (n.S - 1) * (n.F + n.B - n.W)),
        Formula("S", lambda n: n.S),
        _CHAIN,
        _ONE,
        where="M >= 2S-1, W <= F, W <= B",
        holds=lambda n: n.M >= 2 * n.S - 1 and all(each >= n.W for each in (n.F, n.B)),
    ),
    "zb-h2": ClosedForm(
        _NO_WAITING,
        Formula("2S-1", lambda n: 2 * n.S - 1),
        _CHAIN,
        _ONE,
        where="F = B = W, M >= 2S-1",
        holds=lambda n: n.M >= 2 * n.S - 1 and _equal(n),
    ),
    "zb-v": ClosedForm(
        _NO_WAITING,
        Formula("S", lambda n: n.S),
        _V,
        _ONE,
        where="F = B = W, M >= 2S-1",
        holds=lambda n: n.M >= 2 * n.S - 1 and _equal(n),
    ),
    "chimera": ClosedForm(
        Formula("(S-2)(1+M/S)F", lambda n: (n.S - 2) * (1 + Fraction(n.M, n.S)) * n.F),
        Formula("S", lambda n: n.S),
        _CHAIN,
        _TWO,
        where="B+W = 2F, M a multiple of S",
        holds=lambda n: n.M % n.S == 0 and 2 * n.F == n.B + n.W,
    ),
    "dualpipe": ClosedForm(
        Formula("(S/2-1)(F&B+B-2W)", lambda n: (Fraction(n.S, 2) - 1) * (n.pair + n.B - 2 * n.W)),
        Formula("S+1", lambda n: n.S + 1),
        _CHAIN,
        _TWO,
        where="F = B >= W",
        holds=lambda n: n.F == n.B >= n.W,
    ),
    "dualpipev": ClosedForm(
        Formula("(S-1)(F&B+B-2W)/2", lambda n: Fraction(n.S - 1, 2) * (n.pair + n.B - 2 * n.W)),
        Formula("S+1/2", lambda n: n.S + Fraction(1, 2)),
        _V,
        _ONE,
        where="F = B >= W",
        holds=lambda n: n.F == n.B >= n.W,
    ),
    "terapipe": ClosedForm(Formula("(S-1)(F+B+W)/T", lambda n: (n.S - 1) * n.whole / n.T), _ALL, _CHAIN, _ONE),
    "pipedream": ClosedForm(
        _FILL,
        _FIRST_STAGE,
        _CHAIN,
        Formula("S", lambda n: n.S),
        where="M >= 2S-2",
        holds=lambda n: n.M >= 2 * n.S - 2,
    ),
    "ampnet": ClosedForm(_FILL, _FIRST_STAGE, _CHAIN, _ONE),
}


@dataclass(frozen=True)
class Measured:
    """The simulator's findings of the same."""

    idle: Fraction
    peak: Fraction
    traffic: Fraction
    weights: Fraction


def measured(schedule: Schedule, costs: Costs) -> Measured:
    found = simulate(schedule, costs)
    return Measured(
        period(schedule, costs) - min(found.busy),
        max(found.peak),
        Fraction(found.transfers, schedule.microbatches * schedule.token_slices),
        max(found.weights),
    )
