"""Exchanges of partial sums: examples over two axes, parameters over one of them and a third.

Of what is not reduced it would take parts from devices with addends of other sums: the gradient was wrong, silently.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numeric.oracle import results
from numeric.user_steps import (
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
from programs.program import Tree, mesh_of

from paropt.hlo.traffic import traffic

MESH = mesh_of(data=2, fsdp=2, tensor=2)
LAYERS, HIDDEN = 4, 16
ONCE, EXCHANGES = "grad-sync{policy=once}", ("all-to-all", "collective-permute")
MOVED = "XLA would move unreduced values between devices"


class Program(NamedTuple):
    loss: Callable[[Any, Any], Any]
    parameters: Tree
    specs: dict[str, tuple[Any, ...]]
    examples: tuple[str, ...] = ("data", "fsdp")  # the axes that split them
    vocabulary: int = 0  # of integer examples


def scaled(w: Any, x: jax.Array) -> jax.Array:
    return ((x * w["g"]) ** 2).mean()


def product(w: Any, x: jax.Array) -> jax.Array:
    return (jnp.tanh(x @ w["a"]) ** 2).mean()


def lookup(w: Any, x: jax.Array) -> jax.Array:
    return (w["e"][x] ** 2).mean()


def scaled_layers(w: Any, x: jax.Array) -> jax.Array:
    def block(h: jax.Array, w: Any) -> tuple[jax.Array, None]:
        return h + jnp.tanh((h * w["g"]) @ w["a"]) @ w["b"], None

    layers = {key: w[key] for key in "abg"}
    return (lax.scan(jax.checkpoint(block), x @ w["i"], layers)[0] ** 2).mean()


LAYERED = {
    "i": integers(WIDTH, WIDTH, seed=0) / 8,
    "a": integers(LAYERS, WIDTH, HIDDEN, seed=1) / 8,
    "b": integers(LAYERS, HIDDEN, WIDTH, seed=2) / 8,
    "g": integers(LAYERS, WIDTH, seed=3) / 4,
}
REVERSED = ("tensor", "fsdp", "data")
PROGRAMS = {
    "a scale": Program(scaled, {"g": integers(WIDTH, seed=4)}, {"g": (("fsdp", "tensor"),)}),
    "columns": Program(product, {"a": integers(WIDTH, HIDDEN, seed=5) / 4}, {"a": (None, ("fsdp", "tensor"))}),
    "other axes": Program(
        product, {"a": integers(WIDTH, HIDDEN, seed=6) / 4}, {"a": (None, ("tensor", "fsdp"))}, ("data", "tensor")
    ),
    "rows of a table": Program(lookup, {"e": integers(16, WIDTH, seed=7)}, {"e": (("fsdp", "tensor"),)}, vocabulary=16),
    "scales of layers": Program(
        scaled_layers, LAYERED, {"i": (), "a": (), "b": (None, None, "data"), "g": (None, "tensor")}, REVERSED
    ),
    "layers over all axes": Program(
        scaled_layers, LAYERED, {"i": (), "a": (), "b": REVERSED, "g": (None, "tensor")}, REVERSED
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_right(name: str) -> None:
    program = PROGRAMS[name]
    parameters = {key: placed(value, *program.specs[key], mesh=MESH) for key, value in program.parameters.items()}
    shape = (MICRO_BATCHES, EXAMPLES) if program.vocabulary else (MICRO_BATCHES, EXAMPLES, WIDTH)
    examples = abs(integers(*shape, seed=0)).astype(int) if program.vocabulary else integers(*shape, seed=1) / 2

    def step(w: Any, x: Any) -> Any:
        return jax.tree.map(lambda a, b: a - b, w, accumulated(jax.grad(program.loss), w, x))

    arguments = (parameters, placed(examples, None, program.examples, mesh=MESH))
    _, _, missed = compared(Case(step, arguments, tolerance=1e-5))
    assert any(MOVED in remark for remark in missed)


@pytest.mark.parametrize("axes", [("replica", "data", "model"), ("data", "model", "replica")], ids="-".join)
def test_rows_of_a_table_where_an_axis_is_idle(axes: tuple[str, ...]) -> None:
    """XLA brings them to other devices and back, when that axis is the first."""
    mesh = mesh_of(None, **dict.fromkeys(axes, 2))
    table = placed(integers(16, WIDTH, seed=0), "model", mesh=mesh)
    rows = abs(integers(MICRO_BATCHES, EXAMPLES, seed=1)).astype(int)
    x, y = (integers(MICRO_BATCHES, EXAMPLES, WIDTH, seed=seed) for seed in range(2))
    examples = placed((rows, x, y), None, "data", mesh=mesh)

    def loss(table: jax.Array, batch: Any) -> jax.Array:
        rows, x, y = batch
        return ((x + table[rows]) * y).sum()

    def step(table: jax.Array, batches: Any) -> Any:
        def body(total: Any, batch: Any) -> tuple[Any, None]:
            return jax.tree.map(jnp.add, total, jax.value_and_grad(loss)(table, batch)), None

        value, gradient = lax.scan(body, (0.0, jnp.zeros_like(table)), batches)[0]
        return value, table - gradient

    before, after, missed = compared(Case(step, (table, examples)))
    idle_first = axes[0] == "replica"
    assert any("nothing of it over `replica`" in remark for remark in missed) == idle_first
    assert (after.sync_in_loop < before.sync_in_loop) != idle_first


@pytest.mark.parametrize("axes", [("replica", "data", "model"), ("data", "model", "replica")], ids="-".join)
def test_rows_of_a_product_where_an_axis_is_idle(axes: tuple[str, ...]) -> None:
    """XLA cuts what it multiplies over that axis, when it is the first, and brings the rows to other devices."""
    mesh = mesh_of(None, **dict.fromkeys(axes, 2))
    examples = NamedSharding(mesh, PartitionSpec("data", None))
    rows = NamedSharding(mesh, PartitionSpec("model", None))

    def loss(w: jax.Array, batch: jax.Array) -> jax.Array:
        x, y = (lax.with_sharding_constraint(each, examples) for each in batch)
        return ((x @ w) * y).sum()

    def step(w: jax.Array, batches: jax.Array) -> jax.Array:
        return lax.with_sharding_constraint(accumulated(jax.grad(loss), w, batches), rows)

    arguments = (
        placed(integers(WIDTH, WIDTH, seed=0), mesh=mesh),
        placed(integers(MICRO_BATCHES, 2, EXAMPLES, WIDTH, seed=1), None, None, "data", mesh=mesh),
    )
    before, after, missed = compared(Case(step, arguments))
    idle_first = axes[0] == "replica"
    assert any("nothing is over `replica`" in remark for remark in missed) == idle_first
    assert (after.sync_in_loop < before.sync_in_loop) != idle_first


@pytest.mark.parametrize("mesh", [mesh_of(data=4, tensor=2), MESH], ids=["4x2", "2x2x2"])
def test_accumulators_of_all_gradients_in_a_row(mesh: Mesh) -> None:
    """XLA alone moves parts of some; what leaves the loop is not to have the others put together twice for that."""
    parameters = {
        "table": placed(integers(32, 16, seed=0), "tensor", mesh=mesh),
        "weight": placed(integers(16, 16, seed=1), None, "tensor", mesh=mesh),
    }
    rows = abs(integers(MICRO_BATCHES, 32, seed=2)).astype(int)
    examples = placed((rows, integers(MICRO_BATCHES, 32, 32, seed=3)), None, "data", mesh=mesh)

    def loss(w: Any, batch: Any) -> jax.Array:
        rows, y = batch
        return ((w["table"][rows] @ w["weight"] @ w["table"].T - y) ** 2).sum()

    def step(w: Any, batches: Any) -> Any:
        flat, restored = ravel_pytree(w)

        def body(total: jax.Array, batch: Any) -> tuple[jax.Array, None]:
            return total + ravel_pytree(jax.grad(loss)(w, batch))[0], None

        return restored(flat - lax.scan(body, jnp.zeros_like(flat), batches)[0])

    _, _, missed = compared(Case(step, (parameters, examples)))  # no other kind of collective grows
    told = list(missed)
    assert any("gather sharded values for duplicated ops" in remark for remark in told)
    assert any(MOVED in remark for remark in told)


class Table(NamedTuple):
    """A table, how it is sharded, over which axes examples are, and whether its gradient is reduced once."""

    sizes: dict[str, int]  # of the mesh
    spec: tuple[Any, ...]
    examples: tuple[str, ...]
    once: bool
    rows: int = 16


FLAT, CUBE = {"data": 4, "tensor": 2}, {"data": 2, "fsdp": 2, "tensor": 2}
TABLES = {
    "few rows": Table(FLAT, ("tensor",), ("data",), once=False, rows=8),  # XLA exchanges these, which are fewer bytes
    "many rows": Table(FLAT, ("tensor",), ("data",), once=True, rows=64),
    "rows and features": Table(FLAT, ("tensor", "data"), ("data",), once=True),
    "tensor first": Table({"tensor": 2, "data": 4}, ("tensor", "data"), ("data",), once=True),
    "one of two axes of examples": Table(CUBE, ("tensor", "fsdp"), ("data", "fsdp"), once=True),
    "rows over two axes": Table(CUBE, (("tensor", "fsdp"),), ("data",), once=False),
    "rows over an axis of examples": Table(CUBE, (("fsdp", "tensor"),), ("data", "fsdp"), once=False),
    "an idle axis": Table({"idle": 2, "data": 2, "tensor": 2}, ("tensor", "data"), ("data",), once=False),
}


@pytest.mark.parametrize("kind", TABLES)
def test_rows_of_a_table_whose_activations_are_sharded_by_features(kind: str) -> None:
    """As of Tunix's and MaxText's embeddings with tensor parallelism: XLA all-gathers features, in each micro-batch,
    and the sum over the examples' axes can leave the loop."""
    sizes, spec, over, once, size = TABLES[kind]
    mesh = mesh_of(None, **sizes)
    table = placed(integers(size, WIDTH, seed=0), *spec, mesh=mesh)
    rows = abs(integers(MICRO_BATCHES, EXAMPLES, 2, seed=1)).astype(int)
    examples = placed((rows, integers(MICRO_BATCHES, EXAMPLES, 2, WIDTH, seed=2)), None, over, mesh=mesh)
    features = NamedSharding(mesh, PartitionSpec(over, None, "tensor"))

    def loss(table: jax.Array, batch: Any) -> jax.Array:
        rows, y = batch
        return (lax.with_sharding_constraint(table[rows], features) * y).sum()

    def step(table: jax.Array, total: jax.Array, batches: Any) -> jax.Array:
        return lax.scan(lambda total, batch: (total + jax.grad(loss)(table, batch), None), total, batches)[0]

    before, after, _ = compared(Case(step, (table, table, examples), passes=ONCE, not_to_grow=EXCHANGES))
    assert traffic(after.collectives).known <= traffic(before.collectives).known
    assert after.sync_in_loop == (0 if once else before.sync_in_loop)
    assert before.sync_in_loop > 0


