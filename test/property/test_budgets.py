"""Random memory budgets: the more may be held the less is sent, and what is compiled keeps the budget."""

import functools
from typing import NamedTuple

import jax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs.catalog import LAYERS, MATRIX
from programs.program import Program, Sizes
from unit.clusters import available

import paropt
from paropt.audit import audit

# P6, P7, P17, P18: as users write them, and under `shard_map`.
CPU = ("plain_mlp_p6", "plain_mlp_p7", "blocks_p17", "blocks_p18", "explicit_mlp_p6", "explicit_half_blocks_p17")
ELSEWHERE = [
    ("half_blocks_p17", "gpu:h100:1x1x8"),
    ("blocks_p18", "gpu:h100:1x1x8"),
    ("half_blocks_p17", "tpu:v5e:2x4"),
]
STEPS = 8  # between no budget, and enough for all


class Found(NamedTuple):
    """What a plan holds by the count of the passes, and its executable sends and takes."""

    held: int
    sent: float
    peak: int


@functools.cache
def built(name: str, target: str) -> Program:
    return (LAYERS | MATRIX)[name](Sizes(width=32), devices=None if target == "cpu:8" else devices_of(target))


def devices_of(target: str) -> tuple[object, ...]:
    return paropt.targets.get(target).devices


@functools.cache
def with_policy(name: str, target: str, options: str) -> Found:
    program = built(name, target)
    lowered = paropt.jit(program.step, passes=f"grad-sync{{{options}}}", strict=True).lower(*program.args)
    return found(lowered)


@functools.cache
def within(name: str, target: str, budget: int) -> Found:
    program = built(name, target)
    return found(paropt.jit(program.step, memory_budget=budget, strict=True).lower(*program.args))


def found(lowered: jax.stages.Lowered) -> Found:
    audited = audit(lowered.compile())
    assert audited.peak_memory is not None
    held = sum(remark.held * remark.count for remark in paropt.remarks(lowered))
    return Found(held, audited.total().wire, audited.peak_memory)


def ends(name: str, target: str) -> tuple[Found, Found]:
    """What holds no more than the program, and what holds all."""
    every = with_policy(name, target, "policy=auto memory-budget=1GiB")
    return with_policy(name, target, "policy=keep-shards"), every


@pytest.mark.parametrize("name", CPU)
@settings(max_examples=3, deadline=None)
@given(st.lists(st.integers(0, STEPS), min_size=2, max_size=2).map(sorted))
def test_more_memory_sends_less(name: str, steps: list[int]) -> None:
    more_is_less(name, "cpu:8", *steps)


@pytest.mark.parametrize(("name", "target"), ELSEWHERE)
def test_more_memory_sends_less_elsewhere(name: str, target: str) -> None:
    available(target)
    more_is_less(name, target, 3, 6)


def more_is_less(name: str, target: str, less: int, more: int) -> None:
    held = ends(name, target)[1].held
    budgets = [step * held // STEPS for step in (less, more)]
    first, second = (with_policy(name, target, f"policy=auto memory-budget={budget}") for budget in budgets)
    assert first.held <= budgets[0]
    assert second.held <= budgets[1]
    assert second.sent <= first.sent


@pytest.mark.parametrize("name", CPU)
@settings(max_examples=2, deadline=None)
@given(st.integers(0, STEPS))
def test_what_is_compiled_keeps_the_budget(name: str, step: int) -> None:
    keeps_the_budget(name, "cpu:8", step)


@pytest.mark.parametrize(("name", "target"), ELSEWHERE)
def test_what_is_compiled_keeps_the_budget_elsewhere(name: str, target: str) -> None:
    available(target)
    keeps_the_budget(name, target, 4)


def keeps_the_budget(name: str, target: str, step: int) -> None:
    least, most = ends(name, target)
    budget = least.peak + step * (most.peak - least.peak) // STEPS
    chosen = within(name, target, budget)
    assert chosen.peak <= budget
    assert most.sent <= chosen.sent <= least.sent


@pytest.mark.parametrize("name", CPU)
def test_the_ends(name: str) -> None:
    """No budget is keep-shards, and one that holds all is once."""
    least, most = ends(name, "cpu:8")
    assert with_policy(name, "cpu:8", "policy=auto memory-budget=0").sent == least.sent
    assert with_policy(name, "cpu:8", "policy=once").sent == most.sent
