"""Compiles the programs of a cut step in a process of its own: `python -m paropt.stages.stages_apart [FOLDER]`.

The folder holds a request and the module that is cut; the child adds the HLO and the module of each program, and a
reply. Compilers abort the process on some mistakes: the caller gets one line. Equal programs, of several stages or of
an earlier request to the same child, are compiled once.

Tests: test/unit/pyext/planning/test_stage_plans.py.
"""

import re
import sys
import tempfile
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxlib.mlir import ir

from paropt.clusters.compile_apart import obituary
from paropt.clusters.compiled import Memory, TargetError, first_line, memory_of
from paropt.clusters.targets import Target, get
from paropt.hlo.participants import Device, devices_of
from paropt.modules.module_io import bytecode_of
from paropt.passes.pipelining.parts import STAGE
from paropt.passes.support.context import make_context
from paropt.process.subprocesses import (
    ChildDiedError,
    StandingChildren,
    command,
    put_reply,
    request_in,
    serve,
    standing,
)
from paropt.schedules import Schedule, schedule
from paropt.stages.cut_step import CutStep, cut_in
from paropt.stages.partial_sums import StagePolicy
from paropt.stages.stage_programs import Placement, StagePrograms, stage_meshes, stage_programs
from paropt.stages.step_plan import StageError, StepPlan

AXIS = "stage"
_MODULE = "step.mlirbc"
_REMEMBERED = 256  # programs, of a child

Dimensions = Sequence[Sequence[str]]  # the axes that shard each


class Layout(NamedTuple):
    """The layout in which a cut step is compiled."""

    schedule: str
    microbatches: int
    chunks: int | None  # per device, where the schedule lets choose
    axes: tuple[tuple[str, int], ...]  # of the mesh, of all devices of the target; AXIS first
    specs: Mapping[str, Dimensions]  # of the arguments that are sharded in their stage, by number
    policy: StagePolicy
    donates: bool  # new state overwrites the old
    batch_axes: Sequence[str]  # those that shard examples

    @property
    def table(self) -> Schedule:
        """Raises ScheduleError."""
        return schedule(self.schedule, stages=self.axes[0][1], microbatches=self.microbatches, chunks=self.chunks)

    def plan(self, cut: CutStep) -> StepPlan:
        """The functions that a step runs, and the values that it keeps and sends. Raises StageError."""
        return StepPlan(cut.manifest, self.table, self.gathered(cut))

    def gathered(self, cut: CutStep) -> frozenset[str]:
        """The arguments, and pieces of them, that are gathered once in a step."""
        return frozenset(_gathered(cut, self.specs) if self.policy == "once" else ())


class Program(NamedTuple):
    """An executable of a stage."""

    hlo: str
    module: bytes  # that it was compiled of
    memory: Memory | None


class StagesCompiled(NamedTuple):
    """The programs of a step: which each function is at each place, and the bytes that devices hold of each slot of the
    plan."""

    programs: tuple[Program, ...]
    numbers: dict[tuple[str, int], int]  # by function and place
    slots: tuple[int, ...]  # bytes per device
    devices: tuple[tuple[Device, ...], ...]  # of each place


_standing: list[StandingChildren] = []


def standing_stage_compiler() -> AbstractContextManager[None]:
    """Within the block, a child stays for the next step."""
    return standing(_standing, command("paropt.stages.stages_apart"))


def compile_stages(target: Target, cut: CutStep, layout: Layout) -> StagesCompiled:
    """The programs of `cut` for the target's devices. Raises TargetError, StageError.

    Within `standing_stage_compiler` only.
    """
    target.require_compiler()
    with tempfile.TemporaryDirectory(prefix="paropt-") as name:
        folder = Path(name)
        (folder / _MODULE).write_bytes(cut.bytecode)
        request = {"target": target.name, "layout": layout._asdict()}
        try:
            reply = _standing[-1].ask(folder, request, target.environment())
        except ChildDiedError as died:
            raise TargetError(f"{target.name}: {obituary(died)}") from None
        if "stage error" in reply:
            raise StageError(reply["stage error"])
        if "error" in reply:
            raise TargetError(reply["error"])
        return StagesCompiled(
            tuple(_program(folder, number, memory) for number, memory in enumerate(reply["memory"])),
            {(symbol, place): number for symbol, place, number in reply["numbers"]},
            tuple(reply["slots"]),
            tuple(tuple(Device(*device) for device in devices) for devices in reply["devices"]),
        )


def _program(folder: Path, number: int, memory: list[int] | None) -> Program:
    hlo = (folder / f"{number}.hlo").read_text(encoding="utf-8")
    return Program(hlo, (folder / f"{number}.mlirbc").read_bytes(), None if memory is None else Memory(*memory))


