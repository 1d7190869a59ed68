"""The axes over which one sum is reduced once, by what the program shards and what the user asks for."""

import re
from typing import get_args

import pytest
from unit.scripts import ROOT

from paropt.passes.decisions import sum_decisions
from paropt.passes.decisions.sum_decisions import GradientSum, reduced_once_over, stays_sharded_over
from paropt.passes.deferral.policy import POLICIES, Holding, PolicyName
from paropt.passes.support.remarks import Declined
from paropt.planning.candidates import _OF_SHARDED, _OF_WHOLE, ALONE
from paropt.policies import _FIXED
from paropt.stages.partial_sums import StagePolicy

NONE, DATA, BOTH = frozenset[str](), frozenset({"data"}), frozenset({"data", "replica"})
STAYS = "its sum is sharded over `data`, `replica`, and stays so (option policy=defer replicates it)"
NOT_ALLOWED = "it is over `data`, `replica`, which option axes does not allow"


def decided(each: GradientSum, policy: PolicyName, allowed: frozenset[str] = NONE) -> frozenset[str] | str:
    """The axes, or the reason for none."""
    try:
        return reduced_once_over(each, stays_sharded_over(each, policy, allowed), policy, allowed)
    except Declined as reason:
        return reason.reason


BY_POLICY: list[tuple[frozenset[str], PolicyName, frozenset[str] | str]] = [
    (NONE, "keep-shards", BOTH),
    (NONE, "every", BOTH),
    (NONE, "once", BOTH),
    (DATA, "keep-shards", BOTH - DATA),
    (DATA, "hierarchical", BOTH - DATA),
    (DATA, "gather", BOTH - DATA),
    (DATA, "auto", BOTH - DATA),
    (DATA, "every", STAYS),
    (DATA, "defer", BOTH),
    (DATA, "once", BOTH),
    (BOTH, "keep-shards", STAYS),
    (BOTH, "every", STAYS),
    (BOTH, "once", BOTH),
]


@pytest.mark.parametrize(("shards", "policy", "expected"), BY_POLICY)
def test_by_policy(shards: frozenset[str], policy: PolicyName, expected: frozenset[str] | str) -> None:
    assert decided(GradientSum(BOTH, BOTH, shards), policy) == expected


@pytest.mark.parametrize("holding", POLICIES.values())
def test_what_holds_whole_sums_scatters_own_shards(holding: Holding) -> None:
    """In no other way does a sum leave its loop of which each device reads its shard."""
    assert holding.scatters_own_shards or not holding.sums


def test_each_policy_has_its_rows() -> None:
    """Of the table of what policies hold, of the tests, of the page, and of those that `paropt.policies` compares."""
    names = get_args(PolicyName)
    assert names == tuple(POLICIES) and {policy for _, policy, _ in BY_POLICY} == {*names}
    page = (ROOT / "docs" / "sharded-training.md").read_text().partition("## Policies")[2].partition("\n## ")[0]
    assert [name for name in names if not re.search(rf"^\| `{name}[` ]", page, re.M)] == []
    assert [name for name in names if not re.search(rf"\b{name}\b", sum_decisions.__doc__)] == []
    # Of plain jit, hierarchical is keep-shards: it has no all_reduces of which each device reads its shard.
    assert {*_FIXED, "auto", "hierarchical"} == {*names}
    named_elsewhere = {*get_args(StagePolicy), *_OF_WHOLE, *_OF_SHARDED} - {ALONE}  # for stages, and for plans
    assert named_elsewhere <= {*names}


@pytest.mark.parametrize(
    ("shards", "policy", "allowed", "expected"),
    [
        (NONE, "keep-shards", DATA, DATA),
        (NONE, "keep-shards", frozenset({"model"}), NOT_ALLOWED),
        (DATA, "keep-shards", DATA, NOT_ALLOWED),
        (DATA, "once", DATA, BOTH & DATA),
        (DATA, "once", BOTH - DATA, BOTH - DATA),
        (BOTH, "once", DATA, DATA),
    ],
)
def test_the_option_axes(
    shards: frozenset[str], policy: PolicyName, allowed: frozenset[str], expected: frozenset[str] | str
) -> None:
    assert decided(GradientSum(BOTH, BOTH, shards), policy, allowed) == expected


def test_a_sum_over_an_axis_of_one_device_stays_with_the_others() -> None:
    assert decided(GradientSum(BOTH, DATA, DATA), "keep-shards") == STAYS


def test_a_complex_sum_leaves_over_all_axes_or_none() -> None:
    each = GradientSum(BOTH, BOTH, NONE, is_complex=True)
    assert decided(each, "keep-shards") == BOTH
    assert decided(each, "keep-shards", DATA) == "XLA would reduce four parts over the other axes"
