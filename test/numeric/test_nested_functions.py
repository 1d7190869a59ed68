"""Nested functions in plain `jax.jit` programs: calls, transformations, `shard_map` in them, and several meshes."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from programs.program import data_mesh, mesh_of

import paropt
from paropt.audit import Audit

P = PartitionSpec
MICRO_BATCHES = 4
BYTES = 4 * 8 * 8  # of a parameter, and of its gradient
Loss = Callable[[Any, jax.Array], jax.Array]

MESH, ONE_AXIS, FULLY = mesh_of(data=4, model=2), data_mesh(), mesh_of(fsdp=8)
SMALL = np.random.default_rng(0).integers(-3, 4, (4, MICRO_BATCHES * 16, 8)).astype(np.float32)  # sums are exact


def placed(value: np.ndarray, *spec: str | None, mesh: Mesh = MESH) -> jax.Array:
    return jax.device_put(value, NamedSharding(mesh, P(*spec)))


def parameter(number: int, *spec: str | None) -> jax.Array:
    return placed(SMALL[number, :8], *spec)


BATCHES = placed(SMALL[3].reshape(MICRO_BATCHES, 16, 8), None, "data")
W = parameter(0)


def accumulated(loss: Loss) -> Callable[[Any, jax.Array], Any]:
    """A training step in which only the loss varies."""

    def step(parameters: Any, batches: jax.Array) -> Any:
        def body(total: Any, x: jax.Array) -> tuple[Any, None]:
            return jax.tree.map(jnp.add, total, jax.grad(loss)(parameters, x)), None

        return lax.scan(body, jax.tree.map(jnp.zeros_like, parameters), batches)[0]

    return step


def squares(w: jax.Array, x: jax.Array) -> jax.Array:
    return ((x @ w) ** 2).sum()


@jax.custom_vjp
def product(w: jax.Array, x: jax.Array) -> jax.Array:
    return x @ w


product.defvjp(lambda w, x: (x @ w, (w, x)), lambda saved, g: (saved[1].T @ g, g @ saved[0].T))


def gradients_of_examples(w: jax.Array, batches: jax.Array) -> jax.Array:
    """As in private training, without the clipping."""

    def body(total: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
        return total + jax.vmap(jax.grad(squares), (None, 0))(w, x).sum(0), None

    return lax.scan(body, jnp.zeros_like(w), batches)[0]


def layers(w: jax.Array, x: jax.Array) -> jax.Array:
    h, _ = lax.scan(jax.checkpoint(lambda h, _: (h @ w, None)), x, length=2)
    return h.sum()


def ends_on_another_mesh(w: jax.Array, batches: jax.Array) -> jax.Array:
    return lax.with_sharding_constraint(accumulated(squares)(w, batches), NamedSharding(ONE_AXIS, P()))


def on_another_mesh(w: jax.Array, x: jax.Array) -> jax.Array:
    return squares(w, lax.with_sharding_constraint(x, NamedSharding(ONE_AXIS, P("data"))))


def on_two_meshes(w: jax.Array, batches: jax.Array, others: jax.Array) -> tuple[jax.Array, ...]:
    one, other = accumulated(squares)(w, batches), accumulated(squares)(w, others)
    return one, other, one + other


def beside_a_composite(w: jax.Array, batches: jax.Array) -> jax.Array:
    """A named kernel, which a target may replace by its own, and a product of the same shape."""
    named = lax.composite(lambda x, y: x.T @ y, name="test.gradient")
    start = jnp.zeros_like(w)
    return lax.scan(lambda total, x: (total + named(x, x) + x.T @ (x + 1), None), start, batches)[0]


def split_layers(check_vma: bool, *, axis: str = "model") -> Loss:
    """A layer by columns and one by rows, as in Megatron: manual over `model`, while `data` is left to XLA."""

    def both(w: jax.Array, v: jax.Array, x: jax.Array) -> jax.Array:
        return lax.psum((x @ w) @ v, axis)

    specs: dict[str, Any] = {"in_specs": (P(None, axis), P(axis), P()), "out_specs": P()}
    mapped = jax.shard_map(both, mesh=MESH, axis_names={axis}, check_vma=check_vma, **specs)
    return lambda parameters, x: (mapped(parameters[0], parameters[1], x @ parameters[2]) ** 2).sum()


def manual_step(w: jax.Array, batches: jax.Array) -> jax.Array:
    """All of the loop is manual over `model`; XLA adds reductions over `data` in it."""

    def step(w: jax.Array, batches: jax.Array) -> jax.Array:
        def body(total: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
            return total + lax.psum(2 * jax.grad(squares)(w, x), "model"), None

        return lax.scan(body, jnp.zeros_like(w), batches)[0]

    specs: dict[str, Any] = {"in_specs": (P(), P()), "out_specs": P(), "check_vma": False}
    return jax.shard_map(step, mesh=MESH, axis_names={"model"}, **specs)(w, batches)


def manual_loss(w: jax.Array, x: jax.Array) -> jax.Array:
    specs: dict[str, Any] = {"in_specs": (P(), P("data")), "out_specs": P("data")}
    return (jax.shard_map(lambda w, x: x @ w, mesh=MESH, **specs)(w, x) ** 2).sum()


def through_a_region(w: jax.Array, batches: jax.Array) -> jax.Array:
    twice = jax.shard_map(lambda g: 2 * g, mesh=MESH, in_specs=P("model"), out_specs=P("model"), axis_names={"model"})

    def body(total: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
        return total + twice(jax.grad(squares)(w, x)), None

    return lax.scan(body, jnp.zeros_like(w), batches)[0]


class Case(NamedTuple):
    """A step, and the gradients (of BYTES each) that are reduced after its loop."""

    step: Callable[..., Any]
    reduced: int = 1
    args: tuple[Any, ...] = (W, BATCHES)


ONCE: dict[str, Case] = {
    "jit in jit": Case(accumulated(jax.jit(lambda w, x: jax.jit(squares)(w, x)))),
    "the step in jit": Case(jax.jit(accumulated(squares))),
    "custom_vjp": Case(accumulated(lambda w, x: (product(w, x) ** 2).sum())),
    "checkpoint": Case(accumulated(jax.checkpoint(squares))),
    "checkpoint of layers": Case(accumulated(layers)),
    "vmap": Case(accumulated(lambda w, x: jax.vmap(lambda row: ((row @ w) ** 2).sum())(x).sum())),
    "vmap of gradients": Case(gradients_of_examples),
    "shard_map over all axes": Case(accumulated(manual_loss)),
    "shard_map over some axes around the loop": Case(manual_step, 2),
    "parameters on another mesh": Case(accumulated(squares), 1, (placed(SMALL[0, :8], "fsdp", mesh=FULLY), BATCHES)),
    "another mesh after the loop": Case(ends_on_another_mesh),
    "another mesh in the loop": Case(accumulated(on_another_mesh)),
    "a mesh for each loop": Case(
        on_two_meshes, 2, (W, BATCHES, placed(np.asarray(BATCHES), None, "data", mesh=ONE_AXIS))
    ),
}


def compared(case: Case) -> tuple[Audit, list[str]]:
    """The audit and the remarks, when the results are those of XLA alone, bit for bit."""
    ours = paropt.jit(case.step, strict=True)
    lowered = ours.lower(*case.args)
    want, got = jax.jit(case.step)(*case.args), lowered.compile()(*case.args)
    jax.tree.map(np.testing.assert_array_equal, jax.device_get(got), jax.device_get(want))
    return paropt.audit(lowered), [str(remark) for remark in paropt.remarks(lowered) if not remark.applied]


@pytest.mark.parametrize("name", ONCE)
def test_each_gradient_is_reduced_once(name: str) -> None:
    case = ONCE[name]
    assert paropt.audit(jax.jit(case.step).lower(*case.args)).sync_in_loop >= case.reduced * MICRO_BATCHES * BYTES
    after, _ = compared(case)
    assert (after.sync_in_loop, after.sync_bytes) == (0, case.reduced * BYTES)


OF_ITS_OWN = "the reduction is in a region within the body that is no branch"
BLOCKS = ((parameter(0, None, "model"), parameter(1, "model"), parameter(2)), BATCHES)

# What stays in the loop, and why; and how many gradients leave it all the same.
STAYS: dict[str, tuple[Case, tuple[str, ...]]] = {
    "shard_map over some axes": (Case(accumulated(split_layers(True)), 2, BLOCKS), (OF_ITS_OWN,)),
    "unchecked": (Case(accumulated(split_layers(False)), 2, BLOCKS), (OF_ITS_OWN,)),
    "gradient through shard_map": (Case(through_a_region, 0), ("sdy.manual_computation does not commute",)),
}


@pytest.mark.parametrize("name", STAYS)
def test_a_reduction_in_shard_map_stays_with_a_reason(name: str) -> None:
    case, reasons = STAYS[name]
    before = paropt.audit(jax.jit(case.step).lower(*case.args))
    after, missed = compared(case)
    assert before.sync_in_loop - after.sync_in_loop == case.reduced * MICRO_BATCHES * BYTES
    assert after.sync_bytes - after.sync_in_loop == case.reduced * BYTES
    for reason in reasons:
        assert any(reason in remark for remark in missed), missed


def test_what_a_composite_reduces_is_no_mismatch() -> None:
    before = paropt.audit(jax.jit(beside_a_composite).lower(W, BATCHES))
    after, _ = compared(Case(beside_a_composite))
    assert before.sync_in_loop - after.sync_in_loop == MICRO_BATCHES * BYTES
    assert after.sync_bytes - after.sync_in_loop == BYTES
