"""A plan that fits a memory budget: the bytes that passes may hold more, found by compiling.

The passes predict the bytes that a plan holds, and the compiler tells the total of the program.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from paropt.base.wording import size_text
from paropt.clusters.compiled import memory_of
from paropt.modules.other_policies import with_policy
from paropt.modules.summary import Remarks
from paropt.passes.support.pipeline import Pipeline

TRIES = 3  # compilations after the first


class Plan(NamedTuple):
    """A program with one plan, compiled."""

    executable: Any
    remarks: Remarks
    is_original: bool = False  # the program without passes: the compiler refused the rewritten one, or that takes more

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
        return self.peak <= budget


def fitting(
    first: Plan, budget: int, again: Callable[[int], Plan], original: Callable[[], Plan]
) -> tuple[Plan, list[str]]:
    """`first`, or the plan that `again` makes with fewer bytes to hold; and the prediction and measurement of each.

    The last text is of the plan that is chosen. Where even a plan that holds nothing is too large, the smallest program
    of all is chosen, the unchanged `original` included.
    """
    tried = [(first, _said(first, first.peak, budget))]
    for left in reversed(range(TRIES)):
        plan, _ = tried[-1]
        if _is_done(plan, budget):
            break
        smaller = again(_room(plan, budget, left))
        tried.append((smaller, _said(smaller, plan.peak - plan.held + smaller.held, budget)))
    plan, _ = tried[-1]
    if first.is_original and plan.is_within(budget):  # a plan that the compiler refused may have been much too large
        larger = again(budget - plan.peak)
        tried.append((larger, _said(larger, plan.peak - plan.held + larger.held, budget)))
    elif not plan.is_within(budget) and not plan.is_original:
        unchanged = original()
        tried.append((unchanged, _said(unchanged, unchanged.peak, budget)))
    last, text = tried[-1] if tried[-1][0].is_within(budget) else min(reversed(tried), key=lambda each: each[0].peak)
    return last, [*(other for each, other in tried if each is not last), text]


def _is_done(plan: Plan, budget: int) -> bool:
    if plan.is_original:
        return False
    return plan.is_within(budget) or not plan.held


def _room(plan: Plan, budget: int, left: int) -> int:
    """The bytes that the next plan may hold, after which `left` more may come.

    As much less as `plan` takes too much; if that did not do once, half at most: the total of a program may hardly
    depend on the bytes that its plan holds.
    """
    if plan.is_original or not left:
        return 0
    room = max(plan.held - (plan.peak - budget), 0)
    return room if left == TRIES - 1 else min(room, plan.held // 2)


def _said(plan: Plan, predicted: int, budget: int) -> str:
    held, peak = plan.held, plan.peak
    what = "the program" if plan.is_original else f"a plan that holds {held} bytes more"
    text = f"{what} takes {peak} bytes of a budget of {budget} ({size_text(budget)})"
    text += f"; predicted were {predicted}" if predicted != peak else ""
    return text if peak <= budget else f"{text}: too many"


def unmet(plan: Plan, budget: int) -> str:
    """The warning where the smallest program that was found does not fit."""
    helps = "more devices, smaller micro-batches, or rematerialization"
    found = f"the smallest program found takes {size_text(plan.peak)} per device, {size_text(plan.peak - budget)} more"
    return f"memory_budget: nothing fits {size_text(budget)}: {found}; it runs all the same; {helps} would help"


def planned(pipeline: Pipeline, room: int) -> Pipeline:
    """The pipeline with `policy=auto`, and so many bytes to hold. Raises ValueError where no pass has that option."""
    made = with_policy(pipeline, {"policy": "auto", "memory-budget": room})
    if made is None:
        raise ValueError(f"memory_budget: no pass of `{pipeline.title}` has the option `policy`")
    return made
