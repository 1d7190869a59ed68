"""Pipeline parallelism: the results of the step by all schedules, with no more kept and sent than has to be."""

import itertools
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import Mesh
from programs.layered_steps import Program, program

from paropt.base.wording import flops_text
from paropt.clusters import targets
from paropt.pipeline import Pipeline, StageError, pipeline
from paropt.schedules import simulate
from paropt.stages.step_plan import StepPlan

GRIDS = {"2x4": (2, 4), "4x2": (4, 2)}
SCHEDULES = ["gpipe", "1f1b", "interleaved", "zb-h1", "chimera"]


def mesh(grid: str = "2x4") -> Mesh:
    return Mesh(np.array(jax.devices()).reshape(GRIDS[grid]), ("stage", "data"))


def piped(made: Program, grid: str, microbatches: int, schedule: str, **options: Any) -> Pipeline:
    stages = GRIDS[grid][0]
    return pipeline(made.step, stages=stages, microbatches=microbatches, mesh=mesh(grid), schedule=schedule, **options)


def made_for(name: str, grid: str, microbatches: int, schedule: str) -> Program:
    """A layer for each chunk."""
    chunks = GRIDS[grid][0] * (2 if schedule == "interleaved" else 1)
    return program(name, microbatches=microbatches, layers=max(4, chunks))


def assert_is_the_step(run: Pipeline, made: Program) -> None:
    want = jax.jit(made.step)(made.state, made.batch)
    got = run(run.place(made.state, made.batch), made.batch)
    structures: list[Any] = [jax.tree.structure(tree) for tree in (got, want)]
    assert structures[0] == structures[1]
    updates = jax.tree.map(lambda new, old: np.abs(np.asarray(new) - old).max(), want[0], made.state)
    largest = max(jax.tree.leaves(updates))
    assert largest > 1
    for one, other in zip(jax.tree.leaves(want), jax.tree.leaves(got), strict=True):
        np.testing.assert_allclose(other, one, rtol=0, atol=1e-6 * largest)


COMBINATIONS = [
    *itertools.product(["mlp"], GRIDS, [4, 8], SCHEDULES),
    ("transformer", "2x4", 4, "1f1b"),
    ("transformer", "4x2", 8, "zb-h1"),
    ("transformer", "2x4", 4, "chimera"),
    ("scanned", "2x4", 4, "1f1b"),
    ("scanned", "4x2", 8, "gpipe"),
    ("scanned", "2x4", 4, "interleaved"),
]


@pytest.mark.parametrize(("name", "grid", "microbatches", "schedule"), COMBINATIONS)
def test_a_pipeline_computes_the_step(name: str, grid: str, microbatches: int, schedule: str) -> None:
    made = made_for(name, grid, microbatches, schedule)
    run = piped(made, grid, microbatches, schedule)
    assert_is_the_step(run, made)
    plan = run.plan(made.state, made.batch)
    assert plan.peak_live() == list(simulate(run.schedule).live)
    if schedule not in ("interleaved", "chimera"):  # of which chunks meet on devices
        boundaries = GRIDS[grid][0] - 1
        values = [slot for slot in plan.transfers() if slot.name.startswith("value")]
        assert len(values) == 2 * boundaries * microbatches


@pytest.mark.parametrize("schedule", ["zb-h2", "zb-v", "dualpipe", "dualpipev"])
def test_all_other_schedules_that_keep_the_semantics(schedule: str) -> None:
    made = program("mlp", microbatches=4, layers=8)
    assert_is_the_step(piped(made, "2x4", 4, schedule), made)


def test_cuts_by_costs() -> None:
    made = program("mlp", microbatches=4, named=False)
    run = piped(made, "2x4", 4, "1f1b", cuts="costs", cut_options={"flops-per-byte": 10})
    assert_is_the_step(run, made)


def test_steps_follow_each_other() -> None:
    """The state that a step returns is where the next one wants it; what was given is gone."""
    made = program("mlp", microbatches=4, clip=None, rate=0.1)
    run, want = piped(made, "2x4", 4, "1f1b", donate="state"), made.state
    step, state = jax.jit(made.step), run.place(made.state, made.batch)
    for _ in range(3):
        old = state
        state, _ = run(state, made.batch)
        want, _ = step(want, made.batch)
        assert all(leaf.is_deleted() for leaf in jax.tree.leaves(old))
    for one, other in zip(jax.tree.leaves(want), jax.tree.leaves(state), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-5)
    with pytest.raises(StageError, match=r"^state\S* was donated by an earlier call, to new state: donate=None keeps"):
        run(old, made.batch)


