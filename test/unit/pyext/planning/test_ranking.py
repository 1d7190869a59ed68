"""The order of judged candidates: about as fast and fewer bytes, then time; the other way; budgets; why each lost."""

from types import SimpleNamespace
from typing import cast

import pytest

from paropt.planning.candidates import PROPOSED, Candidate, Mesh
from paropt.planning.goals import TOLERANCE, Goal, Objective
from paropt.planning.ranking import ranked, table
from paropt.planning.search import Judged
from paropt.reports.totals import Audit


def judged(name: str, seconds: float, sent: int = 100, memory: int = 1000, compute: float = 0.0) -> Judged:
    """A candidate that takes so long, `compute` of it to compute, and sends and takes so many bytes."""
    time = SimpleNamespace(
        seconds=seconds, compute=compute, communication=seconds - compute, hidden=0.0, bound="", waiting=0.0
    )
    audit = SimpleNamespace(
        collectives=[SimpleNamespace(wire_bytes=sent, executions=1)], peak_memory=memory, estimate=time
    )
    return Judged(Candidate(name, Mesh((("data", 2),)), "", ""), cast(Audit, audit))


def order(*found: Judged, budget: int | None = None, objective: Objective = "seconds") -> list[str]:
    return [each.candidate.name for each in ranked(found, Goal(budget, objective))]


def test_of_candidates_about_as_fast_the_one_that_sends_least_wins() -> None:
    fast, lean, slow = judged("fast", 1.0, 300), judged("lean", 1 + TOLERANCE, 100), judged("slow", 1.03, 1)
    assert order(fast, lean, slow) == ["lean", "fast", "slow"]


def test_others_are_ordered_by_time() -> None:
    """Also those that are as near to one another as to the fastest."""
    assert order(judged("c", 2.01, 1), judged("b", 2.0, 9), judged("a", 1.0)) == ["a", "b", "c"]


def test_a_faster_candidate_that_does_not_fit_moves_no_limit() -> None:
    small, lean = judged("small", 2.0, 300, 10), judged("lean", 2.02, 100, 10)
    assert order(judged("large", 1.0, 1, 20), small, lean, budget=15) == ["lean", "small", "large"]


@pytest.mark.parametrize(
    ("proposal", "template", "wins"),
    [
        (judged(PROPOSED, 1.0), judged("dp", 1.0), "dp"),
        (judged(PROPOSED, 0.999), judged("dp", 1.0), "dp"),
        (judged(PROPOSED, 1.0, 100, 999), judged("dp", 1.0, 100, 1000), PROPOSED),
        (judged(PROPOSED, 1.0, 99), judged("dp", 1.0, 100), PROPOSED),
        (judged(PROPOSED, 0.9), judged("dp", 1.0), PROPOSED),
    ],
    ids=["same", "faster by less than the tolerance", "less memory", "fewer bytes", "faster"],
)
def test_a_template_wins_over_a_proposal_with_the_same_figures(proposal: Judged, template: Judged, wins: str) -> None:
    assert order(proposal, template)[0] == order(template, proposal)[0] == wins


@pytest.mark.parametrize(
    ("loser", "why"),
    [
        (judged("b", 2.0), "2 x the time: communication"),
        (judged("b", 2.0, compute=1.5), "2 x the time: compute"),
        (judged("b", 1.021, 50), "1.02 x the time: communication"),
        (judged("b", 0.99, 300), "about as fast, sends 200 B more"),
        (judged("b", 1.0, 100, 2000), "about as fast, takes 1 kB more"),
        (judged(PROPOSED, 1.0), "about as fast, sends and takes the same"),
        (Judged(Candidate("b", Mesh((("data", 2),)), "", ""), None, "refused"), "refused"),
    ],
)
def test_the_table_says_why_each_lost(loser: Judged, why: str) -> None:
    found = ranked([loser, judged("a", 1.0)], Goal())
    *_, best, last = table(found, Goal()).splitlines()
    assert best.startswith("a ") and best.endswith("<- best") and last.endswith(why)


def test_slower_than_the_fastest_is_said_also_where_the_best_is_nearly_as_slow() -> None:
    fastest, best, loser = judged("fastest", 1.0, 300), judged("best", 1.019, 100), judged("loser", 1.03, 50)
    assert table(ranked([fastest, best, loser], Goal()), Goal()).endswith("1.03 x the time: communication")


def test_bytes_over_a_budget_are_said() -> None:
    found = ranked([judged("a", 1.0, 100, 10), judged("b", 0.5, 100, 2010)], Goal(10))
    assert table(found, Goal(10)).endswith("2 kB over the memory budget")


def test_by_bytes_the_fastest_of_those_that_send_about_as_much_wins() -> None:
    lean, quick, fast, large = (
        judged("lean", 2.0, 100),
        judged("quick", 1.5, 102),
        judged("fast", 1.0, 103),
        judged("large", 0.5, 1, 9999),
    )
    assert order(fast, lean, quick, large, budget=2000, objective="bytes") == ["quick", "lean", "fast", "large"]
    assert order(judged("b", 1.0, 9), judged("a", 2.0, 0), objective="bytes") == ["a", "b"], "nothing sent"


@pytest.mark.parametrize(
    ("loser", "why"),
    [
        (judged("b", 0.5, 300), "sends 200 B more"),
        (judged("b", 2.0, 99), "sends about as much, 2 x the time: communication"),
        (judged("b", 1.0, 100, 2000), "about as fast, takes 1 kB more"),
        (judged(PROPOSED, 1.001), "about as fast, sends and takes the same"),
        (judged("b", 1.001, 99), "about as fast, sends about as much"),
    ],
)
def test_by_bytes_the_table_says_why_each_lost(loser: Judged, why: str) -> None:
    goal = Goal(objective="bytes")
    *_, best, last = table(ranked([loser, judged("a", 1.0)], goal), goal).splitlines()
    assert best.startswith("a ") and best.endswith("<- best") and last.endswith(why)
