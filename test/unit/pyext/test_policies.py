"""Which policy `paropt.policies` takes, by numbers made by hand, and the budgets that it and the passes accept."""

import jax
import pytest
from unit.reports import W, collective

import paropt
from paropt.passes.support.byte_sizes import byte_count
from paropt.passes.support.pipeline import Pipeline, PipelineError
from paropt.policies import Choice, Policies
from paropt.reports.totals import Audit

ONCE, IN_LOOP = collective(loops=()), collective()
GATHER = collective(kind="all-gather", loops=())


def audit(*collectives: object, memory: int = 1000) -> Audit:
    return Audit(collectives, memory)  # type: ignore[arg-type]  # of `collective`


def best(alone: Audit, budget: int | None = None, **choices: Audit) -> str:
    """The policy chosen; `choices` are in the order in which they are compiled."""
    compiled = tuple(Choice(f"policy={name.replace('_', '-')}", name, found) for name, found in choices.items())
    return Policies(alone, compiled, budget, "cpu:8").best.policy


def test_of_equals_it_is_the_default() -> None:
    same = audit(ONCE)
    assert best(same, every=same, keep_shards=same, defer=same) == "policy=keep-shards"
    assert best(audit(IN_LOOP), every=same, keep_shards=audit(IN_LOOP), defer=same) == "policy=every"
    assert best(same, budget=1, every=same, keep_shards=same) == "policy=keep-shards"


def test_xla_alone_is_a_choice_and_has_no_passes() -> None:
    worse = audit(IN_LOOP)
    found = Policies(audit(ONCE), (Choice("policy=keep-shards", "grad-sync", worse),), None, "cpu:8")
    assert (found.best.policy, found.passes) == ("XLA alone", "")
    assert [line.endswith("<- best") for line in str(found).splitlines()] == [False, False, True, False]
    assert best(audit(ONCE, memory=2000), budget=1500, keep_shards=worse) == "policy=keep-shards"


def test_all_that_is_sent_counts() -> None:
    assert best(audit(ONCE, GATHER), keep_shards=audit(ONCE, GATHER, GATHER), defer=audit(ONCE, ONCE)) == "XLA alone"
    assert best(audit(IN_LOOP), keep_shards=audit(ONCE, GATHER), every=audit(ONCE)) == "policy=every"


def test_of_those_that_send_as_much_it_is_the_smallest() -> None:
    smaller = audit(ONCE, memory=900)
    assert best(audit(IN_LOOP), keep_shards=audit(ONCE), defer=smaller) == "policy=defer"
    assert W.bytes == 16384


@pytest.mark.parametrize(
    ("text", "expected"),
    [("60GiB", 60 << 30), ("1.5 MB", 1_500_000), (" 4096 ", 4096), ("0", 0), ("7b", 7), ("0.3B", 0), ("2tib", 2 << 40)],
)
def test_sizes(text: str, expected: int) -> None:
    assert byte_count(text) == expected
    parsed = Pipeline.parse(f"defer-sync{{policy=auto memory-budget='{text}'}}")
    assert f"memory-budget={expected}" in str(parsed)


@pytest.mark.parametrize(
    "text", ["", "-1", "-1GiB", "GiB", "1 Gbit", "1e9", "nan", "inf", "1_000", "9" * 19, "0x10", "٣"]
)
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="is not a number of bytes, such as 60GiB; the units are B, KB"):
        byte_count(text)


@pytest.mark.parametrize(
    ("budget", "shown"),
    [("1 Gbit", "'1 Gbit'"), (-1, "-1"), ("-1GiB", "'-1GiB'"), (1.5, "1.5"), (True, "True"), ([1], "[1]")],
)
def test_a_wrong_budget_is_told_before_anything_else(budget: object, shown: str) -> None:
    def never(x: jax.Array) -> jax.Array:
        raise AssertionError("it was traced")

    with pytest.raises(ValueError) as raised:
        paropt.policies(never, 1.0, memory_budget=budget)  # type: ignore[arg-type]  # the mistake
    assert str(raised.value) == f"memory_budget={shown}: expected a number of bytes, such as 60GiB, or auto"
    with pytest.raises(ValueError, match=r"^plans=-1: expected a number of at least 0$"):
        paropt.policies(never, 1.0, plans=-1)
    with pytest.raises(paropt.targets.TargetError, match="no target `cpu"):
        paropt.policies(never, 1.0, target="cpu")
    with pytest.raises(PipelineError, match="has no option `policy`"):
        paropt.policies(never, 1.0, passes="inline-calls")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("policy=auto", "policy=auto takes option `memory-budget`: a number of bytes, such as 60GiB"),
        ("memory-budget=1GiB", "option `memory-budget` has an effect with policy=auto only"),
        ("policy=defer memory-budget=1GiB", "option `memory-budget` has an effect with policy=auto only"),
    ],
)
@pytest.mark.parametrize("name", ["grad-sync", "defer-sync", "expose-all-reduces"])
def test_a_budget_and_the_policy_that_has_one_go_together(name: str, options: str, said: str) -> None:
    with pytest.raises(PipelineError) as raised:
        Pipeline.parse(f"inline-calls,{name}{{{options}}}")
    assert str(raised.value) == f"{name}{{{options}}}: {said}"


@pytest.mark.parametrize("budget", ["-1", "x", ""])
def test_a_budget_that_is_no_size_is_told_of_the_pipeline_that_was_written(budget: str) -> None:
    with pytest.raises(PipelineError) as raised:
        Pipeline.parse(f"grad-sync{{policy=auto memory-budget={budget}}}")
    assert str(raised.value) == f"grad-sync{{memory-budget={budget}}}: expected a number of bytes, such as 60GiB"


def test_a_budget_with_a_space_is_in_quotes() -> None:
    with pytest.raises(
        PipelineError, match=r"has an option `GiB`; a value with a space is in quotes: memory-budget='2 GiB'$"
    ):
        Pipeline.parse("grad-sync{policy=auto memory-budget=2 GiB}")