def main(folder: Path) -> None:
    """Answers the request in `folder`. An error that is nobody's mistake but ours leaves a traceback and status 1."""
    request = request_in(folder)
    layout = Layout(**request["layout"])
    axes = tuple((name, size) for name, size in layout.axes)
    try:
        reply = _reply(folder, request["target"], layout._replace(axes=axes))
    except StageError as error:
        reply = {"stage error": str(error)}
    except TargetError as error:
        reply = {"error": str(error)}
    except jax.errors.JaxRuntimeError as error:
        reply = {"error": f"{request['target']}: XLA says {first_line(error)}"}
    put_reply(folder, reply)


_DEVICES: dict[str, list[Any]] = {}


def _reply(folder: Path, target: str, layout: Layout) -> dict[str, Any]:
    if target not in _DEVICES:
        _DEVICES[target] = get(target).make_devices()
    names, sizes = zip(*layout.axes, strict=True)
    mesh = Mesh(np.array(_DEVICES[target]).reshape(sizes), names)
    module = ir.Module.parse((folder / _MODULE).read_bytes(), make_context())
    cut = cut_in(module)
    plan = layout.plan(cut)
    specs = {f"argument{n}": _spec(each) for n, each in layout.specs.items()}
    olds = [f"argument{old}" for old, _ in cut.manifest.states]
    placement = Placement(cut, mesh, AXIS, {name: specs[name] for name in olds if name in specs}, layout.batch_axes)
    donated = frozenset(olds) if layout.donates else frozenset[str]()
    made = stage_programs(cut, plan, placement, donated, layout.policy, None, _once)
    slots = [_held(made, number) for number in range(len(plan.slots))]
    devices = [devices_of(each.devices.flat) for each in stage_meshes(mesh, AXIS)]
    return {**_written(folder, made), "slots": slots, "devices": devices}


def _spec(dimensions: Dimensions) -> PartitionSpec:
    return PartitionSpec(*(tuple(axes) if axes else None for axes in dimensions))


def _gathered(cut: CutStep, specs: Mapping[str, Dimensions]) -> Iterator[str]:
    """The state, and pieces of it, that is sharded in its stage."""
    names = {f"argument{old}" for old, _ in cut.manifest.states if any(specs.get(str(old), ()))}
    yield from names
    yield from (name for name, piece in cut.manifest.pieces.items() if f"argument{piece.argument}" in names)


class _Compiled(NamedTuple):
    """An executable, which may be for the devices of another stage."""

    executable: Any
    module: bytes  # that it is of
    output_shardings: list[NamedSharding]  # on the devices of its own


_NAMES = re.compile(rf'^module @\w+|{STAGE} = "\w+"', re.M)  # of the function and the stage
_PROGRAMS: "OrderedDict[str, tuple[Any, bytes]]" = OrderedDict()


def _once(lowered: jax.stages.Lowered, mesh: Mesh) -> _Compiled:
    """The executable of a program that is equal but for its name and the devices that it is for."""
    module: Any = lowered.compiler_ir()
    device = mesh.devices.flat[0]
    kind = (device.client.platform_version, device.device_kind, mesh.size)
    text = _NAMES.sub("", str(module))
    key = sha256(f"{kind}\n{text}".encode()).hexdigest()
    if key not in _PROGRAMS:
        _PROGRAMS[key] = (lowered.compile(), bytecode_of(module))
        while len(_PROGRAMS) > _REMEMBERED:
            _PROGRAMS.popitem(last=False)
    executable, own = _PROGRAMS[key]
    specs = [getattr(each, "spec", PartitionSpec()) for each in executable.output_shardings]
    return _Compiled(executable, own, [NamedSharding(mesh, spec) for spec in specs])


def _written(folder: Path, made: StagePrograms) -> dict[str, Any]:
    """Writes each program once; the parts of the reply that say which is which."""
    numbers: dict[int, int] = {}
    memory: list[Memory | None] = []
    for compiled in made.executables.values():
        number = numbers.setdefault(id(compiled.executable), len(numbers))
        if number == len(memory):
            (folder / f"{number}.hlo").write_text(compiled.executable.as_text() or "", encoding="utf-8")
            (folder / f"{number}.mlirbc").write_bytes(compiled.module)
            memory.append(memory_of(compiled.executable.memory_analysis()))
    named = [(*key, numbers[id(compiled.executable)]) for key, compiled in made.executables.items()]
    return {"numbers": named, "memory": memory}


def _held(made: StagePrograms, number: int) -> int:
    """The bytes of a slot on each device of its place."""
    shape = made.shape_of(number)
    sharding: Any = shape.sharding
    own = shape.shape if sharding is None else sharding.shard_shape(shape.shape)
    return prod(own) * int(np.dtype(shape.dtype).itemsize)


if __name__ == "__main__":
    if sys.argv[1:]:
        main(Path(sys.argv[1]))
    else:
        serve(main)
