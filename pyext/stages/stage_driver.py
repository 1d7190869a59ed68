"""Runs a plan: one process starts the programs of all stages, one after the other, and waits for none."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from paropt.passes.pipelining.stage_manifest import StageProgram
from paropt.stages.cut_step import CutStep
from paropt.stages.stacked_arrays import joined, rows_of
from paropt.stages.stage_programs import Placement, StagePrograms
from paropt.stages.step_plan import Action, StageError, StepPlan

_ZEROS = jax.jit(lambda array: (jnp.zeros_like(array),))
_ADDED = jax.jit(lambda array, other: (array + other,), donate_argnums=0)


class Driver:
    """The actions of a plan as calls: `(function, inputs, outputs, frees)` each, on a list of arrays."""

    def __init__(self, cut: CutStep, plan: StepPlan, programs: StagePrograms, placement: Placement) -> None:
        self._cut, self._plan, self._programs, self._placement = cut, plan, programs, placement
        self._given = [
            (number, int(slot.name.removeprefix("argument")), programs.shardings[number])
            for number, slot in plan.given.items()
            if slot.name.startswith("argument")
        ]
        self._pieces = [
            (number, cut.manifest.pieces[slot.name], programs.shardings[number])
            for number, slot in plan.given.items()
            if slot.name.startswith("piece")
        ]
        self._trips: dict[int, jax.Array] | None = None
        self._calls = [
            (self._call(action), tuple(action.inputs), tuple(action.outputs), tuple(action.frees))
            for action in plan.actions
        ]

    def _call(self, action: Action) -> Callable[..., Any]:
        if isinstance(action.what, StageProgram):
            executable: Callable[..., Any] = self._programs.executables[action.what.symbol, action.place]
            return executable
        if action.what == "send":
            sharding = self._programs.shardings[action.outputs[0]]
            return lambda array: (jax.device_put(array, sharding),)
        if action.what == "gather":
            gathering: Callable[..., Any] = self._programs.executables[f"gather_{action.place}", action.place]
            return gathering
        if action.what == "reduce":
            return self._programs.executables.get((f"reduce_{action.place}", action.place), lambda *sums: sums)
        return _ZEROS if action.what == "zeros" else _ADDED

    def placed(self, number: int, leaf: Any) -> jax.Array:
        """Argument `number` of the step where it is between steps."""
        name = f"argument{number}"
        home = self._placement.sharding(name, self._plan.home(name))
        manifest = self._cut.manifest
        names = manifest.pieces_of(number)
        if not names or home is None or manifest.stages_of(name):
            return jax.device_put(leaf, home)
        homes: list[Any] = [self._placement.sharding(each, self._plan.home(each)) for each in names]
        ranges = [manifest.pieces[each] for each in names]
        pieces = [rows_of(leaf, each.start, each.end, own) for each, own in zip(ranges, homes, strict=True)]
        return joined(pieces, self._placement.stacked(home.spec), home)

    def run(self, leaves: list[Any]) -> Any:
        """One step of these arguments."""
        arrays: list[Any] = [None] * len(self._plan.slots)
        for number, argument, sharding in self._given:
            arrays[number] = _put(leaves[argument], sharding, argument)
        for number, piece, sharding in self._pieces:
            leaf = leaves[piece.argument]
            _require_there(leaf, piece.argument)
            arrays[number] = rows_of(leaf, piece.start, piece.end, sharding)
        for number, trip in self._numbers().items():
            arrays[number] = trip
        for call, inputs, outputs, frees in self._calls:
            made = call(*[arrays[number] for number in inputs])
            for number, array in zip(outputs, made, strict=True):
                arrays[number] = array
            for number in frees:
                arrays[number] = None
        results = [self._result([arrays[number] for number in numbers]) for numbers in self._plan.results]
        return jax.tree.unflatten(self._cut.out_tree, results)

    def _result(self, pieces: list[jax.Array]) -> jax.Array:
        if len(pieces) == 1:
            return pieces[0]
        sharding: Any = pieces[0].sharding
        spec = sharding.spec if isinstance(sharding, NamedSharding) else PartitionSpec()
        return joined(pieces, self._placement.stacked(spec), sharding)

    def _numbers(self) -> dict[int, jax.Array]:
        """The numbers of the trips, on the devices, which are there when programs run."""
        if self._trips is None:
            start, _, step = self._cut.manifest.counting
            trips = {n: slot for n, slot in self._plan.given.items() if slot.name == "trip"}
            self._trips = {
                n: jax.device_put(
                    np.asarray(start + slot.microbatch * step, self._cut.shapes["trip"].dtype),
                    self._programs.shardings[n],
                )
                for n, slot in trips.items()
            }
        return self._trips


def _put(leaf: Any, sharding: Any, argument: int) -> jax.Array:
    _require_there(leaf, argument)
    if isinstance(leaf, jax.Array) and leaf.sharding == sharding:
        return leaf
    return jax.device_put(leaf, sharding)


def _require_there(leaf: Any, argument: int) -> None:
    if isinstance(leaf, jax.Array) and leaf.is_deleted():
        raise StageError(f"array {argument} of the step's arguments was donated by an earlier call")
