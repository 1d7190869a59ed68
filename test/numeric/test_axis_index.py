"""The axis index of another mesh axis in what devices do with a sum: the reduction leaves the loop all the same."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, PartitionSpec

import paropt

P = PartitionSpec
MICRO_BATCHES, SIDE = 4, 8
BATCHES = np.random.default_rng(0).integers(-4, 5, (8, MICRO_BATCHES, SIDE, SIDE)).astype(np.float32)  # exact sums
W = np.arange(SIDE * SIDE, dtype=np.float32).reshape(SIDE, SIDE) % 7
ORDERS = {"as they come": [*range(8)], "permuted": [5, 0, 6, 3, 1, 4, 2, 7]}
HALF = SIDE // 2


class Case(NamedTuple):
    """Each micro-batch adds `use(sum over data, made)`, where `made = make(w)` is made once, before the loop."""

    make: Callable[[jax.Array], Any]
    use: Callable[[jax.Array, Any], jax.Array]
    axes: tuple[str, ...] = ("model",)  # over which the result varies
    mesh: tuple[str, ...] = ("data", "model")

    def step(self, x: jax.Array, w: jax.Array) -> jax.Array:
        made = self.make(w)

        def body(total: jax.Array, r: jax.Array) -> tuple[jax.Array, None]:
            return total + self.use(lax.psum(r * w, "data"), made), None

        shape = jax.eval_shape(self.use, jax.ShapeDtypeStruct(w.shape, w.dtype), jax.typeof(made)).shape
        return lax.scan(body, lax.pcast(jnp.zeros(shape), self.axes, to="varying"), x[0])[0][None]


def place(*axes: str) -> Callable[[jax.Array], jax.Array]:
    return lambda w: lax.axis_index(axes if len(axes) > 1 else axes[0])


def own_rows(w: jax.Array, axis: str = "model") -> jax.Array:
    return lax.dynamic_slice_in_dim(w, lax.axis_index(axis) * HALF, HALF)


def times(value: jax.Array, factor: jax.Array) -> jax.Array:
    return value * factor


def masked(value: jax.Array, i: jax.Array) -> jax.Array:
    return value * (i == 1)


def branch(value: jax.Array, i: jax.Array) -> jax.Array:
    return lax.cond(i == 0, lambda: 2 * value, lambda: jnp.zeros_like(value))


LEAVES = {
    "factor": Case(place("model"), masked),
    "predicate": Case(place("model"), lambda value, i: jnp.where(i == 0, value, 0)),
    "index": Case(lambda w: lax.axis_index("model") * HALF, lambda v, i: lax.dynamic_slice_in_dim(v, i, HALF)),
    "branch": Case(place("model"), branch),
    "entry of a table": Case(place("model"), lambda value, i: value * jnp.array([3.0, 5.0])[i]),
    "remainder, in the loop": Case(place("data", "model"), lambda v, i: v * (i % 2), ("data", "model")),
    "quotient, in the loop": Case(
        place("model", "data"), lambda v, i: v * (i // 4), ("data", "model"), ("model", "data")
    ),
    "all_gather": Case(lambda w: lax.all_gather(own_rows(w), "model", tiled=True), times),
    "psum_scatter": Case(lambda w: lax.psum_scatter(w + lax.axis_index("model"), "model", tiled=True),
                         lambda v, f: v[:HALF] * f),
    "all_to_all": Case(lambda w: lax.all_to_all(w + lax.axis_index("model"), "model", 0, 0, tiled=True), times),
    "ppermute": Case(lambda w: lax.ppermute(w + lax.axis_index("model"), "model", [(0, 1)]), times),
    "psum": Case(lambda w: lax.psum(w * lax.axis_index("model"), "model"), times),
    "gathered twice": Case(
        lambda w: lax.all_gather(lax.all_gather(own_rows(w), "model", tiled=True) * 2, "model")[1], times
    ),
}  # fmt: skip

BOTH = ("data", "model")
STAYS = {
    "its own place": Case(place("data"), masked, BOTH),
    "a pair of places": Case(place("data", "model"), lambda v, i: v * (i // 4), BOTH),
    "a branch of its own": Case(place("data", "model"), branch, BOTH),
    "all_gather of what differs": Case(
        lambda w: lax.all_gather(w * lax.axis_index("data"), "model")[0], times, BOTH
    ),
    "psum_scatter over data": Case(
        lambda w: lax.psum_scatter(w, "data", tiled=True), lambda v, f: v * f[1, 2], BOTH
    ),
    "all_to_all over data": Case(
        lambda w: lax.all_to_all(w, "data", 0, 1, tiled=True), lambda v, f: v * f[0, 1], BOTH
    ),
    "ppermute to some": Case(lambda w: lax.ppermute(w, "data", [(0, 1), (1, 0)]), times, BOTH),
}  # fmt: skip


def mapped(case: Case, order: list[int], *, check_vma: bool) -> Callable[..., jax.Array]:
    sizes = {"data": 4, "model": 2}
    mesh = Mesh(np.array(jax.devices())[order].reshape([sizes[axis] for axis in case.mesh]), case.mesh)
    specs: dict[str, Any] = {"in_specs": (P(case.mesh), P()), "out_specs": P(case.mesh)}
    return jax.shard_map(case.step, mesh=mesh, check_vma=check_vma, **specs)


def sync_in_loop(step: Callable[..., Any]) -> tuple[int, int]:
    """Before and after, when results are equal bit for bit."""
    want, got = jax.jit(step)(BATCHES, W), paropt.jit(step, strict=True)(BATCHES, W)
    np.testing.assert_array_equal(got, want)
    report = paropt.audit(step, BATCHES, W, passes="grad-sync")
    return report.before.sync_in_loop, report.after.sync_in_loop


@pytest.mark.parametrize("check_vma", [True, False])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", LEAVES)
def test_leaves_the_loop(name: str, order: str, check_vma: bool) -> None:
    before, after = sync_in_loop(mapped(LEAVES[name], ORDERS[order], check_vma=check_vma))
    assert before >= MICRO_BATCHES * W.nbytes and after == 0


@pytest.mark.parametrize("check_vma", [True, False])
@pytest.mark.parametrize("name", STAYS)
def test_stays_in_the_loop(name: str, check_vma: bool) -> None:
    before, after = sync_in_loop(mapped(STAYS[name], ORDERS["permuted"], check_vma=check_vma))
    assert after == before >= MICRO_BATCHES * W.nbytes


@pytest.mark.parametrize("check_vma", [True, False])
@pytest.mark.parametrize("axis, leaves", [("model", True), ("data", False)])
def test_beside_an_axis_that_is_left_to_xla(axis: str, leaves: bool, check_vma: bool) -> None:
    """JAX asks for the number of the partition in a region of its own, which is manual over that axis, too."""
    mesh = Mesh(np.array(jax.devices()).reshape(2, 2, 2), ("data", "model", "rest"))
    step = Case(place(axis), masked, BOTH).step
    specs: dict[str, Any] = {"in_specs": (P(BOTH), P()), "out_specs": P(BOTH), "axis_names": {"data", "model"}}
    before, after = sync_in_loop(jax.shard_map(step, mesh=mesh, check_vma=check_vma, **specs))
    assert before > 0 and (after == 0) == leaves


@pytest.mark.parametrize("axis, leaves", [("model", True), ("data", False)])
def test_number_of_trips(axis: str, leaves: bool) -> None:
    """Devices that differ in another axis only may make different numbers of trips.

    Those of one sum must not, or the program would hang: here the number is 0 on all of them, but by way of a float,
    of which nothing is known.
    """

    def step(x: jax.Array, w: jax.Array) -> jax.Array:
        place = lax.axis_index(axis)
        count = 2 * place if leaves else place * jnp.sin(0.0).astype(int)

        def body(carried: Any) -> Any:
            i, total = carried
            return i + 1, total + lax.psum(x[0, i] * w, "data")

        return lax.while_loop(lambda carried: carried[0] < count, body, (0, jnp.ones_like(w)))[1][None]

    specs: dict[str, Any] = {"in_specs": (P(BOTH), P()), "out_specs": P(BOTH), "check_vma": False}
    mapped: Callable[..., jax.Array] = jax.shard_map(
        step, mesh=Mesh(np.array(jax.devices()).reshape(4, 2), BOTH), **specs
    )
    ours = paropt.jit(mapped, strict=True)
    np.testing.assert_array_equal(ours(BATCHES, W), jax.jit(mapped)(BATCHES, W))
    moved = [r for r in paropt.remarks(ours.lower(BATCHES, W)) if r.applied and r.pass_name == "defer-sync"]
    assert bool(moved) == leaves


def test_trips_are_not_proven_by_a_sum_in_each() -> None:
    """XLA takes a sum that is the same in each trip out of the loop: devices then make other trips, and the program ends."""

    def step(n: jax.Array, x: jax.Array) -> jax.Array:
        def body(carried: Any) -> Any:
            i, total = carried
            return i + 1, total + lax.psum(x, "data")

        return lax.while_loop(lambda carried: carried[0] < n[0], body, (0, jnp.zeros_like(x)))[1]

    specs: dict[str, Any] = {"in_specs": (P("data"), P("data")), "out_specs": P("data"), "check_vma": False}
    mapped: Callable[..., jax.Array] = jax.shard_map(step, mesh=Mesh(np.array(jax.devices()), ("data",)), **specs)
    args = np.arange(8, dtype=np.int32), np.ones(8, np.float32)
    np.testing.assert_array_equal(jax.jit(mapped)(*args), 8.0 * np.arange(8))
    np.testing.assert_array_equal(paropt.jit(mapped, strict=True)(*args), 8.0 * np.arange(8))
