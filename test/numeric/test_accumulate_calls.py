"""How the step of `paropt.accumulate` is called: by keyword, with static and donated arguments, as with `jax.jit`."""

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from numeric.test_accumulate import COUNT, assert_equal, data, whole
from unit.clusters import available

import paropt


def with_options(state: Any, batch: Any, rate: Any = 0.25, power: int = 2, *, decay: Any = 0.0) -> Any:
    """A step as users have it: a rate from a schedule, and what it is compiled with."""

    def loss(w: jax.Array, micro_batch: Any) -> jax.Array:
        x, y = micro_batch
        return jnp.sum((x @ w - y) ** power)

    def trip(total: Any, micro_batch: Any) -> tuple[Any, None]:
        return total + jax.grad(loss)(state["w"], micro_batch), None

    total, _ = jax.lax.scan(trip, jnp.zeros_like(state["w"]), batch)
    return {**state, "w": state["w"] - rate * total - decay * state["w"]}


CALLS: dict[str, tuple[dict[str, Any], Callable[..., Any]]] = {
    "by keyword": ({}, lambda step, state, batch: step(state, batch=batch, rate=0.5)),
    "all by keyword": ({}, lambda step, state, batch: step(batch=batch, decay=0.5, state=state)),
    "in place": ({}, lambda step, state, batch: step(state, batch, jnp.float32(0.5))),
    "static name": ({"static_argnames": "power"}, lambda step, state, batch: step(state, batch, 0.5, power=3)),
    "static number": ({"static_argnums": 3}, lambda step, state, batch: step(state, batch, 0.5, 3, decay=0.5)),
    "static from the end": ({"static_argnums": -1}, lambda step, state, batch: step(state, batch, 0.5, 3)),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_step_is_called_as_before(name: str) -> None:
    static, call = CALLS[name]
    static = static or {"static_argnames": ("power",)}  # a number that is not static is no exponent
    state, batch = data()
    train = paropt.accumulate(with_options, microbatches=COUNT, donate=None, **static)
    assert_equal(call(jax.jit(with_options, **static), state, batch), call(train, state, batch))
    assert len(train._programs) == 1
    call(train, state, batch)
    assert len(train._programs) == 1, "of the same kind"


def test_each_static_value_has_its_programs() -> None:
    state, batch = data()
    train = paropt.accumulate(with_options, microbatches=COUNT, donate=None, static_argnames="power")
    jitted = jax.jit(with_options, static_argnames="power")
    for power in (2, 3, 2.0, 2):
        assert_equal(jitted(state, batch, power=power), train(state, batch, power=power))
    assert len(train._programs) == 3


@pytest.mark.parametrize(
    ("donated", "dies"),
    [
        ({}, True),
        ({"donate": None}, False),
        ({"donate_argnums": 0}, True),
        ({"donate_argnames": ("state",)}, True),
        ({"donate_argnums": (1,)}, False),
    ],
)
def test_what_is_donated_dies(donated: dict[str, Any], dies: bool) -> None:
    state, batch = data()
    kept = jax.tree.map(jnp.copy, state)
    train = paropt.accumulate(with_options, microbatches=COUNT, static_argnames="power", **donated)
    assert_equal(jax.jit(with_options, static_argnames="power")(kept, batch), train(state, batch=batch))
    assert state["w"].is_deleted() == dies
    assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(batch)), "no result is its new value"


def test_remarks_of_what_it_lowers() -> None:
    state, batch = data()
    train = paropt.accumulate(whole, microbatches=COUNT)
    lowered = train.lower(state, batch)
    assert paropt.remarks(lowered) == paropt.remarks(lowered["accumulate_grad"]) == train.remarks(state, batch)
    assert "defer-sync" in {remark.pass_name for remark in paropt.remarks(lowered)}


def test_static_arguments_have_to_be_hashable() -> None:
    train = paropt.accumulate(with_options, microbatches=COUNT, static_argnames="power")
    with pytest.raises(ValueError, match=re.escape("the step's static arguments have to be hashable: unhashable type")):
        train(*data(), power=[2])


@pytest.mark.parametrize("target", ["tpu:v5e:2x4", "gpu:h100:1x1x8"])
def test_programs_are_lowered_for_devices_that_are_absent(target: str) -> None:
    mesh = jax.sharding.Mesh(np.array(available(target).devices), ("data",))

    def described(leaf: Any) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=NamedSharding(mesh, leaf.sharding.spec))

    state, batch = jax.tree.map(described, data())
    lowered = paropt.accumulate(whole, microbatches=COUNT).lower(state, batch)
    assert {name for name, each in lowered.items() if paropt.audit(each).collectives} == {"sync_grad"}
