"""Hybrid sharding (HSDP): parameters sharded over one axis, replicated over another, and no word on activations.

How XLA splits these then depends on all that reads them: what is pinned has to be what XLA finds.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
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
from unit.clusters import available

import paropt
from paropt.clusters.targets import get
from paropt.hlo.census import census

MESH = mesh_of(replica=2, data=4)
LAYERS, SEQUENCE = 3, 6


def on_mesh(tree: Tree, *spec: Any) -> Tree:
    return placed(tree, *spec, mesh=MESH)


def batches(*shape: int) -> Tree:
    return on_mesh(integers(MICRO_BATCHES, EXAMPLES, *shape, seed=0), None, ("replica", "data"))


def biases(w: Any, x: jax.Array) -> jax.Array:
    """Of scanned layers behind a product."""
    return (lax.scan(lambda h, b: (jnp.tanh(h + b), None), x @ w["e"], w["b"])[0] ** 2).mean()


def rows(w: Any, x: jax.Array) -> jax.Array:
    """The second weight of each layer is split over what it adds up."""
    return (lax.scan(lambda h, p: ((h @ p[0]) @ p[1], None), x, (w["q"], w["o"]))[0] ** 2).mean()


def recurrent(w: Any, x: jax.Array) -> jax.Array:
    def cell(h: jax.Array, token: jax.Array) -> tuple[jax.Array, jax.Array]:
        h = jnp.tanh(token @ w["x"] + h @ w["h"])
        return h, h

    return (lax.scan(cell, jnp.zeros((x.shape[0], WIDTH)), x.swapaxes(0, 1))[1] ** 2).mean()


def mean_of_tokens(w: Any, x: jax.Array) -> jax.Array:
    """The gradient of the bias adds up over positions and examples."""
    return ((jnp.tanh(x @ w["k"]) + w["b"]).mean(1) ** 2).sum()


def waves(w: Any, x: jax.Array) -> jax.Array:
    """Complex numbers are scattered part by part."""
    return (jnp.abs(jnp.tanh(x @ w["c"]) @ w["d"]) ** 2).mean()


def complex_integers(*shape: int, seed: str) -> np.ndarray:
    return (integers(*shape, seed=f"real {seed}") + 1j * integers(*shape, seed=f"imaginary {seed}")).astype(
        np.complex64
    ) / 4


def square(*shape: int) -> Tree:
    return on_mesh(integers(*shape, WIDTH, WIDTH, seed=0) / 4)


CASES: dict[str, tuple[Any, Tree, Tree]] = {
    "biases of layers": (
        biases,
        {"e": square(), "b": on_mesh(integers(LAYERS, WIDTH, seed=0) / 4, None, "data")},
        batches(WIDTH),
    ),
    "rows of layers": (
        rows,
        {"q": square(LAYERS), "o": on_mesh(integers(LAYERS, WIDTH, WIDTH, seed=1) / 4, None, "data")},
        batches(WIDTH),
    ),
    "a recurrent weight": (
        recurrent,
        {"x": square(), "h": on_mesh(integers(WIDTH, WIDTH, seed=2) / 4, "data")},
        batches(SEQUENCE, WIDTH),
    ),
    "complex weights": (
        waves,
        {
            "c": on_mesh(complex_integers(WIDTH, 32, seed="c"), "data"),
            "d": on_mesh(complex_integers(32, WIDTH, seed="d"), "data"),
        },
        batches(WIDTH),
    ),
    "a mean of tokens": (
        mean_of_tokens,
        {"k": square(), "b": on_mesh(integers(WIDTH, seed=3) / 4, "data")},
        batches(EXAMPLES, WIDTH),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_right_and_nothing_else_is_gathered(name: str) -> None:
    loss, parameters, examples = CASES[name]

    def step(w: Any, x: Any) -> Any:
        return jax.tree.map(lambda a, b: a - b / 8, w, accumulated(jax.grad(loss), w, x))

    before, after, _ = compared(Case(step, (parameters, examples), tolerance=1e-5, passes=SCATTERS_WRITTEN))
    assert after.total("all-reduce").in_loops == 0 < before.total("all-reduce").in_loops
    assert after.sync_bytes < before.sync_bytes


TABLES = {
    "rows": (("replica", "data"), ("data",)),
    "rows, data first": (("data", "replica"), ("data",)),
    "rows over two axes": (("tensor", "replica", "data"), (("data", "tensor"),)),
}


@pytest.mark.parametrize("penalty", [False, True], ids=["alone", "penalty"])
@pytest.mark.parametrize("name", TABLES)
def test_few_rows_of_a_table_are_gathered(name: str, penalty: bool) -> None:
    """Each device adds rows to its part of the table, as with XLA alone, which gathers them: the sum takes more bytes."""
    names, spec = TABLES[name]
    sizes = {"data": 4, "replica": 2} if len(names) == 2 else dict.fromkeys(names, 2)
    mesh = mesh_of(None, **{axis: sizes[axis] for axis in names})
    table = placed(integers(64 * WIDTH, WIDTH, seed=0), *spec, mesh=mesh)
    tokens = placed(
        np.arange(MICRO_BATCHES * EXAMPLES).reshape(MICRO_BATCHES, -1) * 7, None, ("replica", "data"), mesh=mesh
    )

    def loss(table: jax.Array, tokens: jax.Array) -> jax.Array:
        return (table[tokens] ** 2).sum() + (table**2).sum() * penalty

    def step(table: jax.Array, batches: jax.Array) -> jax.Array:
        return table - accumulated(jax.grad(loss), table, batches)

    parts = [sizes[axis] for axis in names if axis != "replica"]
    reduced_once(Case(step, (table, tokens), after=table.nbytes // int(np.prod(parts))))


def test_a_table_split_by_features_leaves_the_loop() -> None:
    """Tokens are split over the axis of the features, too: only these are gathered for the rows, which stay split."""
    mesh = mesh_of(data=4, fsdp=2)
    table = placed(integers(4 * WIDTH, WIDTH, seed=0), None, "fsdp", mesh=mesh)
    weight = placed(integers(WIDTH, WIDTH, seed=1), "fsdp", None, mesh=mesh)
    numbers = np.arange(MICRO_BATCHES * EXAMPLES * 4).reshape(MICRO_BATCHES, EXAMPLES, 4) * 7 % (4 * WIDTH)
    tokens = placed(numbers.astype(np.int32), None, ("data", "fsdp"), mesh=mesh)

    def loss(w: Any, tokens: jax.Array) -> jax.Array:
        h = w[0][tokens]
        return ((h + jax.nn.relu(h @ w[1])) ** 2).sum()

    def step(w: Any, batches: jax.Array) -> Any:
        return jax.tree.map(jnp.subtract, w, accumulated(jax.grad(loss), w, batches))

    before, after, _ = compared(Case(step, ((table, weight), tokens)))
    in_loop = [
        [c.op_name for c in audit.collectives if c.depth and c.kind == "all-reduce"] for audit in (before, after)
    ]
    assert ["scatter-add" in "".join(names) for names in in_loop] == [True, False]
    assert after.total().wire < 0.8 * before.total().wire


def test_an_update_in_the_last_trip_may_read_a_norm() -> None:
    """Of what is split, which the partitioner adds up in the branch: the branch follows the loop all the same."""
    w = on_mesh(integers(WIDTH, 2 * WIDTH, seed=0), None, "data")

    def step(w: jax.Array, batches: jax.Array) -> jax.Array:
        def body(carried: Any, numbered: Any) -> tuple[Any, None]:
            (w, total), (i, x) = carried, numbered
            total = total + jax.grad(lambda w: ((x @ w) ** 2).sum())(w)
            updated = lambda: (w - total / jnp.maximum(1, jnp.sqrt((total**2).sum())), jnp.zeros_like(total))  # noqa: E731
            return lax.cond(i == MICRO_BATCHES - 1, updated, lambda: (w, total)), None

        return lax.scan(body, (w, jnp.zeros_like(w)), (jnp.arange(MICRO_BATCHES), batches))[0][0]

    before, after, _ = compared(Case(step, (w, batches(WIDTH)), tolerance=1e-6))
    assert after.sync_in_loop == 0 < before.sync_in_loop


def test_gradients_of_layers_are_concatenated_with_those_of_a_table() -> None:
    """Without micro-batches: XLA:GPU all-reduces both in one over `replica`, and the constraints hold all the same."""
    target = get("gpu:h100:1x1x8")
    available(target.name)
    mesh = jax.sharding.Mesh(np.array(target.devices).reshape(2, 4), ("replica", "data"))

    def on_target(shape: tuple[int, ...], *spec: Any, kind: Any = jnp.float32) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, kind, sharding=NamedSharding(mesh, P(*spec)))

    def loss(w: Any, tokens: jax.Array) -> jax.Array:
        block = jax.checkpoint(lambda h, p: (h + jnp.tanh(h * p[0]) @ p[1], None))
        logits = lax.scan(block, w["table"][tokens], w["layers"])[0] @ w["head"]
        return (jax.nn.logsumexp(logits, -1) - logits[..., 0]).mean()

    w = {
        "table": on_target((256, 64), None, "data"),
        "layers": (on_target((LAYERS, 64)), on_target((LAYERS, 64, 64), None, "data")),
        "head": on_target((64, 256), "data"),
    }
    tokens = on_target((16, 16), ("replica", "data"), kind=jnp.int32)
    step = lambda w, tokens: jax.tree.map(lambda a, b: a - b / 8, w, jax.grad(loss)(w, tokens))  # noqa: E731
    out = jax.tree.map(lambda each: each.sharding, w)
    alone = jax.jit(step, out_shardings=out).lower(w, tokens).compile()
    ours = paropt.jit(step, out_shardings=out, strict=True).lower(w, tokens).compile()
    runs = [sum(each.executions or 0 for each in census(each.as_text())) for each in (alone, ours)]
    assert runs[1] < runs[0]
