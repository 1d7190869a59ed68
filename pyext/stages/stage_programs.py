"""The functions of a cut step, compiled for the devices of their stages."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from paropt.hook.step_programs import trimmed
from paropt.passes.pipelining.stage_manifest import StageProgram
from paropt.passes.support.remarks import Remark
from paropt.stages.coordination import Exchange
from paropt.stages.cut_step import CutStep
from paropt.stages.owners import owners_of
from paropt.stages.partial_sums import Packed, StagePolicy, TripProgram, axes_in, reduced_to, trip_program
from paropt.stages.stacked_arrays import stacked_sharding
from paropt.stages.step_plan import Action, StageError, StepPlan

_OF_TRIPS = ("forward", "backward", "weights")
Compile = Callable[[jax.stages.Lowered, Mesh], Any]  # for the devices of the mesh


def compile_here(lowered: jax.stages.Lowered, _: Mesh) -> jax.stages.Compiled:
    """For a step that runs in this process."""
    return lowered.compile()


def require_batch_axes(mesh: Mesh, axis: str, given: object) -> tuple[str, ...] | None:
    """The axes as a tuple; None for all. Raises StageError for others than those of a stage."""
    if given is None:
        return None
    names = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Sequence) else (given,)
    others = [name for name in mesh.axis_names if name != axis]
    wrong = [name for name in names if name not in others]
    if wrong:
        raise StageError(
            f"batch_axes: expected axes of a stage ({', '.join(others) or 'there are none'}), got {wrong[0]!r}"
        )
    return names


def require_stages(mesh: Mesh, axis: str, stages: int) -> None:
    """Raises StageError for a mesh that has no devices for so many stages."""
    if not isinstance(mesh, Mesh):
        raise StageError(f"mesh: expected a jax.sharding.Mesh with an axis {axis!r}, got {mesh!r}")
    if axis not in mesh.axis_names:
        raise StageError(f"axis: the mesh has no axis {axis!r}; it has {', '.join(mesh.axis_names)}")
    size = mesh.shape[axis]
    if size != stages:
        raise StageError(f"stages: expected {size}, the size of the mesh's axis {axis!r}, got {stages}")


def stage_meshes(mesh: Mesh, axis: str) -> list[Mesh]:
    """The devices of each stage, as a mesh of the other axes."""
    at = mesh.axis_names.index(axis)
    others = tuple(name for name in mesh.axis_names if name != axis)
    rows = np.moveaxis(mesh.devices, at, 0)
    return [Mesh(row, others) if others else Mesh(np.array([row]).reshape(1), ("device",)) for row in rows]


def spec_within(sharding: Any, axis: str, mesh: Mesh) -> PartitionSpec:
    """How the sharding of an array, if it has one, is over the axes that a stage has; `axis` is that of the stages."""
    if not isinstance(sharding, NamedSharding):
        return PartitionSpec()
    others = {name: size for name, size in mesh.shape.items() if name != axis}
    dimensions = [(each,) if isinstance(each, str) else tuple(each or ()) for each in sharding.spec]
    kept = [tuple(name for name in each if others.get(name) == sharding.mesh.shape[name]) for each in dimensions]
    return trimmed([each[0] if len(each) == 1 else each or None for each in kept])


class Placement:
    """How values are sharded over the devices of a stage, as far as that is not XLA's choice."""

    def __init__(
        self,
        cut: CutStep,
        mesh: Mesh,
        axis: str,
        given: Mapping[str, PartitionSpec],
        batch_axes: Sequence[str] | None = None,
    ) -> None:
        """`given` has the specs of arguments that are not replicated, in axes of a stage's mesh, and `batch_axes` those
        that shard examples: by default all.
        """
        self._cut, self.mesh, self.axis = cut, mesh, axis
        self.meshes = stage_meshes(mesh, axis)
        self._batch_axes = self.meshes[0].axis_names if batch_axes is None else tuple(batch_axes)
        self.owners = owners_of(self.meshes)
        self._specs = dict(given)
        manifest = cut.manifest
        of_pieces = {name: f"argument{piece.argument}" for name, piece in manifest.pieces.items()}
        self._specs |= {name: given[each] for name, each in of_pieces.items() if each in given}
        sums = manifest.gradients.items()
        self._specs |= {carried: self._specs[each] for carried, each in sums if each in self._specs}
        self._specs |= {share: self._specs[total] for share, total in manifest.shares.items() if total in self._specs}
        for name in of_pieces.values():
            if list(given.get(name, ()))[:1] not in ([], [None]):
                path = manifest.paths.get(name, name)
                raise StageError(f"{path}: its first dimension counts layers, which stages share: shard another one")
        rows = [program for program in manifest.programs if program.kind == "rows"]
        self._arrays = {name for program in rows for name in program.arguments if name.startswith("kept")}
        self._rows = {name for program in rows for name in program.results}

    @property
    def on_cpu(self) -> bool:
        return bool(self.mesh.devices.flat[0].platform == "cpu")

    @property
    def shares_examples(self) -> bool:
        """Whether each device of a stage has examples of its own of each micro-batch."""
        return any(self._examples(name, 0) != PartitionSpec() for name in self._rows)

    @property
    def sharded(self) -> frozenset[str]:
        """The parameters, pieces of them, and sums of their gradients that an axis of the examples shards."""
        found = (name for name, spec in self._specs.items() if spec != self.gathered(name))
        return frozenset(found) if self.shares_examples else frozenset()

    @property
    def sharded_parameters(self) -> frozenset[str]:
        return frozenset(name for name in self.sharded if name.startswith(("argument", "piece")))

    def gathered(self, name: str) -> PartitionSpec:
        """The spec of a parameter, or of a sum, that is whole over the axes of the examples."""
        dimensions = map(axes_in, self._specs.get(name, ()))
        kept = [tuple(axis for axis in axes if axis not in self._batch_axes) for axes in dimensions]
        return trimmed([each[0] if len(each) == 1 else each or None for each in kept])

    def spec(self, name: str) -> PartitionSpec | None:
        """The spec of the value `name`; None where XLA chooses, for values that the parts of a trip hand to each
        other."""
        if name in self._specs:
            return self._specs[name]
        if name.startswith("row"):
            return self._examples(name, 0)
        if name in self._arrays:
            return self._examples(name, 1)
        return PartitionSpec() if name.startswith(("argument", "piece", "carried", "trip")) else None

    def sharding(self, name: str, place: int) -> NamedSharding | None:
        spec = self.spec(name)
        return NamedSharding(self.meshes[place], spec) if spec is not None else None

    def stacked(self, spec: PartitionSpec) -> NamedSharding:
        """Of an array whose rows are spread over the stages."""
        return stacked_sharding(self.mesh, self.axis, spec)

    def _examples(self, name: str, dimension: int) -> PartitionSpec:
        """Sharded over the axes of the examples in their dimension, if that can be cut into equal parts."""
        shape, axes = self._cut.shapes[name].shape, self._batch_axes
        parts = prod(self.meshes[0].shape[axis] for axis in axes)
        fits = axes and len(shape) > dimension and shape[dimension] % parts == 0
        return PartitionSpec(*[None] * dimension, axes) if fits else PartitionSpec()


