"""Measures one row of docs/plans.md, in a process of its own: `plans_measure.py MODEL GPU SECONDS`.

Prints a line of JSON: by the same estimates the published plan, the best of the grid and each template, over numbers of
micro-batches; and what `paropt.plan` chose in so many seconds, with the estimates of what it compiled. With `check` in
place of the seconds, all templates are compiled, and compared with their estimates; with `estimate`, nothing is.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(Path(__file__).resolve().parent))

from alpa_plans import PUBLISHED, SHAPES, Published
from gpt_programs import BATCH, step_of

import paropt
from paropt.clusters import targets
from paropt.clusters.device_memory import usable
from paropt.clusters.gpus import GPUS
from paropt.costs.clusters import cluster_of
from paropt.plan import Plan
from paropt.planning.candidates import Candidate, templates
from paropt.planning.goals import Goal
from paropt.planning.layouts import Layouts
from paropt.planning.proposals import choices_of
from paropt.planning.ranking import sent
from paropt.planning.search import Judged
from paropt.planning.sharded_programs import lowered_without_mesh
from paropt.planning.sharded_programs import step_of as step_in
from paropt.planning.shortlist import Guess, guessed, in_order, pipelines
from paropt.planning.stage_estimates import grid

START = "plans: "  # of the line with results: compilers print, too
DTYPE = "float16"  # that V100s multiply as well
COMPILED_FOR = "gpu:h100:1x1x1"  # whose platform steps are lowered for


def main(model: str, gpu: str, seconds: str, shape: str = "") -> None:
    """One row."""
    published = PUBLISHED[model]
    target = f"gpu:{gpu}:{shape or SHAPES[published.devices]}"
    found = _checked(published, target) if seconds == "check" else _planned(published, gpu, target, seconds)
    print(START + json.dumps(found), flush=True)


def _planned(published: Published, gpu: str, target: str, seconds: str) -> dict[str, Any]:
    memory = usable(GPUS[gpu].memory)
    start = time.monotonic()
    found: dict[int, list[Guess]] = {each: _guesses(published, target, each) for each in _micro_batches(published)}
    first = {each: next(g for g in in_order(guesses, Goal(memory)) if g.runs) for each, guesses in found.items()}
    best = min(first, key=lambda each: (not first[each].fits(memory), first[each].seconds))
    row = {"rows": list(_rows(found, memory)), "memory": memory, "micro_batches": best, "compiled": []}
    if seconds == "estimate":
        return row | {"took": time.monotonic() - start}
    step, shapes = step_of(published.model, best, DTYPE)
    plan = paropt.plan(step, *shapes, target=target, memory="auto", seconds=float(seconds), progress=_say)
    compiled = [_compared(plan, judged) for judged in plan.ranking if judged.audit is not None]
    return row | {"took": time.monotonic() - start, "remark": plan.remark, "compiled": compiled}


def _micro_batches(published: Published) -> list[int]:
    """As published; with one, two and four sequences per device if all devices share the examples; and four times as
    many as with one."""
    several = {BATCH // published.devices // sequences for sequences in (1, 2, 4)}
    several.add(min(BATCH, 4 * BATCH // published.devices))
    return sorted({published.micro_batches} | (several - {0}), reverse=True)


def _guesses(published: Published, target: str, micro_batches: int) -> list[Guess]:
    step, shapes = step_of(published.model, micro_batches, DTYPE)
    given = step_in(lowered_without_mesh(step, shapes, targets.get(COMPILED_FOR)))
    choices, cluster = choices_of(given.module), cluster_of(target)
    candidates = [published.candidate(micro_batches), *grid(cluster.size, choices), *templates(cluster.size)]
    candidates += pipelines(cluster.size, choices)
    return guessed(Layouts(given, choices, cluster), candidates, _say)


def _rows(found: dict[int, list[Guess]], memory: int) -> Iterator[dict[str, Any]]:
    """Of the published plan, with its own micro-batches, and of each template the best over all numbers of them."""
    several = {(name, each): guess for each, guesses in found.items() for name, guess in _best(guesses, memory)}
    for name in dict.fromkeys(name for name, _ in several):
        own = {each: guess for (other, each), guess in several.items() if other == name}
        each = min(own, key=lambda n: (not own[n].fits(memory), own[n].seconds))
        yield {"template": name, "micro_batches": each, "fits": own[each].fits(memory), **_told(own[each])}


def _best(guesses: list[Guess], memory: int) -> Iterator[tuple[str, Guess]]:
    for name in dict.fromkeys(guess.candidate.name for guess in guesses):
        yield name, in_order((guess for guess in guesses if guess.candidate.name == name), Goal(memory))[0]


def _told(guess: Guess) -> dict[str, Any]:
    e = guess.estimated
    return {
        "plan": plan_text(guess.candidate),
        "runs": guess.runs,
        "seconds": e.seconds,
        "compute": e.compute,
        "exposed": e.communication - e.hidden,
        "waiting": e.waiting,
        "memory": e.memory,
        "links": dict(e.by_link),
    }


def plan_text(candidate: Candidate) -> str:
    """The mesh, or those of the stages, and the policy."""
    mesh = candidate.stages.shape if candidate.stages is not None and candidate.stages.meshes else str(candidate.mesh)
    return f"{mesh}, {candidate.policy or 'XLA alone'}"


def _compared(plan: Plan, judged: Judged) -> dict[str, Any]:
    """What is compiled, beside its estimate."""
    guess = next(each for each in plan.guesses if each.candidate == judged.candidate)
    return {"template": judged.candidate.name, **_told(guess), "executable": _executable(judged)}


def _executable(judged: Judged) -> dict[str, Any]:
    return {"seconds": judged.seconds, "memory": judged.peak_memory, "sent": sent(judged)}


def _checked(published: Published, target: str) -> dict[str, Any]:
    """All templates compiled, by the default policy and by the one that gathers and reduces once."""
    step, shapes = step_of(published.model, published.micro_batches, DTYPE)
    cluster = cluster_of(target)
    chosen = [each for each in templates(cluster.size) if each.policy in ("keep-shards", "once")]
    given = step_in(lowered_without_mesh(step, shapes, targets.get(COMPILED_FOR)))
    guesses = guessed(Layouts(given, choices_of(given.module), cluster), chosen, _say)
    plan = paropt.plan(step, *shapes, target=target, candidates=chosen, seconds=3600.0, progress=_say)
    of = {each.candidate: each for each in guesses}
    judged = [each for each in plan.ranking if each.audit is not None]
    return {
        "check": [
            {
                "template": each.candidate.name,
                **_told(of[each.candidate]),
                "sent": of[each.candidate].estimated.bytes,
                "executable": _executable(each),
            }
            for each in judged
        ]
    }


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