def test_state_is_placed_with_the_other_arguments() -> None:
    made = program("mlp", microbatches=4)
    with pytest.raises(
        StageError, match=r"^place: missing a required argument: 'batch'; give it all .*place\(state, batch\)$"
    ):
        piped(made, "2x4", 4, "1f1b").place(made.state)


def test_what_takes_long_is_told() -> None:
    made = program("mlp", microbatches=4)
    said: list[str] = []
    run = piped(made, "2x4", 4, "1f1b", progress=said.append)
    run.compile(made.state, made.batch)
    assert said[0] == "pipeline: cutting the step into 2 stages"
    assert "pipeline: compiling forward_0 for 4 devices" in said
    assert {line.split()[2] for line in said[1:]} == {symbol for symbol, _ in run.programs(made.state, made.batch)}


def test_what_a_pipeline_shows_of_itself() -> None:
    made = program("mlp", microbatches=4)
    run = piped(made, "2x4", 4, "1f1b", progress=lambda _: None)
    assert repr(run).startswith("<paropt.pipeline of <") and repr(run).endswith(": 1f1b, 2 stages, 4 micro-batches>")
    assert repr(run.plan(made.state, made.batch)).startswith("<StepPlan: 1f1b, ")
    assert "at most 1 micro-batch," in str(run.report(made.state, made.batch))
    assert "inlined" not in str(run.remarks(made.state, made.batch))


def test_one_micro_batch_is_no_loop() -> None:
    step, state, batch = lambda w, x: w - jax.grad(lambda w: jnp.sum((x @ w) ** 2))(w), np.eye(8), np.ones((8, 8))
    run = pipeline(step, stages=2, microbatches=1, mesh=mesh())
    with pytest.raises(StageError, match=r"^microbatches: a step without a loop .* is cut into two or more, got 1$"):
        run.compile(state, batch)


def test_a_state_that_is_kept() -> None:
    made = program("mlp", microbatches=4)
    run = piped(made, "2x4", 4, "1f1b")
    state = run.place(made.state, made.batch)
    first, second = run(state, made.batch), run(state, made.batch)
    assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(state))
    for one, other in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        np.testing.assert_array_equal(one, other)


def test_each_state_is_on_the_devices_of_its_stage() -> None:
    """Stacked parameters are ordinary arrays, sharded over the axis of the stages."""
    made = program("scanned", microbatches=4)
    run = piped(made, "2x4", 4, "1f1b")
    state = run.place(made.state, made.batch)
    stage = {device: i for i, row in enumerate(mesh().devices) for device in row}
    for tree in (state, run(state, made.batch)[0]):
        for leaf in jax.tree.leaves(tree["layers"]):
            assert leaf.sharding.spec[0] == "stage" and len(leaf.sharding.device_set) == 8
        homes = {key: {stage[d] for d in tree[key].sharding.device_set} for key in ("embedding", "position", "scale")}
        assert homes == {"embedding": {0}, "position": {0}, "scale": {1}}


def test_no_program_gathers_its_micro_batch() -> None:
    """Each device has its examples; gradients are reduced."""
    made = program("mlp", microbatches=4)
    built = piped(made, "2x4", 4, "1f1b").programs(made.state, made.batch)
    texts = {symbol: program.as_text() for (symbol, _), program in built.items()}
    assert any("all-reduce" in text for text in texts.values())
    for text in texts.values():
        assert "all-gather" not in text and "collective-permute" not in text


def test_one_device_for_each_stage() -> None:
    made = program("mlp", microbatches=4)
    alone = Mesh(np.array(jax.devices()[:2]), ("stage",))
    assert_is_the_step(pipeline(made.step, stages=2, microbatches=4, mesh=alone), made)


@pytest.mark.parametrize("target", ["cpu:8", "tpu:v5e:2x4", "gpu:h100:1x1x8"])
def test_stages_are_compiled_for_devices_that_are_not_there(target: str) -> None:
    made = program("mlp", microbatches=4)
    devices = targets.get(target).devices
    away = Mesh(np.array(devices).reshape(2, 4), ("stage", "data"))
    run = pipeline(made.step, stages=2, microbatches=4, mesh=away).compile(made.state, made.batch)
    texts = {symbol: program.as_text() for (symbol, _), program in run.programs(made.state, made.batch).items()}
    kinds = {symbol.rpartition("_")[0] for symbol in texts}
    assert kinds == {"init", "rows", "forward", "backward", "reduce", "update", "update_0"}
    assert {symbol for symbol, text in texts.items() if "all-reduce" in text} == {"reduce_0", "reduce_1"}


