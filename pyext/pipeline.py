"""`paropt.pipeline`: a training step as pipeline stages, run by a schedule. docs/pipelines.md."""

import functools
import inspect
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from paropt.base.keywords import own_keywords_only
from paropt.base.progress import Progress, require_progress, to_terminal
from paropt.base.wording import counted
from paropt.hook.lowering import is_foreign
from paropt.modules.module_io import name_of
from paropt.modules.summary import Remarks
from paropt.passes.support.pipeline import Pipeline as Passes
from paropt.schedules import SCHEDULES, Schedule, schedule
from paropt.stages.coordination import Exchange, watch
from paropt.stages.cut_step import CutStep, cut_step
from paropt.stages.owners import owners_of
from paropt.stages.partial_sums import StagePolicy
from paropt.stages.stage_driver import Driver, require_spread
from paropt.stages.stage_programs import (
    Placement,
    StagePrograms,
    compile_here,
    require_batch_axes,
    require_stages,
    spec_within,
    stage_meshes,
    stage_programs,
)
from paropt.stages.stage_report import StageReport, report_of
from paropt.stages.step_plan import StageError, StepPlan
from paropt.stages.transfer_weight import flops_per_byte
from paropt.stages.typed_keys import is_key, like, numbers_of, with_keys

__all__ = ["StageError", "pipeline"]


@own_keywords_only
def pipeline(
    step: Callable[..., Any],
    /,
    *,
    stages: int,
    microbatches: int,
    mesh: Mesh,
    axis: str = "stage",
    schedule: str = "1f1b",
    chunks: int | None = None,
    cuts: Literal["names", "costs"] = "names",
    cut_options: Mapping[str, Any] = {},
    donate: Literal["state"] | None = None,
    policy: StagePolicy = "keep-shards",
    batch_axes: str | Sequence[str] | None = None,
    shardings: Callable[..., Any] | None = None,
    progress: Progress = to_terminal,
) -> "Pipeline":
    """A training step, cut into `stages` that each run on their own devices: those of `mesh` along `axis`.

    `step(state, batch) -> (new_state, aux)`, or whatever it takes and returns, is an ordinary step: with a loop over
    `microbatches` (`lax.scan`, or a Python loop), or of the whole batch, which is split. No marks are needed: it is cut
    between layers that names tell (`cuts="names"`), or where that costs least (`"costs"`), by the pass `cut-stages`,
    whose other options are `cut_options`; `flops-per-byte` is that of the mesh's devices and links, if those are known.
    `schedule` is one of `paropt.schedules.SCHEDULES`; with `chunks`, each
    device has several stages of the model.

    The result is called like the step. Of several processes (`jax.distributed`) each calls it, and compiles and runs
    the stages whose devices it has; a scalar that is no state, such as the loss, is on all devices. `place(state)` puts
    arrays where their stage is; arrays that are elsewhere are sent there in each call. Batches are sharded over
    `batch_axes`, by default all other axes of the mesh, and state is sharded over these axes as the arrays given to
    `place`, or to the call, are (`NamedSharding`, also of shapes), or as `shardings` says, which takes the arguments of
    the step and returns the sharding of each array in them, as a tree. Over axes that shard no examples it stays so,
    which is tensor parallelism. Parameters that an axis of the examples shards are gathered over it, and their
    gradients reduced to shards, in each micro-batch; with `policy="defer"` gradients are reduced once in a step, and
    each device holds a whole one; with `"once"` parameters are gathered once, too, and held whole meanwhile. With
    `donate="state"` new state overwrites the old, which takes the memory of one state less; otherwise arguments stay,
    as with `jax.jit`.
    `progress` is called with a line of text for each program that is compiled; by default, it prints to a terminal.

    Raises StageError (a ValueError), in one line, for a step that cannot be cut or numbers that do not fit, and
    PipelineError for wrong `cut_options`.
    """
    for what, number in (("stages", stages), ("microbatches", microbatches)):
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise StageError(f"{what}: expected a positive integer, got {number!r}")
    if donate not in ("state", None):
        raise StageError(f"donate: expected 'state' or None, got {donate!r}")
    if policy not in get_args(StagePolicy):
        raise StageError(f"policy: expected one of {', '.join(get_args(StagePolicy))}, got {policy!r}")
    if cuts not in ("names", "costs"):
        raise StageError(f"cuts: expected 'names' or 'costs', got {cuts!r}")
    if is_foreign(step):
        maker = type(step).__module__.partition(".")[0]
        raise StageError(f"pipeline: the function is compiled by {maker} already; give the function itself")
    if shardings is not None and not callable(shardings):
        raise StageError(f"shardings: expected a function of the step's arguments, got {shardings!r}")
    if not isinstance(cut_options, Mapping):
        raise StageError(f'cut_options: expected a mapping, such as {{"recompute": False}}, got {cut_options!r}')
    require_progress(progress)
    require_stages(mesh, axis, stages)
    over = require_batch_axes(mesh, axis, batch_axes)
    table = _schedule(schedule, stages, microbatches, chunks)
    given = {str(name).replace("_", "-"): _option(value) for name, value in cut_options.items()}
    weight = flops_per_byte(mesh, axis)
    known = {} if weight is None else {"flops-per-byte": weight}
    options = "".join(f" {name}={value}" for name, value in {"cuts": cuts, **known, **given}.items())
    Passes.parse(f"cut-stages{{stages={stages}{options}}}")  # raises PipelineError here, and not at the first call
    overwrites = donate == "state"
    return Pipeline(
        step,
        mesh,
        axis,
        table,
        options,
        donate=overwrites,
        policy=policy,
        batch_axes=over,
        shardings=shardings,
        progress=progress,
    )


