"""Pinned shardings of sums must not make XLA shard other values otherwise, and gather them for that."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numeric.user_steps import (
    EXAMPLES,
    MESH,
    MICRO_BATCHES,
    OTHER_KINDS,
    SCATTERS_WRITTEN,
    WIDTH,
    Case,
    accumulated,
    compared,
    integers,
    placed,
)
from programs.program import Tree, mesh_of
from unit.clusters import available

import paropt

LAYERS, HIDDEN, VOCABULARY = 4, 16, 16
FOUR_BY_TWO, CUBE = mesh_of(data=4, model=2), mesh_of(data=2, fsdp=2, tensor=2)
SPARE, HYBRID = mesh_of(data=4, model=2, seq=1), mesh_of(replica=2, data=4)


def convolved(x: jax.Array, kernel: jax.Array, stride: int) -> jax.Array:
    return lax.conv_general_dilated(x, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def convolutions(w: Any, x: jax.Array) -> jax.Array:
    h = convolved(jax.nn.relu(convolved(x, w["a"], 1)), w["b"], 2)
    return ((h.mean((1, 2)) @ w["o"]) ** 2).mean()


def language_model(w: Any, x: jax.Array) -> jax.Array:
    h = jax.nn.one_hot(x, VOCABULARY) @ w["e"]
    h = (h - h.mean(-1, keepdims=True)) * lax.rsqrt(h.var(-1, keepdims=True) + 1e-5) * w["g"]
    return -(jax.nn.one_hot(x, VOCABULARY) * jax.nn.log_softmax(h @ w["u"])).sum(-1).mean()


def layers(w: Any, x: jax.Array) -> jax.Array:
    stacked = {"a": w["a"], "b": w["b"]}
    return (lax.scan(lambda h, w: (h + jnp.tanh(h @ w["a"]) @ w["b"], None), x @ w["i"], stacked)[0] ** 2).mean()


def distilled(w: Any, x: jax.Array) -> jax.Array:
    """What is held first moves others: it takes several rounds."""
    student = jax.nn.log_softmax(jax.nn.relu(x @ w["a"] + w["c"]) @ w["b"])
    teacher = jax.nn.log_softmax(lax.stop_gradient(jax.nn.relu(x @ w["ta"]) @ w["tb"]))
    return (jnp.exp(teacher) * (teacher - student)).sum(-1).mean()


CASES: dict[str, tuple[Any, Mesh, dict[str, tuple[Tree, tuple[Any, ...]]], Tree, tuple[str, ...]]] = {
    "input channels of a kernel": (
        convolutions,
        CUBE,
        {
            "a": (integers(3, 3, 2, WIDTH, seed=0) / 8, ()),
            "b": (integers(3, 3, WIDTH, WIDTH, seed=1) / 8, (None, None, "fsdp")),
            "o": (integers(WIDTH, 4, seed=2) / 4, ()),
        },
        integers(MICRO_BATCHES, 8, 8, 8, 2, seed=3),
        ("tensor", "fsdp", "data"),
    ),
    "a table, and a spare axis": (
        language_model,
        SPARE,
        {
            "e": (integers(VOCABULARY, WIDTH, seed=4) / 2, ("data", "model")),
            "g": (integers(WIDTH, seed=5) / 2, ()),
            "u": (integers(WIDTH, VOCABULARY, seed=6) / 2, ()),
        },
        abs(integers(MICRO_BATCHES, 8, 8, seed=7)).astype(int),
        ("seq", "data", "model"),
    ),
    "a student": (
        distilled,
        HYBRID,
        {
            "a": (integers(2 * WIDTH, 32, seed=8) / 4, ("data",)),
            "b": (integers(32, WIDTH, seed=9) / 4, ("data",)),
            "c": (integers(32, seed=10) / 4, ()),
            "ta": (integers(2 * WIDTH, 64, seed=11) / 4, ("data",)),
            "tb": (integers(64, WIDTH, seed=12) / 4, ("data",)),
        },
        integers(MICRO_BATCHES, EXAMPLES, 2 * WIDTH, seed=13) / 2,
        ("replica", "data"),
    ),
    "rows of layers": (
        layers,
        FOUR_BY_TWO,
        {
            "i": (integers(WIDTH, WIDTH, seed=14) / 8, ()),
            "a": (integers(LAYERS, WIDTH, HIDDEN, seed=15) / 8, ()),
            "b": (integers(LAYERS, HIDDEN, WIDTH, seed=16) / 8, (None, "data")),
        },
        integers(MICRO_BATCHES, EXAMPLES, WIDTH, seed=17) / 2,
        ("model", "data"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_nothing_else_is_gathered(name: str) -> None:
    loss, mesh, parameters, examples, axes = CASES[name]
    arguments = (
        {key: placed(value, *spec, mesh=mesh) for key, (value, spec) in parameters.items()},
        placed(examples, None, axes, mesh=mesh),
    )

    def step(w: Any, x: Any) -> Any:
        return jax.tree.map(lambda a, b: a - b, w, accumulated(jax.grad(loss), w, x))

    before, after, _ = compared(Case(step, arguments, tolerance=1e-5))
    assert after.sync_in_loop < before.sync_in_loop
    assert after.total().wire < before.total().wire


@pytest.mark.parametrize("rows", [8, 1024])
def test_few_rows_of_a_table_are_gathered_as_xla_does(rows: int) -> None:
    """The table is split over the axis that splits the examples, too: to reduce and scatter all of it takes more."""
    table = placed(integers(rows, WIDTH, seed=0), "data")
    tokens = placed(abs(integers(MICRO_BATCHES, EXAMPLES, seed=1)).astype(int), None, "data")

    def step(table: jax.Array, tokens: jax.Array) -> jax.Array:
        return table - accumulated(jax.grad(lambda table, x: (table[x] ** 2).sum()), table, tokens)

    before, after, _ = compared(Case(step, (table, tokens), passes=SCATTERS_WRITTEN))
    assert after.total().wire <= before.total().wire
    assert (after.total("reduce-scatter").ops > 0) == (rows == 8)


@pytest.mark.parametrize("rows", [4, 16])
def test_parts_of_rows_are_exchanged_as_xla_does(rows: int) -> None:
    """The gradient is split within rows over the examples' axis: that takes an eighth of what whole rows would."""
    columns = NamedSharding(MESH, PartitionSpec(None, "data"))
    tokens = placed(abs(integers(MICRO_BATCHES, EXAMPLES, seed=0)).astype(int), None, "data")

    def gradient(table: jax.Array, x: jax.Array) -> jax.Array:
        return lax.with_sharding_constraint(jax.grad(lambda table: (table[x] ** 2).sum())(table), columns)

    def step(table: jax.Array, tokens: jax.Array) -> jax.Array:
        return table - accumulated(gradient, table, tokens)

    before, after, _ = compared(Case(step, (placed(integers(rows, WIDTH, seed=1)), tokens)))
    assert after.total().wire <= before.total().wire


