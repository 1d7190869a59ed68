"""Random memory budgets: what `policy=auto` holds keeps the budget, and the more it may hold the less is sent."""

import functools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs.catalog import LAYERS, MATRIX
from programs.program import Program, Sizes

import paropt
from paropt.audit import audit

KINDS = ("all-gather", "reduce-scatter", "all-reduce")
PROGRAMS = {
    name: (LAYERS | MATRIX)[name]
    for name in ("blocks_p17", "explicit_blocks_p17", "explicit_half_blocks_p18", "explicit_mlp_p6", "plain_mlp_p6")
}
# Of a budget for all parameters and all sums, and for the stacked gradients of a micro-batch.
STEPS = 8
PLANNED = "inline-calls,hoist-gathers{{{0}}},expose-all-reduces{{{0}}},defer-sync{{{0}}}"


@functools.cache
def built(name: str) -> Program:
    return PROGRAMS[name](Sizes(width=32))


def largest(name: str) -> int:
    return 5 * sum(leaf.size * leaf.dtype.itemsize for leaf in leaves(built(name)))


def leaves(program: Program) -> list:
    import jax

    return jax.tree.leaves(program.args[0])


@functools.cache
def sent(name: str, budget: int) -> float:
    """Bytes on the wire, per device and step."""
    program = built(name)
    compiled = paropt.jit(program.step, passes=f"grad-sync{{policy=auto memory-budget={budget}}}", strict=True)
    found = audit(compiled.lower(*program.args).compile())
    return sum(found.total(kind).wire for kind in KINDS)


@functools.cache
def held(name: str, budget: int) -> int:
    """What the passes have counted."""
    program = built(name)
    passes = PLANNED.format(f"policy=auto memory-budget={budget}")
    found = re.search(r"paropt\.held = (\d+)", paropt.jit(program.step, passes=passes).lower(*program.args).as_text())
    return int(found[1]) if found else 0


@pytest.mark.parametrize("name", PROGRAMS)
@settings(max_examples=3, deadline=None)
@given(steps=st.lists(st.integers(0, STEPS), min_size=2, max_size=2))
def test_more_memory_sends_less(name: str, steps: list[int]) -> None:
    less, more = (step * largest(name) // STEPS for step in sorted(steps))
    assert held(name, less) <= less
    assert held(name, more) <= more
    assert held(name, less) <= held(name, more)
    assert sent(name, more) <= sent(name, less)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_ends(name: str) -> None:
    """No budget is keep-shards, and one that holds all is once."""
    assert held(name, 0) == 0
    program = built(name)
    for policy, budget in (("keep-shards", 0), ("once", largest(name))):
        compiled = paropt.jit(program.step, passes=f"grad-sync{{policy={policy}}}").lower(*program.args).compile()
        found = audit(compiled)
        assert sent(name, budget) == sum(found.total(kind).wire for kind in KINDS)
