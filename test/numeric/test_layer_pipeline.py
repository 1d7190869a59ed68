"""Scans over layers as pipelines in one program: the results of the step, and no more sent than activations."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from programs.layered_steps import Program, in_parts, program, step_of
from unit.clusters import available

import paropt
from paropt.audit import AuditComparison, audit
from paropt.clusters.targets import get
from paropt.hlo.census import Collective

PASSES = "pipeline-layer-loop{axis=stage},grad-sync"
CIRCULAR = "pipeline-layer-loop{{axis=stage circular={}}},grad-sync"
GRIDS = {"4x2": (4, 2), "2x4": (2, 4)}
WIDTH, LAYERS, MICROBATCHES = 8, 8, 4


def mesh(grid: str, devices: Any = None) -> Mesh:
    return Mesh(np.array(devices or jax.devices()).reshape(GRIDS[grid]), ("stage", "data"))


def shardings(made: Program, on: Mesh) -> tuple[Any, Any]:
    """Of the state, and of the batch: layers along `stage`, examples along `data`."""

    def of_state(path: Any, _: Any) -> NamedSharding:
        return NamedSharding(on, PartitionSpec("stage") if "layers" in str(path) else PartitionSpec())

    examples = NamedSharding(on, PartitionSpec(None, "data"))
    return jax.tree_util.tree_map_with_path(of_state, made.state), jax.tree.map(lambda _: examples, made.batch)


def jitted(made: Program, on: Mesh, passes: str | None = PASSES) -> Any:
    state, batch = shardings(made, on)
    options: dict[str, Any] = {
        "in_shardings": (state, batch),
        "out_shardings": (state, NamedSharding(on, PartitionSpec())),
    }
    return paropt.jit(made.step, passes=passes, **options) if passes else jax.jit(made.step, **options)


def results(step: Callable[..., Any], made: Program) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(step(made.state, made.batch))]


def layered(kind: str, layers: int = LAYERS) -> Program:
    """A step on whole numbers, in which no sum is rounded. `kind` is what the layers do besides their product."""
    rng = np.random.default_rng(7)

    def loss(state: Any, part: Any) -> jax.Array:
        x, target = part

        def layer(h: jax.Array, given: Any) -> Any:
            weights, number = given
            h = jax.nn.relu(h @ weights["w"] + weights["b"])
            if kind == "numbered":
                h = jnp.where(number % 2 == 0, h, -h)
            if kind == "shared":
                h = h + state["shared"]
            return h, jnp.sum(h) if kind == "written" else None

        form = jax.checkpoint(layer) if kind == "remat" else layer
        h, written = jax.lax.scan(form, x @ state["embedding"], (state["layers"], jnp.arange(layers)))
        if kind == "decoder":
            h, _ = jax.lax.scan(lambda g, w: (jax.nn.relu(g @ w) - h, None), h, state["decoder_layers"])
        value = jnp.sum((h @ state["embedding"].T) * target)
        return value + written.sum() if kind == "written" else value

    def whole(*shape: int) -> np.ndarray:
        return rng.choice(np.array([-1, 0, 0, 0, 0, 1], np.float32), shape)

    stacked = {"w": whole(layers, WIDTH, WIDTH), "b": whole(layers, WIDTH)}
    state = {"embedding": whole(WIDTH, WIDTH), "layers": stacked, "shared": whole(WIDTH)}
    state["decoder_layers"] = whole(4, WIDTH, WIDTH)
    batch = in_parts((whole(32, WIDTH), whole(32, WIDTH)), MICROBATCHES)
    return Program(step_of(loss, MICROBATCHES, rate=1.0, parted=True), state, batch)


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("kind", ["plain", "remat", "numbered", "shared", "written", "decoder"])
def test_whole_numbers_are_equal(kind: str, grid: str) -> None:
    assert_equal(kind, grid, PASSES)


@pytest.mark.parametrize("chunks", [2, 4])
@pytest.mark.parametrize("kind", ["remat", "numbered", "shared", "written"])
def test_whole_numbers_are_equal_in_a_circular_pipeline(kind: str, chunks: int) -> None:
    """Two stages: micro-batches wait two ticks between rounds."""
    assert_equal(kind, "2x4", CIRCULAR.format(chunks))


@pytest.mark.parametrize(
    ("kind", "grid", "chunks", "layers"), [("numbered", "4x2", 2, 8), ("plain", "4x2", 3, 12), ("decoder", "2x4", 2, 8)]
)
def test_whole_numbers_are_equal_in_rounds_without_waiting(kind: str, grid: str, chunks: int, layers: int) -> None:
    """Four stages have as many micro-batches: none waits. A decoder's layers are a multiple of two stages only."""
    assert_equal(kind, grid, CIRCULAR.format(chunks), layers)


def assert_equal(kind: str, grid: str, passes: str, layers: int = LAYERS) -> None:
    made = layered(kind, layers)
    step = jitted(made, mesh(grid), passes)
    got, want = results(step, made), results(jax.jit(made.step), made)
    decided = paropt.remarks(step.lower(made.state, made.batch))
    assert [remark.applied for remark in decided if remark.pass_name == "pipeline-layer-loop"] == [True]
    assert max(np.abs(one).max() for one in want) > 10, "nothing has moved"
    for one, other in zip(want, got, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("grid", GRIDS)
def test_a_transformer_is_the_step(grid: str) -> None:
    """Beside the same step on the same mesh, without the pass: other shardings round otherwise."""
    made = program("scanned", microbatches=MICROBATCHES, layers=LAYERS, parted=True)
    old = [np.asarray(leaf) for leaf in jax.tree.leaves(made.state)]
    want, got = results(jitted(made, mesh(grid), None), made), results(jitted(made, mesh(grid)), made)
    largest = max(np.abs(new - leaf).max() for new, leaf in zip(want, old, strict=False))
    assert largest > 1
    for one, other in zip(want, got, strict=True):
        np.testing.assert_allclose(other, one, rtol=0, atol=1e-6 * largest)


def audited(target: str, grid: str, passes: str = PASSES) -> AuditComparison:
    made = program("scanned", microbatches=MICROBATCHES, layers=LAYERS, parted=True)
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), (made.state, made.batch))
    step = jitted(made, mesh(grid, get(target).devices), None)
    report = audit(step, *shapes, passes=passes, targets=[target])
    assert not report.mismatches
    return report[target]


