"""The option `policy` of the passes that have it: values that may take memory, mesh axes over which reductions move.

Tests: test/passes/defer-sync-policy.mlir, test/numeric/test_policies.py, test/numeric/test_hoisted_gathers.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from jaxlib.mlir import ir

from paropt.passes.deferral.analysis import Cost
from paropt.passes.sharding.annotations import HELD
from paropt.passes.sharding.collectives import REDUCE_SCATTER, Reduction, axes_of
from paropt.passes.sharding.meshes import Mesh
from paropt.passes.support.remarks import Declined, require

PolicyName = Literal["keep-shards", "defer", "every", "hierarchical", "auto", "gather", "once"]
HOLDS_SUMS = frozenset({"defer", "once"})  # unsharded, and reduces each once
HOLDS_PARAMETERS = frozenset({"gather", "once"})  # unsharded, and gathers each once


@dataclass
class Policy:
    """The options that choose among the legal deferrals, and the memory that they have taken so far."""

    name: PolicyName
    memory_budget: int  # bytes per device, for `auto`
    axes: tuple[str, ...]  # of the mesh; () for all
    held: int = 0  # bytes per device that are held more than by the program
    reserved: int = 0  # bytes that what has left an inner loop will take again when it leaves the loop around that

    @classmethod
    def of(cls, module: ir.Operation, name: PolicyName, memory_budget: int, axes: tuple[str, ...] = ()) -> "Policy":
        """With what earlier passes have spent of the budget."""
        return cls(name, memory_budget, axes, held_in(module) if name == "auto" else 0)

    def note(self, module: ir.Operation) -> None:
        """Notes on `module`, for later passes, what is spent of the budget."""
        if self.name == "auto":
            module.attributes[HELD] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64, module.context), self.held)

    def take(self, cost: Cost) -> None:
        """Counts what a deferral that is made holds."""
        self.held += cost.held
        if cost.again:
            self.reserved -= min(self.reserved, cost.held)
        self.reserved += cost.held_around - cost.held

    @property
    def scatters(self) -> bool:
        """Whether an all_reduce of which each device reads its shard becomes a reduce_scatter, be it in the loop."""
        return self.name not in ("keep-shards", "gather")

    @property
    def may_unscatter(self) -> bool:
        """Whether each reduce_scatter leaves its loop that may: with `auto` some stay, and keep their form."""
        return self.name in HOLDS_SUMS

    def require_axes(self, reduction: Reduction, meshes: tuple[Mesh, ...]) -> None:
        """Declines unless `axes` are not restricted, or have those over which `reduction` reduces."""
        if not self.axes:
            return
        require(bool(meshes), "option axes names axes of a mesh, and the module has none")
        over = axes_of(reduction, meshes)
        require(over is not None, "its replica groups are not those of mesh axes, which option axes asks for")
        assert over is not None
        allowed = set(over) <= set(self.axes)
        require(allowed, f"it reduces over {' and '.join(over)}, and option axes is {','.join(self.axes)}")

    def chosen(self, costs: Sequence[tuple[Reduction, Cost]]) -> list[Declined | None]:
        """Of each deferral, why the policy does not make it; None when it does."""
        if self.name == "auto":
            return self._within_budget([cost for _, cost in costs])
        return [self._shards_kept(reduction) for reduction, _ in costs]

    def _shards_kept(self, reduction: Reduction) -> Declined | None:
        if reduction.kind != REDUCE_SCATTER or self.name in HOLDS_SUMS:
            return None
        return Declined(
            "a reduce_scatter stays: its accumulator would have to be unsharded (option policy=defer allows it)"
        )

    def _within_budget(self, costs: Sequence[Cost]) -> list[Declined | None]:
        """The best first: what saves most for each byte that it holds; before that, for what bytes are reserved."""
        left, reserved = self.memory_budget - self.held - self.reserved, self.reserved
        ratios = [each.saved_around / max(each.held_around, 1) for each in costs]
        order = sorted(range(len(costs)), key=lambda i: (not costs[i].again, -ratios[i], i))
        decided: list[Declined | None] = [None] * len(costs)
        for i in order:
            own = min(reserved, costs[i].held) if costs[i].again else 0
            needed = costs[i].held_around - own
            if needed <= max(left, 0):
                left, reserved = left - needed, reserved - own
                continue
            numbers = f"it would save {costs[i].saved_around} bytes of reductions and hold {costs[i].held_around} more"
            decided[i] = self._over_budget(numbers, left)
        return decided

    def gathers_chosen(self, costs: Sequence["GatherCost"], sums: int) -> list[Declined | None]:
        """Of parameters that may be gathered once, why the policy gathers one at use; None when it does not.

        `sums` are the bytes that all sums would take: of what is read once in a trip these save more for each byte.
        """
        decided: list[Declined | None] = [None] * len(costs)
        if self.name != "auto":
            return decided
        left = self.memory_budget - self.held
        order = sorted(
            range(len(costs)), key=lambda i: (costs[i].reads == 1, -costs[i].saved / max(costs[i].held, 1), i)
        )
        for i in order:
            room = left if costs[i].reads > 1 else left - sums
            if costs[i].held <= max(room, 0):
                left -= costs[i].held
                continue
            numbers = f"it would save {costs[i].saved} bytes of all-gathers and hold {costs[i].held} more"
            decided[i] = self._over_budget(numbers, room)
        return decided

    def _over_budget(self, numbers: str, left: int) -> Declined:
        return Declined(f"{numbers}, and {max(left, 0)} are left of a budget of {self.memory_budget}")


class GatherCost(NamedTuple):
    """What a parameter costs that is gathered once, before a loop."""

    reads: int  # gathers in a trip
    saved: int  # bytes gathered less
    held: int  # bytes held more


def held_in(module: ir.Operation) -> int:
    """The bytes per device that passes have spent of the budget of `auto`."""
    return ir.IntegerAttr(module.attributes[HELD]).value if HELD in module.attributes else 0


def forget_held(module: ir.Operation) -> None:
    if HELD in module.attributes:
        del module.attributes[HELD]
