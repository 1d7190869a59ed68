"""Select-to-branch: in flat loops that select an update by their counter, the branch alone reads the sum."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from numeric.test_update_branches import (
    BYTES,
    MICRO_BATCHES,
    TRIPS,
    WIDTH,
    Loop,
    Values,
    arguments,
    explicit,
    gradient,
    is_last,
    plain,
    sums,
    update,
)
from numeric.user_steps import integers

import paropt
from paropt.passes.deferral.counter_selects import MULTIPLY


def where(i: jax.Array, g: jax.Array, w: jax.Array, acc: jax.Array) -> Values:
    acc, last = acc + g, is_last(i)
    return jnp.where(last, update(w, acc), w), jnp.where(last, 0, acc)


def negated(i: jax.Array, g: jax.Array, w: jax.Array, acc: jax.Array) -> Values:
    acc, last = acc + g, is_last(i)
    return jnp.where(~last, w, update(w, acc)), lax.select(last, jnp.zeros_like(acc), acc)


def asked_again(i: jax.Array, g: jax.Array, w: jax.Array, acc: jax.Array) -> Values:
    """For each array, as in `jax.tree.map`; once more by another predicate that holds in the same trips."""
    acc = acc + g
    return jnp.where(is_last(i), update(w, acc), w), jnp.where(i % MICRO_BATCHES < MICRO_BATCHES - 1, acc, 0)


def reads_what_is_selected(i: jax.Array, g: jax.Array, w: jax.Array, acc: jax.Array, m: jax.Array) -> Values:
    acc, last = acc + g, is_last(i)
    new = jnp.where(last, update(w, acc), w)
    return new, jnp.where(last, jnp.zeros_like(acc), acc), jnp.where(last, m + jnp.abs(new), m)


def moments(i: jax.Array, g: jax.Array, w: jax.Array, acc: jax.Array, mean: jax.Array, square: jax.Array) -> Values:
    """Both are of what the branch reduces once: the one that is linear in the sum is not carried partial."""
    acc, last = acc + g, is_last(i)
    now, squared = 2 * mean + acc, square + acc * acc
    new = update(w, now) - jnp.sign(squared)
    return tuple(
        jnp.where(last, one, other)
        for one, other in ((new, w), (jnp.zeros_like(acc), acc), (now, mean), (squared, square))
    )


def in_a_loop_of_it(i: jax.Array, g: jax.Array, w: jax.Array, acc: jax.Array) -> Values:
    acc, last = acc + g, is_last(i)
    new = lax.fori_loop(0, 2, lambda _, w: update(w, acc), w)
    return jnp.where(last, new, w), jnp.where(last, 0, acc)


def last_sum(i: jax.Array, g: jax.Array, w: jax.Array, acc: jax.Array, seen: jax.Array) -> Values:
    """Nothing is computed of the sum: it is kept."""
    acc, last = acc + g, is_last(i)
    return jnp.where(last, w + 1, w), jnp.where(last, 0, acc), jnp.where(last, acc, jnp.abs(seen))


def one_side_selects_too(i: jax.Array, g: jax.Array, w: jax.Array, acc: jax.Array) -> Values:
    acc, last = acc + g, is_last(i)
    new = jnp.where(last, update(w, acc), w)
    other = jnp.maximum(new.T, new)  # in the trips that are not the last: of the weights as they were
    return jnp.where(last, new, other), acc


def read_in_between(i: jax.Array, g: jax.Array, w: jax.Array, acc: jax.Array, m: jax.Array) -> Values:
    """In each trip, before the last value is selected."""
    acc, last = acc + g, is_last(i)
    new = jnp.where(last, update(w, acc), w)
    m = jnp.maximum(m, new.T) + new
    return new, jnp.where(last, 0, acc), m


def by_two_predicates(i: jax.Array, g: jax.Array, w: jax.Array, acc: jax.Array) -> Values:
    """What the second selects, the first one has made."""
    acc, last = acc + g, is_last(i)
    w = jnp.where(i % 8 == 5, w + 1, w)
    new = jnp.where(last, update(w, acc), w)
    return new, jnp.where(last, jnp.where(i % 8 == 5, -acc, 0), acc)


LOOPS = {
    "by two predicates": Loop(by_two_predicates),
    "where": Loop(where),
    "negated": Loop(negated),
    "asked again": Loop(asked_again),
    "reads what is selected": Loop(reads_what_is_selected, carried=2),
    "moments": Loop(moments, carried=3),
    "in a loop of it": Loop(in_a_loop_of_it),
    "last sum": Loop(last_sum, carried=2),
    "one side selects, too": Loop(one_side_selects_too),
    "read in between": Loop(read_in_between, carried=2),
}


def mesh_of_data() -> Mesh:
    return Mesh(np.array(jax.devices()), ("data",))


def assert_same(step: Callable[..., Any], args: Any, passes: str = "grad-sync") -> tuple[Any, Any]:
    """Returns what XLA makes of it alone, and with par-opt."""
    compiled = paropt.jit(step, strict=True, passes=passes).lower(*args).compile()
    alone = jax.jit(step).lower(*args).compile()
    for want, got in zip(jax.tree.leaves(alone(*args)), jax.tree.leaves(compiled(*args)), strict=True):
        np.testing.assert_array_equal(want, got)
    return alone, compiled


@pytest.mark.parametrize("form", [explicit, plain])
@pytest.mark.parametrize("name", LOOPS)
def test_only_a_branch_reduces_in_the_loop(name: str, form: Callable[..., Callable[..., Values]]) -> None:
    loop, mesh = LOOPS[name], mesh_of_data()
    alone, compiled = assert_same(form(loop, mesh), arguments(loop, mesh, P()))
    before, after = sums(alone), sums(compiled)
    assert [c.executions for c in before if not c.at_most] == [TRIPS]
    assert all(c.at_most for c in after if c.loops), "a reduction stays in each trip"
    assert sum(c.payload for c in after if c.loops) == BYTES
    assert sum(c.payload for c in after if not c.loops) <= BYTES


@pytest.mark.parametrize("form", [explicit, plain])
def test_what_the_last_trip_selects_follows_the_loop(form: Callable[..., Callable[..., Values]]) -> None:
    def trip(i: jax.Array, g: jax.Array, w: jax.Array, acc: jax.Array, new: jax.Array) -> Values:
        acc = acc + g
        return w, acc, jnp.where(i == TRIPS - 1, update(w, acc), new)

    loop, mesh = Loop(trip, carried=2), mesh_of_data()
    _, compiled = assert_same(form(loop, mesh), arguments(loop, mesh, P()))
    assert [(c.loops, c.payload) for c in sums(compiled)] == [((), BYTES)]


STAYS = {
    "read in each trip": lambda i, g, w, acc: (
        jnp.where(is_last(i), update(w, acc + g), jnp.maximum(w, acc + g)),
        acc + g,
    ),
    "depends on what is selected": lambda i, g, w, acc: _depends(is_last(i), w, acc + g),
    "read by something else": lambda i, g, w, acc: (
        jnp.where(is_last(i), update(w, acc + g), w) + jnp.sign(acc + g),
        acc + g,
    ),
    "by what a device has": lambda i, g, w, acc: (
        jnp.where(g[0, 0] > 0, update(w, acc + g), w),
        acc + g,
    ),
}


def _depends(last: jax.Array, w: jax.Array, acc: jax.Array) -> Values:
    new = jnp.where(last, update(w, acc), w)
    other = jnp.maximum(new.T, new)
    return jnp.where(last, new + other, other), acc


@pytest.mark.parametrize("form", [explicit, plain])
@pytest.mark.parametrize("name", STAYS)
def test_stays_as_it_is(name: str, form: Callable[..., Callable[..., Values]]) -> None:
    loop, mesh = Loop(STAYS[name]), mesh_of_data()
    args = arguments(loop, mesh, P())
    step = form(loop, mesh)
    made = paropt.optimize(jax.jit(step).lower(*args).as_text()).module
    assert "stablehlo.case" not in made and "stablehlo.if" not in made
    compiled = paropt.jit(step).lower(*args).compile()
    assert [c.executions for c in sums(compiled)] == [TRIPS]
    for want, got in zip(jax.jit(step)(*args), compiled(*args), strict=True):
        np.testing.assert_array_equal(want, got)


def test_a_mask_is_no_branch() -> None:
    """What may leave the loop as it is stays a select."""

    def trip(i: jax.Array, g: jax.Array, w: jax.Array, acc: jax.Array) -> Values:
        return w, acc + jnp.where(i < 3, g, 0)

    loop, mesh = Loop(trip), mesh_of_data()
    args = arguments(loop, mesh, P())
    step = explicit(loop, mesh)
    assert "stablehlo.case" not in paropt.optimize(jax.jit(step).lower(*args).as_text()).module
    _, compiled = assert_same(step, args)
    assert [(c.loops, c.payload) for c in sums(compiled)] == [((), BYTES)]


def from_the_caller(mesh: Mesh, kind: str) -> Callable[..., Values]:
    """The number of the step comes with the weights, as in `flax`'s `TrainState`."""

    def step(w: jax.Array, xs: jax.Array, acc: jax.Array, count: jax.Array) -> Values:
        def body(carried: Any, x: jax.Array) -> tuple[Any, None]:
            w, acc, count = carried
            g = lax.with_sharding_constraint(gradient(w, x), NamedSharding(mesh, P()))
            acc, count = acc + g, count + 1
            last = count % MICRO_BATCHES == 0
            if kind == "cond":
                w, acc = lax.cond(last, lambda: (update(w, acc), jnp.zeros_like(acc)), lambda: (w, acc))
            else:
                w, acc = jnp.where(last, update(w, acc), w), jnp.where(last, 0, acc)
            return (w, acc, count), None

        return lax.scan(body, (w, acc, count), xs)[0]

    return step


