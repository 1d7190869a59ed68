"""A plan that fits a memory budget: what passes may hold more, found by compiling.

The passes predict what a plan holds, and the compiler tells what the program then takes in all.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

from paropt.base.wording import size_text
from paropt.clusters.targets import memory_of
from paropt.modules.summary import Remarks
from paropt.passes.support.pipeline import Pipeline, Stage

TRIES = 3  # compilations after the first
UNLIMITED = 1 << 50  # bytes to hold, which is more than any device has


class Plan(NamedTuple):
    """A program with one plan, compiled."""

    executable: Any
    remarks: Remarks
    is_original: bool = False  # the compiler refused the rewritten program, and this is the one without passes

    @property
    def held(self) -> int:
        """Bytes per device that passes hold more than the program did, as they count."""
        return sum(remark.held * remark.count for remark in self.remarks)

    @property
    def peak(self) -> int:
        """Bytes per device that the program takes in all; 0 where the compiler does not tell."""
        memory = memory_of(self.executable.memory_analysis())
        return memory.peak if memory is not None else 0

    def is_within(self, budget: int) -> bool:
        return not self.is_original and self.peak <= budget


def fitting(first: Plan, budget: int, again: Callable[[int], Plan]) -> tuple[Plan, list[str]]:
    """`first`, or the plan that `again` makes with fewer bytes to hold; and what was predicted and measured of each."""
    plan, said = first, [_said(first, first.peak, budget)]
    for left in reversed(range(TRIES)):
        if plan.is_within(budget) or not (plan.held or plan.is_original):
            break
        over, peak, held = plan.peak - budget, plan.peak, plan.held
        room = max(held - over, 0) if left and not plan.is_original else 0
        smaller = again(room)
        said.append(_said(smaller, peak - held + smaller.held, budget))
        plan = smaller
    if first.is_original and plan.is_within(budget):  # what the compiler refused may have been much too large
        larger = again(budget - plan.peak)
        said.append(_said(larger, plan.peak - plan.held + larger.held, budget))
        plan = larger if larger.is_within(budget) else plan
    return plan, said


def _said(plan: Plan, predicted: int, budget: int) -> str:
    held, peak = plan.held, plan.peak
    what = "the program" if plan.is_original else f"a plan that holds {held} bytes more"
    text = f"{what} takes {peak} bytes of a budget of {budget} ({size_text(budget)})"
    text += f"; predicted were {predicted}" if predicted != peak else ""
    return text if peak <= budget else f"{text}: too many"


def planned(pipeline: Pipeline, room: int) -> Pipeline:
    """The pipeline with `policy=auto`, and so many bytes to hold. Raises ValueError where no pass has that option."""
    if not any(_has_policy(stage) for stage in pipeline.stages):
        raise ValueError(f"memory_budget: no pass of `{pipeline.title}` has the option `policy`")
    return dataclasses.replace(pipeline, stages=tuple(_planned(stage, room) for stage in pipeline.stages))


def _has_policy(stage: Stage) -> bool:
    return stage.declared is not None and {"policy", "memory-budget"} <= {o.name for o in stage.declared.options}


def _planned(stage: Stage, room: int) -> Stage:
    if not _has_policy(stage):
        return stage
    options = dict(stage.options) | {"policy": "auto", "memory-budget": room}
    return dataclasses.replace(stage, options=tuple(options.items()))
