"""Candidates with pipeline stages: for each number of stages the cuts, shardings inside and schedules that a model
finds fastest.

The layers are cut by the dynamic program of `cut-stages`, once with the time of a byte over the link and once without:
a schedule hides transfers, or it does not. The model then has the time of each part of each stage, with the collectives
of the sharding inside it, and the simulator the step. Of all choices that no other one beats in time, memory and bytes
sent, the fastest few are compiled.

Sources: PipeDream (Narayanan et al., SOSP 2019); Alpa (Zheng et al., OSDI 2022), whose stages may differ in devices.
Tests: test/unit/pyext/planning/test_stage_plans.py.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, get_args

from paropt.base.wording import seconds_text, size_text
from paropt.costs.clusters import Cluster
from paropt.passes.state.rule_presets import PRESETS
from paropt.planning.candidates import STAGE, Candidate, Mesh, Stages
from paropt.planning.goals import Goal
from paropt.planning.sharded_programs import Step, module_by_rules, specs_in
from paropt.planning.stage_audits import Links
from paropt.planning.stage_model import (
    Alone,
    Modelled,
    StageModel,
    data_parallel_seconds,
    seconds_alone,
    seconds_per_flop,
)
from paropt.planning.strategies import Choices
from paropt.schedules import Schedule, ScheduleError, schedule
from paropt.stages.cut_step import CutStep, cut_program
from paropt.stages.partial_sums import StagePolicy
from paropt.stages.stages_apart import Dimensions, Layout
from paropt.stages.step_plan import StageError, StepPlan

_FEW = 4  # are compiled
_WORTH_A_TRY = 2.0  # times as long as without stages, in the model: slower ones are not compiled
_POLICIES: tuple[StagePolicy, ...] = get_args(StagePolicy)
# Chunks per device of the schedules that are tried, and the policies of the shardings inside a stage.
_SCHEDULES = {"1f1b": 1, "gpipe": 1, "interleaved": 2, "zb-h1": 1}
_INSIDE = {"dp": _POLICIES[:1], "zero1": _POLICIES[:1], "fsdp": _POLICIES}
_WEIGHT = "flops-per-byte"  # the option of cut-stages
_LARGE = 1e9  # bytes, of whose transfer latency is no part that counts


@dataclass
class StageCuts:
    """The cuts of one step, and the shardings inside stages by rules, each made once."""

    step: Step
    _made: dict[object, CutStep | StageError] = field(default_factory=dict)
    _specs: dict[tuple[Mesh, str], dict[str, Dimensions]] = field(default_factory=dict)
    _plans: dict[object, StepPlan] = field(default_factory=dict)

    def cut(self, chunks: int, options: str, *, apart: bool) -> CutStep:
        """Into `chunks` stages of the model. Raises StageError."""
        key = (chunks, options, apart)
        if key not in self._made:
            try:
                self._made[key] = cut_program(self.step.module, stages=chunks, options=options, apart=apart)
            except StageError as error:
                self._made[key] = error
        found = self._made[key]
        if isinstance(found, StageError):
            raise found
        return found

    def any(self) -> CutStep | None:
        """One that was made before: operations and micro-batches are as many in each."""
        return next((each for each in self._made.values() if isinstance(each, CutStep)), None)

    def of(self, candidate: Candidate) -> tuple[CutStep, Layout]:
        """The cut and the layout of a candidate with stages. Raises StageError, ScheduleError, PipelineError."""
        layout = self.layout(candidate)
        apart = any(each.kind == "W" for each in layout.table.instructions())
        assert candidate.stages is not None
        cut = self.cut(layout.table.chunks, candidate.stages.options, apart=apart)
        if cut.microbatches != layout.microbatches:
            raise StageError(f"the step has {cut.microbatches} micro-batches, the plan {layout.microbatches}")
        return cut, layout

    def layout(self, candidate: Candidate) -> Layout:
        """Raises PipelineError for rules that are wrong."""
        assert candidate.stages is not None
        stages, specs = candidate.stages, self._specs_of(candidate.mesh, candidate.rules)
        policy = next((each for each in _POLICIES if each == candidate.policy), None)
        if policy is None:
            raise StageError(f"policy: expected one of {', '.join(_POLICIES)}, got {candidate.policy!r}")
        donates = any(self.step.donated)
        axes = candidate.mesh.axes
        return Layout(
            stages.schedule, stages.microbatches, stages.chunks, axes, specs, policy, donates, candidate.batch_axes
        )

    def plan(self, cut: CutStep, layout: Layout) -> StepPlan:
        """The plan of a step: the same for most shardings inside stages. Raises StageError."""
        gathered = layout.gathered(cut)
        key = (cut.digest, layout.schedule, layout.axes[0], layout.chunks, gathered)
        if key not in self._plans:
            self._plans[key] = StepPlan(cut.manifest, layout.table, gathered)
        return self._plans[key]

    def _specs_of(self, mesh: Mesh, rules: str) -> dict[str, Dimensions]:
        if (mesh, rules) not in self._specs:
            found = enumerate(specs_in(module_by_rules(self.step, mesh, rules)))
            self._specs[mesh, rules] = {str(number): axes for number, axes in found if any(axes)}
        return self._specs[mesh, rules]


class Choice(NamedTuple):
    """A candidate, and the model's estimate of it."""

    candidate: Candidate
    model: Modelled


