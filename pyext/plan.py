"""`paropt.plan`: mesh, shardings and policy for a step and a cluster, chosen by compiling (docs/planning.md)."""

import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from paropt.base.argument_types import require_type
from paropt.base.keywords import own_keywords_only
from paropt.base.progress import Progress, require_progress, to_terminal
from paropt.base.wording import size_text
from paropt.clusters import targets
from paropt.clusters.compiled import TargetError
from paropt.clusters.device_memory import AUTO, MemoryBudget, memory_budget_of, read_budget, usable
from paropt.clusters.gpus import GPUS
from paropt.clusters.targets import Target
from paropt.costs.clusters import Cluster, cluster_of
from paropt.costs.machines import CostError, Machine, read_table
from paropt.planning import plan_files
from paropt.planning.argument_groups import ArgumentGroup, argument_groups, texts_of
from paropt.planning.audit_cache import cache_in
from paropt.planning.candidates import (
    DEFAULT_POLICY,
    STAGE,
    Candidate,
    known_first,
    templates,
)
from paropt.planning.experts import expert_templates
from paropt.planning.goals import TOLERANCE, Goal, Objective, read_objective
from paropt.planning.layouts import Layouts
from paropt.planning.plan_page import ESTIMATED, Shown, page
from paropt.planning.proposals import choices_of, proposals
from paropt.planning.ranking import aligned, fits, infeasible, ranked, table
from paropt.planning.search import Judged, Later, Search
from paropt.planning.sharded_programs import (
    PlanError,
    Step,
    lowered_without_mesh,
    on_mesh,
    shard_by_rules,
    specs_of,
    step_of,
)
from paropt.planning.shortlist import Guess, batches, guessed, in_order, is_large, pipelines, rows_of
from paropt.planning.stage_choices import stage_candidates
from paropt.planning.stage_estimates import grid
from paropt.planning.strategies import Choices
from paropt.reports.html_document import frame
from paropt.stages.partial_sums import StagePolicy

__all__ = ["Plan", "PlanError", "plan"]

_BY_BYTES = f"of those within {TOLERANCE:.0%} of the fewest bytes, the fastest wins"