@pytest.mark.parametrize("kind", ["cond", "where"])
@pytest.mark.parametrize("start", [0, 3, -2, np.iinfo(np.int32).max - 2])
def test_counted_from_any_number(kind: str, start: int) -> None:
    mesh = mesh_of_data()
    args = *arguments(Loop(where), mesh, P()), jax.device_put(np.int32(start), NamedSharding(mesh, P()))
    _, compiled = assert_same(from_the_caller(mesh, kind), args)
    assert [c.at_most for c in sums(compiled) if c.loops] == [True]
    text = jax.jit(from_the_caller(mesh, kind)).lower(*args).as_text()
    applied = [
        r.text for r in paropt.optimize(text).remarks if r.op == "sdy.all_reduce" and r.pass_name == "defer-sync"
    ]
    assert [f"at most {2 * BYTES} bytes are reduced in branches" in each for each in applied] == [True]


INNER = {
    "sgd": optax.sgd(0.25),
    "momentum": optax.sgd(0.25, momentum=0.5),
    "adam": optax.adam(0.25),
    "clipped adamw": optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(0.25)),
}


def multi_steps(inner: str, mesh: Mesh, form: str) -> tuple[Callable[..., Any], Any]:
    """Several micro-batches of several steps, as `optax.MultiSteps` accumulates them."""
    # Sums of integers are exact, and means are not, of which Adam would make large differences where they are small.
    optimizer = optax.MultiSteps(INNER[inner], MICRO_BATCHES, use_grad_mean=inner in ("sgd", "momentum"))
    return accumulating(optimizer, mesh, form)