def whole_batch(state: Any, batch: Any) -> Any:
    def loss(state: Any) -> jax.Array:
        x = batch[0]
        for number, layer in enumerate(state):
            with jax.named_scope(f"layer{number}"):
                x = jnp.tanh(x @ layer["w"] + layer["b"])
        return jnp.mean((x - batch[1]) ** 2)

    value, gradient = jax.value_and_grad(loss)(state)
    return jax.tree.map(lambda old, leaf: old - 500 * leaf, state, gradient), value


def python_loop(state: Any, batch: Any) -> Any:
    total, value = jax.tree.map(jnp.zeros_like, state), jnp.float32(0)
    for i in range(4):
        part = jax.tree.map(lambda leaf, i=i: leaf[16 * i : 16 * i + 16], batch)
        x = part[0]

        def loss(state: Any, x: Any = x, part: Any = part) -> jax.Array:
            for number, layer in enumerate(state):
                with jax.named_scope(f"layer{number}"):
                    x = jnp.tanh(x @ layer["w"] + layer["b"])
            return jnp.mean((x - part[1]) ** 2)

        lost, gradient = jax.value_and_grad(loss)(state)
        total, value = jax.tree.map(jnp.add, total, gradient), value + lost
    return jax.tree.map(lambda old, leaf: old - 100 * leaf, state, total), value


@pytest.mark.parametrize("step", [whole_batch, python_loop])
def test_steps_without_a_loop(step: Any) -> None:
    plain = program("mlp", microbatches=4)
    made = Program(step, plain.state, plain.batch)
    assert_is_the_step(piped(made, "2x4", 4, "1f1b"), made)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stages": 4}, "stages: expected 2, the size of the mesh's axis 'stage', got 4"),
        ({"stages": 0}, "stages: expected a positive integer, got 0"),
        ({"axis": "pipe"}, "axis: the mesh has no axis 'pipe'; it has stage, data"),
        ({"donate": "all"}, "donate: expected 'state' or None, got 'all'"),
        (
            {"schedule": "pipedream"},
            "schedule: pipedream updates weights after each micro-batch, which is another step",
        ),
        (
            {"schedule": "terapipe"},
            "schedule: terapipe cuts sequences, which no stage can; the simulator knows it only",
        ),
        ({"cuts": "here"}, "cuts: expected 'names' or 'costs', got 'here'"),
        ({"policy": "never"}, "policy: expected one of keep-shards, defer, once, got 'never'"),
        ({"batch_axes": "stage"}, "batch_axes: expected axes of a stage (data), got 'stage'"),
        ({"batch_axes": ["data", 3]}, "batch_axes: expected axes of a stage (data), got 3"),
        ({"batch_axes": 3}, "batch_axes: expected axes of a stage (data), got 3"),
    ],
)
def test_mistakes_are_one_line(options: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"stages": 2, "microbatches": 4, "mesh": mesh()} | options
    with pytest.raises(StageError) as error:
        pipeline(lambda state, batch: (state, batch), **given)
    assert str(error.value) == message


def test_mistakes_of_a_step_are_one_line() -> None:
    made = program("mlp", microbatches=4)
    with pytest.raises(StageError, match=r"^microbatches: expected 4, the trips of the step's loop, got 8$"):
        piped(made, "2x4", 8, "1f1b")(made.state, made.batch)
    why = r"^the step cannot be cut into stages: loop-carried value \d+, tensor<f32>, goes from one micro-batch to the next"
    with pytest.raises(StageError, match=why):
        piped(Program(smoothed, made.state, made.batch), "2x4", 4, "1f1b")(made.state, made.batch)


def smoothed(state: Any, batch: Any) -> Any:
    """Weighs each micro-batch by the losses of those before it."""

    def trip(carry: Any, part: Any) -> Any:
        def loss(state: Any) -> jax.Array:
            return carry[1] * jnp.mean((jnp.tanh(part[0] @ state[0]["w"]) - part[1]) ** 2)

        value, gradient = jax.value_and_grad(loss)(state)
        return (jax.tree.map(jnp.add, carry[0], gradient), 0.9 * carry[1] + value), value

    parts = jax.tree.map(lambda leaf: leaf.reshape(4, -1, *leaf.shape[1:]), batch)
    (total, _), values = jax.lax.scan(trip, (jax.tree.map(jnp.zeros_like, state), jnp.float32(1)), parts)
    return jax.tree.map(lambda old, leaf: old - leaf, state, total), values


