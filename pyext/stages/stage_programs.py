"""The functions of a cut step, compiled for the devices of their stages."""

import warnings
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from paropt.passes.pipelining.stage_manifest import StageProgram
from paropt.stages.cut_step import CutStep
from paropt.stages.stacked_arrays import stacked_sharding
from paropt.stages.step_plan import StageError, StepPlan


def require_stages(mesh: Mesh, axis: str, stages: int) -> None:
    """Raises StageError for a mesh that has no devices for so many stages."""
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


class Placement:
    """How values are sharded over the devices of a stage, as far as that is not XLA's choice."""

    def __init__(self, cut: CutStep, mesh: Mesh, axis: str, given: Mapping[str, PartitionSpec]) -> None:
        """`given` has the specs of arguments that are not replicated, in axes of a stage's mesh."""
        self._cut, self._mesh, self._axis = cut, mesh, axis
        self.meshes = stage_meshes(mesh, axis)
        self._specs = dict(given)
        manifest = cut.manifest
        self._specs |= {carried: given[each] for carried, each in manifest.gradients.items() if each in given}
        of_pieces = {name: f"argument{piece.argument}" for name, piece in manifest.pieces.items()}
        self._specs |= {name: given[each] for name, each in of_pieces.items() if each in given}
        rows = [program for program in manifest.programs if program.kind == "rows"]
        self._arrays = {name for program in rows for name in program.arguments if name.startswith("kept")}

    def spec(self, name: str) -> PartitionSpec | None:
        """None where XLA chooses: of what the parts of a trip hand to each other."""
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
        return stacked_sharding(self._mesh, self._axis, spec)

    def _examples(self, name: str, dimension: int) -> PartitionSpec:
        """Sharded over all axes in the dimension of the examples, if that can be cut into equal parts."""
        shape, axes = self._cut.shapes[name].shape, self.meshes[0].axis_names
        fits = len(shape) > dimension and shape[dimension] % self.meshes[0].size == 0
        return PartitionSpec(*[None] * dimension, axes) if fits else PartitionSpec()


class StagePrograms:
    """The executables of a plan, by function and place, and how each slot is sharded."""

    def __init__(self, cut: CutStep, plan: StepPlan, placement: Placement, donated: frozenset[str]) -> None:
        self._cut, self._plan, self._placement = cut, plan, placement
        self._donated = donated
        self.shardings: list[Any] = [None] * len(plan.slots)
        self.executables: dict[tuple[str, int], Any] = {}
        self.lowered: dict[tuple[str, int], Any] = {}
        for number, slot in plan.given.items():
            self.shardings[number] = placement.sharding(slot.name, slot.place)
        last = self._last_reads()
        for action in plan.actions:
            if not isinstance(action.what, StageProgram):
                self.shardings[action.outputs[0]] = self._moved(self.shardings[action.inputs[0]], action.place)
                continue
            key = (action.what.symbol, action.place)
            if key not in self.executables:
                self._compile(action.what, action.place, action.inputs, last)
            made = self.executables[key].output_shardings
            for number, sharding in zip(action.outputs, made, strict=True):
                self.shardings[number] = sharding

    def _last_reads(self) -> dict[str, str]:
        """Of each argument of the step, the last function that reads it."""
        return {name: program.symbol for program in self._cut.manifest.programs for name in program.arguments}

    def _compile(self, program: StageProgram, place: int, inputs: list[int], last: dict[str, str]) -> None:
        function = self._cut.function(program)

        def called(*arguments: Any) -> list[Any]:
            return function(*arguments)

        called.__name__ = called.__qualname__ = program.symbol
        shapes = [
            jax.ShapeDtypeStruct(shape.shape, shape.dtype, sharding=self.shardings[number])
            for number, shape in zip(inputs, (self._cut.shapes[name] for name in program.arguments), strict=True)
        ]
        jitted = jax.jit(
            called,
            out_shardings=[self._result_sharding(program, name, place) for name in program.results],
            donate_argnums=[i for i, name in enumerate(program.arguments) if self._may_go(program, name, place, last)],
            keep_unused=True,
        )
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Some donated buffers were not usable")
            self.lowered[program.symbol, place] = jitted.lower(*shapes)
        self.executables[program.symbol, place] = self.lowered[program.symbol, place].compile()

    def _result_sharding(self, program: StageProgram, name: str, place: int) -> NamedSharding | None:
        olds = [old for old, new in self._plan.new_values.items() if new == name]
        spec = self._placement.spec(olds[0] if olds else name)
        if spec is None and not program.arguments:
            spec = PartitionSpec()  # nothing else tells jax for which devices it is
        return NamedSharding(self._placement.meshes[place], spec) if spec is not None else None

    def _may_go(self, program: StageProgram, name: str, place: int, last: dict[str, str]) -> bool:
        if name.startswith("carried"):
            return name in program.results
        piece = self._cut.manifest.pieces.get(name)
        argument = name if piece is None else f"argument{piece.argument}"
        is_last = last[name] == program.symbol and place == self._plan.home(name)
        return argument in self._donated and name in self._plan.new_values and is_last

    def _moved(self, sharding: Any, place: int) -> NamedSharding:
        spec = sharding.spec if isinstance(sharding, NamedSharding) else PartitionSpec()
        return NamedSharding(self._placement.meshes[place], spec)