class StagePrograms:
    """The executables of a plan, by function and place, and how each slot is sharded.

    Of several processes, each has those of its places, and the others tell it the shardings of the values that they
    send.
    """

    def __init__(
        self,
        cut: CutStep,
        plan: StepPlan,
        placement: Placement,
        donated: frozenset[str],
        policy: StagePolicy,
        reduced: frozenset[str] = frozenset(),
        exchange: Exchange | None = None,
        compiled: Compile = compile_here,
    ) -> None:
        """The sums in `reduced` are reduced in each micro-batch."""
        self._compiled = compiled
        self._exchange, self._form = exchange, f"with {len(reduced)} sums reduced"
        self.sent: dict[int, jax.ShapeDtypeStruct] = {}  # of slots that other processes send or get
        self._cut, self._plan, self._placement, self._policy = cut, plan, placement, policy
        self._reduced = reduced
        self._donated = donated
        self.shardings: list[Any] = [None] * len(plan.slots)
        self.executables: dict[tuple[str, int], Any] = {}
        self.lowered: dict[tuple[str, int], Any] = {}
        self.remarks: list[Remark] = []
        self._trips: dict[tuple[str, int], TripProgram] = {}
        self._taken: dict[tuple[str, int], list[jax.ShapeDtypeStruct]] = {}
        for number, slot in plan.given.items():
            self.shardings[number] = placement.sharding(slot.name, slot.place)
        self._known: dict[str, Any] = {}  # by name, the shardings of slots that other processes have told
        self._summed: set[int] = set()  # the slots of sums that are reduced
        self._last = {name: program.symbol for program in cut.manifest.programs for name in program.arguments}
        for action in plan.actions:
            self._prepare(action)
        for program in cut.manifest.programs:  # now that it is known of which sums devices have addends
            if program.kind == "init" and not self.packed.keys().isdisjoint(program.results):
                for key in [key for key in self.executables if key[0] == program.symbol]:
                    self._finish(key, self._started(program), program, self._taken[key])
        self._agree_on_results()

    @cached_property
    def unlike(self) -> frozenset[str]:
        """The sums that are added to one another though only one of them is packed."""
        pairs, packed = self._cut.manifest.shares.items(), {*self.packed}
        if pairs and self._exchange is not None:
            self._exchange.tell(f"packed {self._form}", sorted(packed))
            packed.update(*[self._exchange.told(f"packed {self._form}", other) for other in self._exchange.others])
        return frozenset(name for pair in pairs if len(packed & {*pair}) == 1 for name in pair)

    @property
    def packed(self) -> dict[str, Packed]:
        """The sums of which each device has an addend, until they are reduced."""
        return {name: each for trip in self._trips.values() for name, each in trip.packed.items()}

    def _prepare(self, action: Action) -> None:
        """Compiles the program of the action, and notes how its results are sharded."""
        if action.what == "send":
            self._prepare_transfer(action)
            return
        if not self._placement.owners.here(action.place):
            return
        match action.what:
            case StageProgram() as program:
                if (program.symbol, action.place) not in self.executables:
                    self._compile(program, action.place, action.inputs)
                made = self.executables[program.symbol, action.place].output_shardings
            case "gather":
                made = self._compile_gathering(action)
            case "reduce":
                made = self._compile_reduction(action)
                self._summed.update(action.outputs)
            case _:
                made = [self._moved(self.shardings[action.inputs[0]], action.place)]
        for number, sharding in zip(action.outputs, made, strict=True):
            self.shardings[number] = sharding

    def _prepare_transfer(self, action: Action) -> None:
        """Notes the sharding of the sent value where it arrives: as where it was made."""
        (number,), (arrived,), owners = action.inputs, action.outputs, self._placement.owners
        source, place = self._plan.slots[number].place, action.place
        if not (owners.here(source) or owners.here(place)):
            return
        if not owners.crossing(source, place):
            self.shardings[arrived] = self._moved(self.shardings[number], place)
            return
        self.sent[arrived] = self._agreed(number, place)
        self.shardings[arrived] = self.sent[arrived].sharding

    def shape_of(self, number: int) -> jax.ShapeDtypeStruct:
        """The array of a slot, as its programs make it: of a sum that is not reduced, one addend per device."""
        slot, packed = self._plan.slots[number], self.packed if number not in self._summed else {}
        return self._shape(slot.name, slot.place, self.shardings[number], packed)

    def _agreed(self, number: int, place: int) -> jax.ShapeDtypeStruct:
        """The shape of a slot, sharded on the devices of `place` as it is on its own, as a process of these tells."""
        slot, owners, exchange = self._plan.slots[number], self._placement.owners, self._exchange
        assert exchange is not None, "one process has all places"
        what = f"{slot._replace(microbatch=-1)} for {place} {self._form}"
        if what not in self._known and owners.speaks(slot.place):
            shape = self.shape_of(number)
            spec = [*self._moved(self.shardings[number], place).spec]
            exchange.tell(what, [shape.shape, np.dtype(shape.dtype).name, spec])
        if what not in self._known:
            self._known[what] = exchange.told(what, owners.places[slot.place][0])
        shape, dtype, spec = self._known[what]
        axes = [tuple(each) if isinstance(each, list) else each for each in spec]
        sharding = NamedSharding(self._placement.meshes[place], PartitionSpec(*axes))
        return jax.ShapeDtypeStruct(tuple(shape), jnp.dtype(dtype), sharding=sharding)

    def _agree_on_results(self) -> None:
        """Notes how results are sharded that are on devices of other processes."""
        numbers = [*chain.from_iterable(self._plan.results)]
        for number in numbers if self._placement.owners.several else ():
            self.shardings[number] = self._agreed(number, self._plan.slots[number].place).sharding

    def _compile(self, program: StageProgram, place: int, inputs: list[int]) -> None:
        names = self._plan.read_by(program)
        shapes = [self._shape(name, place, self.shardings[number]) for name, number in zip(names, inputs, strict=True)]
        key = (program.symbol, place)
        self._taken[key] = shapes
        if program.kind in _OF_TRIPS and self._placement.meshes[place].size > 1:
            again = any(symbol == program.symbol for symbol, _ in self._trips)  # for another copy of the model
            self._trips[key] = self._trip(program, place, shapes)
            self.remarks += [] if again else self._trips[key].remarks
            packed = self._trips[key].packed
            shapes = [self._shape(n, place, s.sharding, packed) for n, s in zip(names, shapes, strict=True)]
            self._finish(key, self._trips[key].function, program, shapes)
            return
        self._finish(key, self._with_zeros(program), program, shapes)

    def _trip(self, program: StageProgram, place: int, shapes: list[jax.ShapeDtypeStruct]) -> TripProgram:
        """The function of `program`. It gathers sharded parameters; sums of gradients are as the policy says."""
        sharded = self._placement.sharded
        whole = {n: NamedSharding(self._placement.meshes[place], self._placement.gathered(n)) for n in sharded}
        shardings = {name: self._placement.sharding(name, place) for name in program.results}
        kept = {name: each for name, each in shardings.items() if name in sharded and self._policy == "keep-shards"}
        shardings |= {name: whole[name] for name in shardings if name in sharded and name not in kept}
        gathered = {name: whole[name] for name in program.arguments if name in self._placement.sharded_parameters}
        given = self._cut.function(program)

        def called(*arguments: Any) -> list[Any]:
            made = given(*_constrained(program.arguments, arguments, gathered))
            return _constrained(program.results, made, kept)

        function = called if gathered or kept else given
        return trip_program(self._cut, program, function, shapes, shardings, self._reduced)

    def _finish(
        self, key: tuple[str, int], function: Any, program: StageProgram, shapes: list[jax.ShapeDtypeStruct]
    ) -> None:
        names, place = self._plan.read_by(program), key[1]
        given_away = [i for i, name in enumerate(names) if self._may_go(program, name, place)]
        results = [self._result_sharding(program, name, place) for name in program.results]
        self._executable(key, function, shapes, results, given_away)

    def _executable(
        self, key: tuple[str, int], function: Any, shapes: list[Any], results: list[Any], given_away: list[int]
    ) -> None:
        def called(*arguments: Any) -> list[Any]:
            return list(function(*arguments))

        called.__name__ = called.__qualname__ = key[0]
        jitted = jax.jit(called, out_shardings=results, donate_argnums=given_away, keep_unused=True)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Some donated buffers were not usable")
            self.lowered[key] = jitted.lower(*shapes)
        self.executables[key] = self._compiled(self.lowered[key], self._placement.meshes[key[1]])

    def _shape(self, name: str, place: int, sharding: Any, packed: Mapping[str, Packed] = {}) -> jax.ShapeDtypeStruct:
        shape = self._cut.shapes[name]
        if name in packed:
            shape, sharding = packed[name].shape, NamedSharding(self._placement.meshes[place], packed[name].spec)
        return jax.ShapeDtypeStruct(shape.shape, shape.dtype, sharding=sharding)

    def _with_zeros(self, program: StageProgram) -> Any:
        """The function of `program`, called without the sums that have been added to others."""
        function, read = self._cut.function(program), self._plan.read_by(program)
        if read == program.arguments:
            return function

        def called(*arguments: Any) -> list[Any]:
            given = dict(zip(read, arguments, strict=True))
            shapes = self._cut.shapes
            every = [given[n] if n in given else jnp.zeros(shapes[n].shape, shapes[n].dtype) for n in program.arguments]
            return function(*every)

        return called

    def _started(self, program: StageProgram) -> Any:
        """The function `init`, of whose sums the first device has the init operands, the others have zeros."""
        function, packed = self._cut.function(program), self.packed

        def called(*arguments: Any) -> list[Any]:
            made = zip(program.results, function(*arguments), strict=True)
            return [_on_first(value, packed[name].shape.shape[0]) if name in packed else value for name, value in made]

        return called

    def _compile_gathering(self, action: Action) -> list[Any]:
        names, place = [self._plan.slots[n].name for n in action.inputs], action.place
        shapes = [self._shape(n, place, self.shardings[i]) for n, i in zip(names, action.inputs, strict=True)]
        key, mesh = (f"gather_{place}", place), self._placement.meshes[place]
        whole = [NamedSharding(mesh, self._placement.gathered(name)) for name in names]
        self._executable(key, lambda *arrays: arrays, shapes, whole, [])
        return list(self.executables[key].output_shardings)

    def _compile_reduction(self, action: Action) -> list[Any]:
        names, place, packed = [self._plan.slots[n].name for n in action.inputs], action.place, self.packed
        if packed.keys().isdisjoint(names):
            return [self.shardings[number] for number in action.inputs]
        inputs = zip(names, action.inputs, strict=True)
        shapes = [self._shape(name, place, self.shardings[number], packed) for name, number in inputs]
        results: list[Any] = [self._placement.sharding(name, place) for name in names]

        def reduced(*sums: jax.Array) -> list[jax.Array]:
            named = zip(names, sums, results, strict=True)
            return [reduced_to(each, packed[name].spec, to) if name in packed else each for name, each, to in named]

        key = (f"reduce_{place}", place)
        self._executable(key, reduced, shapes, results, list(range(len(names))))
        return list(self.executables[key].output_shardings)

    def _result_sharding(self, program: StageProgram, name: str, place: int) -> NamedSharding | None:
        if name in self.packed:
            return NamedSharding(self._placement.meshes[place], self.packed[name].spec)
        olds = [old for old, new in self._plan.new_values.items() if new == name]
        spec = self._placement.spec(olds[0] if olds else name)
        if spec is None and not program.arguments:
            spec = PartitionSpec()  # nothing else tells jax for which devices it is
        return NamedSharding(self._placement.meshes[place], spec) if spec is not None else None

    def _may_go(self, program: StageProgram, name: str, place: int) -> bool:
        if name.startswith("carried"):
            return name in program.results
        piece = self._cut.manifest.pieces.get(name)
        argument = name if piece is None else f"argument{piece.argument}"
        is_last = self._last[name] == program.symbol and place == self._plan.home(name)
        return argument in self._donated and name in self._plan.new_values and is_last

    def _moved(self, sharding: Any, place: int) -> NamedSharding:
        spec = sharding.spec if isinstance(sharding, NamedSharding) else PartitionSpec()
        return NamedSharding(self._placement.meshes[place], spec)


