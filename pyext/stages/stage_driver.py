"""Runs a plan: a process starts the programs of all its stages, one after the other, and waits for none.

Several processes go through the same plan, each through the actions at its own places and the transfers to and from
them, all in the order of the plan: so no transfer waits for one that stands behind it.
"""

from collections.abc import Callable
from itertools import chain
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from paropt.passes.pipelining.stage_manifest import Piece, StageProgram
from paropt.stages.coordination import taking_a_step
from paropt.stages.cut_step import CutStep
from paropt.stages.given_values import require_same_values
from paropt.stages.stacked_arrays import are_spread, joined, rows_of
from paropt.stages.stage_programs import Placement, StagePrograms
from paropt.stages.step_plan import Action, StageError, StepPlan
from paropt.stages.transfers import Scalars, absent, put, transfer

# Without a limit, two processes with CPU devices waited for each other for ever: a program whose collectives waited for
# the other process ran on some devices of a stage, and waited for its turn on the others.
_CPU_PROGRAMS = 16

_ZEROS = jax.jit(lambda array: (jnp.zeros_like(array),))
_ADDED = jax.jit(lambda array, other: (array + other,), donate_argnums=0)


class Driver:
    """The actions of a plan as calls: `(function, inputs, outputs, frees)` each, on a list of arrays."""

    def __init__(self, cut: CutStep, plan: StepPlan, programs: StagePrograms, placement: Placement) -> None:
        self._cut, self._plan, self._programs, self._placement = cut, plan, programs, placement
        owners = placement.owners
        self._here = {number: slot for number, slot in plan.given.items() if owners.here(slot.place)}
        self._given = [
            (number, int(slot.name.removeprefix("argument")), programs.shardings[number])
            for number, slot in self._here.items()
            if slot.name.startswith("argument")
        ]
        self._pieces = [
            (number, cut.manifest.pieces[slot.name], programs.shardings[number])
            for number, slot in self._here.items()
            if slot.name.startswith("piece")
        ]
        self._trips: dict[int, jax.Array] | None = None
        self._compared = False  # the arguments of processes, before the first step
        self._transfers: dict[Any, Callable[..., Any]] = {}
        self._calls = [
            (self._call(action), tuple(action.inputs), self._outputs(action), tuple(action.frees))
            for action in plan.actions
            if owners.here(action.place) or (action.what == "send" and owners.here(self._source(action)))
        ]
        self._started: list[Any] | None = [] if owners.several and placement.on_cpu else None
        self._scalars: list[int] = []
        if owners.several:
            self._scalars = self._scalar_results()
        if self._scalars:
            self._replicated = Scalars(placement.mesh, placement.axis, [self._of_result(n) for n in self._scalars])

    def _outputs(self, action: Action) -> tuple[int, ...]:
        """The slots that the action fills in this process."""
        return tuple(action.outputs) if self._placement.owners.here(action.place) else ()

    def _source(self, action: Action) -> int:
        return self._plan.slots[action.inputs[0]].place

    def _shape(self, number: int) -> jax.ShapeDtypeStruct:
        shape = self._cut.shapes[self._plan.slots[number].name]
        return jax.ShapeDtypeStruct(shape.shape, shape.dtype, sharding=self._programs.shardings[number])

    def _of_result(self, result: int) -> tuple[int, jax.ShapeDtypeStruct]:
        (number,) = self._plan.results[result]
        return self._plan.slots[number].place, self._shape(number)

    def _scalar_results(self) -> list[int]:
        """The results that each process gets: scalars that are no state, such as a loss."""
        manifest = self._cut.manifest
        states = {new for _, new in manifest.states}
        single = (n for n, numbers in enumerate(self._plan.results) if len(numbers) == 1 and n not in states)
        return [n for n in single if not self._of_result(n)[1].shape]

    def _call(self, action: Action) -> Callable[..., Any]:
        if isinstance(action.what, StageProgram):
            executable: Callable[..., Any] = self._programs.executables[action.what.symbol, action.place]
            return executable
        if action.what == "send":
            if action.outputs[0] in self._programs.sent:
                return self._transfer(self._source(action), action.place, self._programs.sent[action.outputs[0]])
            sharding = self._programs.shardings[action.outputs[0]]
            return lambda array: (jax.device_put(array, sharding),)
        if action.what == "gather":
            gathering: Callable[..., Any] = self._programs.executables[f"gather_{action.place}", action.place]
            return gathering
        if action.what == "reduce":
            return self._programs.executables.get((f"reduce_{action.place}", action.place), lambda *sums: sums)
        return _ZEROS if action.what == "zeros" else _ADDED

    def _transfer(self, source: int, place: int, shape: jax.ShapeDtypeStruct) -> Callable[..., Any]:
        """A program for each kind of array between two places."""
        key = (source, place, shape.shape, shape.dtype, shape.sharding)
        if key not in self._transfers:
            meshes = self._placement.meshes[source], self._placement.meshes[place]
            self._transfers[key] = transfer(meshes, self._placement.axis, shape, _spec(shape.sharding))
        return self._transfers[key]

    def placed(self, number: int, leaf: Any) -> jax.Array:
        """Argument `number` of the step where it is between steps."""
        name = f"argument{number}"
        home = self._placement.sharding(name, self._plan.home(name))
        manifest = self._cut.manifest
        names = manifest.pieces_of(number)
        if not names or home is None or manifest.stages_of(name):
            return self._put(leaf, home, number)
        homes: list[Any] = [self._placement.sharding(each, self._plan.home(each)) for each in names]
        ranges = [manifest.pieces[each] for each in names]
        pieces = [self._rows(leaf, each, own) for each, own in zip(ranges, homes, strict=True)]
        return joined(pieces, self._placement.stacked(home.spec), home)

    def _put(self, leaf: Any, home: Any, argument: int) -> jax.Array:
        """The argument at its home, which may be on devices of other processes."""
        if home is not None and not home.addressable_devices:
            shape = self._cut.shapes[f"argument{argument}"]
            return absent(shape, home)
        return put(leaf, home, argument)

    def _rows(self, leaf: Any, piece: Piece, home: Any) -> jax.Array:
        if home.addressable_devices:
            return rows_of(leaf, piece.start, piece.end, home, piece.argument)
        shape = self._cut.shapes[f"argument{piece.argument}"]
        return absent(jax.ShapeDtypeStruct((piece.end - piece.start, *shape.shape[1:]), shape.dtype), home)

    def run(self, leaves: list[Any]) -> Any:
        """One step of these arguments."""
        arrays = self._arguments(leaves)
        if not self._placement.owners.several:
            self._go_through(arrays)
            return self._results(arrays)
        if not self._compared:
            require_same_values(self._cut, self._plan, self._placement.owners, leaves)
            self._compared = True
        with taking_a_step(self._placement.owners.processes):
            self._go_through(arrays)
            return self._results(arrays)

    def _arguments(self, leaves: list[Any]) -> list[Any]:
        """The array of each slot, of those that are filled before a step."""
        arrays: list[Any] = [None] * len(self._plan.slots)
        for number, argument, sharding in self._given:
            self._require_there(leaves[argument], argument)
            arrays[number] = put(leaves[argument], sharding, argument)
        for number, piece, sharding in self._pieces:
            leaf = leaves[piece.argument]
            self._require_there(leaf, piece.argument)
            arrays[number] = rows_of(leaf, piece.start, piece.end, sharding, piece.argument)
        for number, trip in self._numbers().items():
            arrays[number] = trip
        return arrays

    def _require_there(self, leaf: Any, argument: int) -> None:
        if isinstance(leaf, jax.Array) and leaf.is_deleted():
            path = self._cut.manifest.paths.get(f"argument{argument}", f"array {argument} of the step's arguments")
            raise StageError(f"{path} was donated by an earlier call, to new state: donate=None keeps what is passed")

    def _go_through(self, arrays: list[Any]) -> None:
        for call, inputs, outputs, frees in self._calls:
            made = call(*[arrays[number] for number in inputs])
            for number, array in zip(outputs, made, strict=False):
                arrays[number] = array
            if self._started is not None:
                self._wait_for_some(made)
            for number in frees:
                arrays[number] = None

    def _wait_for_some(self, made: Any) -> None:
        """Lets no more than so many programs run at once."""
        assert self._started is not None
        self._started.append(made)
        if len(self._started) >= _CPU_PROGRAMS:
            for array in chain.from_iterable(self._started):
                _wait_for(array)
            self._started.clear()

    def _results(self, arrays: list[Any]) -> Any:
        for numbers in self._plan.results if self._placement.owners.several else ():
            for number in numbers:
                if arrays[number] is None:
                    arrays[number] = absent(self._shape(number), self._programs.shardings[number])
        results = [self._result([arrays[number] for number in numbers]) for numbers in self._plan.results]
        if self._scalars:
            scalars = self._replicated([results[result] for result in self._scalars])
            for result, scalar in zip(self._scalars, scalars, strict=True):
                results[result] = scalar
        return jax.tree.unflatten(self._cut.out_tree, results)

    def _result(self, pieces: list[jax.Array]) -> jax.Array:
        if len(pieces) == 1:
            return pieces[0]
        sharding: Any = pieces[0].sharding
        return joined(pieces, self._placement.stacked(_spec(sharding)), sharding)

    def _numbers(self) -> dict[int, jax.Array]:
        """The numbers of the trips, on the devices, which are there when programs run."""
        if self._trips is None:
            start, _, step = self._cut.manifest.counting
            trips = {n: slot for n, slot in self._here.items() if slot.name == "trip"}
            dtype = self._cut.shapes["trip"].dtype if trips else None
            numbers = {n: np.asarray(start + slot.microbatch * step, dtype) for n, slot in trips.items()}
            self._trips = {n: put(number, self._programs.shardings[n], n) for n, number in numbers.items()}
        return self._trips


