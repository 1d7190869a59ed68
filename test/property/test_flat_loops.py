"""Whatever grad-sync does to a random flat loop: the same values on every device, and no more is reduced."""

import warnings
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, note, settings
from numeric.structure import REDUCTIONS, assert_no_costlier, collectives
from numeric.user_steps import placed
from property.flat_loops import ENDS, EXAMPLES, READS, UPDATES, WHEN, WIDTH, Plan, plans, step_of
from property.test_programs import samples

import paropt

LOOPS = 60


@pytest.mark.random_programs(LOOPS)
@settings(max_examples=LOOPS)
@given(plan=plans())
def test_flat_loop_keeps_its_values(plan: Plan) -> None:
    note(str(plan))
    kept(plan)


def kept(plan: Plan) -> tuple[str, str]:
    """The modules without and with the passes, when both compute the same, and the latter reduces no more."""
    rng = np.random.default_rng(0)
    batches = rng.integers(-2, 3, (plan.trips, plan.inner, EXAMPLES, WIDTH)).astype(np.float32)
    arguments = (placed(np.ones(WIDTH, np.float32)), np.int32(3), placed(batches, None, None, "data"))
    step = step_of(plan)
    alone: Any = jax.jit(step).lower(*arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours: Any = paropt.jit(step, strict=True).lower(*arguments)
        compiled = ours.compile()
    expected, found = (program(*arguments) for program in (alone.compile(), compiled))
    for name, want in expected.items():
        for shard in found[name].addressable_shards:
            np.testing.assert_array_equal(
                np.asarray(shard.data), np.asarray(want)[shard.index], f"{name}, {shard.device}"
            )
    texts = alone.as_text(), ours.as_text()
    if plan.explicit:
        assert_no_costlier(*texts)
    return texts


@pytest.mark.parametrize("explicit", [True, False])
@pytest.mark.parametrize("then", ["cond", "where", "select", "both"])
def test_simple_loop_reduces_in_a_branch_alone(then: str, explicit: bool) -> None:
    plan = Plan(explicit, 8, 4, "zero", "last", then, False, "sign", "cleared", "nothing", "always", 1, "scan")
    _, after = kept(plan)
    assert "stablehlo.case" in after
    if explicit:
        assert sum(c.trips for c in collectives(after) if c.kind in REDUCTIONS) == 2  # the last trip is one
    else:
        assert "unreduced" in after


FOUND = {  # by night
    "both sides of each select are the same": Plan(
        False, 2, 2, "zero", "last", "where", False, "none", "kept", "the sum", "always", 1, "scan"
    ),
}


@pytest.mark.parametrize("plan", FOUND.values(), ids=FOUND)
def test_loop_that_was_found_keeps_its_values(plan: Plan) -> None:
    kept(plan)


def test_generator_makes_every_choice() -> None:
    found = samples(400, plans)
    made = {f"{name} {value}" for plan in found for name, value in vars(plan).items()}
    choices: dict[str, Any] = {"when": WHEN, "update": UPDATES, "end": ENDS, "read": READS}
    for name, values in choices.items():
        assert made >= {f"{name} {value}" for value in values}
