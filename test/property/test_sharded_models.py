"""Whatever grad-sync does to a random training step of plain `jax.jit`: every device has the same results, and sends no more."""

import os
import warnings
from dataclasses import replace
from itertools import compress
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import Phase, given, note, settings
from property.sharded_models import KINDS, MESHES, Layer, Plan, plans, program_of, step_of
from property.test_programs import samples

import paropt
from paropt.audit import Audit
from paropt.hook.fallback import VerificationError

# By day; by night more: see conftest.py. Each takes seconds: failures are made small only by night, when there is time.
STEPS = 40
BY_NIGHT = [Phase.shrink] if "PAROPT_PROGRAMS" in os.environ else []
ALLOWED = 1.25  # of shardings that contradict each other XLA makes something else as soon as anything moves
EXACT = 2**20  # of integers up to there, f32 holds sums with a margin of 16 for what cancels in them
DIVIDED = 2**14  # of what is divided by powers of two, as by means and decays
LOST = 0.05  # of the largest value, and more: what no rounding explains
CANCELLED = 1e-2  # of the largest value, and below: what rounding leaves, as of a bias before a batch norm


@pytest.mark.random_programs(STEPS)
@settings(max_examples=STEPS, phases=[Phase.generate, *BY_NIGHT])
@given(plan=plans())
def test_step_keeps_its_values(plan: Plan) -> None:
    note(str(plan))
    compared(plan)