def require_spread(cut: CutStep, plan: StepPlan, placement: Placement) -> None:
    """Raises StageError for an array of which each stage has rows that cannot be sharded over the stages."""
    olds = {new: old for old, new in cut.manifest.states}
    for result, numbers in enumerate(plan.results):
        slots = [plan.slots[number] for number in numbers]
        homes = [NamedSharding(placement.meshes[slot.place], PartitionSpec()) for slot in slots]
        shapes = [cut.shapes[slot.name] for slot in slots]
        pieces = [jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=home) for x, home in zip(shapes, homes, strict=True)]
        if len(pieces) > 1 and not are_spread(pieces, placement.stacked(PartitionSpec())):
            name = f"argument{olds[result]}" if result in olds else cut.manifest.results[result]
            why = "its rows are not as many, and in order, in each stage"
            path = cut.manifest.paths.get(name, name)
            raise StageError(f"{path}: {why}, so that several processes cannot hold it as one array")


def _wait_for(array: jax.Array) -> None:
    """A donated array is ready when its receiver is. `is_deleted` misses deleted parts, of which numpy has views."""
    try:
        if not array.is_deleted():
            array.block_until_ready()
    except jax.errors.JaxRuntimeError as error:
        if "deleted or donated" not in str(error):
            raise


def _spec(sharding: Any) -> PartitionSpec:
    return sharding.spec if isinstance(sharding, NamedSharding) else PartitionSpec()