def stage_candidates(
    cuts: StageCuts,
    cluster: Cluster,
    choices: Choices,
    goal: Goal,
    *,
    progress: Callable[[str], None] = lambda _: None,
) -> tuple[list[Candidate], str]:
    """The best few in the model, by what `goal` minimises, that fit its memory; and in one line why there are none."""
    alone = seconds_alone(choices, cluster)
    found, refused = stage_choices(cuts, cluster, alone)
    if not found:
        return [], f"no stages: {refused}"
    best = unbeaten([each for each in found if goal.memory is None or each.model.memory <= goal.memory])
    progress(f"plan: stages: {len(found)} ways, {len(best)} that fit and are unbeaten in the model")
    if not best:
        smallest = min(each.model.memory for each in found)
        return [], f"no stages: arguments, sums and activations take {size_text(smallest)} at least"
    fastest = best[0]
    without = data_parallel_seconds(cuts.of(fastest.candidate)[0], cluster, alone)
    if goal == Goal() and fastest.model.seconds > _WORTH_A_TRY * without:
        takes = f"{seconds_text(fastest.model.seconds)} in the model, {seconds_text(without)} without stages"
        return [], f"no stages: the fastest ({fastest.candidate}) takes {takes}"
    best.sort(key=lambda each: goal.figures(each.model.seconds, each.model.sent))
    return [each.candidate for each in best[:_FEW]], ""


def unbeaten(found: Sequence[Choice]) -> list[Choice]:
    """Those that no other one beats in time, memory and bytes sent; of equal ones the first. The fastest first."""
    kept: list[Choice] = []
    for each in sorted(found, key=lambda choice: choice.model):
        if not any(one.model.memory <= each.model.memory and one.model.sent <= each.model.sent for one in kept):
            kept.append(each)
    return kept


def stage_choices(cuts: StageCuts, cluster: Cluster, alone: Alone) -> tuple[list[Choice], str]:
    """All choices for a step that takes one device `alone`; and why the step is not cut, where it is not."""
    found: list[Choice] = []
    refused = "they need two devices"
    for stages in (size for size in range(2, cluster.size + 1) if cluster.size % size == 0):
        for name, chunks in _SCHEDULES.items():
            try:
                found += _choices(cuts, cluster, alone, stages, name, chunks)
            except (StageError, ScheduleError) as error:
                if cuts.any() is None:  # more stages cannot be cut then either
                    return [], str(error)
                refused = str(error) if refused.startswith("they need") else refused
    return found, refused


def _choices(cuts: StageCuts, cluster: Cluster, alone: Alone, stages: int, name: str, chunks: int) -> Iterator[Choice]:
    """Of one number of stages and one schedule. Several chunks per device are cut with the weight of transfers only:
    they send more.
    """
    made = Stages(name, 0, chunks if chunks > 1 else None, ((_WEIGHT, 0),))
    known = cuts.any() or cuts.cut(stages * chunks, made.options, apart=True)
    if stages > known.microbatches:
        raise StageError(f"{known.microbatches} micro-batches are fewer than {stages} stages")
    made = replace(made, microbatches=known.microbatches)
    _table(made, stages)
    size = cluster.size // stages
    per_byte = Links(cluster, stages).seconds(0, 1, _LARGE) / _LARGE / size
    weighed = replace(made, cut_options=((_WEIGHT, round(per_byte / seconds_per_flop(known, alone, size))),))
    digests = set[str]()
    for each in (made, weighed) if chunks == 1 else (weighed,):
        cut = cuts.cut(stages * chunks, each.options, apart=True)
        if cut.digest not in digests and _have_parameters(cut):
            digests.add(cut.digest)
            for candidate in _candidates(each, stages, size):
                layout = cuts.layout(candidate)
                model = StageModel(cut, layout, cuts.plan(cut, layout), cluster, alone)
                yield Choice(candidate, model.step())
    if not digests:
        raise StageError(f"cut into {stages * chunks}, some stages have no parameters")


def _table(made: Stages, stages: int) -> Schedule:
    return schedule(made.schedule, stages=stages, microbatches=made.microbatches, chunks=made.chunks)


def _candidates(made: Stages, stages: int, size: int) -> Iterator[Candidate]:
    """Each sharding inside stages of `size` devices, with each policy."""
    if size == 1:
        yield Candidate("pp", Mesh(((STAGE, stages),)), "", _POLICIES[0], made)
        return
    for name, policies in _INSIDE.items():
        mesh = Mesh(((STAGE, stages), ("data", size)))
        yield from (Candidate(f"pp x {name}", mesh, PRESETS[name], policy, made) for policy in policies)


def _have_parameters(cut: CutStep) -> bool:
    """Whether each stage adds up gradients, of rows of stacked ones too: else its devices are left idle."""
    sums = {name for name in cut.manifest.sums if cut.shapes[name].shape}
    stages = {program.stage for program in cut.manifest.programs if sums & {*program.results}}
    return len(stages) == cut.manifest.stages