def test_a_plan_ends_what_nothing_reads() -> None:
    made = program("mlp", microbatches=4)
    plan: StepPlan = piped(made, "2x4", 4, "1f1b").plan(made.state, made.batch)
    ended = [number for action in plan.actions for number in action.frees]
    kept = {number for numbers in plan.results for number in numbers} | set(plan.given)
    assert sorted(ended) == sorted(set(range(len(plan.slots))) - kept)


@pytest.mark.parametrize("name", ["mlp", "scanned"])
def test_adamw_with_clipping_sends_scalars_and_tied_sums(name: str) -> None:
    """Moments are where their parameter is, row by row where that is stacked."""
    made = program(name, microbatches=4)
    optimizer = optax.chain(optax.clip_by_global_norm(0.5), optax.adamw(1e-2))

    def step(state: Any, batch: Any) -> Any:
        parameters, moments = state
        new, value = made.step(parameters, batch)
        gradient = jax.tree.map(jnp.subtract, parameters, new)
        updates, moments = optimizer.update(gradient, moments, parameters)
        return (optax.apply_updates(parameters, updates), moments), value

    state = (made.state, optimizer.init(made.state))
    run = piped(Program(step, state, made.batch), "2x4", 4, "1f1b")
    want, got = jax.jit(step)(state, made.batch), run(run.place(state, made.batch), made.batch)
    for one, other in zip(jax.tree.leaves(want), jax.tree.leaves(got), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-6)
    plan = run.plan(state, made.batch)
    shapes = run.shapes(state, made.batch)
    sizes = {slot.name: shapes[slot.name].size for slot in plan.transfers()}
    assert {size for name, size in sizes.items() if name.startswith("update")} == {1}
    tied = [name for name in sizes if name.startswith("carried")]
    assert len(tied) == (1 if name == "scanned" else 0)


def test_a_report_has_what_the_plan_says() -> None:
    made = program("mlp", microbatches=4, layers=8)
    run = piped(made, "4x2", 4, "1f1b")
    report = run.report(made.state, made.batch)
    found = report.as_dict()
    layer = 4 * (16 * 16 + 16)
    assert [row["state_bytes"] for row in found["stages"]] == [2 * layer] * 4
    assert [row["peak_live"] for row in found["places"]] == [4, 3, 2, 1]
    activation = 64 // 4 * 16 * 4
    scalars = 4  # the norm of the gradients, which goes up, and comes back
    assert found["places"][1]["sent"] == {0: 4 * activation, 2: 4 * activation + scalars}
    flops = [row["flops"]["forward"] for row in found["stages"]]
    assert max(flops) < 1.1 * min(flops)
    assert str(report).startswith(f"1f1b, 4 stages, 4 micro-batches, bubble {float(report.bubble):.1%} by FLOPs\n")
    assert "\n  stage 0 at place 0: forward " in str(report)
    assert "\n  place 3, 2 devices: at most 1 micro-batch, " in str(report)
    equal_stages = Fraction(3, 7)  # (S - 1) / (M + S - 1)
    assert abs(report.bubble - equal_stages) < Fraction(1, 20)
    assert json.loads(report.json()) == json.loads(json.dumps({**found, "bubble": str(report.bubble)}))


def test_a_report_is_a_page_and_a_picture_with_the_timeline(tmp_path: Path) -> None:
    made = program("mlp", microbatches=4, layers=8)
    report = piped(made, "4x2", 4, "zb-h1").report(made.state, made.batch)
    page = report.html()
    kinds = 3 * 4 - 1  # forward, gradients of inputs and of weights, of 4 stages; the first has no gradient of inputs
    assert page.count("<rect") == kinds * 4
    assert "<h1>zb-h1: 4 stages, 4 micro-batches; bubble " in page and "bytes sent to 3" in page
    assert f"<td>{flops_text(report.stages[2].flops['weights'])}</td>" in page
    assert ">place 3</text>" in page and "device 0" not in page
    report.plot(tmp_path / "timeline.png")
    assert (tmp_path / "timeline.png").read_bytes().startswith(b"\x89PNG")
    report.plot(tmp_path / "timeline.svg")
    picture = (tmp_path / "timeline.svg").read_text()
    assert all(f"<!-- {text} -->" in picture for text in ("place 0", "time, as FLOPs of a stage", "100 kFLOP"))