def test_what_follows_a_loop_splits_is_left_to_xla() -> None:
    """The parameters make XLA split the sums in the loop, too: held as the loop alone would have it, they are gathered."""
    mesh = mesh_of(replica=2, data=2, model=2)

    def loss(w: Tree, x: jax.Array, y: jax.Array) -> jax.Array:
        h = lax.with_sharding_constraint(x, NamedSharding(mesh, PartitionSpec(("model", "data"))))
        h = h * lax.rsqrt(jnp.mean(h * h, axis=-1, keepdims=True) + 1) * w["g"]
        return (jax.nn.relu(h @ w["up"]) @ w["down"] * y).sum()

    def step(w: Tree, batches: Any) -> Tree:
        def trip(rows: Tree, item: Any) -> tuple[Tree, None]:
            number, batch = item
            return jax.tree.map(lambda row, g: row.at[number % 2].add(g), rows, jax.grad(loss)(w, *batch)), None

        def some(rows: Tree, items: Any) -> tuple[Tree, None]:
            return lax.scan(trip, rows, items)

        items = jax.tree.map(lambda x: x.reshape(2, -1, *x.shape[1:]), (jnp.arange(MICRO_BATCHES), batches))
        rows = lax.scan(some, jax.tree.map(lambda p: jnp.zeros((2, *p.shape)), w), items)[0]
        return jax.tree.map(lambda p, row: p - row.sum(0), w, rows)

    w = {
        "g": placed(integers(WIDTH, seed=0), mesh=mesh),
        "up": placed(integers(WIDTH, 2 * WIDTH, seed=1), "data", "replica", mesh=mesh),
        "down": placed(integers(2 * WIDTH, WIDTH, seed=2), mesh=mesh),
    }
    batches = tuple(placed(integers(MICRO_BATCHES, EXAMPLES, WIDTH, seed=seed), mesh=mesh) for seed in range(2))
    before, after, _ = compared(Case(step, (w, batches), tolerance=1e-5))
    assert after.total().wire <= before.total().wire