@pytest.mark.parametrize(
    ("target", "grid"),
    [
        ("cpu:8", "4x2"),
        ("cpu:8", "2x4"),
        ("tpu:v5e:2x4", "4x2"),
        ("gpu:h100:1x1x8", "4x2"),
        ("gpu:h100:1x1x8", "2x4"),
    ],
)
def test_stages_send_activations(target: str, grid: str) -> None:
    """One collective_permute per tick and direction; what ends a pipeline goes to all once; no array of layers does."""
    available(target)
    stages, data = GRIDS[grid]
    report = audited(target, grid)
    held = max(1, MICROBATCHES / stages)  # residuals of all micro-batches, but of the layers of a stage
    assert report.after.peak_memory <= held * report.before.peak_memory
    found = list(report.after.collectives)
    activation = 8 * 8 * 16 * 4 // data  # examples, tokens and features of a micro-batch, in f32
    sent = [each for each in found if each.kind == "collective-permute"]
    assert [(each.payload, each.executions, each.axes) for each in sent] == [
        (activation, MICROBATCHES + stages - 1, ("stage",))
    ] * 2
    along = [each for each in found if "stage" in each.axes and each.kind != "collective-permute"]
    assert all(each.kind == "all-reduce" and not each.loops for each in along)
    assert sum(each.payload for each in along) <= 2 * MICROBATCHES * activation + 256  # and the norm of all gradients
    assert not [each for each in found if each.kind in ("all-gather", "all-to-all")]
    assert_reduced_once(found, stages)


def assert_reduced_once(found: list[Collective], stages: int) -> None:
    """Gradients, over `data`: each device has those of its layers, and all have those of other parameters."""
    reduced = [each for each in found if "data" in each.axes]
    state = program("scanned", microbatches=MICROBATCHES, layers=LAYERS, parted=True).state
    layers, others = leaf_bytes(state["layers"]), leaf_bytes({**state, "layers": ()})
    assert all(each.kind == "all-reduce" and not each.loops for each in reduced)
    assert sum(each.payload for each in reduced) == layers // stages + others + 4  # and the loss


@pytest.mark.parametrize("target", ["cpu:8", "tpu:v5e:2x4", "gpu:h100:1x1x8"])
def test_a_circular_pipeline_waits_less(target: str) -> None:
    """Each direction has v M + S - 1 ticks. Layers are sent to their devices once per step, and their gradients back."""
    available(target)
    (stages, _), chunks = GRIDS["4x2"], 2
    found = list(audited(target, "4x2", CIRCULAR.format(chunks)).after.collectives)
    ticks = [each.executions for each in found if each.loops]
    assert ticks == [chunks * MICROBATCHES + stages - 1] * 2
    waiting = Fraction(stages - 1, chunks * MICROBATCHES)
    assert Fraction(ticks[0], chunks * MICROBATCHES) - 1 == waiting
    assert_reduced_once(found, stages)
    moved = [each for each in found if each.kind == "collective-permute" and not each.loops]
    layers = leaf_bytes(program("scanned", microbatches=MICROBATCHES, layers=LAYERS, parted=True).state["layers"])
    assert sum(each.payload for each in moved) == 2 * layers // stages
    assert not [each for each in found if each.kind in ("all-gather", "all-to-all")]


def leaf_bytes(tree: Any) -> int:
    return sum(leaf.nbytes for leaf in jax.tree.leaves(tree))


@pytest.mark.parametrize("grid", GRIDS)
def test_moments_of_adamw_are_the_same(grid: str) -> None:
    """Beside the same step without passes. New parameters are not compared: AdamW makes updates of what is rounded."""
    made = program("scanned", microbatches=MICROBATCHES, layers=LAYERS, parted=True)
    optimizer = optax.chain(optax.clip_by_global_norm(0.5), optax.adamw(1e-2))

    def step(state: Any, batch: Any) -> Any:
        parameters, moments = state
        new, value = made.step(parameters, batch)
        updates, moments = optimizer.update(jax.tree.map(jnp.subtract, parameters, new), moments, parameters)
        return (optax.apply_updates(parameters, updates), moments), value

    stateful = Program(step, (made.state, optimizer.init(made.state)), made.batch)
    on = mesh(grid)
    ours = jitted(stateful, on)
    assert not in_loops(audit(ours.lower(stateful.state, stateful.batch).compile()).collectives)
    (_, want), _ = jitted(stateful, on, None)(stateful.state, stateful.batch)
    (_, got), _ = ours(stateful.state, stateful.batch)
    for one, other in zip(jax.tree.leaves(want), jax.tree.leaves(got), strict=True):
        np.testing.assert_allclose(other, one, rtol=0, atol=1e-6 * np.abs(one).max())


def in_loops(found: Any) -> list[Collective]:
    return [each for each in found if each.loops and each.kind != "collective-permute"]
