"""Where one parameter that a loop reads may be all-gathered: a pure function of the facts about it.

    the parameter, or its loop                            gathered
    may be examples; a reader keeps it sharded            at use
    sharded over axes that option `axes` lacks            at use
    changed by each trip of the loop                      at use
    sharded otherwise by a constraint in the loop         at use
    the loop is in another one, or makes one trip         at use
    XLA moves fewer bytes of activations in its place     at use; of one that trips change, in a trip
    any other                                             once, over all its axes, or those that a budget pays for

The last word has the policy: `Policy.gathers_chosen`. With a budget, a parameter over slow and fast axes is offered in
steps, the slow ones first, where that is worth more for each byte that is held.

Tests: test/unit/passes/decisions/test_parameter_decisions.py, test/passes/hoist-gathers-budget.mlir.
"""

from dataclasses import dataclass

from jaxlib.mlir import ir

from paropt.passes.deferral.holding_plan import Trade, are_in_order
from paropt.passes.support.remarks import require


@dataclass(frozen=True)
class Level:
    """Mesh axes over which a byte costs as much."""

    axes: frozenset[str]
    link: int  # the cost of a byte
    held: int  # bytes per device that hold the parameter gathered over these axes, and those of levels before
    at_use: int  # bytes of those that XLA gathers at use; the others it leaves sharded, and moves activations


@dataclass(frozen=True)
class ParameterRecord:
    """A sharded array that a loop reads. Operations are those that a remark points to."""

    name: str
    held: int  # bytes per device, gathered over all axes that may be
    at_use: int  # bytes per device that XLA gathers at use, over these axes
    levels: tuple[Level, ...]  # these axes, the slowest first
    trips: int | None
    gathers: int = 1  # how often XLA gathers it in a trip
    moved: int = 0  # bytes of activations that XLA moves in a trip, for readers for which it does not gather it
    unknown: str = ""  # why it may be no parameter
    kept_by: tuple[ir.Operation, ...] = ()  # readers that keep it sharded
    not_allowed: str = ""  # which axes are not among those of option `axes`, if none is
    varies: str = ""  # why it is not known to be the same in several trips
    renews: bool = False  # some trips change it, as many as all: it is gathered again after each
    is_nested: bool = False  # whether its loop is in another one
    constrained_by: tuple[ir.Operation, ...] = ()  # constraints in the loop that shard it otherwise

    @property
    def link(self) -> int:
        """The cost of a byte over the slowest of its axes."""
        return max((level.link for level in self.levels), default=1)

    def trade(self, held: int, at_use: int, moved: int, link: int) -> Trade:
        """XLA gathers it once in each block that reads it; of slices, all of it in all trips of the loop over
        layers."""
        times = 2 if self.trips is None else self.trips
        fewer = times * self.gathers + (times if moved else 0) - 1
        return Trade(times * (self.gathers * at_use + moved) - held, held, fewer, link)

    @property
    def once(self) -> Trade:
        """What it saves and holds to gather it once over all axes."""
        return self.trade(self.held, self.at_use, self.moved, self.link)


def _require_once(each: ParameterRecord) -> None:
    """Raises Declined for a parameter that is gathered at use with every policy."""
    name = each.name
    require(not each.unknown, each.unknown)
    require(not each.kept_by, f"a reader in the loop keeps the parameter ({name}) sharded", *each.kept_by)
    require(not each.not_allowed, each.not_allowed)
    require(not each.varies, each.varies)
    require(not each.is_nested, "the loop is in another one, where XLA would shard the gathered array")
    require(each.trips not in (0, 1), "the loop makes no more than one trip")
    otherwise = f"a constraint in the loop shards the parameter ({name}) over the same axes otherwise"
    require(not each.constrained_by, otherwise, *each.constrained_by)
    instead = f"XLA moves activations in place of the parameter, and to gather it takes {each.held} bytes"
    require(each.once.saved >= 0, instead)
    in_a_trip = each.gathers * each.at_use + each.moved
    require(not each.renews or in_a_trip >= each.held, f"{instead} after each update")


def steps_once(each: ParameterRecord) -> list[tuple[frozenset[str], Trade]]:
    """The axes over which it may be gathered once, those of steps before included, and what each step saves and holds.

    Raises Declined where it is gathered at use with every policy.
    """
    _require_once(each)
    steps = list[tuple[frozenset[str], Trade]]()
    names, held, at_use = frozenset[str](), 0, 0
    for level in each.levels:
        names |= level.axes
        moved = each.moved * (level.held - held) // max(each.held, 1)
        steps.append((names, each.trade(level.held - held, level.at_use - at_use, moved, level.link)))
        held, at_use = level.held, level.at_use
    return steps if are_in_order([trade for _, trade in steps]) else [(names, each.once)]
