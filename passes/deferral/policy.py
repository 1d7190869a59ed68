"""The option `policy` of the passes that have it: values that may take memory, mesh axes over which reductions move.

Tests: test/unit/passes/decisions/test_sum_decisions.py, test/passes/defer-sync-policy.mlir.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from jaxlib.mlir import ir

from paropt.passes.deferral.deferral_cost import Cost
from paropt.passes.deferral.holding_plan import Trade, held_by, note_taken, rooms_short, taken_in
from paropt.passes.sharding.collectives import REDUCE_SCATTER, Reduction, axes_of
from paropt.passes.sharding.meshes import Mesh, meshes_of
from paropt.passes.support.axis_numbers import axis_numbers
from paropt.passes.support.remarks import Declined, require

UNLIMITED = 1 << 50  # a budget of bytes, more than any device has
PolicyName = Literal["keep-shards", "defer", "every", "hierarchical", "auto", "gather", "once"]


class Holding(NamedTuple):
    """What a policy has all devices hold without shards, and what it makes of sums that stay sharded.

    With `sums`, own shards are scattered: some sums leave their loop in no other way.
    """

    sums: bool = False  # whole, and reduces each once
    parameters: bool = False  # whole, and gathers each once
    budget: bool = False  # those sums and parameters that save most for each byte, within option memory-budget
    scatters_own_shards: bool = True  # as `Policy.scatters_own_shards` says
    splits: bool = True  # a sum that some axes shard is reduced over them in each iteration, and once over the others


POLICIES: dict[PolicyName, Holding] = {
    "keep-shards": Holding(scatters_own_shards=False),
    "defer": Holding(sums=True),
    "every": Holding(splits=False),
    "hierarchical": Holding(),
    "auto": Holding(budget=True),
    "gather": Holding(parameters=True, scatters_own_shards=False),
    "once": Holding(sums=True, parameters=True),
}


def names_where(holds: Callable[[Holding], bool]) -> str:
    """The policies of which `holds` is true, for the help of options."""
    return ", ".join(name for name, holding in POLICIES.items() if holds(holding))


HOLDS_SUMS = frozenset(name for name, holding in POLICIES.items() if holding.sums)
HOLDS_PARAMETERS = frozenset(name for name, holding in POLICIES.items() if holding.parameters)
HAS_BUDGET = frozenset(name for name, holding in POLICIES.items() if holding.budget)


@dataclass
class Policy:
    """The options that choose among the legal deferrals, and the memory that they have taken so far."""

    name: PolicyName
    memory_budget: int  # bytes per device, for `auto`
    axes: tuple[str, ...]  # of the mesh; () for all
    held: int = 0  # bytes per device that are held more than by the program
    reserved: int = 0  # bytes that sums from inner loops will take again when they leave the loops around
    taken: list[Trade] = field(default_factory=list)  # by the pass, and those before it
    links: Mapping[str, int] = field(default_factory=dict)  # the cost of a byte over each axis; 1 by default
    meshes: tuple[Mesh, ...] = ()

    @classmethod
    def of(
        cls,
        module: ir.Operation,
        name: PolicyName,
        memory_budget: int,
        axes: tuple[str, ...] = (),
        link_cost: str = "",
    ) -> "Policy":
        """With the part of the budget that earlier passes have spent."""
        before = taken_in(module) if name in HAS_BUDGET else []
        meshes = tuple(meshes_of(module).values())
        return cls(
            name, memory_budget, axes, held_by(before), taken=before, links=axis_numbers(link_cost), meshes=meshes
        )

    def link(self, axes: Iterable[str]) -> int:
        """The cost of a byte that is sent over all of `axes`: that of the slowest of them."""
        return max((self.links.get(axis, 1) for axis in axes), default=1)

    def levels(self, axes: Iterable[str]) -> list[frozenset[str]]:
        """`axes`, those together over which a byte costs as much; the slowest first."""
        found: dict[int, frozenset[str]] = {}
        for axis in axes:
            cost = self.links.get(axis, 1)
            found[cost] = found.get(cost, frozenset()) | {axis}
        return [found[cost] for cost in sorted(found, reverse=True)]

    def trade_of(self, reduction: Reduction, cost: Cost) -> Trade:
        """The trade of a sum that is held whole, by all loops that it is to leave."""
        link = self.link(axes_of(reduction, self.meshes) or ()) if self.links else 1
        return Trade(cost.saved_around, cost.held_around, cost.around * cost.fewer, link)

    def note(self, module: ir.Operation) -> None:
        """Annotates `module`, for later passes, with the trades on which the budget is spent."""
        if self.has_budget:
            note_taken(module, self.taken)

    def take(self, trade: Trade) -> None:
        """Counts a trade that is made."""
        self.held += trade.held
        self.taken.append(trade)

    def take_sum(self, reduction: Reduction, cost: Cost) -> None:
        """Counts the bytes that a chosen deferral holds, by this loop; bytes for the loops around it are reserved."""
        self.held += cost.held
        if cost.again:
            self.reserved -= min(self.reserved, cost.held)
            return
        self.reserved += cost.held_around - cost.held
        if cost.held_around > 0:
            self.taken.append(self.trade_of(reduction, cost))

    @property
    def has_budget(self) -> bool:
        """Whether the bytes that each sum and parameter saves and holds decide about it."""
        return self.name in HAS_BUDGET

    @property
    def scatters_own_shards(self) -> bool:
        """Whether an all_reduce of which each device reads its shard becomes a reduce_scatter, be it in the loop."""
        return POLICIES[self.name].scatters_own_shards

    @property
    def may_unscatter(self) -> bool:
        """Whether each reduce_scatter leaves its loop that may: with `auto` some stay, and keep their form."""
        return self.name in HOLDS_SUMS

    def require_axes(self, reduction: Reduction, meshes: tuple[Mesh, ...]) -> None:
        """Declines where the option `axes` is given and lacks an axis over which `reduction` reduces."""
        if not self.axes:
            return
        require(bool(meshes), "option axes names axes of a mesh, and the module has none")
        over = axes_of(reduction, meshes)
        require(over is not None, "its replica groups are not those of mesh axes, which option axes asks for")
        assert over is not None
        allowed = set(over) <= set(self.axes)
        require(allowed, f"it is over {' and '.join(over)}, and option axes is {','.join(self.axes)}")

    def chosen(self, costs: Sequence[tuple[Reduction, Cost]]) -> list[Declined | None]:
        """Of each deferral, why the policy does not make it; None when it does."""
        if self.has_budget:
            return self._within_budget(costs)
        return [self._shards_kept(reduction) for reduction, _ in costs]

    def _shards_kept(self, reduction: Reduction) -> Declined | None:
        if reduction.kind != REDUCE_SCATTER or self.name in HOLDS_SUMS:
            return None
        return Declined(
            "a reduce_scatter stays: its accumulator would have to be unsharded (option policy=defer allows it)"
        )

    def _within_budget(self, costs: Sequence[tuple[Reduction, Cost]]) -> list[Declined | None]:
        """The best first; a sum that has left an inner loop has its bytes reserved."""
        reserved = self.reserved
        trades: list[Trade] = []
        for reduction, cost in costs:
            own = min(reserved, cost.held) if cost.again else 0
            reserved -= own
            trades.append(self.trade_of(reduction, cost)._replace(held=cost.held_around - own))
        return self._refused(trades, trades, self.room - self.reserved, "reductions")

    def gathers_chosen(self, gathers: Sequence[Trade], sums: Callable[[], Sequence[Trade]]) -> list[Declined | None]:
        """Of parameters that may be gathered once, why the policy gathers one at use; None when it does not.

        With a budget it counts those that it gathers once, and asks `sums` for those that later passes may hold whole:
        where they save more for each byte, they come first. The bytes that are left suffice for these, and for no other
        ones.
        """
        if not self.has_budget or not gathers:
            return [None] * len(gathers)
        decided = self._refused(gathers, [*gathers, *sums()], self.room, "all-gathers")
        for trade, no in zip(gathers, decided, strict=True):
            if no is None:
                self.take(trade)
        return decided

    @property
    def room(self) -> int:
        """The bytes that are left of the budget."""
        return self.memory_budget - self.held

    def _refused(
        self, asking: Sequence[Trade], trades: Sequence[Trade], room: int, saved: str
    ) -> list[Declined | None]:
        """Why the plan of all `trades` leaves out some of the first, `asking`."""
        return [
            None if left is None else self._over_budget(trade, left, saved)
            for trade, left in zip(asking, rooms_short(trades, room), strict=False)
        ]

    def _over_budget(self, trade: Trade, left: int, saved: str) -> Declined:
        numbers = f"it would save {trade.saved} bytes of {saved} and hold {trade.held} more"
        return Declined(f"{numbers}, and {left} are left of a budget of {self.memory_budget}")