def stage_programs(
    cut: CutStep,
    plan: StepPlan,
    placement: Placement,
    donated: frozenset[str],
    policy: StagePolicy,
    exchange: Exchange | None,
    compiled: Compile = compile_here,
) -> StagePrograms:
    """The executables of a plan, in which sums that are added to one another have the same form.

    `compiled` compiles a lowered program to an object with `output_shardings`.
    """
    reduced = frozenset[str]()
    made = StagePrograms(cut, plan, placement, donated, policy, reduced, exchange, compiled)
    remarks = made.remarks  # these say why one of them is not packed
    while made.unlike:
        reduced |= made.unlike
        made = StagePrograms(cut, plan, placement, donated, policy, reduced, exchange, compiled)
        made.remarks = remarks
    return made


def _constrained(names: Sequence[str], values: Sequence[Any], shardings: Mapping[str, Any]) -> list[Any]:
    """`values`, those that `shardings` names sharded so."""
    named = zip(names, values, strict=True)
    return [jax.lax.with_sharding_constraint(x, shardings[n]) if n in shardings else x for n, x in named]


def _on_first(array: jax.Array, devices: int) -> jax.Array:
    """An array with a first dimension for devices, of which the first has `array`, and the others have zeros."""
    return jnp.pad(array[None], [(0, devices - 1), *[(0, 0)] * array.ndim])
