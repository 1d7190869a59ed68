"""Pipeline stages with tensor parallelism inside: results bit for bit, and what the programs of a stage send."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from paropt.hlo.census import census
from paropt.hlo.participants import Layout
from paropt.pipeline import Pipeline, pipeline

LAYERS, WIDTH, HIDDEN, MICRO_BATCHES, EXAMPLES = 4, 8, 16, 4, 8
Tree = Any
Kinds = Counter[tuple[str, tuple[str, ...]]]


def parameters(*, scanned: bool) -> Tree:
    """Whole numbers: sums are exact, whoever adds them up."""
    rng = np.random.default_rng(0)
    shapes = {"up": (WIDTH, HIDDEN), "down": (HIDDEN, WIDTH), "scale": (WIDTH,)}

    def whole(*sizes: int) -> Any:
        return rng.integers(-1, 2, sizes).astype(np.float32)

    if scanned:
        return {name: whole(LAYERS, *sizes) for name, sizes in shapes.items()}
    return [{name: whole(*sizes) for name, sizes in shapes.items()} for _ in range(LAYERS)]


def layer(x: jax.Array, w: Tree) -> jax.Array:
    return x + jnp.maximum((x * w["scale"]) @ w["up"], 0) @ w["down"]


def loss(p: Tree, x: jax.Array) -> jax.Array:
    if isinstance(p, dict):
        return jnp.sum(jax.lax.scan(lambda x, w: (layer(x, w), None), x, p)[0])
    for number, w in enumerate(p):
        with jax.named_scope(f"layer{number}"):
            x = layer(x, w)
    return jnp.sum(x)


def step(state: Tree, batches: jax.Array) -> Any:
    def add(sums: Tree, batch: jax.Array) -> Any:
        value, gradients = jax.value_and_grad(loss)(state["p"], batch)
        return jax.tree.map(jnp.add, sums, gradients), value

    sums, values = jax.lax.scan(add, jax.tree.map(jnp.zeros_like, state["p"]), batches)
    momentum = jax.tree.map(jnp.add, state["momentum"], sums)
    return {"p": jax.tree.map(jnp.subtract, state["p"], momentum), "momentum": momentum}, values.sum()


def mesh(grid: tuple[int, int, int]) -> Mesh:
    return Mesh(np.array(jax.devices()).reshape(grid), ("stage", "data", "model"))


def shardings(grid: tuple[int, int, int], shards: str | None) -> Callable[..., Tree]:
    """Megatron's cuts over `model`, the other dimension over `shards`; the batch as it comes."""

    def of(path: Any, leaf: Any) -> NamedSharding:
        cuts = {"up": (shards, "model"), "down": ("model", shards)}.get(path[-1].key if path[0].idx == 0 else "", ())
        return NamedSharding(mesh(grid), P(*[None] * (leaf.ndim - len(cuts)), *cuts) if cuts else P())

    return lambda *args: jax.tree_util.tree_map_with_path(of, args)


def made(*, scanned: bool) -> tuple[Tree, Any]:
    p = parameters(scanned=scanned)
    batches = np.random.default_rng(1).integers(-1, 2, (MICRO_BATCHES, EXAMPLES, WIDTH)).astype(np.float32)
    return {"p": p, "momentum": jax.tree.map(np.zeros_like, p)}, batches


def piped(grid: tuple[int, int, int], shards: str | None, policy: Any) -> Pipeline:
    return pipeline(
        step,
        stages=grid[0],
        microbatches=MICRO_BATCHES,
        mesh=mesh(grid),
        policy=policy,
        batch_axes="data",
        shardings=shardings(grid, shards),
        progress=lambda _: None,
    )


def sent(run: Pipeline, *args: Any) -> dict[str, Kinds]:
    """Of the programs of the first of two stages, how many arrays each kind of collective sends, over which axes."""
    own = Layout.of_mesh(Mesh(mesh((2, 2, 2)).devices[0], ("data", "model")))
    found: dict[str, Kinds] = {}
    for (name, place), executable in run.programs(*args).items():
        if place == 0:
            found[name] = Counter()
            for each in census(executable.as_text() or "", own):
                found[name][each.kind, each.axes] += (each.executions or 0) * len(each.arrays)
    return found


# Over `data`, by what shards the other dimension of matrices, and the policy: what forward and backward send, and what
# is reduced behind the last micro-batch. Of norms, gradients are reduced there in each form.
GATHERED, SCATTERED, REDUCED = "all-gather", "reduce-scatter", "all-reduce"
FORMS = {
    (None, "keep-shards"): (set(), set(), {REDUCED}),
    ("data", "keep-shards"): ({GATHERED}, {GATHERED, SCATTERED}, {REDUCED}),
    ("data", "defer"): ({GATHERED}, {GATHERED}, {REDUCED, SCATTERED}),
    ("data", "once"): (set(), set(), {REDUCED, SCATTERED}),
}


@pytest.mark.parametrize("scanned", [True, False], ids=["scanned", "written out"])
@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form[0]}-{form[1]}")
def test_a_stage_sends_activations_over_model_and_gradients_over_data(form: Any, scanned: bool) -> None:
    shards, policy = form
    args = made(scanned=scanned)
    run = piped((2, 2, 2), shards, policy)
    state = run.place(*args)
    assert_equal(run(state, args[1]), jax.jit(step)(*args))
    found = sent(run, *args)
    for name in ("forward_0", "backward_0"):
        layers = LAYERS // 2
        assert found[name].pop((REDUCED, ("model",))) == layers, "the activations of each layer"
    kinds = [{kind for kind, axes in found[name]} for name in ("forward_0", "backward_0", "reduce_0")]
    assert tuple(kinds) == FORMS[form]
    assert all(axes == ("data",) for each in found.values() for _, axes in each)
    assert ("gather_0" in found) == (policy == "once")
    matrix = state["p"]["up"] if scanned else state["p"][0]["up"]
    parts = 2 * (2 if shards else 1) * (2 if scanned else 1)  # stacked rows are spread over stages
    assert matrix.addressable_shards[0].data.size * parts == matrix.size


@pytest.mark.parametrize("grid", [(2, 1, 4), (4, 2, 1), (1, 4, 2), (4, 1, 2)])
@pytest.mark.parametrize("policy", ["keep-shards", "once"])
def test_other_meshes(grid: tuple[int, int, int], policy: str) -> None:
    args = made(scanned=True)
    run = piped(grid, "data", policy)
    assert_equal(run(run.place(*args), args[1]), jax.jit(step)(*args))


def assert_equal(got: Tree, want: Tree) -> None:
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
