"""Rolling random unrolled programs: same results bit for bit, a fixed point, and mostly a loop."""

from collections.abc import Iterable

import pytest
from hypothesis import given, note, settings
from modules import parsed
from numeric.oracle import assert_same, optimized
from property.test_programs import REPEATABLE, SEEDS
from property.unrolled import Plan, plans, text_of

from paropt.passes.support.remarks import Remark

EAGER = "min-ops=1 min-share=0"  # whatever it costs, short of a longer program


@pytest.mark.parametrize("order", ["kept", "any"])
@settings(REPEATABLE, max_examples=100)
@given(plan=plans())
def test_rolled_program_computes_the_same(order: str, plan: Plan) -> None:
    text = text_of(plan)
    note(text)
    passes = f"roll-accumulation{{{EAGER} order={order}}}"
    before = str(parsed(text))
    after, _ = optimized(before, passes)
    note(f"after:\n{after}")
    assert len(after.splitlines()) <= len(before.splitlines()) + 6, "a loop has four lines that are no ops"
    again, _ = optimized(after, passes)
    assert again == after, "running it twice changes the module again"
    if after != before:
        assert_same(before, after, SEEDS)


@pytest.mark.parametrize("sync", ["apart", "last", "apply"])
@settings(REPEATABLE, max_examples=40)
@given(plan=plans())
def test_outlined_program_computes_the_same(sync: str, plan: Plan) -> None:
    before, _ = optimized(text_of(plan), f"roll-accumulation{{{EAGER}}}")
    after, found = optimized(before, f"outline-accumulation{{sync={sync}}}")
    note(f"before:\n{before}\nafter:\n{after}")
    assert (after != before) == any(remark.applied for remark in found)
    again, _ = optimized(after, f"outline-accumulation{{sync={sync}}}")
    assert again == after, "running it twice changes the module again"
    if after != before:
        assert_same(before, after, SEEDS)


def remarks(plan: Plan) -> list[Remark]:
    return optimized(text_of(plan), f"roll-accumulation{{{EAGER}}}")[1]


def rolled(chosen: Iterable[Plan]) -> list[bool]:
    return [any(remark.applied for remark in remarks(plan)) for plan in chosen]


def test_most_copies_roll() -> None:
    """Enough of them do: those that are alike, and long enough to be worth it."""
    chosen: list[Plan] = []

    @settings(REPEATABLE, max_examples=500)
    @given(plan=plans())
    def collect(plan: Plan) -> None:
        chosen.append(plan)

    collect()
    alike = [p for p in chosen if p.odd is None and p.copies > 3 and len(p.steps) > 4 and p.source != "arguments"]
    alike = [p for p in alike if not (p.state and p.added == "backward")]  # each would need the state of the next
    odd = [p for p in chosen if p.odd is not None and p.copies > 3]
    assert len(alike) > 30 and len(odd) > 25
    assert sum(rolled(alike)) >= 0.75 * len(alike)
    left = [plan for plan, done in zip(alike, rolled(alike), strict=True) if not done]
    reasons = {remark.text.rstrip("0123456789") for plan in left for remark in remarks(plan)}
    assert all(reason.startswith("the loop would have about") for reason in reasons), "else they are short"
    assert 0 < sum(rolled(odd)) < len(odd), "a first or last copy may be odd, another one may not"
