"""The first line of remarks and audits: what stays in loops, and what another policy would make of it."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import paropt

WIDTH, TRIPS, DEVICES = 64, 4, 8
ARRAY = WIDTH * WIDTH * 4


def step(state: Any, batches: jax.Array) -> Any:
    def loss(weights: Any, x: jax.Array) -> jax.Array:
        for each in weights:
            x = jax.lax.with_sharding_constraint(jnp.tanh(x @ each), on("data"))
        return jnp.sum(x**2)

    def body(total: Any, x: jax.Array) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, total, jax.grad(loss)(state, x)), None

    total, _ = jax.lax.scan(body, jax.tree.map(jnp.zeros_like, state), batches)
    return jax.tree.map(lambda old, new: old - new, state, total)


def on(*axes: str | None) -> NamedSharding:
    mesh = jax.make_mesh((DEVICES,), ("data",), axis_types=(AxisType.Auto,))
    return NamedSharding(mesh, P(*axes))


def given(*axes: str | None) -> Any:
    weight = jax.ShapeDtypeStruct((WIDTH, WIDTH), jnp.float32, sharding=on(*axes))
    return [weight] * 3, jax.ShapeDtypeStruct((TRIPS, 16, WIDTH), jnp.float32, sharding=on(None, "data"))


def first_line(passes: str, *axes: str | None) -> str:
    return next(iter(str(paropt.remarks(paropt.jit(step, passes=passes).lower(*given(*axes)))).splitlines()), "")


def test_sharded_parameters_are_gathered_and_reduced_in_the_loop() -> None:
    """XLA gathers each once in a trip, for the forward and the backward pass; its whole sum is held in place of shards."""
    found = paropt.remarks(paropt.jit(step).lower(*given("data")))
    gathered, reduced = 3 * ARRAY * TRIPS, 3 * ARRAY * TRIPS
    held = 3 * ARRAY + 3 * (ARRAY - ARRAY // DEVICES)
    assert (gathered, reduced, held) == (196608, 196608, 92160)
    want = "stays in loops, as the passes count: 3 parameters gathered (197 kB per step), 3 gradients reduced (197 kB per step); "
    want += "policy=once would gather and reduce 98.3 kB once, and hold about 92.2 kB more per device "
    want += "(memory_budget= holds what fits)"
    assert found.offer == want
    assert str(found).startswith(f"{want}\n")
    assert str(found).count("stays in loops") == 1


@pytest.mark.parametrize(
    ("passes", "axes"),
    [
        ("grad-sync", ()),  # replicated: each sum leaves the loop
        ("grad-sync{policy=once}", ("data",)),
        ("grad-sync{policy=keep-shards}", ("data",)),  # asked for
        ("defer-sync", ("data",)),
    ],
)
def test_nothing_is_offered_where_nothing_stays_or_the_user_chose(passes: str, axes: tuple[str, ...]) -> None:
    assert not first_line(passes, *axes).startswith("stays in loops")


def test_an_audit_begins_with_it() -> None:
    report = paropt.audit(step, *given("data"), passes="grad-sync", targets=["cpu:8"])
    assert str(report).splitlines()[1].startswith("stays in loops, as the passes count: 3 parameters gathered")
    assert report["cpu:8"].offer in report.html()


def test_remarks_after_a_compilation_begin_with_it_too() -> None:
    lowered = paropt.jit(step).lower(*given("data"))
    before = paropt.remarks(lowered).offer
    lowered.compile()
    assert paropt.remarks(lowered).offer == before != ""