def accumulating(optimizer: Any, mesh: Mesh, form: str) -> tuple[Callable[..., Any], Any]:
    """A flat loop in which `optimizer` knows when to update, and its arguments."""

    def step(params: Any, state: Any, xs: jax.Array) -> Any:
        def body(carried: Any, x: jax.Array) -> tuple[Any, None]:
            params, state = carried
            grads = jax.tree.map(lambda w: gradient(w, x) / 64, params)
            if form == "explicit":
                grads = lax.psum(grads, "data")
            updates, state = optimizer.update(grads, state, params)
            return (optax.apply_updates(params, updates), state), None

        return lax.scan(body, (params, state), xs)[0]

    replicated = NamedSharding(mesh, P())
    params = jax.device_put({"a": integers(WIDTH, WIDTH, seed=0), "b": integers(WIDTH, WIDTH, seed=1)}, replicated)
    xs = jax.device_put(integers(TRIPS, 16, WIDTH, seed=2), NamedSharding(mesh, P(None, "data")))
    args = params, jax.device_put(optimizer.init(params), replicated), xs
    if form == "explicit":
        step = jax.shard_map(step, mesh=mesh, in_specs=(P(), P(), P(None, "data")), out_specs=P(), check_vma=False)
    return step, args


@pytest.mark.parametrize("form", ["explicit", "plain"])
@pytest.mark.parametrize("inner", INNER)
def test_multi_steps_if_updates_are_finite(inner: str, form: str) -> None:
    step, args = multi_steps(inner, mesh_of_data(), form)
    alone = jax.jit(step).lower(*args).compile()
    kept = paropt.jit(step, strict=True).lower(*args).compile()
    assert [c.executions for c in sums(kept) if not c.at_most] == [TRIPS], "0 times infinity is not 0"
    hints = [r.text for r in paropt.remarks(paropt.jit(step).lower(*args)) if "finite=true" in r.text]
    assert ["1 in at most 2 of 8 trips" in hint and "paropt.accumulate" in hint for hint in hints] == [True]
    compiled = paropt.jit(step, strict=True, passes="grad-sync{finite=true}").lower(*args).compile()
    for want, got in zip(jax.tree.leaves(alone(*args)), jax.tree.leaves(compiled(*args)), strict=True):
        np.testing.assert_allclose(want, got, rtol=1e-4, atol=1e-4)
    found = sums(compiled)
    assert [(bool(c.loops), c.at_most, c.payload) for c in found] == [
        (True, True, 2 * BYTES),
        (False, True, 2 * BYTES),
    ], "after the loop only what its last trip has not reset"