def two_matrices(*order: str) -> Case:
    """The gradient of the head is split over the axis of the examples, and what it is a product of over another."""
    mesh = mesh_of(None, **dict.fromkeys(order, 2))

    def loss(w: Tree, x: jax.Array) -> jax.Array:
        return ((jax.nn.relu(x @ w["trunk"]) @ w["head"]) ** 2).sum()

    def step(w: Tree, x: jax.Array) -> Tree:
        return jax.tree.map(lambda p, g: p - g, w, accumulated(jax.grad(loss), w, x))

    w = {
        "trunk": placed(integers(WIDTH, 8 * WIDTH, seed=0), "data", "model", mesh=mesh),
        "head": placed(integers(8 * WIDTH, 1, seed=1), "data", mesh=mesh),
    }
    return Case(
        step,
        (w, placed(integers(MICRO_BATCHES, EXAMPLES, EXAMPLES, WIDTH, seed=2), None, ("replica", "data"), mesh=mesh)),
    )


@pytest.mark.parametrize("order", [("replica", "data", "model"), ("model", "replica", "data")], ids=" ".join)
def test_devices_exchange_sums_of_the_columns_that_they_have(order: tuple[str, ...]) -> None:
    before, after, _ = compared(two_matrices(*order))
    assert after.sync_in_loop < before.sync_in_loop
    assert after.total().wire < before.total().wire


@pytest.mark.parametrize("target", ["tpu:v5e:2x4", "gpu:h100:1x1x8"])
def test_sums_of_columns_on_targets(target: str) -> None:
    available(target)
    case = two_matrices("replica", "data", "model")
    report = paropt.audit(case.step, *case.args, passes="grad-sync", targets=[target])
    assert not report.mismatches
    before, after = report[target].before, report[target].after
    for kind in OTHER_KINDS:
        assert after.total(kind).bytes <= before.total(kind).bytes
    assert after.total().wire < before.total().wire


def experts() -> Case:
    """Features, split as the matrix before has them, are exchanged for experts, which are split over that axis."""
    mesh = mesh_of(data=4, model=2)
    w = {
        "in": placed(integers(WIDTH, WIDTH, seed=0) / 4, None, "model", mesh=mesh),
        "up": placed(integers(4, WIDTH, WIDTH, seed=1) / 4, "model", mesh=mesh),
        "router": placed(integers(WIDTH, 4, seed=2) / 4, mesh=mesh),
    }

    def loss(w: Tree, x: jax.Array) -> jax.Array:
        h = x @ w["in"]
        gates = jax.nn.softmax(h @ w["router"])
        to = ((gates > 0.25) * 1.0)[..., None] * jnp.eye(4)[None, :, None]
        taken = jnp.einsum("btec,btd->becd", to, h)
        out = jnp.einsum("becd,edf->becf", taken, w["up"])
        return (jnp.einsum("btec,becf->btf", to * gates[..., None], out) ** 2).mean()

    def step(w: Tree, x: jax.Array) -> Tree:
        return jax.tree.map(lambda p, g: p - g, w, accumulated(jax.grad(loss), w, x))

    return Case(
        step, (w, placed(integers(MICRO_BATCHES, EXAMPLES, 4, WIDTH, seed=3), None, "data", mesh=mesh)), tolerance=1e-5
    )


def test_what_lies_otherwise_in_a_batch_of_products_is_exchanged() -> None:
    before, after, _ = compared(experts())
    assert after.total("all-to-all").bytes == before.total("all-to-all").bytes > 0
    assert after.sync_in_loop < before.sync_in_loop
    assert after.total().wire < before.total().wire


@pytest.mark.parametrize("target", ["tpu:v5e:2x4", "gpu:h100:1x1x8"])
def test_batches_of_products_on_targets(target: str) -> None:
    available(target)
    case = experts()
    report = paropt.audit(case.step, *case.args, passes="grad-sync", targets=[target])
    assert not report.mismatches
    before, after = report[target].before, report[target].after
    for kind in OTHER_KINDS:
        assert after.total(kind).bytes <= before.total(kind).bytes
    assert after.total().wire <= before.total().wire


def one_matrix(w: Tree, x: Tree) -> jax.Array:
    return ((x["a"] @ w["a"]) ** 2).sum()


def two_towers(w: Tree, x: Tree) -> jax.Array:
    return (((x["a"] @ w["a"]) @ (x["b"] @ w["b"]).T) ** 2).sum()


