"""Sharded parameters that a loop changes in some trips only: gathered in the first one, and behind each that changes
them."""

import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from numeric.test_default_memory import compare
from unit.clusters import available

import paropt
from paropt.clusters.targets import get
from paropt.hlo.census import census

WIDTH, EXAMPLES = 64, 32
EVERY = 3  # trips between two updates
ONCE, FINITE = "grad-sync{policy=once}", "grad-sync{policy=once finite=true}"

# Parameters stay small integers: no sum is rounded.
OPTIMIZER = optax.MultiSteps(optax.chain(optax.scale_by_sign(), optax.scale(-1.0)), EVERY, use_grad_mean=False)


def loss(p: Any, x: jax.Array) -> jax.Array:
    y = jax.nn.relu(x @ p["up"].astype(x.dtype)) @ p["down"].astype(x.dtype)
    return (y * y).sum()


def by_multi_steps(state: Any, x: jax.Array) -> Any:
    p, (gradients, count) = state
    made = OPTIMIZER.init(p)._replace(mini_step=count, acc_grads=gradients)
    updates, made = OPTIMIZER.update(jax.grad(loss)(p, x), made, p)
    return (optax.apply_updates(p, updates), (made.acc_grads, made.mini_step)), None


def _added(state: Any, x: jax.Array) -> Any:
    """The next count and the sum of gradients of the parameters; and whether these are updated."""
    p, (gradients, count) = state
    return (count + 1) % EVERY, jax.tree.map(jnp.add, gradients, jax.grad(loss)(p, x)), count == EVERY - 1


def updated(p: Any, gradients: Any) -> Any:
    return jax.tree.map(lambda p, g: (p - jnp.sign(g)).astype(p.dtype), p, gradients)


def by_select(state: Any, x: jax.Array) -> Any:
    count, gradients, emits = _added(state, x)
    p = jax.tree.map(lambda new, old: jnp.where(emits, new, old), updated(state[0], gradients), state[0])
    return (p, (jax.tree.map(lambda g: jnp.where(emits, 0, g), gradients), count)), None


def by_branch(state: Any, x: jax.Array) -> Any:
    count, gradients, emits = _added(state, x)

    def yes() -> Any:
        return updated(state[0], gradients), jax.tree.map(jnp.zeros_like, gradients)

    p, gradients = jax.lax.cond(emits, yes, lambda: (state[0], gradients))
    return (p, (gradients, count)), None


def in_each_trip(state: Any, x: jax.Array) -> Any:
    """It decays parameters in each trip, and updates them in some."""
    (p, more), _ = by_select(state, x)
    return (jax.tree.map(lambda p: (p * 2).astype(p.dtype), p), more), None


def sharded(shape: tuple[int, ...], mesh: Mesh, *spec: str | None, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, P(*spec)))


def arguments(mesh: Mesh, trips: int, dtype: Any = jnp.float32) -> tuple[Any, Any]:
    p = {"up": sharded((WIDTH, 2 * WIDTH), mesh, "data", dtype=dtype)}
    p |= {"down": sharded((2 * WIDTH, WIDTH), mesh, None, "data", dtype=dtype)}
    sums = jax.tree.map(lambda leaf: sharded(leaf.shape, mesh, *leaf.sharding.spec), p)
    state = p, (sums, sharded((), mesh, dtype=jnp.int32))
    return state, sharded((trips, EXAMPLES, WIDTH), mesh, None, "data")


def step_of(one: Callable[..., Any]) -> Callable[..., Any]:
    def step(state: Any, batches: jax.Array) -> Any:
        return jax.lax.scan(one, state, batches)[0]

    return step


def mesh_of(target: str) -> Mesh:
    return Mesh(np.array(get(target).devices or jax.devices()), ("data",))