@pytest.mark.random_programs(STEPS // 4)
@settings(max_examples=STEPS // 4, phases=[Phase.generate, *BY_NIGHT])
@given(plan=plans())
def test_step_sends_no_more(plan: Plan) -> None:
    """Some kind may grow where others shrink by more: shardings at random contradict each other."""
    note(str(plan))
    before, after = (audit.total().wire for audit in compared(plan))
    assert after <= before * ALLOWED, f"{after:.0f} bytes are sent, before {before:.0f}"


def test_what_a_sum_starts_with_does_not_shard_it() -> None:
    """A night's program: the clipped sum lay like its start, and was gathered for each of its readers (6,288 bytes)."""
    gradient = ((), (), ("replica",))
    plan = Plan(
        mesh=MESHES[-1],
        batch=("replica", "data"),
        layers=(Layer("convolved"),),
        positions=True,
        loss="product",
        start="argument",
        update="clipped",
        ends="out_shardings",
        specs={
            "x": (("replica", "data"), (), ()),
            "y": (("replica", "data"), (), ()),
            "classes": (("replica", "data"), ()),
            "weights": (("replica", "data"),),
            "0.kernel": gradient,
            "start 0.kernel": ((), ("replica", "model"), ()),
            "gradient 0.kernel": gradient,
            "result 0.kernel": gradient,
        },
    )
    before, after = (audit.total().wire for audit in compared(plan))
    assert after < before


def compared(plan: Plan) -> tuple[Audit, Audit]:
    """The audits without and with the passes, when every device has the same results, and no warning was given."""
    step, arguments, options = program_of(plan)
    alone = jax.jit(step, **options).lower(*arguments).compile()
    made = jax.block_until_ready(alone(*arguments))  # beside a compilation its collectives may starve
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ours = paropt.jit(step, strict=True, **options).lower(*arguments).compile()
    except VerificationError:
        assert any(lost(plan, arguments, made)), "XLA alone has it right"
        return paropt.audit(alone), paropt.audit(alone)
    found = ours(*arguments)
    try:
        assert_same(made, found, plan)
    except AssertionError:  # XLA alone loses half of the experts of some mixtures, and more
        assert_as_one_device(plan, arguments, found, made)
    return paropt.audit(alone), paropt.audit(ours)


def lost(plan: Plan, arguments: tuple[Any, ...], alone: Any) -> list[bool]:
    """For each result, whether XLA alone makes something else of it: where axes dispute a product, it may."""
    one = on_one_device(plan, arguments)
    exactly = in_f32(plan, arguments) if plan.precision else one
    wrong = []
    for want, other, got in zip(*map(jax.tree.leaves, (exactly, one, alone)), strict=True):
        whole = np.asarray(want, np.float64)
        rounded = np.abs(np.asarray(other, np.float64) - whole).max()
        off = [np.abs(np.asarray(s.data, np.float64) - whole[s.index]).max() for s in got.addressable_shards]
        wrong.append(bool(max(off) > 2 * rounded + LOST * np.abs(whole).max()))
    return wrong


def on_one_device(plan: Plan, arguments: tuple[Any, ...]) -> Any:
    """What the step makes where nothing is split."""
    return jax.jit(step_of(plan, lambda value, _: value))(*jax.tree.map(np.asarray, arguments))


def in_f32(plan: Plan, arguments: tuple[Any, ...]) -> Any:
    wide = jax.tree.map(lambda x: np.asarray(x, np.float32 if x.dtype == jnp.bfloat16 else None), arguments)
    return on_one_device(replace(plan, precision=""), wide)


def assert_as_one_device(plan: Plan, arguments: tuple[Any, ...], found: Any, alone: Any) -> None:
    """The same, or, as what cancels in bf16 depends on where it is rounded, at most twice as far from f32.

    What XLA `alone` makes something else of is not compared.
    """
    one = on_one_device(plan, arguments)
    right = [not wrong for wrong in lost(plan, arguments, alone)]
    one, found = (list(compress(jax.tree.leaves(tree), right)) for tree in (one, found))
    try:
        assert_same(one, found, plan)
    except AssertionError:
        if not plan.precision:
            raise
        exactly = compress(jax.tree.leaves(in_f32(plan, arguments)), right)
        for want, other, got in zip(exactly, one, found, strict=True):
            exact = np.asarray(want, np.float64)
            allowed = 2 * np.abs(np.asarray(other, np.float64) - exact).max()
            for shard in got.addressable_shards:
                assert np.abs(np.asarray(shard.data, np.float64) - exact[shard.index]).max() <= allowed


def assert_same(expected: Any, found: Any, plan: Plan) -> None:
    """Bit for bit where sums of integers are exact, else within rounding of the largest value."""
    leaves = jax.tree_util.tree_leaves_with_path(expected)
    largest = max(float(np.abs(np.asarray(want, np.float64)).max()) for _, want in leaves)
    rounding = 2e-2 if plan.precision else 1e-4
    most = DIVIDED if plan.mean or plan.scale == "decayed" else EXACT
    tolerance = 0 if plan.exact and largest < most else rounding
    for (path, want), got in zip(leaves, jax.tree.leaves(found), strict=True):
        whole = np.asarray(want, np.float64)
        allowed = tolerance * max(float(np.abs(whole).max()), CANCELLED * largest)
        for shard in got.addressable_shards:  # copies on other devices too
            name = f"{jax.tree_util.keystr(path)} on {shard.device}"
            np.testing.assert_allclose(
                np.asarray(shard.data, np.float64), whole[shard.index], rtol=0, atol=allowed, err_msg=name
            )


def test_only_what_xla_alone_loses_is_left_out() -> None:
    """A gradient that XLA alone gets wrong, whichever the version so far; other results are compared all the same."""
    on_both = (("replica",), ("model", "data"), ())
    plan = Plan(
        mesh=MESHES[-1],
        batch=("replica",),
        layers=(Layer("dense"),),
        positions=True,
        specs={
            "x": (("replica",), (), ("data",)),
            "y": on_both,
            "classes": (("replica",), ()),
            "weights": (("replica",),),
        }
        | {"0.w": ((), ()), "start 0.w": ((), ()), "result 0.w": (("replica",), ()), "0.b": ((),), "start 0.b": ((),)},
    )
    step, arguments, options = program_of(plan)
    alone = jax.jit(step, **options)(*arguments)
    assert lost(plan, arguments, alone) == [False, False, True]
    value, found, _ = alone
    assert_as_one_device(plan, arguments, alone, alone)
    with pytest.raises(AssertionError):
        assert_as_one_device(plan, arguments, (value, found | {"0.b": found["0.b"] + 1}, None), alone)


def test_generator_makes_every_choice() -> None:
    found = samples(800, plans)
    assert {layer.kind for plan in found for layer in plan.layers} >= set(KINDS) - {"attention_of_reshaped"}, (
        "a layer is hardly made"
    )
    made = {
        f"{name} {getattr(plan, name)}" for plan in found for name in ("loop", "loss", "scale", "precision", "update")
    }
    assert made >= {f"loop {loop}" for loop in ("scan", "fori", "unrolled", "nested", "differentiated")}
    assert made >= {f"scale {scale}" for scale in ("sum", "each", "after", "running", "decayed", "skipped")}
    assert made >= {f"loss {loss}" for loss in ("product", "square", "cross_entropy", "tied")}
    assert sum(plan.exact for plan in found) >= 30, "compared bit for bit"