@pytest.mark.parametrize("model", [one_matrix, two_towers])
def test_numbers_are_not_worth_to_split_a_loop_otherwise(model: Any) -> None:
    """The sharded state has XLA split the weights in the loop, which reads each gradient: only the loss could move."""
    rows = {"a": 6, "b": 4} if model is two_towers else {"a": 6}
    w = {key: placed(integers(n, 8 * WIDTH, seed=key)) for key, n in rows.items()}
    state = {key: placed(integers(n, 8 * WIDTH, seed=f"state {key}"), None, "data") for key, n in rows.items()}
    batches = {key: placed(integers(MICRO_BATCHES, EXAMPLES, n, seed=key), None, "data") for key, n in rows.items()}

    def loss(w: Tree, x: Tree) -> jax.Array:
        return model(w, x) + sum((p**2).sum() for p in w.values())

    def step(w: Tree, state: Tree, batches: Tree) -> Any:
        def trip(sums: Any, x: Tree) -> tuple[Any, None]:
            value, gradients = jax.value_and_grad(loss)(w, x)
            noise = sum((g**2).sum() for g in gradients.values())
            return jax.tree.map(jnp.add, sums, (value, gradients, noise)), None

        (value, gradients, noise), _ = lax.scan(trip, (0.0, jax.tree.map(jnp.zeros_like, w), 0.0), batches)
        state = jax.tree.map(jnp.add, state, gradients)
        return jax.tree.map(jnp.subtract, w, state), state, value, noise

    before, after, _ = compared(Case(step, (w, state, batches), tolerance=1e-6))
    assert after.sync_bytes <= before.sync_bytes
    assert after.total().wire <= before.total().wire


def test_numbers_are_not_worth_to_hold_arrays() -> None:
    """A codebook, and a batch that is split only after the step has cut it: only the loss could move."""
    mesh = mesh_of(data=4, model=2)
    w = {
        "in": placed(integers(2 * WIDTH, WIDTH, seed=0) / 4, "data", "model", mesh=mesh),
        "codes": placed(integers(8, WIDTH, seed=1), "model", "data", mesh=mesh),
        "out": placed(integers(WIDTH, 2 * WIDTH, seed=2) / 4, None, "data", mesh=mesh),
    }

    def loss(w: Tree, x: jax.Array) -> jax.Array:
        z = x @ w["in"]
        code = w["codes"][((z[:, None] - w["codes"][None]) ** 2).sum(-1).argmin(-1)]
        out = (z + lax.stop_gradient(code - z)) @ w["out"]
        return ((out - x) ** 2).sum() + ((code - lax.stop_gradient(z)) ** 2).sum()

    def step(w: Tree, x: jax.Array) -> Any:
        def trip(sums: Any, x: jax.Array) -> tuple[Any, None]:
            return jax.tree.map(jnp.add, sums, jax.value_and_grad(loss)(w, x)), None

        start = (0.0, jax.tree.map(jnp.zeros_like, w))
        (value, gradients), _ = lax.scan(trip, start, x.reshape(MICRO_BATCHES, -1, 2 * WIDTH))
        return jax.tree.map(jnp.subtract, w, gradients), value

    x = placed(integers(MICRO_BATCHES * EXAMPLES, 2 * WIDTH, seed=3), "data", mesh=mesh)
    before, after, notes = compared(Case(step, (w, x), tolerance=1e-5))
    assert any("only scalars have moved, and XLA would infer" in note for note in notes)
    assert after.total().wire <= before.total().wire


