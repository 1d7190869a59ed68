"""What passes save or hold that only compiled programs tell: a second compilation decides, and only where it may.

Passes know what they ask the compiler for, and not all that it does by itself: docs/jit.md, "A second compilation".
"""

import dataclasses
from collections.abc import Callable, Iterable
from typing import NamedTuple

from paropt.base.wording import size_text
from paropt.clusters.targets import memory_of
from paropt.hlo.census import census
from paropt.hlo.traffic import Traffic, traffic
from paropt.hook.memory_plans import Plan
from paropt.modules.summary import journeys
from paropt.passes import DEFAULT_PIPELINE
from paropt.passes.support.pipeline import Pipeline, Stage
from paropt.passes.support.remarks import Remark

MORE = 1.02  # times the temporary memory of XLA alone: that much the packing of buffers may differ
HOLDS_WHOLE = "expose-all-reduces"  # the pass that holds whole sums, unasked, which the compiler would shard
INFERRED, POLICY = "inferred", "policy"  # its options that ask for it, or for the opposite
TYPES = frozenset({"accumulate-dtype", "wire-dtype"})  # options that ask for the type of a reduction

# XLA:GPU takes all_reduces out of loops itself (WhileLoopAllReduceCodeMotion), in the type in which they are.
HOISTS = frozenset({"gpu"})


class Doubts(NamedTuple):
    """What may be worse than by XLA alone, in a program that was rewritten."""

    held: int = 0  # bytes per device of whole sums that the compiler alone would shard
    narrower: int = 0  # bytes per device that the compiler alone may send less, in a narrower type
    with_shards: Pipeline | None = None  # the passes that leave the shards to such sums

    def __bool__(self) -> bool:
        return bool(self.held or self.narrower)


def doubts_of(found: Iterable[Remark], pipeline: Pipeline, platform: str) -> Doubts:
    """Of the remarks `found` of `pipeline`, as the user gave it.

    None where it has other passes than the default one: the program without them is not what was asked for.
    """
    if not set(pipeline.pass_names) <= set(Pipeline.parse(DEFAULT_PIPELINE).pass_names):
        return Doubts()
    remarks = list(found)
    with_shards = _with_shards(pipeline)
    held = sum(each.held * each.count for each in remarks if each.pass_name == HOLDS_WHOLE) if with_shards else 0
    are_types_asked = any(TYPES & dict(stage.options).keys() for stage in pipeline.stages)
    narrower = _narrower(remarks) if platform in HOISTS and not are_types_asked else 0
    return Doubts(held, max(narrower, 0), with_shards)


def _narrower(remarks: Iterable[Remark]) -> int:
    """Bytes that are reduced behind loops beyond those that the compiler has to reduce there, at least, by itself."""
    after = alone = 0
    for each in journeys(remarks):
        trips = each.saved.trips or 1
        alone += each.times * each.saved.bytes * (trips if each.loops > 1 else 1)
        after += each.times * each.saved.bytes_after
    return after - alone


def _with_shards(pipeline: Pipeline) -> Pipeline | None:
    """The same with `inferred=kept` where nothing was asked for; None if that is nowhere."""
    stages = tuple(map(_stage_with_shards, pipeline.stages))
    return dataclasses.replace(pipeline, stages=stages) if stages != pipeline.stages else None


def _stage_with_shards(stage: Stage) -> Stage:
    if stage.declared is None or stage.declared.name != HOLDS_WHOLE or {INFERRED, POLICY} & dict(stage.options).keys():
        return stage
    return dataclasses.replace(stage, options=(*stage.options, (INFERRED, "kept")))


def settled(
    doubts: Doubts, first: Plan, by: Callable[[Pipeline], Plan], original: Callable[[], Plan]
) -> tuple[Plan, list[str]]:
    """`first`, or what sends and holds no more than XLA alone; and what was measured.

    `by` compiles what a pipeline makes of the program, `original` the program without passes.
    """
    collectives = census(first.executable.as_text() or "")
    held, sent = _temporary(first), traffic(collectives)
    is_held = doubts.held > (1 - 1 / MORE) * held  # else it cannot be what takes too much
    is_wider = doubts.narrower > 0 and not any(each.at_most for each in collectives)
    if first.is_original or not (is_held or is_wider):
        return first, []
    alone = original()
    least, before = _temporary(alone), _sent(alone)
    if is_wider and before < sent:
        return alone, [f"XLA alone reduces in a narrower type, and sends {before}; with the passes it would be {sent}"]
    if not is_held:
        return first, [f"XLA alone might reduce in a narrower type, but sends {before}; with the passes it is {sent}"]
    measured = f"whole sums take {held} bytes of temporary memory per device ({size_text(held)}), XLA alone {least}"
    if held <= MORE * least:
        return first, [measured]
    smaller = by(doubts.with_shards) if doubts.with_shards is not None else alone
    chosen = smaller if _temporary(smaller) <= MORE * least and _sent(smaller) <= before else alone
    return chosen, [f"{measured}: sums stay sharded as the compiler has them (option inferred=whole would hold them)"]


def _temporary(plan: Plan) -> int:
    """Bytes per device beside arguments and results; 0 where the compiler does not tell."""
    memory = memory_of(plan.executable.memory_analysis())
    return memory.temp if memory is not None else 0


def _sent(plan: Plan) -> Traffic:
    return traffic(census(plan.executable.as_text() or ""))