@pytest.mark.parametrize("start", [0, 1, 2])
@pytest.mark.parametrize(
    "one, passes", [(by_multi_steps, FINITE), (by_select, ONCE), (by_branch, ONCE), (in_each_trip, ONCE)]
)
def test_values_do_not_change(one: Any, passes: str, start: int) -> None:
    """Wherever in its group of micro-batches the loop begins: bit for bit, of integers."""
    state, batches = arguments(mesh_of("cpu:8"), 2 * EVERY + 1)
    generator = np.random.default_rng(start)

    def made(leaf: jax.ShapeDtypeStruct) -> jax.Array:
        numbers = generator.choice([-1, 0, 1], leaf.shape, p=[0.02, 0.96, 0.02]) if leaf.shape else np.array(start)
        return jax.device_put(numbers.astype(leaf.dtype), leaf.sharding)

    given = jax.tree.map(made, (state, batches))
    step = step_of(one)
    want = jax.jit(step)(*given)
    got = paropt.jit(step, passes=passes, strict=True)(*given)
    assert any(
        np.any(np.asarray(w) != np.asarray(p)) for w, p in zip(*map(jax.tree.leaves, (want, given[0])), strict=True)
    )
    jax.tree.map(np.testing.assert_array_equal, got, want)


@pytest.mark.targets_in_turns
@pytest.mark.parametrize("target", ["cpu:8", "tpu:v5e:2x4", "gpu:h100:1x1x8"])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize("one, passes", [(by_multi_steps, FINITE), (by_select, ONCE), (by_branch, ONCE)])
def test_each_parameter_is_gathered_in_one_branch(one: Any, passes: str, dtype: Any, target: str) -> None:
    """And each gradient reduced in one, and behind the loop: the branch is taken where the loop ends with an update."""
    available(target)
    state, batches = arguments(mesh_of(target), EVERY, dtype)
    shardings = jax.tree.map(lambda leaf: leaf.sharding, state)
    collectives = [
        each
        for each in census(
            paropt.jit(step_of(one), passes=passes, strict=True, out_shardings=shardings)
            .lower(state, batches)
            .compile()
            .as_text()
        )
        if each.payload > 64
    ]
    gathers = [each for each in collectives if each.kind == "all-gather"]
    size = sum(leaf.size for leaf in jax.tree.leaves(state[0]))
    assert all(each.at_most and each.depth == 1 for each in gathers), gathers
    assert sum(array.elements for each in gathers for array in each.arrays) == size
    others = [each for each in collectives if each.kind != "all-gather" and not each.at_most]
    assert not others, others


def test_what_any_trip_changes_stays() -> None:
    state, batches = arguments(mesh_of("cpu:8"), EVERY)
    lowered = paropt.jit(step_of(in_each_trip), passes=ONCE).lower(state, batches)
    told = [remark.text for remark in paropt.remarks(lowered) if remark.pass_name == "hoist-gathers"]
    assert told and all("the loop changes the parameter" in text for text in told), told


def test_an_update_times_zero_needs_the_option() -> None:
    state, batches = arguments(mesh_of("cpu:8"), EVERY)
    lowered = paropt.jit(step_of(by_multi_steps), passes=ONCE).lower(state, batches)
    told = [remark.text for remark in paropt.remarks(lowered) if remark.pass_name == "hoist-gathers"]
    assert told and all("option finite=true" in text for text in told), told


@pytest.mark.targets_in_turns
@pytest.mark.parametrize("target", ["cpu:8", "tpu:v5e:2x4", "gpu:h100:1x1x8"])
@pytest.mark.parametrize("one", [by_multi_steps, by_select, by_branch])
def test_by_default_sums_of_a_state_stay_sharded(one: Any, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums that come with the state, sharded as parameters: no more memory, and no more bytes, than by XLA alone."""
    available(target)
    monkeypatch.setattr(sys.modules[__name__], "WIDTH", 1024)
    compare(
        step_of(one), arguments(mesh_of(target), 2 * EVERY + 1), {"donate_argnums": 0}, tells_peak=target != "cpu:8"
    )
