"""Savings of passes that only compiled programs tell: a second compilation decides, and only where it may.

Passes know their requests to the compiler, and not all that it does by itself: docs/jit.md, "A second compilation".
"""

from collections.abc import Callable, Collection, Iterable

from paropt.clusters.compiled import memory_of
from paropt.hlo.census import SYNC_KINDS, census
from paropt.hlo.traffic import Traffic, traffic
from paropt.hook.memory_plans import Plan
from paropt.modules.summary import OF_SUMS, journeys
from paropt.passes import DEFAULT_PIPELINE
from paropt.passes.deferral.policy import HAS_BUDGET, HOLDS_PARAMETERS, HOLDS_SUMS
from paropt.passes.support.pipeline import Pipeline, Stage
from paropt.passes.support.remarks import Remark

MORE = 1.02  # times the temporary memory of XLA alone: that much the packing of buffers may differ
LITTLE_IN_DOUBT = 0.01  # of the bytes that the program sends: for less, nothing is compiled twice
TYPES = frozenset({"accumulate-dtype", "wire-dtype"})  # options that ask for the type of a reduction

# XLA:GPU takes all_reduces out of loops itself (WhileLoopAllReduceCodeMotion), in the type in which they are.
HOISTS = frozenset({"gpu"})


def bytes_in_doubt(found: Iterable[Remark], pipeline: Pipeline, platform: str) -> int:
    """Bytes per device that the compiler alone may reduce less, in a narrower type, by the remarks of `pipeline`.

    None where the user gave it other passes than the default one: the program without them was not asked for.
    """
    if platform not in HOISTS or not set(pipeline.pass_names) <= set(Pipeline.parse(DEFAULT_PIPELINE).pass_names):
        return 0
    are_types_asked = any(TYPES & dict(stage.options).keys() for stage in pipeline.stages)
    return 0 if are_types_asked else max(0, _narrower(found))


def is_likely_less(found: Collection[Remark], in_doubt: int) -> bool:
    """Whether XLA alone is to be compiled first: all reductions leave loops, and much of that is `in_doubt`.

    Not where parameters are gathered once, which XLA alone gathers in loops.
    """
    stays = any(remark.choices or (not remark.applied and remark.pass_name in OF_SUMS) for remark in found)
    after = sum(each.times * each.saved.bytes_after for each in journeys(found))
    return not stays and in_doubt >= LITTLE_IN_DOUBT * after > 0


def _narrower(remarks: Iterable[Remark]) -> int:
    """Bytes that are reduced behind loops beyond those that the compiler has to reduce there, at least, by itself."""
    after = alone = 0
    for each in journeys(remarks):
        trips = each.saved.trips or 1
        alone += each.times * each.saved.bytes * (trips if each.loops > 1 else 1)
        after += each.times * each.saved.bytes_after
    return after - alone


def takes_memory(pipeline: Pipeline) -> bool:
    """Whether the user asked for a policy that takes more memory than XLA alone."""
    return any(_policy(stage) in HOLDS_SUMS | HOLDS_PARAMETERS | HAS_BUDGET for stage in pipeline.stages)


def _policy(stage: Stage) -> str | None:
    """Its policy, if it has one: given, or the default of a pass that is named alone."""
    options = stage.declared.options if stage.declared is not None else ()
    default = next((option.default for option in options if option.name == "policy"), None)
    return dict(stage.options).get("policy", default)


def settled(
    first: Plan, original: Callable[[], Plan], in_doubt: int, *, may_take_memory: bool
) -> tuple[Plan, list[str]]:
    """`first`, or the program as XLA alone has it, if that sends or holds less; and the measured bytes.

    `original` compiles the program without passes, which is not done where the bytes `in_doubt` are few. With
    `may_take_memory` only sent bytes count.
    """
    collectives = census(first.executable.as_text() or "")
    sent = traffic(collectives)
    is_little = not sent.unknown and 2 * in_doubt < LITTLE_IN_DOUBT * sent.known  # an all_reduce sends its array twice
    if is_little or first.is_original or any(each.at_most for each in collectives):
        return first, []
    alone = original()
    before, held, least = _sent(alone), _temporary(first), _temporary(alone)
    if before < sent:
        return alone, [f"XLA alone reduces in a narrower type, and sends {before}; with the passes it would be {sent}"]
    if held > MORE * least and not may_take_memory:
        return alone, [f"XLA alone takes {least} bytes of temporary memory; with the passes it would be {held}"]
    return first, [f"XLA alone might reduce in a narrower type, but sends {before}; with the passes it is {sent}"]


def reduces_once(alone: Plan) -> bool:
    """Whether XLA alone reduces nothing in loops: then it sends no more than the passes have it send, in no wider
    type."""
    collectives = census(alone.executable.as_text() or "")
    return not any(each.depth or each.at_most for each in collectives if each.kind in SYNC_KINDS)


def said_alone(alone: Plan) -> str:
    """Why nothing else was compiled."""
    return f"XLA alone reduces once, too, in a narrower type, and sends {_sent(alone)}: it runs as it is"


def are_guessed(found: Iterable[Remark]) -> bool:
    """Whether a policy has gathered parameters in whose place XLA moves other arrays, as far as is known."""
    return any(remark.saved is not None and remark.saved.is_guess for remark in found)


def least_sent(first: Plan, default: Callable[[], Plan]) -> tuple[Plan, list[str]]:
    """`first`, or the plan of the default policy, if that sends less; and what was measured."""
    collectives = census(first.executable.as_text() or "")
    if first.is_original or any(each.at_most for each in collectives):
        return first, []
    other, sent = default(), traffic(collectives)
    before = _sent(other)
    if before < sent:
        return other, [f"parameters are gathered at use, which sends {before}; before the loop it would be {sent}"]
    return first, [f"gathered at use, parameters or activations would take {before}; now it is {sent}"]


def _temporary(plan: Plan) -> int:
    """Bytes per device beside arguments and results; 0 where the compiler does not tell."""
    memory = memory_of(plan.executable.memory_analysis())
    return memory.temp if memory is not None else 0


def _sent(plan: Plan) -> Traffic:
    return traffic(census(plan.executable.as_text() or ""))
