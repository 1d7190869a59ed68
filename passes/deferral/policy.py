"""The option `policy` of the passes that have it: values that may take memory, mesh axes over which reductions move.

Tests: test/passes/defer-sync-policy.mlir, test/numeric/test_policies.py, test/numeric/test_hoisted_gathers.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from paropt.passes.deferral.analysis import Cost
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
    held: int = 0  # bytes per device that deferrals hold more than the program did

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
        """The best first: what saves most for each byte that it holds."""
        left = self.memory_budget - self.held
        order = sorted(range(len(costs)), key=lambda i: (-costs[i].saved / max(costs[i].held, 1), i))
        decided: list[Declined | None] = [None] * len(costs)
        for i in order:
            if costs[i].held <= max(left, 0):
                left -= costs[i].held
                continue
            numbers = f"it would save {costs[i].saved} bytes of reductions and hold {costs[i].held} more"
            decided[i] = Declined(f"{numbers}, and {max(left, 0)} are left of a budget of {self.memory_budget}")
        return decided