@dataclass(frozen=True, repr=False)
class Plan:
    """Shardings, a mesh and a policy for a step. `str` of it is the ranking that it won."""

    target: str
    candidate: Candidate  # the best
    ranking: tuple[Judged, ...] = ()  # all, the best first; empty for a plan that was loaded
    memory: int | None = None  # the budget, bytes per device
    skipped: int = 0  # candidates for which there was no time
    remark: str = ""  # on the compiled target, where another one was asked for
    groups: tuple[ArgumentGroup, ...] = ()  # the arguments that the best shards; empty for a plan that was loaded
    without_stages: str = ""  # why no candidate has pipeline stages, where that was asked
    left_out: str = ""  # what there was no time for, in words
    guesses: tuple[Guess, ...] = ()  # of a large step: all candidates by estimate, of which a few are compiled
    objective: Objective = "seconds"  # what the ranking minimises

    def save(self, path: str | Path) -> None:
        """Writes the plan as TOML, to be read, edited, and loaded: it is a rules file of annotate-shardings."""
        Path(path).write_text(plan_files.dumps(self.candidate, self.target), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> "Plan":
        """The plan in a file. Raises PlanError."""
        candidate, target = plan_files.read(path)
        return cls(target, candidate)

    def html(self) -> str:
        """The plan as one self-contained HTML page: mesh, shardings, traffic and ranking."""
        hosts = _hosts_of(self.target)
        notes = (_BY_BYTES,) if self.objective == "bytes" and self.ranking else ()
        shown = Shown(self.target, self.candidate, self.ranking, self._goal, self.groups, hosts, self.remark)
        return page(shown._replace(estimated=self._estimated, notes=(*notes, *self._notes)))

    def mesh(self, devices: Sequence[Any] | None = None) -> Any:
        """The `jax.sharding.Mesh`, of `devices` in their order (default: those of this process). Raises PlanError."""
        import jax
        import numpy as np

        found = jax.devices() if devices is None else list(devices)
        if len(found) != self.candidate.mesh.size:
            raise PlanError(
                f"the plan is for {self.candidate.mesh.size} devices ({self.candidate.mesh}), not {len(found)}"
            )
        names, sizes = zip(*self.candidate.mesh.axes, strict=True)
        kinds = (jax.sharding.AxisType.Auto,) * len(names)
        return jax.sharding.Mesh(np.array(found).reshape(sizes), names, axis_types=kinds)

    def shardings(self, step: Any, *args: Any, devices: Sequence[Any] | None = None) -> tuple[Any, ...]:
        """The sharding of each array in the arguments of `step`, as trees like these. Raises PlanError."""
        import jax

        mesh = self.mesh(devices)
        lowered = on_mesh(lowered_without_mesh(step, args, targets.get(f"cpu:{mesh.size}")), self.candidate.mesh)
        shard_by_rules(lowered.compiler_ir(), self.candidate.rules, ())
        found = [jax.sharding.NamedSharding(mesh, spec) for spec in specs_of(lowered)]
        return jax.tree.unflatten(jax.tree.structure(tuple(args)), found)

    def jit(self, step: Any, **options: Any) -> Callable[..., Any]:
        """`paropt.jit` of `step` with the plan. Arguments are placed by it, wherever they are.

        Of a plan with stages it is the `paropt.pipeline`, whose `place` puts state where its stages are; of `options`,
        it takes `donate_argnums`: new state overwrites the old. Raises PlanError.
        """
        return _Planned(self, step, options) if self.candidate.stages is None else _piped(self, step, options)

    def __repr__(self) -> str:
        return f"<Plan for {self.target}: {self.candidate}>"

    def __str__(self) -> str:
        if not self.ranking:
            return f"plan for {self.target}: {self.candidate}"
        budget = f", {size_text(self.memory)} allowed" if self.memory is not None else ""
        more = "".join(f"\n{line}" for line in self._notes)
        title = f"candidates for {self.target}, compiled; per device and step{budget}; times are estimated"
        title += f"; {_BY_BYTES}" if self.objective == "bytes" else ""
        remark = f"remark: {self.remark}\n" if self.remark else ""
        shardings = f"\n\nshardings of the best\n{aligned(texts_of(self.groups))}" if self.groups else ""
        return f"{remark}{title}\n{table(self.ranking, self._goal)}{self._not_compiled()}{more}{shardings}"

    @property
    def _goal(self) -> Goal:
        return Goal(self.memory, self.objective)

    @property
    def _notes(self) -> tuple[str, ...]:
        """What is not in the ranking, and why."""
        late = f"no time for {self.left_out}" if self.left_out else ""
        return tuple(filter(None, (late, self.without_stages)))

    @property
    def _estimated(self) -> list[tuple[str, ...]]:
        """The best of each other template, by estimate, and why it is not compiled; no row where there is none."""
        return rows_of(self.guesses, (judged.candidate for judged in self.ranking), self._goal)

    def _not_compiled(self) -> str:
        rows = self._estimated
        return f"\n\n{ESTIMATED}\n{aligned(rows)}" if rows else ""

    def _repr_html_(self) -> str:
        """The page in a frame: its styles are not for the notebook."""
        return frame(self.html())


def _hosts_of(target: str) -> tuple[int, ...]:
    """The host of each device of a target; none where the library does not know it."""
    try:
        return tuple(unit.host for unit in cluster_of(target, read_table()).units)
    except (TargetError, CostError):
        return ()


class _Planned:
    """A step under a plan: compiled once for each structure of arguments."""

    def __init__(self, plan: Plan, step: Any, options: dict[str, Any]) -> None:
        self._plan, self._step, self._options = plan, step, options
        self._jitted: dict[Any, tuple[Any, Any]] = {}
        folder = tempfile.TemporaryDirectory(prefix="paropt-plan-")
        weakref.finalize(self, folder.cleanup)
        self._rules = Path(folder.name) / "plan.toml"
        self._rules.write_text(plan.candidate.rules, encoding="utf-8")

    def __call__(self, *args: Any) -> Any:
        import jax

        jitted, shardings = self._of(args)
        return jitted(*jax.device_put(args, shardings))

    def __repr__(self) -> str:
        return f"<{self._plan!r}.jit of {self._step!r}>"

    def lower(self, *args: Any) -> Any:
        """As that of `paropt.jit`."""
        import jax

        jitted, shardings = self._of(args)
        return jitted.lower(*jax.tree.map(_placed, args, shardings))

    def _of(self, args: tuple[Any, ...]) -> tuple[Any, Any]:
        from paropt.jit import jit

        key = _kind(args)
        if key not in self._jitted:
            shardings = self._plan.shardings(self._step, *args)
            passes = self._plan.candidate.passes(str(self._rules))
            self._jitted[key] = jit(self._step, passes=passes, in_shardings=shardings, **self._options), shardings
        return self._jitted[key]


def _piped(plan: Plan, step: Any, options: dict[str, Any]) -> Callable[..., Any]:
    from paropt.pipeline import pipeline

    unknown = [name for name in options if name != "donate_argnums"]
    if unknown:
        raise PlanError(f"plan.jit: a plan with stages takes `donate_argnums`, not `{unknown[0]}`")
    stages, policy = plan.candidate.stages, cast(StagePolicy, plan.candidate.policy)  # it is checked there
    assert stages is not None
    return pipeline(
        step,
        stages=dict(plan.candidate.mesh.axes)[STAGE],
        microbatches=stages.microbatches,
        mesh=plan.mesh(),
        axis=STAGE,
        schedule=stages.schedule,
        chunks=stages.chunks,
        cut_options=dict(stages.cut_options),
        donate="state" if options.get("donate_argnums", ()) != () else None,
        policy=policy,
        batch_axes=plan.candidate.batch_axes,
        shardings=_Remembered(plan, step),
    )


class _Remembered:
    """The shardings of a step under a plan, found once for each structure of arguments."""

    def __init__(self, plan: Plan, step: Any) -> None:
        self._plan, self._step = plan, step
        self._found: dict[Any, tuple[Any, ...]] = {}

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        key = _kind(args)
        if key not in self._found:
            self._found[key] = self._plan.shardings(self._step, *args)
        return self._found[key]


def _kind(args: tuple[Any, ...]) -> Any:
    """The structure of arguments, and the types of their arrays and numbers."""
    import jax

    return jax.tree.structure(args), tuple(map(str, map(jax.typeof, jax.tree.leaves(args))))


def _placed(leaf: Any, sharding: Any) -> Any:
    import jax

    return jax.ShapeDtypeStruct(jax.numpy.shape(leaf), jax.numpy.result_type(leaf), sharding=sharding)


@own_keywords_only
def plan(
    step: Any,
    /,
    *args: Any,
    target: str | Target,
    memory: MemoryBudget = None,
    objective: Objective = "seconds",
    seconds: float = 600.0,
    candidates: Iterable[Candidate] | None = None,
    costs: str | Path | None = None,
    cache: str | Path | None = None,
    progress: Progress = to_terminal,
) -> Plan:
    """The best shardings, mesh and policy for `step` on `target` that fit, of candidates that are compiled for it.

    `step` is a function, or `jax.jit` of one, that names no mesh; `args` are arrays or `jax.ShapeDtypeStruct`, wherever
    they are. `memory` is the memory that the program may take per device, as 60 << 30, "60GiB" or "auto". With
    `objective="bytes"` the one that sends least wins, and time decides between those within 2 %; by default it is the
    other way. Candidates are the
    templates, and for each mesh the proposals of an integer linear program; `candidates` replaces them. After `seconds`
    no more are looked for or compiled but dp, zero1, fsdp and hsdp, which come first, and the best so far counts. Of a
    step of more than 1e14 FLOPs, all candidates are estimated before, and the best few are compiled. Times are
    estimated from the schedules of the executables, with the figures of the library or those in `costs`, a TOML file:
    docs/costs.md. In the folder `cache`, the results of each candidate stay for the next plan of the same step with the
    same versions.

    Raises PlanError when nothing fits, TargetError for an unknown target, CostError for wrong figures, ValueError for a
    wrong budget, objective or time: all before anything is compiled but the first. Without the target's compiler,
    programs are compiled for as many CPU devices, and a remark says so.
    """
    require_progress(progress)
    require_type(cache, (str, Path, type(None)), "cache", "the path of a folder")
    require_type(seconds, (int, float), "seconds", "a number")
    if not seconds >= 0:  # nan is not, either
        raise ValueError(f"seconds={seconds}: expected a number of at least 0")
    own = None if candidates is None else _candidates(candidates)
    asked, wanted = read_budget(memory, "memory"), read_objective(objective)
    figures = read_table(costs)
    found = targets.target_of(target)
    compiled = compiled_for(found, figures)
    given = step_of(lowered_without_mesh(step, args, compiled.target))
    return planned(
        given,
        compiled,
        Goal(compiled.budget(asked), wanted),
        seconds=seconds,
        candidates=own,
        cache=cache,
        progress=progress,
    )


def _candidates(given: Iterable[Candidate]) -> list[Candidate]:
    """Those of the user. Raises PlanError where there are none, or others than candidates."""
    right = "expected one Candidate of paropt.planning.candidates or more"
    found = list(given) if isinstance(given, Iterable) else [given]
    wrong = [each for each in found if not isinstance(each, Candidate)]
    if not found or wrong:
        raise PlanError(f"candidates: {right}, got {wrong[0]!r}" if wrong else f"candidates: {right}, got none")
    return found


class CompiledFor(NamedTuple):
    """The target to compile for, and the cluster whose times count."""

    target: Target
    cluster: Cluster
    remark: str = ""  # why these are not the same
    memory: int | None = None  # bytes of a device of the cluster, where that of the target has another size

    def budget(self, asked: int | Literal["auto"] | None) -> int | None:
        """Bytes per device. Raises TargetError where `auto` is asked of devices that do not tell."""
        if asked == AUTO:
            return usable(self.memory) if self.memory is not None else memory_budget_of(asked, self.target.devices)
        return asked


def compiled_for(target: Target, figures: Mapping[str, Machine]) -> CompiledFor:
    """`target`; as many H100s where no compiler makes code for its GPUs, or CPU devices where none is installed.

    Raises CostError where the figures have no machine for it.
    """
    try:
        target.require_compiler()
    except TargetError as error:
        cluster = cluster_of(target, figures)
        instead, memory = _instead_of(target, cluster)
        what = f"compiled for {instead.name} instead, whose bytes and memory these are; times are for {target.name}"
        return CompiledFor(instead, cluster, f"{error}; {what}", memory)
    return CompiledFor(target, cluster_of(target, figures))


def _instead_of(target: Target, cluster: Cluster) -> tuple[Target, int | None]:
    """What can be compiled for, of as many devices; and the memory of those that were asked for, if it is known."""
    if not isinstance(target, targets.GpuTarget) or target.gpu not in GPUS:
        return targets.get(f"cpu:{cluster.size}"), None
    newer = targets.get(f"gpu:h100:{target.shape}")
    try:
        newer.require_compiler()
    except TargetError:
        return targets.get(f"cpu:{cluster.size}"), GPUS[target.gpu].memory
    return newer, GPUS[target.gpu].memory


def planned(
    step: Step,
    compiled: CompiledFor,
    goal: Goal,
    *,
    seconds: float = 600.0,
    candidates: Iterable[Candidate] | None = None,
    cache: str | Path | None = None,
    progress: Progress = to_terminal,
) -> Plan:
    """The plan for a step that is a module already. As `plan`."""
    name, cluster = compiled.cluster.name, compiled.cluster
    if compiled.remark:
        progress(f"plan: remark: {compiled.remark}")
    known = cache_in(cache, step, compiled.target, cluster) if cache is not None else None
    search = Search(step, compiled.target, cluster, seconds, progress, known)
    groups = _Groups(step, search, cluster, goal, progress)
    judged = ranked(groups.judged(candidates), goal)
    if not judged and groups.guesses:
        raise PlanError("plan: stages with `meshes` are estimates only; give a candidate that can be compiled as well")
    if not judged or judged[0].audit is None:
        why = f": {judged[0].problem}" if judged else ""
        raise PlanError(f"plan: no candidate compiles for {name}{why}")
    if not fits(judged[0], goal.memory):
        assert goal.memory is not None
        untried = f"; there was no time for {search.left_out}" if search.left_out else ""
        raise PlanError(f"{infeasible(judged, goal.memory)}{untried}")
    best = judged[0].candidate
    return Plan(
        name,
        best,
        tuple(judged),
        goal.memory,
        search.skipped,
        compiled.remark,
        argument_groups(step, best),
        groups.without_stages,
        search.left_out,
        tuple(in_order(groups.guesses, goal)),
        goal.objective,
    )


class _Groups:
    """The candidates of a step: templates that everybody knows, and the others when their turn comes."""

    def __init__(self, step: Step, search: Search, cluster: Cluster, goal: Goal, progress: Progress) -> None:
        self._step, self._search, self._cluster = step, search, cluster
        self._goal, self._progress = goal, progress
        self.basic, self._others = known_first(templates(cluster.size))
        self.without_stages = ""  # why there are none, once that is known
        self.guesses: list[Guess] = []  # of a large step, and of candidates that are estimated only

    @cached_property
    def _choices(self) -> Choices:
        return choices_of(self._step.module)

    @cached_property
    def _layouts(self) -> Layouts:
        return Layouts(self._step, self._choices, self._cluster)

    def judged(self, given: Iterable[Candidate] | None) -> list[Judged]:
        """Those of the user, if there are such; of a large step the best few by estimate; else all."""
        if given is not None:
            candidates = list(given)
            only = [each for each in candidates if each.stages is not None and each.stages.meshes]
            self.guesses = guessed(self._layouts, only, self._progress) if only else []
            return self._search.run(each for each in candidates if each not in only)
        if is_large(self._choices):
            return self._shortlisted()
        return self._search.run(self.basic, len(self.basic), self.later())

    def _shortlisted(self) -> list[Judged]:
        """The best few by estimate; where none of them fits the memory, the next few."""
        size, choices = self._cluster.size, self._choices
        candidates = [*self.basic, *self._others, *expert_templates(choices, size), *self._proposed()]
        candidates += [*pipelines(size, choices), *grid(size, choices)]
        self.guesses = guessed(self._layouts, candidates, self._progress)
        found: list[Judged] = []
        for few in batches(self.guesses, self._goal):
            found += self._search.run(few)
            if self._search.is_late or any(fits(judged, self._goal.memory) for judged in found):
                break
        return found

    def later(self) -> list[Later]:
        """In the order in which they are tried."""
        default = [each for each in self._others if each.policy == DEFAULT_POLICY]
        rest = [each for each in self._others if each.policy != DEFAULT_POLICY]
        return [
            Later(self._proposed, "proposals of the linear program"),
            Later(lambda: default),
            Later(lambda: expert_templates(self._choices, self._cluster.size), "templates for experts"),
            Later(self._staged, "pipeline stages"),
            Later(lambda: rest),
        ]

    def _proposed(self) -> list[Candidate]:
        return proposals(self._choices, self._cluster, memory=self._goal.memory, progress=self._progress)

    def _staged(self) -> list[Candidate]:
        found, self.without_stages = stage_candidates(
            self._search.cuts, self._cluster, self._choices, self._goal, progress=self._progress
        )
        return list(found)