COLUMNS = np.array([0, 3, 17])
LOOKUPS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "columns": lambda g: g[:, COLUMNS],
    "one of each row": lambda g: jnp.take_along_axis(g, COLUMNS[np.arange(16) % 3][:, None], 1),
    "a diagonal": lambda g: jnp.diagonal(g[:, :16]),
}


@pytest.mark.parametrize("name", LOOKUPS)
@pytest.mark.parametrize("rows", [(), ("data",)], ids=["tensor", "data-tensor"])
def test_what_is_looked_up_along_a_split_dimension_is_reduced(rows: tuple[str, ...], name: str) -> None:
    """XLA would add up what the devices find, and then once more."""
    mesh = mesh_of(data=4, tensor=2)
    weight = placed(integers(16, 32, seed=0), *(rows or (None,)), "tensor", mesh=mesh)
    examples = placed(integers(MICRO_BATCHES, 32, 16, seed=1), None, "data", mesh=mesh)

    def step(w: jax.Array, batches: jax.Array) -> jax.Array:
        return accumulated(lambda w, x: LOOKUPS[name](jax.grad(lambda w: ((x @ w) ** 2).sum())(w)), w, batches)

    def accumulated(found: Callable[..., jax.Array], w: jax.Array, batches: jax.Array) -> jax.Array:
        start = jnp.zeros(jax.eval_shape(found, w, batches[0]).shape)
        return lax.scan(lambda total, x: (total + found(w, x), None), start, batches)[0]

    _, _, missed = compared(Case(step, (weight, examples)))
    assert any("looks up along, a sharded dimension" in remark for remark in missed)


