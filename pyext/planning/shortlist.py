"""Which candidates of a large step are compiled: the best few by estimate. The others have a row, and why they lost.

Tests: test/unit/pyext/planning/test_shortlist.py.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from paropt.base.wording import seconds_text, size_text
from paropt.passes.state.rule_presets import PRESETS
from paropt.passes.support.pipeline import PipelineError
from paropt.planning.candidates import DEFAULT_POLICY, STAGE, Candidate, Mesh, Stages, zero1_with_tensor
from paropt.planning.estimates import Estimated
from paropt.planning.goals import Goal, about
from paropt.planning.layouts import Layouts
from paropt.planning.stage_estimates import divisors, staged_estimate
from paropt.planning.strategies import Choices

FEW = 4  # are compiled, and as many more until one fits the memory
ALL_COMPILED_BELOW = 1e14  # FLOPs of a step: of smaller ones all candidates are compiled
_CUT = (("flops-per-byte", 0),)  # stages are cut where they cost least, as if transfers were free


class Guess(NamedTuple):
    """A candidate, and what it would take by estimate."""

    candidate: Candidate
    estimated: Estimated

    @property
    def seconds(self) -> float:
        """Of a step."""
        return self.estimated.seconds

    @property
    def runs(self) -> bool:
        """Whether it can be compiled: stages that differ cannot."""
        return self.candidate.stages is None or not self.candidate.stages.meshes

    def fits(self, memory: int | None) -> bool:
        """Whether it takes at most `memory` bytes per device."""
        return memory is None or self.estimated.memory <= memory


def is_large(choices: Choices) -> bool:
    """Whether candidates of a step are estimated first."""
    return sum(each.flops * each.executions for each in choices.work) >= ALL_COMPILED_BELOW


def guessed(layouts: Layouts, candidates: Iterable[Candidate], progress: Callable[[str], None]) -> list[Guess]:
    """All whose rules can be applied, the best first: those that fit come first with `in_order`."""
    found = []
    for each in candidates:
        try:
            estimated = layouts.estimate(each) if each.stages is None else staged_estimate(layouts, each)
        except PipelineError as error:
            progress(f"plan: {each}: {error}")
            continue
        found.append(Guess(each, estimated))
    progress(f"plan: {len(found)} candidates estimated")
    return found


def in_order(found: Iterable[Guess], goal: Goal) -> list[Guess]:
    """Those that fit the memory by what `goal` minimises, then the others by memory."""

    def key(each: Guess) -> tuple[float, ...]:
        if not each.fits(goal.memory):
            return 1, each.estimated.memory
        return 0, *goal.figures(each.seconds, each.estimated.bytes)

    return sorted(found, key=key)


def batches(found: Sequence[Guess], goal: Goal) -> Iterator[list[Candidate]]:
    """Those that run, FEW at a time, the best first; of equal programs one."""
    waiting = [each.candidate for each in in_order(found, goal) if each.runs]
    for start in range(0, len(waiting), FEW):
        yield waiting[start : start + FEW]


def pipelines(devices: int, choices: Choices) -> Iterator[Candidate]:
    """Equal stages of layers in a scan, with each sharding inside that `paropt.pipeline` runs."""
    layers = choices.layers
    made = Stages("1f1b", layers.microbatches, None, _CUT)
    for stages in divisors(devices)[1:]:
        if stages > min(layers.depth, layers.microbatches):
            return
        size = devices // stages
        if size == 1:
            yield Candidate("pp", Mesh(((STAGE, stages),)), "", DEFAULT_POLICY, made)
            continue
        mesh = Mesh(((STAGE, stages), ("data", size)))
        for name in ("dp", "zero1", "fsdp"):
            yield Candidate(f"pp x {name}", mesh, PRESETS[name], DEFAULT_POLICY, made)
        for model in divisors(size)[1:]:
            mesh = Mesh(((STAGE, stages), ("data", size // model), ("model", model)))
            name = "pp x tp" if model == size else "pp x dp x tp"
            yield Candidate(name, mesh, zero1_with_tensor(), DEFAULT_POLICY, made)


def rows_of(found: Sequence[Guess], compiled: Iterable[Candidate], goal: Goal) -> list[tuple[str, ...]]:
    """The texts of the titles, and of the best of each template that is not among the `compiled`, the best first."""
    known = list(compiled)
    ordered = in_order(found, goal)
    if not ordered:
        return []
    first = next((each for each in ordered if each.candidate in known[:1]), ordered[0])
    best: dict[str, Guess] = {}
    for each in ordered:
        best.setdefault(each.candidate.name, each)
    rows = [_row(each, first, goal) for each in best.values() if each.candidate not in known]
    return [("template", "mesh", "policy", "sent", "memory", "step", ""), *rows] if rows else []


def _row(each: Guess, first: Guess, goal: Goal) -> tuple[str, ...]:
    candidate, estimated = each.candidate, each.estimated
    mesh = str(candidate.mesh) if each.runs or candidate.stages is None else candidate.stages.shape
    cells = (size_text(estimated.bytes), size_text(estimated.memory), seconds_text(estimated.seconds))
    policy = candidate.policy or "XLA alone"
    return (candidate.name, mesh, policy, *cells, verdict(each, first, goal))


def verdict(each: Guess, first: Guess, goal: Goal) -> str:
    """Why a candidate is not compiled, by estimate: beside that of `first`, the best that was."""
    if goal.memory is not None and not each.fits(goal.memory):
        return f"{size_text(each.estimated.memory - goal.memory)} over the memory budget"
    only = "" if each.runs else "an estimate only, not run; "
    mine, other = (goal.figures(guess.seconds, guess.estimated.bytes)[0] for guess in (each, first))
    if about(mine, other) and about(other, mine):
        return f"{only}{'sends about as much' if goal.objective == 'bytes' else 'about as fast'}"
    if goal.objective == "bytes":
        return f"{only}sends {size_text(abs(mine - other))} {'more' if mine > other else 'less'}"
    why = f": {reason(each.estimated, first.estimated)}" if mine > other else ""
    return f"{only}{mine / other:.3g} x the time{why}"


def reason(mine: Estimated, other: Estimated) -> str:
    """The largest part of the difference of two times."""
    more = {
        "communication": (mine.communication - mine.hidden) - (other.communication - other.hidden),
        "waiting for other stages": mine.waiting - other.waiting,
        "compute": mine.compute - other.compute,
    }
    return max(more, key=more.__getitem__)
