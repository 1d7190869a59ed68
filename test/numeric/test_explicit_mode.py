"""Programs in JAX's explicit mode, where each op's result is constrained, and axes that are explicit beside others."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, Mesh, PartitionSpec
from numeric.user_steps import (
    BYTES,
    CLASSES,
    EXAMPLES,
    MICRO_BATCHES,
    SCATTERS_WRITTEN,
    WIDTH,
    Case,
    accumulated,
    compared,
    integers,
    placed,
    reduced_once,
)
from unit.clusters import available

import paropt

EXPLICIT = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Explicit,))
MIXED = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Explicit, AxisType.Auto))
WHOLE, ROWS = PartitionSpec(None, None), PartitionSpec("data", None)


def loss(w: Any, x: jax.Array) -> jax.Array:
    return ((jax.nn.relu(x @ w["a"]) @ w["b"]) ** 2).sum()


def replicated(w: Any, batches: jax.Array) -> Any:
    return accumulated(jax.grad(loss), w, batches)


def fully_sharded(w: Any, batches: jax.Array) -> Any:
    def gathered(w: Any, x: jax.Array) -> jax.Array:
        return loss(jax.tree.map(lambda a: jax.reshard(a, WHOLE), w), x)

    return jax.tree.map(jnp.subtract, w, accumulated(jax.grad(gathered), w, batches))


def reduced(w: Any, batches: jax.Array) -> Any:
    """JAX leaves the gradients of such parameters unreduced, and reduces them at the reshard: in each micro-batch."""
    spec = PartitionSpec(None, None, reduced={"data"})

    def of_reduced(w: Any, x: jax.Array) -> jax.Array:
        return loss(jax.tree.map(lambda a: jax.reshard(a, spec), w), x)

    return accumulated(jax.grad(of_reduced), w, batches)


def sharded_sums(w: Any, batches: jax.Array) -> Any:
    """The parameters are whole, the sums of their gradients are not."""

    def body(total: Any, x: jax.Array) -> tuple[Any, None]:
        gradient = jax.tree.map(lambda g: jax.reshard(g, ROWS), jax.grad(loss)(w, x))
        return jax.tree.map(jnp.add, total, gradient), None

    start = jax.tree.map(lambda a: jax.reshard(jnp.zeros_like(a), ROWS), w)
    return lax.scan(body, start, batches)[0]


def case(step: Callable[..., Any], mesh: Mesh, a: Any, b: Any, after: int, within: int = 0) -> Case:
    """The weights `a` and `b` are split like that."""
    w = {
        "a": placed(integers(WIDTH, WIDTH, seed=0), *a, mesh=mesh),
        "b": placed(integers(WIDTH, CLASSES, seed=1), *b, mesh=mesh),
    }
    batches = placed(integers(MICRO_BATCHES, EXAMPLES, WIDTH, seed=2), None, "data", mesh=mesh)
    return Case(step, (w, batches), after, within, mesh=mesh)


def said_twice(w: Any, batches: jax.Array) -> Any:
    """The gradients are said to be reduced, then not to be: XLA does nothing between."""
    as_reduced, whole = PartitionSpec(None, None, reduced={"data"}), PartitionSpec(None, None)

    def of_reduced(w: Any, x: jax.Array) -> jax.Array:
        return loss(jax.tree.map(lambda a: jax.reshard(jax.reshard(a, as_reduced), whole), w), x)

    return accumulated(jax.grad(of_reduced), w, batches)


def block_said_twice(w: Any, batches: jax.Array) -> Any:
    """The same behind a block under `shard_map`, which reduces the gradients."""
    as_reduced = PartitionSpec(None, None, reduced={"data"})
    block = jax.shard_map(
        lambda a, b, x: jax.nn.relu(x @ a) @ b, in_specs=(WHOLE, WHOLE, ROWS), out_specs=ROWS, mesh=EXPLICIT
    )

    def of_reduced(w: Any, x: jax.Array) -> jax.Array:
        w = jax.tree.map(lambda a: jax.reshard(jax.reshard(a, as_reduced), WHOLE), w)
        return (block(w["a"], w["b"], x) ** 2).sum()

    return accumulated(jax.grad(of_reduced), w, batches)


def block_of_reduced(w: Any, batches: jax.Array) -> Any:
    """A block that takes such parameters returns their gradients unreduced; a product beside it makes others."""
    as_reduced = PartitionSpec(None, None, reduced={"data"})
    block = jax.shard_map(
        lambda a, b, x: jax.nn.relu(x @ a) @ b, in_specs=(as_reduced, as_reduced, ROWS), out_specs=ROWS, mesh=EXPLICIT
    )

    def of_reduced(w: Any, x: jax.Array) -> jax.Array:
        w = jax.tree.map(lambda a: jax.reshard(a, as_reduced), w)
        return (block(w["a"], w["b"], x) ** 2).sum() + ((x @ w["a"]) ** 2).sum()

    return accumulated(jax.grad(of_reduced), w, batches)


def in_a_nest(w: Any, batches: jax.Array) -> Any:
    def outer(total: Any, some: jax.Array) -> tuple[Any, None]:
        def body(total: Any, batch: jax.Array) -> tuple[Any, None]:
            return jax.tree.map(jnp.add, total, jax.grad(loss)(w, batch)), None

        return lax.scan(body, total, some)[0], None

    pairs = batches.reshape(2, MICRO_BATCHES // 2, *batches.shape[1:])
    return lax.scan(outer, jax.tree.map(jnp.zeros_like, w), pairs)[0]


ALL = 3 * BYTES  # of both weights
ACTIVATIONS = 4 * CLASSES * EXAMPLES // 4 * MICRO_BATCHES  # reduced over `model`
CASES = {
    "replicated": case(replicated, EXPLICIT, (), (), ALL),
    "reduced": case(reduced, EXPLICIT, (), (), ALL),
    "said twice": case(said_twice, EXPLICIT, (), (), ALL),
    "a block, said twice": case(block_said_twice, EXPLICIT, (), (), ALL),
    "a block of reduced": case(block_of_reduced, EXPLICIT, (), (), ALL),
    "a block of reduced, sharded": case(block_of_reduced, EXPLICIT, ("data",), ("data",), 0, MICRO_BATCHES * ALL),
    "in a nest": case(in_a_nest, EXPLICIT, (), (), ALL),
    "reduced, sharded": case(reduced, EXPLICIT, ("data",), ("data",), 0, MICRO_BATCHES * ALL),
    "fully sharded": case(fully_sharded, EXPLICIT, ("data",), ("data",), 0, MICRO_BATCHES * ALL),
    "fully sharded, said twice": case(said_twice, EXPLICIT, ("data",), ("data",), 0, MICRO_BATCHES * ALL),
    "sharded sums": case(sharded_sums, EXPLICIT, (), (), 0, MICRO_BATCHES * ALL),
    "tensor parallel": case(replicated, MIXED, (None, "model"), ("model",), ALL // 2, ACTIVATIONS),
}
SCATTERED = (
    "reduced, sharded",
    "a block of reduced, sharded",
    "fully sharded",
    "fully sharded, said twice",
    "sharded sums",
)


@pytest.mark.parametrize("name", CASES)
def test_reduced_once(name: str) -> None:
    wanted = CASES[name]
    before, after, _ = compared(wanted._replace(passes=SCATTERS_WRITTEN))
    assert before.sync_in_loop == MICRO_BATCHES * wanted.after + wanted.within
    assert (after.sync_in_loop, after.sync_bytes) == (wanted.within, wanted.within + wanted.after)
    assert after.total("reduce-scatter").bytes == (wanted.within if name in SCATTERED else 0)


@pytest.mark.parametrize("over", [("data", "fsdp"), ("fsdp", "data")], ids="-".join)
def test_an_axis_of_one_device_splits_nothing(over: tuple[str, ...]) -> None:
    """As layouts have it that are made for all of a cluster, and run on a part of it."""
    mesh = jax.make_mesh((8, 1), ("data", "fsdp"), axis_types=(AxisType.Explicit,) * 2)
    as_reduced = PartitionSpec(None, None, reduced={*over})

    def step(w: jax.Array, batches: jax.Array) -> jax.Array:
        def loss(w: jax.Array, x: jax.Array) -> jax.Array:
            return ((x @ jax.reshard(w, as_reduced)) ** 2).sum()

        return accumulated(jax.grad(loss), w, batches)

    w = placed(integers(WIDTH, CLASSES, seed=0), "fsdp", mesh=mesh)
    batches = placed(integers(MICRO_BATCHES, EXAMPLES, WIDTH, seed=1), None, over, mesh=mesh)
    reduced_once(Case(step, (w, batches), mesh=mesh))


SIZES = {"all in use": (2, 2, 2), "one of one device": (2, 4, 1)}


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("summed", [("tensor", "fsdp"), ("fsdp", "tensor")], ids="-".join)
def test_partly_reduced_in_the_loop(summed: tuple[str, ...], sizes: tuple[int, ...]) -> None:
    """A sum over two axes becomes split over one of them, and over a third one, which no reduce_scatter does."""
    mesh = jax.make_mesh(sizes, ("fsdp", "data", "tensor"), axis_types=(AxisType.Explicit,) * 3)
    split = PartitionSpec("data", "fsdp")

    def step(batches: jax.Array) -> jax.Array:
        def body(total: jax.Array, x: jax.Array) -> Any:
            product = jnp.einsum("bi,bj->ij", x, x, out_sharding=PartitionSpec(None, None, unreduced={*summed}))
            return total + jax.reshard(product, split), None

        return lax.scan(body, jax.reshard(jnp.zeros((WIDTH, WIDTH)), split), batches)[0]

    batches = placed(integers(MICRO_BATCHES, EXAMPLES, WIDTH, seed=0), None, summed, mesh=mesh)
    before, after, _ = compared(Case(step, (batches,), mesh=mesh))
    whole, moves = 4 * WIDTH * WIDTH, sizes == (2, 2, 2)
    assert before.sync_in_loop == after.sync_in_loop == MICRO_BATCHES * whole
    assert after.sync_bytes - after.sync_in_loop == (whole // 4 if moves else 0)
    groups = [[c.group for c in audit.collectives if c.depth and c.payload == whole] for audit in (before, after)]
    assert groups == [[4 if moves else 2], [2]]


def test_gathered_once() -> None:
    """Of two column-parallel products, the second and its gradient both read the same gathered activations."""
    before, after, _ = compared(
        case(fully_sharded, MIXED, ("data", "model"), ("data", "model"), 0)._replace(passes=SCATTERS_WRITTEN)
    )
    assert before.total("all-gather").in_loops == after.total("all-gather").in_loops > 0
    assert after.total("reduce-scatter").bytes == MICRO_BATCHES * ALL // 2 < before.sync_in_loop


@pytest.mark.parametrize("narrow", [False, True], ids=["f32", "bf16"])
@pytest.mark.parametrize(
    "names", [("replica", "data"), ("data", "tensor"), ("replica", "data", "tensor")], ids="-".join
)
def test_scattered_in_the_loop(names: tuple[str, ...], narrow: bool) -> None:
    """Over the axis that splits the parameters, however the constraints between say that the gradient is whole."""
    sizes = (2, 4) if names[0] == "replica" else (4, 2)
    mesh = jax.make_mesh(sizes if len(names) == 2 else (2, 2, 2), names, axis_types=(AxisType.Explicit,) * len(names))
    columns = "tensor" if "tensor" in names else None

    def step(w: jax.Array, batches: jax.Array) -> jax.Array:
        def loss(w: jax.Array, x: jax.Array) -> jax.Array:
            whole = jax.reshard(w, PartitionSpec(None, columns))
            dtype = jnp.bfloat16 if narrow else jnp.float32
            return ((x.astype(dtype) @ whole.astype(dtype)).astype(jnp.float32) ** 2).sum()

        return w - accumulated(jax.grad(loss), w, batches)

    w = placed(integers(16, WIDTH, seed=0), "data", columns, mesh=mesh)
    examples = tuple(name for name in names if name != "tensor")
    batches = placed(integers(MICRO_BATCHES, EXAMPLES, 16, seed=1), None, examples, mesh=mesh)
    before, after, _ = compared(Case(step, (w, batches), mesh=mesh, passes=SCATTERS_WRITTEN))
    whole = 4 * 16 * WIDTH // (2 if columns else 1)
    over_replicas = whole // mesh.shape["data"] if "replica" in names else 0
    assert before.sync_in_loop == MICRO_BATCHES * whole
    assert after.total("all-reduce").bytes == over_replicas
    assert after.total("reduce-scatter").bytes == MICRO_BATCHES * whole


@pytest.mark.parametrize("target", ["tpu:v5e:2x4", "gpu:h100:1x1x8"])
def test_on_targets(target: str) -> None:
    available(target)
    wanted = CASES["tensor parallel"]
    with jax.set_mesh(MIXED):
        report = paropt.audit(wanted.step, *wanted.args, passes="grad-sync", targets=[target])
    assert not report.mismatches
    after, before = report[target].after, report[target].before
    assert after.sync_in_loop == wanted.within
    for kind in ("all-gather", "all-to-all", "collective-permute"):
        assert after.total(kind).bytes <= before.total(kind).bytes


# ---- unreduced sums in Python loops, which are rolled

UNREDUCED = PartitionSpec(None, None, unreduced={"data"})


def product(x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.einsum("br,bc->rc", x, y, out_sharding=UNREDUCED)


def nothing() -> jax.Array:
    return jax.reshard(jnp.zeros((WIDTH, CLASSES)), UNREDUCED)


def from_zeros(x: jax.Array, y: jax.Array) -> Any:
    total = nothing()
    for i in range(MICRO_BATCHES):
        total = total + product(x[i], y[i])
    return jax.reshard(total, ROWS)


def from_the_first(x: jax.Array, y: jax.Array) -> Any:
    total = product(x[0], y[0])
    for i in range(1, MICRO_BATCHES):
        total = total + product(x[i], y[i])
    return jax.reshard(total, WHOLE)


def of_reduced_parameters(x: jax.Array, y: jax.Array) -> Any:
    w = jax.reshard(jnp.ones((WIDTH, CLASSES)), PartitionSpec(None, None, reduced={"data"}))
    gradients = [jax.grad(lambda w, i=i: (jax.nn.relu(x[i] @ w) * y[i]).sum())(w) for i in range(MICRO_BATCHES)]
    return jax.reshard(sum(gradients[1:], gradients[0]), WHOLE)


def in_a_scan(x: jax.Array, y: jax.Array) -> Any:
    def body(total: jax.Array, _: None) -> tuple[jax.Array, None]:
        for i in range(MICRO_BATCHES):
            total = total + product(x[i], y[i])
        return total, None

    return jax.reshard(lax.scan(body, nothing(), length=2)[0], WHOLE)


def and_the_last_term(x: jax.Array, y: jax.Array) -> Any:
    total = last = nothing()
    for i in range(MICRO_BATCHES):
        last = product(x[i], y[i])
        total = total + last
    return jax.reshard(total, WHOLE), jax.reshard(last, WHOLE)


def with_a_shared_term(x: jax.Array, y: jax.Array) -> Any:
    shared, total = product(x[0], y[1]), nothing()
    for i in range(MICRO_BATCHES):
        total = total + (product(x[i], y[i]) + shared)
    return jax.reshard(total, WHOLE)


def of_slices(x: jax.Array, y: jax.Array) -> Any:
    spec, total = PartitionSpec(None, None, None, unreduced={"data"}), nothing()
    all_at_once = jnp.einsum("kbr,bc->krc", x, y[0], out_sharding=spec)
    for i in range(MICRO_BATCHES):
        total = total + (product(x[i], y[i]) + all_at_once[i])
    return jax.reshard(total, WHOLE)


def and_all_terms(x: jax.Array, y: jax.Array) -> Any:
    total, terms = nothing(), []
    for i in range(MICRO_BATCHES):
        terms.append(product(x[i] * 2 - x[i] * x[i], y[i] * 2 + y[i] * y[i]))
        total = total + terms[-1]
    return jax.reshard(total, WHOLE), jax.reshard(jnp.stack(terms), PartitionSpec(None, None, None))


ROLLED = (from_zeros, from_the_first, of_reduced_parameters, in_a_scan, and_the_last_term)
DECLINED = (with_a_shared_term, of_slices, and_all_terms)


@pytest.mark.parametrize("then", ["", ",grad-sync"])
@pytest.mark.parametrize("step", [*ROLLED, *DECLINED])
def test_unreduced_sums_in_python_loops(step: Callable[..., Any], then: str) -> None:
    """Each device has what it has without the passes."""
    x = placed(integers(MICRO_BATCHES, EXAMPLES, WIDTH, seed=0), None, "data", mesh=EXPLICIT)
    y = placed(integers(MICRO_BATCHES, EXAMPLES, CLASSES, seed=1), None, "data", mesh=EXPLICIT)
    with jax.set_mesh(EXPLICIT):
        rolled = paropt.jit(step, passes=f"inline-calls,roll-accumulation{then}", strict=True)
        results = jax.tree.leaves(rolled(x, y))
        decisions = [r.applied for r in paropt.remarks(rolled.lower(x, y)) if r.pass_name == "roll-accumulation"]
        wanted = jax.tree.leaves(jax.jit(step)(x, y))
    assert decisions == [step in ROLLED]
    for want, got in zip(wanted, results, strict=True):
        assert want.sharding == got.sharding
        for one, other in zip(want.addressable_shards, got.addressable_shards, strict=True):
            assert (one.device, one.index) == (other.device, other.index)
            np.testing.assert_array_equal(other.data, one.data)
