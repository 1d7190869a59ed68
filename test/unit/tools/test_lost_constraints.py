"""The script behind the table of docs/jit.md loses constraints, and tells what becomes of a program."""

import pytest
from unit.scripts import load

lost = load("lost_constraints")


@pytest.fixture(scope="module")
def programs() -> tuple[str, str]:
    original, whole = lost.original_and_rewritten("plain_mlp_p0")
    return str(original), str(whole)


@pytest.fixture(scope="module")
def whole(programs: tuple[str, str]) -> str:
    return programs[1]


def test_each_module_lacks_one_constraint_or_its_axes(whole: str) -> None:
    texts = list(lost._without_one(whole))
    count, axes = whole.count("sdy.sharding_constraint"), whole.count("unreduced=")
    assert len(set(texts)) == len(texts)
    assert all((count, axes) > (t.count("sdy.sharding_constraint"), t.count("unreduced=")) for t in texts)


def test_what_becomes_of_them(programs: tuple[str, str]) -> None:
    """Each wrong result is noticed, twice, and what XLA makes of the program as it was does not explain it."""
    original, whole = programs
    assert lost._outcome(original, whole, whole) == lost.Outcome(lost.AS_BEFORE, False, False, False)
    outcomes = [lost._outcome(original, whole, text) for text in list(lost._without_one(whole))[::4]]
    assert {outcome.became for outcome in outcomes} >= {lost.WRONG, lost.AS_BEFORE}
    assert all(
        outcome.gap and outcome.mismatch and outcome.alarm for outcome in outcomes if outcome.became == lost.WRONG
    )


def test_table() -> None:
    wrong, more = lost.Outcome(lost.WRONG, True, True, False), lost.Outcome(lost.MORE, False, True, True)
    assert lost.table([wrong, wrong, more]).splitlines()[2:] == [
        "| wrong results | 2 | 2 | 2 | 0 |",
        "| right results, more reductions | 1 | 0 | 1 | 1 |",
        "| right results, as before | 0 | 0 | 0 | 0 |",
        "| XLA aborts | 0 | 0 | - | - |",
    ]