def _require_binding(what: str, function: Callable[..., Any], args: Any, kwargs: Any, right: str) -> None:
    """Raises StageError where `function` takes more, or other, arguments than these."""
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError as error:
        raise StageError(f"{what}: {error}; {right}") from None


def _option(value: Any) -> str:
    """The value of an option as passes write it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _schedule(name: str, stages: int, microbatches: int, chunks: int | None) -> Schedule:
    table = schedule(name, stages=stages, microbatches=microbatches, chunks=chunks)
    if SCHEDULES[name].semantics == "asynchronous":
        raise StageError(f"schedule: {name} updates weights after each micro-batch, which is another step")
    if table.token_slices > 1:
        raise StageError(f"schedule: {name} cuts sequences, which no stage can; the simulator knows it only")
    return table


class Pipeline:
    """The result of `pipeline`."""

    def __init__(
        self,
        step: Callable[..., Any],
        mesh: Mesh,
        axis: str,
        table: Schedule,
        options: str,
        *,
        donate: bool,
        policy: StagePolicy,
        batch_axes: tuple[str, ...] | None,
        shardings: Callable[..., Any] | None,
        progress: Progress,
    ) -> None:
        functools.update_wrapper(self, step)
        self._given, self._step = step, jax.jit(step, keep_unused=True)
        self._mesh, self._axis, self._options, self._donate = mesh, axis, options, donate
        self._policy: StagePolicy = policy
        self._batch_axes = batch_axes
        self._shardings, self._progress = shardings, progress
        self._meshes = stage_meshes(mesh, axis)
        self._owners = owners_of(self._meshes)
        if self._owners.several:
            watch()
        self.schedule = table
        self._built: dict[Any, _Built] = {}  # by the kinds of arguments, and which of them one stage has

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """One step."""
        leaves = jax.tree.leaves((args, kwargs))
        built = self._of(args, kwargs, leaves)
        if not built.has_keys:
            return built.driver.run(leaves)
        return with_keys(built.driver.run([*map(numbers_of, leaves)]), built.cut.key_results, leaves)

    def compile(self, /, *args: Any, **kwargs: Any) -> "Pipeline":
        """Compiles all programs, for arrays or for `jax.ShapeDtypeStruct`s."""
        self._of(args, kwargs, jax.tree.leaves((args, kwargs)))
        return self

    def place(self, state: Any, /, *others: Any, **kwargs: Any) -> Any:
        """The state with its arrays where their stages are; `others` are the other arguments of the step, or shapes."""
        self._require_all(state, *others, **kwargs)
        leaves = jax.tree.leaves(((state, *others), kwargs))
        built = self._of((state, *others), kwargs, leaves)
        flat, tree = jax.tree.flatten(state)
        placed = [like(built.driver.placed(n, numbers_of(leaf)), leaf) for n, leaf in enumerate(flat)]
        return jax.tree.unflatten(tree, placed)

    def _require_all(self, /, *args: Any, **kwargs: Any) -> None:
        """Raises StageError where the step takes more, or other, arguments than these."""
        right = "give it all that the step takes, arrays or their shapes: place(state, batch)"
        _require_binding("place", self, args, kwargs, right)

    def __repr__(self) -> str:
        table = self.schedule
        sizes = f"{table.chunks} stages, {counted(table.microbatches, 'micro-batch', 'micro-batches')}"
        return f"<paropt.pipeline of {self._given!r}: {table.name}, {sizes}>"

    def remarks(self, /, *args: Any, **kwargs: Any) -> Remarks:
        """The decisions of the passes. Printed, they leave out calls that were inlined."""
        built = self._of(args, kwargs, jax.tree.leaves((args, kwargs)))
        return Remarks([*built.cut.remarks, *built.programs.remarks])

    def plan(self, /, *args: Any, **kwargs: Any) -> StepPlan:
        """The functions that a step runs, and the values that it keeps and sends."""
        return self._of(args, kwargs, jax.tree.leaves((args, kwargs))).plan

    def report(self, /, *args: Any, **kwargs: Any) -> StageReport:
        """The computation, memory and communication of each stage: print it, or take `json()`, `html()` or
        `plot(path)`."""
        built = self._of(args, kwargs, jax.tree.leaves((args, kwargs)))
        return report_of(built.cut, built.plan, built.programs.executables, [mesh.size for mesh in self._meshes])

    def shapes(self, /, *args: Any, **kwargs: Any) -> dict[str, jax.ShapeDtypeStruct]:
        """The shape of each value of the plan, by its name."""
        return dict(self._of(args, kwargs, jax.tree.leaves((args, kwargs))).cut.shapes)

    def lower(self, /, *args: Any, **kwargs: Any) -> dict[tuple[str, int], jax.stages.Lowered]:
        """The programs as `jax.jit` lowers them, by the name of the function and the number of the stage's devices."""
        return dict(self._of(args, kwargs, jax.tree.leaves((args, kwargs))).programs.lowered)

    def programs(self, /, *args: Any, **kwargs: Any) -> dict[tuple[str, int], jax.stages.Compiled]:
        """The executables, by the name of the function and the number of the stage's devices."""
        return dict(self._of(args, kwargs, jax.tree.leaves((args, kwargs))).programs.executables)

    def _of(self, args: Any, kwargs: Any, leaves: list[Any]) -> "_Built":
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            raise StageError("what paropt.pipeline returns runs programs: call it outside of jax.jit and the like")
        given: list[Any] = [getattr(numbers_of(leaf), "sharding", None) for leaf in leaves]
        if self._shardings is not None:
            given = self._shardings_of(args, kwargs, leaves)
        specs = tuple(spec_within(sharding, self._axis, self._mesh) for sharding in given)
        kinds = tuple((np.shape(leaf), jnp.result_type(leaf)) for leaf in leaves)
        key = (jax.tree.structure((args, kwargs)), kinds, specs)
        built = self._built_for(key, args, kwargs, specs, frozenset())
        resting = built.shared & self._at_places(leaves) if self._owners.several else None
        return self._built_for(key, args, kwargs, specs, resting) if resting else built

    def _shardings_of(self, args: Any, kwargs: Any, leaves: list[Any]) -> list[Any]:
        """Those of the user's function, one for each array. Raises StageError where it returns others."""
        assert self._shardings is not None
        _require_binding("shardings", self._shardings, args, kwargs, "it is called with the arguments of the step")
        found = jax.tree.leaves(self._shardings(*args, **kwargs))
        right = f"expected one for each array of the arguments ({len(leaves)})"
        wrong = [each for each in found if not isinstance(each, jax.sharding.Sharding)]
        if wrong:
            raise StageError(f"shardings: {right}, as a jax.sharding.NamedSharding; the function returns {wrong[0]!r}")
        if len(found) != len(leaves):
            raise StageError(f"shardings: {right}; the function returns {len(found)}")
        return found

    def _built_for(
        self, key: Any, args: Any, kwargs: Any, specs: Sequence[PartitionSpec], resting: frozenset[int]
    ) -> "_Built":
        if (key, resting) not in self._built:
            self._built[key, resting] = self._build(args, kwargs, specs, resting)
        return self._built[key, resting]

    def _at_places(self, leaves: list[Any]) -> frozenset[int]:
        """The arguments that are on the devices of one stage, as `place` puts them."""
        meshes = [getattr(getattr(leaf, "sharding", None), "mesh", None) for leaf in leaves]
        return frozenset(n for n, mesh in enumerate(meshes) if mesh is not None and mesh in self._meshes)

    def _build(self, args: Any, kwargs: Any, specs: Sequence[PartitionSpec], resting: frozenset[int]) -> "_Built":
        """With several processes, all build the same at the same time, each the programs of its own places."""
        if not self._owners.several:
            return self._made(args, kwargs, specs, resting, None)
        exchange = Exchange(self._owners.processes)
        with exchange.building():
            return self._made(args, kwargs, specs, resting, exchange)

    def _compiled(self, lowered: jax.stages.Lowered, mesh: Mesh) -> jax.stages.Compiled:
        module: Any = lowered.compiler_ir()
        name = name_of(module.operation).removeprefix("jit_")
        self._progress(f"pipeline: compiling {name} for {counted(mesh.size, 'device')}")
        return compile_here(lowered, mesh)

    def _parts(self, cut: CutStep, specs: Sequence[PartitionSpec], resting: frozenset[int]) -> dict[str, str]:
        """The parts that must be the same in all processes, as text."""
        devices = [(each.process_index, each.id) for each in self._mesh.devices.flat]
        return {
            "mesh": f"{self._mesh.shape} {self._axis} {devices}",
            "schedule": f"{self.schedule.name} {self.schedule.microbatches} {self.schedule.devices}",
            "policy, donate, batch_axes": f"{self._policy}, {self._donate}, {self._batch_axes}",
            "shardings of arguments": f"{[str(spec) for spec in specs]} {sorted(resting)}",
            "step": cut.digest,
        }

    def _made(
        self,
        args: Any,
        kwargs: Any,
        specs: Sequence[PartitionSpec],
        resting: frozenset[int],
        exchange: Exchange | None,
    ) -> "_Built":
        args, kwargs = jax.tree.map(_shape, (args, kwargs))
        chunks, microbatches = self.schedule.chunks, self.schedule.microbatches
        self._progress(f"pipeline: cutting the step into {chunks} stages")
        apart = any(each.kind == "W" for each in self.schedule.instructions())
        cut = cut_step(
            self._step,
            args,
            kwargs,
            stages=chunks,
            microbatches=microbatches,
            options=self._options,
            apart=apart,
            axes={name: size for name, size in self._mesh.shape.items() if name != self._axis},
        )
        if exchange is not None:
            exchange.compare(self._parts(cut, specs, resting))
        olds = [old for old, _ in cut.manifest.states]
        placement = Placement(
            cut, self._mesh, self._axis, {f"argument{old}": specs[old] for old in olds}, self._batch_axes
        )
        gathered = placement.sharded_parameters if self._policy == "once" else frozenset[str]()
        at_home = _kept_at_home(cut, {*olds, *resting}) if exchange is not None else frozenset[str]()
        plan = StepPlan(cut.manifest, self.schedule, gathered, at_home)
        if exchange is not None:
            require_spread(cut, plan, placement)
        states = frozenset(f"argument{old}" for old in olds) if self._donate else frozenset()
        programs = stage_programs(cut, plan, placement, states, self._policy, exchange, self._compiled)
        has_keys = bool(cut.key_results) or any(map(is_key, jax.tree.leaves((args, kwargs))))
        return _Built(cut, plan, programs, Driver(cut, plan, programs, placement), has_keys=has_keys)


def _kept_at_home(cut: CutStep, arguments: set[int]) -> frozenset[str]:
    """These arguments, and their pieces, which one process has between steps."""
    pieces = {name for name, piece in cut.manifest.pieces.items() if piece.argument in arguments}
    return frozenset({f"argument{number}" for number in arguments} | pieces)


class _Built:
    """Everything for arguments of one kind."""

    def __init__(
        self, cut: CutStep, plan: StepPlan, programs: StagePrograms, driver: Driver, *, has_keys: bool
    ) -> None:
        self.cut, self.plan, self.programs, self.driver = cut, plan, programs, driver
        self.has_keys = has_keys  # typed ones, among arguments or results

    @cached_property
    def shared(self) -> frozenset[int]:
        """The arguments that several places read, and that no step replaces."""
        places: dict[str, set[int]] = defaultdict(set)
        for slot in self.plan.given.values():
            places[slot.name].add(slot.place)
        found = {
            int(name.removeprefix("argument")) for name, at in places.items() if len(at) > 1 and "argument" in name
        }
        return frozenset(found - {old for old, _ in self.cut.manifest.states})


def _shape(leaf: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(np.shape(leaf), jnp.result_type(leaf))
