"""Accumulator resets: where the last trip of a loop may reset one, nothing is reduced after it, whatever the init."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from numeric.test_select_to_branch import accumulating, mesh_of_data
from numeric.test_update_branches import BYTES, LAYOUTS, MICRO_BATCHES, TRIPS, WIDTH, gradient, sums, update
from numeric.user_steps import integers
from unit.clusters import available

import paropt
from paropt.clusters.targets import get

Carried = tuple[jax.Array, ...]


class Trip(NamedTuple):
    """What a trip makes of the `count` of those before it, its gradient, the weights, and the accumulators."""

    run: Callable[..., Carried]  # (count, gradient, weights, *accumulators) -> weights, *accumulators
    carried: int = 1
    guarded: int = 1  # accumulators that are reduced after the loop only if they are not reset


def is_last(count: jax.Array, every: int = MICRO_BATCHES) -> jax.Array:
    return (count + 1) % every == 0


def zeros(count: jax.Array, g: jax.Array, w: jax.Array, acc: jax.Array) -> Carried:
    acc = acc + g
    return lax.cond(is_last(count), lambda: (update(w, acc), jnp.zeros_like(acc)), lambda: (w, acc))


def selected(count: jax.Array, g: jax.Array, w: jax.Array, acc: jax.Array) -> Carried:
    acc, last = acc + g, is_last(count)
    return jnp.where(last, update(w, acc), w), jnp.where(last, 0, acc)


def one_of_three(count: jax.Array, g: jax.Array, w: jax.Array, acc: jax.Array) -> Carried:
    """Trips that add up, that update, and that leave all as it is; an index out of range is taken for the last."""
    add = (w, acc + g)
    branches = (lambda: add, lambda: (update(w, acc), jnp.zeros_like(acc)), lambda: (w, acc))
    return lax.switch(count % 5 - 1, branches)


def in_each_other(count: jax.Array, g: jax.Array, w: jax.Array, acc: jax.Array) -> Carried:
    acc, third = acc + g, count % 3 == 1
    other = lax.cond(third, lambda: jnp.zeros_like(acc), lambda: acc)
    w = lax.cond(is_last(count), lambda: update(w, acc), lambda: w)
    return w, lax.cond(is_last(count), lambda: jnp.zeros_like(acc), lambda: other)


def two(count: jax.Array, g: jax.Array, w: jax.Array, acc: jax.Array, other: jax.Array) -> Carried:
    """Both are reset by the same."""
    acc, other = acc + g, other + 2 * g
    new = lambda: (update(w, acc + other), jnp.zeros_like(acc), jnp.zeros_like(acc))  # noqa: E731
    return lax.cond(is_last(count), new, lambda: (w, acc, other))


def to_a_number(count: jax.Array, g: jax.Array, w: jax.Array, acc: jax.Array) -> Carried:
    """What it is reset to is no sum, so it is carried beside the sum, which is zero then."""
    acc = acc + g
    return lax.cond(is_last(count), lambda: (update(w, acc), jnp.sign(w) + 3), lambda: (w, acc))


def to_the_gradient(count: jax.Array, g: jax.Array, w: jax.Array, acc: jax.Array) -> Carried:
    acc = acc + g
    return lax.cond(is_last(count), lambda: (update(w, acc), g), lambda: (w, acc))


def before_the_gradient(count: jax.Array, g: jax.Array, w: jax.Array, acc: jax.Array) -> Carried:
    w, acc = lax.cond(is_last(count), lambda: (update(w, acc), jnp.zeros_like(acc)), lambda: (w, acc))
    return w, acc + g


def also_kept(count: jax.Array, g: jax.Array, w: jax.Array, acc: jax.Array, all_of_it: jax.Array) -> Carried:
    """A sum that is never reset is reduced with the other, in one collective."""
    acc, all_of_it = acc + g, all_of_it + 2 * g
    w, acc = lax.cond(is_last(count), lambda: (update(w, acc), jnp.zeros_like(acc)), lambda: (w, acc))
    return w, acc, all_of_it


PROGRAMS = {
    "zeros": Trip(zeros),
    "selected": Trip(selected),
    "one of three": Trip(one_of_three),
    "in each other": Trip(in_each_other),
    "two": Trip(two, carried=2, guarded=2),
    "to a number": Trip(to_a_number),
    "to the gradient": Trip(to_the_gradient, guarded=0),
    "before the gradient": Trip(before_the_gradient, guarded=0),
    "also kept": Trip(also_kept, carried=2, guarded=0),
}


def traced(trip: Trip, mesh: Mesh, form: str) -> Callable[..., Any]:
    """A trip for each of `xs`, or if that is given, `trips`; the count of those before comes from the caller."""
    replicated = NamedSharding(mesh, P())

    def step(w: jax.Array, state: Any, xs: jax.Array, *trips: jax.Array) -> Any:
        def body(i: jax.Array, carried: Any) -> Any:
            w, (count, *accumulators) = carried
            g = gradient(w, lax.dynamic_index_in_dim(xs, i, keepdims=False))
            g = lax.psum(g, "data") if form == "explicit" else lax.with_sharding_constraint(g, replicated)
            w, *accumulators = trip.run(count, g, w, *accumulators)
            return w, (count + 1, *accumulators)

        return lax.fori_loop(0, trips[0] if trips else len(xs), body, (w, state))

    if form == "explicit":

        def specs(w: jax.Array, state: Any, xs: jax.Array, *trips: jax.Array) -> Any:
            return P(), P(), P(None, "data"), *(P() for _ in trips)

        return lambda *args: jax.shard_map(step, mesh=mesh, in_specs=specs(*args), out_specs=P(), check_vma=False)(
            *args
        )
    return step


def arguments(trip: Trip, mesh: Mesh, count: int, trips: int) -> Any:
    w, *accumulators = (integers(WIDTH, WIDTH, seed=seed) for seed in range(1 + trip.carried))
    xs = jax.device_put(integers(trips, 16, WIDTH, seed=1), NamedSharding(mesh, P(None, "data")))
    return *jax.device_put((w, (np.int32(count), *accumulators)), NamedSharding(mesh, P())), xs


def assert_same(alone: Any, compiled: Any, args: Any) -> None:
    for want, got in zip(jax.tree.leaves(alone(*args)), jax.tree.leaves(compiled(*args)), strict=True):
        np.testing.assert_array_equal(want, got)


@pytest.mark.parametrize("trips", [TRIPS - 1, TRIPS])
@pytest.mark.parametrize("form", ["explicit", "plain"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_right_whatever_trip_is_the_last(name: str, form: str, trips: int) -> None:
    trip, mesh = PROGRAMS[name], mesh_of_data()
    step, args = traced(trip, mesh, form), arguments(trip, mesh, 0, trips)
    compiled = paropt.jit(step, strict=True).lower(*args).compile()
    alone = jax.jit(step).lower(*args).compile()
    for count in (0, 1, 2, 3, 7, -2):
        assert_same(alone, compiled, arguments(trip, mesh, count, trips))
    after = [c for c in sums(compiled) if not c.loops]
    assert sum(c.payload for c in after if c.at_most) == trip.guarded * BYTES
    assert sum(c.payload for c in after if not c.at_most) == (trip.carried - trip.guarded) * BYTES


@pytest.mark.parametrize("form", ["explicit", "plain"])
def test_right_for_no_trip_at_all(form: str) -> None:
    def unread(count: jax.Array, g: jax.Array, w: jax.Array, acc: jax.Array) -> Carried:
        return w, lax.cond(is_last(count), lambda: jnp.zeros_like(acc), lambda: acc + g)

    trip, mesh = Trip(unread), mesh_of_data()

    def args(count: int, trips: int) -> Any:
        return *arguments(trip, mesh, count, TRIPS), jax.device_put(np.int32(trips), NamedSharding(mesh, P()))

    step = traced(trip, mesh, form)
    compiled = paropt.jit(step, strict=True).lower(*args(0, 0)).compile()
    alone = jax.jit(step).lower(*args(0, 0)).compile()
    assert [(c.loops, c.at_most) for c in sums(compiled)] == [((), True)]
    for count in (0, 3):
        for trips in (0, 1, 2, 4, TRIPS):
            assert_same(alone, compiled, args(count, trips))


@pytest.mark.parametrize("form", ["explicit", "plain"])
def test_multi_steps_in_place(form: str) -> None:
    """Called again and again with what it returns, in step with the updates or not."""
    optimizer = optax.MultiSteps(optax.sgd(0.25, momentum=0.5), MICRO_BATCHES, use_grad_mean=False)
    step, (params, state, xs) = accumulating(optimizer, mesh_of_data(), form)
    alone = jax.jit(step)
    ours = paropt.jit(step, strict=True, passes="grad-sync{finite=true}", donate_argnums=(0, 1))
    want, got = (params, state), jax.tree.map(jnp.copy, (params, state))
    for trips in (TRIPS, 7, 7, 7, 7, TRIPS):
        given, want = got, alone(*want, xs[:trips])
        got = ours(*given, xs[:trips])
        assert all(leaf.is_deleted() for leaf in jax.tree.leaves(given))
        for one, other in zip(jax.tree.leaves(want), jax.tree.leaves(got), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    found = sums(ours.lower(*got, xs).compile())
    assert [(bool(c.loops), c.at_most, c.payload) for c in found] == [
        (True, True, 2 * BYTES),
        (False, True, 2 * BYTES),
    ]


@pytest.mark.parametrize("form", ["explicit", "plain"])
def test_programs_for_micro_batches_ask_too(form: str) -> None:
    """What `accumulate_grad` has reduced in its branch is not reduced again, unless the last micro-batch took another."""
    optimizer = optax.MultiSteps(optax.sgd(0.25, momentum=0.5), MICRO_BATCHES, use_grad_mean=False)
    step, (params, state, xs) = accumulating(optimizer, mesh_of_data(), form)
    for trips in (MICRO_BATCHES, MICRO_BATCHES + 1):
        args = params, state, xs[:trips]
        train = paropt.accumulate(step, microbatches=trips, passes="grad-sync{finite=true}", donate=None)
        for want, got in zip(jax.tree.leaves(step(*args)), jax.tree.leaves(train(*args)), strict=True):
            np.testing.assert_allclose(want, got, rtol=1e-5, atol=1e-5)
        found = {name: sums(lowered.compile()) for name, lowered in train.lower(*args).items()}
        after = "sync_grad" if form == "explicit" else "apply_grad"
        assert {name: [(c.at_most, c.payload) for c in there] for name, there in found.items() if there} == {
            "accumulate_grad": [(True, 2 * BYTES)],
            after: [(True, 2 * BYTES)],
        }


def of_groups(mesh: Mesh, combine: Callable[..., jax.Array], start: float) -> Callable[..., Any]:
    """What each half of the devices adds up, and counts for itself."""

    def step(w: jax.Array, acc: jax.Array, count: jax.Array, xs: jax.Array) -> Any:
        def body(carried: Any, x: jax.Array) -> tuple[Any, None]:
            w, acc, count = carried
            g = gradient(w, x)
            acc = acc + lax.psum(g, "data") if combine is jnp.add else combine(acc, lax.pmax(g, "data"))
            new = lambda: (update(w, acc), jnp.full_like(acc, start))  # noqa: E731
            w, acc = lax.cond(is_last(count), new, lambda: (w, acc))
            return (w, acc, count + 1), None

        w, acc, _ = lax.scan(body, (w, acc, count[0]), xs)[0]
        return w, acc

    specs = P(), P(), P("half")
    return jax.shard_map(step, mesh=mesh, in_specs=(*specs, P(None, "data")), out_specs=P(), check_vma=False)


@pytest.mark.parametrize(("combine", "start"), [(jnp.add, 0), (jnp.maximum, -np.inf)], ids=["sums", "maxima"])
def test_groups_that_are_not_in_step(combine: Callable[..., jax.Array], start: float) -> None:
    """The last trip has reset it on the devices of one half, and has not on the others."""
    mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("half", "data"))
    step = of_groups(mesh, combine, start)
    w, acc, xs = integers(WIDTH, WIDTH, seed=0), integers(WIDTH, WIDTH, seed=1), integers(TRIPS, 16, WIDTH, seed=2)
    counts = [jnp.array(each, jnp.int32) for each in ((0, 1), (1, 0), (0, 0), (2, 3))]
    compiled = paropt.jit(step, strict=True).lower(w, acc, counts[0], xs).compile()
    alone = jax.jit(step).lower(w, acc, counts[0], xs).compile()
    assert [c.at_most for c in sums(compiled) if not c.loops] == [True]
    for count in counts:
        want, got = alone(w, acc, count, xs), compiled(w, acc, count, xs)
        for one, other in zip(want, got, strict=True):
            for mine, theirs in zip(one.addressable_shards, other.addressable_shards, strict=True):
                np.testing.assert_array_equal(mine.data, theirs.data)


@pytest.mark.parametrize("name", LAYOUTS)
def test_of_weights_that_are_split(name: str) -> None:
    axes, spec = LAYOUTS[name]
    mesh = Mesh(np.array(jax.devices()).reshape(tuple(axes.values())), tuple(axes))

    def step(w: jax.Array, acc: jax.Array, count: jax.Array, xs: jax.Array) -> Any:
        def body(carried: Any, x: jax.Array) -> tuple[Any, None]:
            w, acc, count = carried
            g = lax.with_sharding_constraint(gradient(w, x), NamedSharding(mesh, spec))
            return (*zeros(count, g, w, acc), count + 1), None

        return lax.scan(body, (w, acc, count), xs)[0]

    def args(count: int) -> Any:
        w, acc = (jax.device_put(integers(WIDTH, WIDTH, seed=seed), NamedSharding(mesh, spec)) for seed in range(2))
        xs = jax.device_put(integers(TRIPS, 16, WIDTH, seed=1), NamedSharding(mesh, P(None, "data")))
        return w, acc, jax.device_put(np.int32(count), NamedSharding(mesh, P())), xs

    compiled = paropt.jit(step, strict=True).lower(*args(0)).compile()
    alone = jax.jit(step).lower(*args(0)).compile()
    for count in (0, 1, 2):
        assert_same(alone, compiled, args(count))
    over_data = [c for c in sums(compiled) if c.group == 4]
    assert over_data and all(c.at_most for c in over_data)


@pytest.mark.parametrize("form", ["explicit", "plain"])
@pytest.mark.parametrize("target", ["tpu:v5e:2x4", "gpu:h100:1x1x8"])
def test_other_compilers_ask_too(target: str, form: str) -> None:
    available(target)
    mesh = Mesh(np.array(get(target).devices), ("data",))
    step, replicated = traced(Trip(zeros), mesh, form), NamedSharding(mesh, P())
    array = jax.ShapeDtypeStruct((WIDTH, WIDTH), jnp.float32, sharding=replicated)
    state = jax.ShapeDtypeStruct((), jnp.int32, sharding=replicated), array
    split = NamedSharding(mesh, P(None, "data"))
    xs = jax.ShapeDtypeStruct((TRIPS, 16, WIDTH), jnp.float32, sharding=split)
    compiled = paropt.jit(step, strict=True).lower(array, state, xs).compile()
    assert [(bool(c.loops), c.at_most, c.payload) for c in sums(compiled)] == [
        (True, True, BYTES),
        (False, True, BYTES),
    ]