def test_values_of_actions() -> None:
    """Of Q-learning: sums over `tensor` are looked up along a dimension that `fsdp` splits, and no loop is there."""
    weight = placed(integers(16, 8, seed=0), "tensor", "fsdp", mesh=MESH)
    examples = placed((integers(32, 16, seed=1), abs(integers(32, seed=2)).astype(int)), "data", mesh=MESH)

    def step(w: jax.Array, batch: Any) -> Any:
        def loss(w: jax.Array) -> jax.Array:
            x, action = batch
            values = x @ w + (2 * x) @ w
            return (jnp.take_along_axis(values, action[:, None], 1) ** 2).sum()

        return jax.value_and_grad(loss)(w)

    compared(Case(step, (weight, examples)))


SHAPES: dict[str, tuple[int, ...]] = {"as it is": (16, 32), "in a row": (512,), "transposed": (32, 16)}


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("mesh", [mesh_of(data=4, tensor=2), MESH], ids=["4x2", "2x2x2"])
def test_shards_are_kept_in_whatever_shape_they_are_accumulated(mesh: Mesh, kind: str) -> None:
    """Of a parameter that is split over the examples' axis as well: nothing more is held, nor gathered."""
    weight = placed(integers(16, 32, seed=0), "data", "tensor", mesh=mesh)
    examples = placed(integers(MICRO_BATCHES, 32, 16, seed=1), None, ("data", "fsdp")[: len(mesh.shape) - 1], mesh=mesh)

    def as_accumulated(gradient: jax.Array) -> jax.Array:
        return gradient.T if kind == "transposed" else gradient.reshape(SHAPES[kind])

    def step(w: jax.Array, batches: jax.Array) -> jax.Array:
        def body(total: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
            return total + as_accumulated(jax.grad(lambda w: ((x @ w) ** 2).sum())(w)), None

        total = lax.scan(body, jnp.zeros(SHAPES[kind]), batches)[0]
        return w - (total.T if kind == "transposed" else total.reshape(w.shape))

    before, after, _ = compared(Case(step, (weight, examples), passes=SCATTERS_WRITTEN))
    assert after.total("all-reduce").in_loops == 0 < before.total("all-reduce").in_loops
    assert after.total("reduce-scatter").in_loops == MICRO_BATCHES * weight.nbytes // 2
    assert before.peak_memory is not None
    assert after.peak_memory is not None
    assert after.peak_memory <= 1.05 * before.peak_memory


# A product that is not reduced is closed by a constraint that splits it otherwise. Beside it, the same as XLA reduces it.
CLOSED = """
sdy.mesh @mesh = <["data"=2, "fsdp"=2, "tensor"=2]>
func.func public @main(%x: tensor<16x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"data"}}, {{}}]>}}) ->
    (tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, {after}>}}, tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{}}]>}}) {{
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %u = sdy.sharding_constraint %p <@mesh, {before}, unreduced={{"data"}}> : tensor<8x8xf32>
  %v = sdy.sharding_constraint %u <@mesh, {after}> : tensor<8x8xf32>
  %q = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  return %v, %q : tensor<8x8xf32>, tensor<8x8xf32>
}}
"""
Axes = tuple[tuple[str, ...], tuple[str, ...]]
BEFORE: list[Axes] = [((), ()), (("fsdp",), ()), ((), ("tensor",)), (("tensor",), ("fsdp",)), (("fsdp", "tensor"), ())]
AFTER: list[Axes] = [
    *(BEFORE[2], BEFORE[3], ((), ("tensor", "fsdp")), (("tensor", "fsdp"), ("data",))),
    *((("data", "tensor"), ("fsdp",)), ((), ("fsdp", "data")), (("tensor", "fsdp", "data"), ())),
]


def spelt(split: Axes) -> str:
    return "[" + ", ".join("{" + ", ".join(f'"{axis}"' for axis in axes) + "}" for axes in split) + "]"


def part_of(device: int, split: Axes) -> tuple[slice, ...]:
    """What of 8 x 8 elements lies on a device: the first axis of a dimension cuts it into the largest parts."""
    place = dict(zip(("data", "fsdp", "tensor"), np.unravel_index(device, (2, 2, 2)), strict=True))
    cut = []
    for axes in split:
        size, start = 8, 0
        for axis in axes:
            size //= 2
            start += size * int(place[axis])
        cut.append(slice(start, start + size))
    return tuple(cut)


@pytest.mark.parametrize("after", AFTER, ids=spelt)
@pytest.mark.parametrize("before", BEFORE, ids=spelt)
def test_what_is_closed_to_be_split_otherwise_is_reduced_first(before: Axes, after: Axes) -> None:
    """`require_in_place` does not ask where sums end."""
    closed, whole = results(CLOSED.format(before=spelt(before), after=spelt(after)))
    for device in range(8):
        np.testing.assert_array_equal(closed[device], whole[device][part_of(device, after)])


def test_gradients_of_two_losses_keep_their_parts_when_they_are_added_up_first() -> None:
    """`(total + a) + b` becomes `total + (a + b)`, which is split as what it stands for."""
    mesh = mesh_of(data=4, model=2)
    weight = placed(integers(16, 32, seed=0), None, "model", mesh=mesh)
    examples = placed(integers(MICRO_BATCHES, 32, 16, seed=1), None, "data", mesh=mesh)

    def step(w: jax.Array, batches: jax.Array) -> jax.Array:
        def body(total: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
            a, b = (jax.grad(loss)(w, x) for loss in (lambda w, x: ((x @ w) ** 2).sum(), lambda w, x: (x @ w).sum()))
            return total + a + 2 * b, None

        return lax.scan(body, jnp.zeros_like(w), batches)[0]

    reduced_once(Case(step, (weight, examples), after=weight.nbytes // 2))
