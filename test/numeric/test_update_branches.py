"""Update branches of flat loops over the micro-batches of several steps: the branch that updates reduces the sum."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from numeric.user_steps import integers

import paropt
from paropt.hlo.census import Collective

STEPS, MICRO_BATCHES, WIDTH = 2, 4, 8
TRIPS = STEPS * MICRO_BATCHES
BYTES = 4 * WIDTH * WIDTH  # of a gradient
Values = tuple[jax.Array, ...]


def gradient(w: jax.Array, x: jax.Array) -> jax.Array:
    return x.T @ jnp.maximum(x @ w, 0)


def update(w: jax.Array, total: jax.Array) -> jax.Array:
    return w - jnp.sign(total)


class Loop(NamedTuple):
    """What a trip does with `sum`, which adds a gradient over the devices; and what is carried besides the weights."""

    trip: Callable[..., Values]  # (counter, gradient, weights, *carried) -> weights, *carried
    carried: int = 1


def _cond(taken: jax.Array, new: Callable[[], Values], old: Callable[[], Values]) -> Values:
    result: Values = lax.cond(taken, new, old)
    return result


def is_last(i: jax.Array) -> jax.Array:
    return (i + 1) % MICRO_BATCHES == 0


def every_fourth(i: jax.Array, g: jax.Array, w: jax.Array, acc: jax.Array) -> Values:
    acc = acc + g
    return _cond(is_last(i), lambda: (update(w, acc), jnp.zeros_like(acc)), lambda: (w, acc))


def momentum(i: jax.Array, g: jax.Array, w: jax.Array, acc: jax.Array, m: jax.Array) -> Values:
    """A carried value that is linear in the sum is carried partial, too."""
    acc = acc + g

    def new() -> Values:
        now = m + acc
        return update(w, now), jnp.zeros_like(acc), now

    return _cond(is_last(i), new, lambda: (w, acc, m))


def halved_momentum(i: jax.Array, g: jax.Array, w: jax.Array, acc: jax.Array, m: jax.Array) -> Values:
    """The same carried value is not linear in itself: it stays reduced."""
    acc = acc + g

    def new() -> Values:
        now = jnp.floor(m / 2) + acc
        return update(w, now), jnp.zeros_like(acc), now

    return _cond(is_last(i), new, lambda: (w, acc, m))


def before_the_gradient(i: jax.Array, g: jax.Array, w: jax.Array, acc: jax.Array) -> Values:
    """The branch reads what is carried, at the start of the next step."""
    first = (i > 0) & (i % MICRO_BATCHES == 0)
    w, acc = _cond(first, lambda: (update(w, acc), jnp.zeros_like(acc)), lambda: (w, acc))
    return w, acc + g


def negated_for_the_next(i: jax.Array, g: jax.Array, w: jax.Array, acc: jax.Array) -> Values:
    """Of what the branch reduces, it returns something linear, too: XLA took that for reduced, unless told."""
    first = (i > 0) & (i % MICRO_BATCHES == 0)
    w, acc = _cond(first, lambda: (update(w, acc), -acc), lambda: (w, acc))
    return w, acc + g


def made_behind_another(i: jax.Array, g: jax.Array, w: jax.Array, acc: jax.Array, other: jax.Array) -> Values:
    """What the branch reduces it makes last: another linear op reads the same partial value before."""
    acc = acc + g

    def new() -> Values:
        less = -acc
        total = acc + w
        return update(w, total), total, less

    return _cond(is_last(i), new, lambda: (w, acc, other))


def added_in_the_branches(i: jax.Array, g: jax.Array, w: jax.Array, acc: jax.Array) -> Values:
    def new() -> Values:
        total = 2 * acc + g
        return update(w, total), jnp.zeros_like(acc)

    return _cond(is_last(i), new, lambda: (w, 2 * acc + g))


def also_returned(i: jax.Array, g: jax.Array, w: jax.Array, acc: jax.Array, seen: jax.Array) -> Values:
    acc = acc + g

    def new() -> Values:
        return update(w, acc), jnp.zeros_like(acc), jnp.abs(acc)

    return _cond(is_last(i), new, lambda: (w, acc, seen))


def in_a_branch_of_it(i: jax.Array, g: jax.Array, w: jax.Array, acc: jax.Array) -> Values:
    acc = acc + g

    def new() -> Values:
        step = lax.cond(i > 2, lambda: jnp.sign(acc), lambda: acc)
        return jnp.maximum(w, step), acc

    return _cond(is_last(i), new, lambda: (w, acc))


def own_shard(i: jax.Array, g: jax.Array, w: jax.Array, acc: jax.Array) -> Values:
    acc = acc + g
    step = lax.cond(is_last(i), lambda: jnp.sign(acc), lambda: jnp.zeros_like(acc))
    return w - lax.psum(step.sum(), "data"), acc


LOOPS = {
    "every fourth": Loop(every_fourth),
    "momentum": Loop(momentum, carried=2),
    "halved momentum": Loop(halved_momentum, carried=2),
    "before the gradient": Loop(before_the_gradient),
    "negated for the next": Loop(negated_for_the_next),
    "made behind another": Loop(made_behind_another, carried=2),
    "added in the branches": Loop(added_in_the_branches),
    "also returned": Loop(also_returned, carried=2),
    "in a branch of it": Loop(in_a_branch_of_it),
}


def looped(loop: Loop, summed: Callable[[jax.Array], jax.Array]) -> Callable[..., Values]:
    def step(w: jax.Array, xs: jax.Array, *starts: jax.Array) -> Values:
        def body(carried: Values, each: tuple[jax.Array, jax.Array]) -> tuple[Values, None]:
            i, x = each
            return loop.trip(i, summed(gradient(carried[0], x)), *carried), None

        return lax.scan(body, (w, *starts), (jnp.arange(TRIPS), xs))[0]

    return step


def explicit(loop: Loop, mesh: Mesh) -> Callable[..., Values]:
    step = looped(loop, lambda g: lax.psum(g, "data"))
    starts = [P()] * loop.carried
    return jax.shard_map(
        step, mesh=mesh, in_specs=(P(), P(None, "data"), *starts), out_specs=(P(), *starts), check_vma=False
    )


def plain(loop: Loop, mesh: Mesh) -> Callable[..., Values]:
    def summed(g: jax.Array) -> jax.Array:
        return lax.with_sharding_constraint(g, NamedSharding(mesh, P()))

    return looped(loop, summed)


def arguments(loop: Loop, mesh: Mesh, weights: P) -> Values:
    xs = integers(TRIPS, 16, WIDTH, seed=0)
    starts = [integers(WIDTH, WIDTH, seed=seed) for seed in range(1 + loop.carried)]
    w, *others = (jax.device_put(each, NamedSharding(mesh, weights)) for each in starts)
    return w, jax.device_put(xs, NamedSharding(mesh, P(None, "data"))), *others


def sums(compiled: Any) -> list[Collective]:
    kinds = ("all-reduce", "reduce-scatter")
    return [c for c in paropt.hlo.census.census(compiled.as_text()) if c.kind in kinds]


@pytest.mark.parametrize("form", [explicit, plain])
@pytest.mark.parametrize("name", LOOPS)
def test_only_a_branch_reduces_in_the_loop(name: str, form: Callable[..., Callable[..., Values]]) -> None:
    loop, mesh = LOOPS[name], Mesh(np.array(jax.devices()), ("data",))
    step, args = form(loop, mesh), arguments(loop, mesh, P())
    lowered = paropt.jit(step, strict=True).lower(*args)
    compiled, alone = lowered.compile(), jax.jit(step).lower(*args).compile()
    for want, got in zip(alone(*args), compiled(*args), strict=True):
        np.testing.assert_array_equal(want, got)
    before, after = sums(alone), sums(compiled)
    assert [c.executions for c in before if not c.at_most] == [TRIPS]
    assert all(c.at_most for c in after if c.loops), "a reduction stays in each trip"
    assert sum(c.payload for c in after if c.loops) == BYTES
    assert sum(c.payload for c in after if not c.loops) <= loop.carried * BYTES


LAYOUTS: Mapping[str, tuple[dict[str, int], P]] = {
    "tensor parallel": ({"data": 4, "model": 2}, P(None, "model")),
    "hybrid sharding": ({"data": 4, "shard": 2}, P("shard")),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_over_the_axes_that_do_not_split_the_weights(name: str) -> None:
    axes, spec = LAYOUTS[name]
    mesh = Mesh(np.array(jax.devices()).reshape(tuple(axes.values())), tuple(axes))
    loop = Loop(momentum, carried=2)

    def summed(g: jax.Array) -> jax.Array:
        return lax.with_sharding_constraint(g, NamedSharding(mesh, spec))

    step, args = looped(loop, summed), arguments(loop, mesh, spec)
    lowered = paropt.jit(step, strict=True).lower(*args)
    alone = jax.jit(step).lower(*args).compile()
    for want, got in zip(alone(*args), lowered.compile()(*args), strict=True):
        np.testing.assert_array_equal(want, got)
    over_data = [c for c in sums(lowered.compile()) if c.group == 4 and c.loops]
    assert over_data
    assert all(c.at_most for c in over_data)


def test_a_sum_of_shards_stays() -> None:
    """One before a reduce_scatter is of another shape than what the branch reads."""
    mesh = Mesh(np.array(jax.devices()), ("data",))
    step = looped(Loop(own_shard), lambda g: lax.psum_scatter(g, "data", tiled=True))
    step = jax.shard_map(step, mesh=mesh, in_specs=(P(), P(None, "data"), P("data")), out_specs=(P(), P("data")))
    args = integers(WIDTH, WIDTH, seed=0), integers(TRIPS, 16, WIDTH, seed=1), integers(WIDTH, WIDTH, seed=2)
    passes = "inline-calls,inline-branches,defer-sync{policy=defer}"
    for want, got in zip(jax.jit(step)(*args), paropt.jit(step, passes=passes, strict=True)(*args), strict=True):
        np.testing.assert_array_equal(want, got)
    remarks = paropt.optimize(jax.jit(step).lower(*args).as_text(), passes=passes).remarks
    assert [r.text for r in remarks if r.op == "stablehlo.reduce_scatter" and r.applied] == []


def test_the_certificate_names_the_branch() -> None:
    mesh = Mesh(np.array(jax.devices()), ("data",))
    loop = LOOPS["every fourth"]
    text = jax.jit(explicit(loop, mesh)).lower(*arguments(loop, mesh, P())).as_text(debug_info=True)
    remarks = paropt.optimize(text).remarks
    (certificate,) = [remark.certificate for remark in remarks if remark.certificate is not None]
    (branch,) = certificate.branches
    assert (branch.op, branch.bytes, branch.runs) == ("stablehlo.case", BYTES, STEPS)
    assert any(fact.role == "a predicate" for fact in certificate.uniform)
    assert not [remark for remark in remarks if remark.pass_name == "defer-sync" and not remark.applied]


def test_branches_send_the_wire_type() -> None:
    mesh = Mesh(np.array(jax.devices()), ("data",))
    loop = LOOPS["before the gradient"]
    text = jax.jit(explicit(loop, mesh)).lower(*arguments(loop, mesh, P())).as_text()
    made = paropt.optimize(text, passes="inline-calls,inline-branches,defer-sync{wire-dtype=bf16}").module
    sent = [line.strip() for line in made.splitlines() if "}) : (tensor<" in line and "-> tensor<" in line]
    array = f"tensor<{WIDTH}x{WIDTH}xbf16>"
    assert sent == 2 * [f"}}) : ({array}) -> {array}"]
    assert "paropt_" not in made, "marks are left"