@pytest.mark.parametrize("target", ["cpu:8", "tpu:v5e:2x4", "gpu:h100:1x1x8"])
def test_stages_of_a_pipeline_hand_on_one_value(target: str) -> None:
    """A shift along the stages is a slice into unequal parts of a sum of which one term is reduced: the slice stays
    behind the sum, since two slices would be sent to the next stage.
    """
    available(target)
    mesh = mesh_of(stage=2, data=2, model=2)

    def constrained(value: jax.Array) -> jax.Array:
        return lax.with_sharding_constraint(value, NamedSharding(mesh, PartitionSpec("stage", "data")))

    def loss(w: Tree, batches: jax.Array) -> jax.Array:
        @jax.checkpoint
        def tick(carry: Any, x: jax.Array) -> tuple[Any, None]:
            state, value = carry
            state = constrained(jnp.roll(state, 1, 0).at[0].set(x))
            state = jax.vmap(lambda up, down, x: x + jnp.tanh(x @ up) @ down)(w["up"], w["down"], state)
            state = constrained(state)
            return (state, value + (state[-1] ** 2).mean()), None

        start: Any = constrained(jnp.zeros((2, *batches.shape[1:]))), 0.0
        return lax.scan(tick, start, batches)[0][1]

    w = {
        "up": placed(integers(2, WIDTH, 8 * WIDTH, seed=0) / 8, "stage", None, "model", mesh=mesh),
        "down": placed(integers(2, 8 * WIDTH, WIDTH, seed=1) / 8, "stage", "model", mesh=mesh),
    }
    batches = placed(integers(MICRO_BATCHES, EXAMPLES, EXAMPLES, WIDTH, seed=2), None, "data", mesh=mesh)
    report = paropt.audit(jax.value_and_grad(loss), w, batches, passes="grad-sync", targets=[target])
    assert not report.mismatches
    before, after = (each.total("collective-permute").bytes for each in (report[target].before, report[target].after))
    assert 0 < after <= before


def gated(w: Tree, x: jax.Array) -> jax.Array:
    return ((x @ w["up"]) * (x @ w["gate"])) @ w["down"]


def test_what_a_backward_loop_reads_is_split_as_xla_does() -> None:
    """A whole loop is differentiated: its activations are stacked, and one result's split is to reach them, too."""
    mesh = mesh_of(data=2, model=4)
    w = {
        "up": integers(WIDTH, HIDDEN, seed=0),
        "gate": integers(WIDTH, HIDDEN, seed=1),
        "down": integers(HIDDEN, WIDTH, seed=2),
    }
    batches = placed(integers(2, MICRO_BATCHES, EXAMPLES, WIDTH, seed=3), None, None, "data", mesh=mesh)

    def step(w: Tree, batches: jax.Array) -> Tree:
        def total(w: Tree) -> jax.Array:
            def trip(total: jax.Array, batch: jax.Array) -> tuple[jax.Array, None]:
                return total + (gated(w, batch[0]) * batch[1]).sum(), None

            return lax.scan(trip, jnp.float32(0), batches.swapaxes(0, 1))[0]

        found = jax.grad(total)(w)
        down = lax.with_sharding_constraint(found["down"], NamedSharding(mesh, PartitionSpec("model")))
        return found | {"down": down}

    before, after, _ = compared(Case(step, (placed(w, mesh=mesh), batches)))
    assert before.sync_in_loop > after.sync_in_loop
    assert after.total().wire < before.total().wire


@pytest.mark.parametrize("order", [("model", "data"), ("data", "model")])
def test_examples_that_others_read_are_not_split_further(order: tuple[str, str]) -> None:
    """The gradient of a weight is split by rows: the loop's examples are not to be, for the product before it."""
    mesh = mesh_of(data=4, model=2)
    rows = NamedSharding(mesh, PartitionSpec(order))

    def loss(w: jax.Array, batch: jax.Array) -> jax.Array:
        return (jnp.multiply(*jnp.split(batch[0] @ w, 2, axis=-1)) * batch[1]).sum()

    def step(w: jax.Array, batches: jax.Array) -> jax.Array:
        return lax.with_sharding_constraint(accumulated(jax.grad(loss), w, batches), rows)

    w = jax.device_put(integers(WIDTH, 2 * WIDTH, seed=0), rows)
    batches = placed(integers(MICRO_BATCHES, 2, EXAMPLES, WIDTH, seed=1), None, None, "model", mesh=mesh)
    steps = jax.jit(step), paropt.jit(step, passes="grad-sync{policy=defer}", strict=True)
    before, after = (paropt.audit(f.lower(w, batches).compile()) for f in steps)
    assert after.total().wire < before.total().wire
    assert after.total("all-reduce").in_loops < before.total("all-reduce").in_loops