@pytest.mark.parametrize("form", ["explicit", "plain"])
def test_updates_that_are_multiplied_by_nothing_get_no_hint(form: str) -> None:
    """Of Adam's moments the trip needs all, and `apply_every` behind it adds up updates: no option would help."""
    optimizer = optax.chain(optax.adam(0.25), optax.apply_every(MICRO_BATCHES))
    step, args = accumulating(optimizer, mesh_of_data(), form)
    assert not [r for r in paropt.remarks(paropt.jit(step).lower(*args)) if "finite=true" in r.text]


@pytest.mark.parametrize("form", ["explicit", "plain"])
@pytest.mark.parametrize("first", [True, False], ids=["before", "after"])
def test_apply_every_if_updates_are_finite(first: bool, form: str) -> None:
    """Before or after what is linear, and before anything."""
    inner, every = optax.sgd(0.25), optax.apply_every(MICRO_BATCHES)
    step, args = accumulating(optax.chain(*((every, inner) if first else (inner, every))), mesh_of_data(), form)
    assert [r.op for r in paropt.remarks(paropt.jit(step).lower(*args)) if "finite=true" in r.text] == [MULTIPLY]
    _, compiled = assert_same(step, args, "grad-sync{finite=true}")
    assert all(c.at_most for c in sums(compiled) if c.loops)


OPTIMIZERS = {
    "multi steps of adam": (optax.MultiSteps(optax.adamw(0.1), MICRO_BATCHES), "acc_grads"),
    "multi steps of momentum": (optax.MultiSteps(optax.sgd(0.1, momentum=0.5), MICRO_BATCHES), "acc_grads"),
    "apply every": (optax.chain(optax.sgd(0.1), optax.apply_every(MICRO_BATCHES)), "grad_acc"),
    "adam": (optax.adam(0.1), None),
    "momentum": (optax.sgd(0.1, momentum=0.5), None),
    "if finite": (optax.apply_if_finite(optax.sgd(0.1, momentum=0.5), 4), None),
    "updates added up": (optax.chain(optax.adam(0.1), optax.apply_every(MICRO_BATCHES)), None),
}


@pytest.mark.parametrize("calls", [1, 2], ids=["one call", "unrolled"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_accumulator_that_each_call_reduces_is_named_once(name: str, calls: int) -> None:
    optimizer, accumulator = OPTIMIZERS[name]

    def step(params: Any, state: Any, xs: jax.Array, ema: Any) -> Any:
        for x in xs[:calls]:
            grads = jax.tree.map(lambda w, x=x: gradient(w, x), params)
            updates, state = optimizer.update(grads, state, params)
            params = optax.apply_updates(params, updates)
        return params, state, jax.tree.map(lambda old, new: old + 0.1 * (new - old), ema, params)

    mesh = mesh_of_data()
    params = jax.device_put(
        {"a": integers(WIDTH, WIDTH, seed=0), "b": integers(WIDTH, WIDTH, seed=1)}, NamedSharding(mesh, P())
    )
    xs = jax.device_put(integers(TRIPS, 16, WIDTH, seed=2), NamedSharding(mesh, P(None, "data")))
    state = jax.device_put(optimizer.init(params), NamedSharding(mesh, P()))
    lowered = paropt.jit(step, strict=True).lower(params, state, xs, params)
    told = [remark for remark in paropt.remarks(lowered) if "paropt.accumulate" in remark.text]
    found = [remark.text for remark in told if remark.op != "builtin.module"]  # of all sums, or of an accumulator
    assert len(told) == 1
    assert [
        accumulator is not None and f"{accumulator}['a'] and 1 more argument come in" in text for text in found
    ] == ([True] if accumulator else [])