def test_activations_are_not_summed_for_what_moves() -> None:
    """Experts are split over the axis of the examples: their gradient could move if what is between were summed more."""
    mesh = mesh_of(data=4, model=2)

    def loss(w: Tree, batch: jax.Array) -> jax.Array:
        x, y = batch
        hidden = jnp.einsum("bd,edh->beh", x, w["up"])
        h = jnp.einsum("beh,ehd,be->bd", hidden, w["down"], x @ w["router"]) @ w["last"]
        return (lax.with_sharding_constraint(h, NamedSharding(mesh, PartitionSpec())) * y).sum()

    def step(w: Tree, batches: jax.Array) -> Tree:
        def total(w: Tree) -> jax.Array:
            return lax.scan(lambda sum_, batch: (sum_ + loss(w, batch), None), jnp.float32(0), batches)[0]

        return jax.tree.map(lambda p, g: p - g / 8, w, jax.grad(total)(w))

    w = {
        "up": placed(integers(4, WIDTH, HIDDEN, seed=0), "data", "model", mesh=mesh),
        "down": placed(integers(4, HIDDEN, WIDTH, seed=1), mesh=mesh),
        "router": placed(integers(WIDTH, 4, seed=2), mesh=mesh),
        "last": placed(integers(WIDTH, WIDTH, seed=3), ("data", "model"), mesh=mesh),
    }
    batches = placed(integers(MICRO_BATCHES, 2, EXAMPLES, WIDTH, seed=4), None, None, "data", mesh=mesh)
    before, after, _ = compared(Case(step, (w, batches)))
    assert after.sync_in_loop <= before.sync_in_loop
    assert after.total().wire <= before.total().wire


def whole(x: jax.Array) -> jax.Array:
    return lax.with_sharding_constraint(x, NamedSharding(FOUR_BY_TWO, PartitionSpec()))


def adapted(w: Tree, x: jax.Array) -> jax.Array:
    """A low-rank adapter, split by rank. The model says that all examples are to be whole behind the sum of both terms."""
    return whole(x @ w["frozen"] + (x @ w["a"]) @ w["b"])


def adapter() -> Tree:
    whole = {
        "frozen": integers(WIDTH, WIDTH, seed=0),
        "a": integers(WIDTH, 2, seed=1),
        "c": integers(WIDTH, WIDTH, seed=2),
    }
    return placed(whole, mesh=FOUR_BY_TWO) | {"b": placed(integers(2, WIDTH, seed=3), "model", mesh=FOUR_BY_TWO)}


@pytest.mark.parametrize("model", [adapted, lambda w, x: whole(adapted(w, x) @ w["c"])], ids=["last", "before another"])
def test_terms_of_a_sum_are_not_gathered_apart(model: Any) -> None:
    def step(w: Tree, batches: jax.Array) -> Tree:
        def trip(total: Tree, batch: jax.Array) -> tuple[Tree, None]:
            found = jax.value_and_grad(lambda w: (model(w, batch[0]) * batch[1]).sum())(w)
            return jax.tree.map(jnp.add, total, found), None

        return lax.scan(trip, (jnp.float32(0), jax.tree.map(jnp.zeros_like, w)), batches)[0]

    batches = placed(integers(MICRO_BATCHES, 2, EXAMPLES, WIDTH, seed=0), None, None, "data", mesh=FOUR_BY_TWO)
    before, after, _ = compared(Case(step, (adapter(), batches)))
    assert after.total().wire <= before.total().wire


def test_what_is_gathered_for_one_product_is_not_for_the_next() -> None:
    """Two products read the examples; XLA gathers them for one. With them gathered, it gets the other one wrong."""
    mesh = mesh_of(replica=2, data=2, model=2)
    rows, columns = (NamedSharding(mesh, PartitionSpec(*spec)) for spec in (("data",), (("data", "model"), "replica")))

    def loss(w: Tree, batch: tuple[jax.Array, jax.Array]) -> jax.Array:
        h = ((batch[0] @ w["up"]) * (batch[0] @ w["gate"])) @ w["down"]
        return (lax.with_sharding_constraint(h, rows) * batch[1]).sum()

    def gradient(w: Tree, batch: tuple[jax.Array, jax.Array]) -> Tree:
        found = jax.grad(loss)(w, batch)
        return found | {"up": lax.with_sharding_constraint(found["up"], columns)}

    def step(w: Tree, batches: Any) -> Tree:
        return accumulated(gradient, w, batches)

    w = {name: placed(integers(WIDTH, HIDDEN, seed=name), mesh=mesh) for name in ("up", "gate")}
    w["down"] = placed(integers(HIDDEN, WIDTH, seed=1), "model", mesh=mesh)
    x, y = (integers(MICRO_BATCHES, 16, 4, WIDTH, seed=seed) for seed in range(2))
    split = (None, ("replica", "model"))
    batches = (placed(x, *split, None, "data", mesh=mesh), placed(y, *split, mesh=mesh))
    before, after, _ = compared(Case(step, (w, batches)))
    assert after.sync_in_loop < before.sync_in_loop and after.total().wire < before.total().wire
