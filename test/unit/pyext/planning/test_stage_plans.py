"""Plans with pipeline stages: what is chosen, what it is judged by, and steps that run under them."""

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec
from modules import parsed

import paropt
from paropt.clusters import targets
from paropt.costs.clusters import Cluster, cluster_of
from paropt.costs.machines import read_table
from paropt.passes.pipelining import forward_stages
from paropt.passes.pipelining.cut_points import cut_points
from paropt.plan import Plan, PlanError, compiled_for, planned
from paropt.planning.candidates import Candidate, Mesh, Stages, templates
from paropt.planning.goals import Goal
from paropt.planning.proposals import choices_of
from paropt.planning.search import Judged
from paropt.planning.sharded_programs import Step, lowered_without_mesh, step_in, step_of
from paropt.planning.stage_audits import Transfer, staged_audit
from paropt.planning.stage_choices import Choice, StageCuts, stage_candidates, stage_choices, unbeaten
from paropt.planning.stage_model import Modelled, seconds_alone
from paropt.planning.stage_steps import Footprint, peak_memory
from paropt.stages.stage_report import peak_bytes
from paropt.stages.stages_apart import compile_stages, standing_stage_compiler
from paropt.stages.step_plan import Action

LAYERS, MICROBATCHES, EXAMPLES, WIDTH = 4, 4, 8, 16


def step(state: Any, inputs: jax.Array) -> Any:
    """Whole numbers in, whole numbers out: sums are exact, whoever adds them up."""

    def loss(state: Any, x: jax.Array) -> jax.Array:
        for number, layer in enumerate(state):
            with jax.named_scope(f"layer{number}"):
                x = jnp.maximum(x @ layer["w"] + layer["b"], 0)
        return jnp.sum(x)

    def body(total: Any, x: jax.Array) -> Any:
        value, gradients = jax.value_and_grad(loss)(state, x)
        return jax.tree.map(jnp.add, total, (gradients, value)), None

    (gradients, value), _ = jax.lax.scan(body, (jax.tree.map(jnp.zeros_like, state), jnp.float32(0)), inputs)
    return jax.tree.map(lambda old, leaf: old - leaf, state, gradients), value


def arguments(layers: int = LAYERS, microbatches: int = MICROBATCHES) -> tuple[Any, jax.Array]:
    rng = np.random.default_rng(0)

    def whole(*shape: int) -> Any:
        return rng.integers(-1, 2, shape).astype(np.float32)

    state = [{"w": whole(WIDTH, WIDTH), "b": whole(WIDTH)} for _ in range(layers)]
    return state, whole(microbatches, EXAMPLES, WIDTH)


ARGS = arguments()
TENSOR = Mesh((("stage", 2), ("data", 2), ("model", 2)))
BY_COLUMNS = """
[[rule]]
role = "batch"
examples = "data"

[[rule]]
path = "w"
shard = ["...", "model"]
"""


def staged(name: str, stages: int, schedule: str, policy: str = "keep-shards", chunks: int | None = None) -> Candidate:
    rules = next(each.rules for each in templates(8) if each.name == name)
    mesh = Mesh((("stage", stages), ("data", 8 // stages)))
    return Candidate(f"pp x {name}", mesh, rules, policy, Stages(schedule, MICROBATCHES, chunks))


def lowered(function: Any = step, args: Any = ARGS) -> Step:
    return step_of(lowered_without_mesh(function, args, targets.get("cpu:8")))


def cluster(target: str = "gpu:h100:1x2x4") -> Cluster:
    return cluster_of(target, read_table())


@pytest.fixture(scope="module")
def found() -> Plan:
    dp = next(each for each in templates(8) if each.name == "dp")
    candidates = [staged("dp", 2, "1f1b"), staged("dp", 2, "gpipe"), staged("fsdp", 4, "zb-h1", "once"), dp]
    return paropt.plan(step, *ARGS, target="cpu:8", candidates=candidates)


def judged(plan: Plan, schedule: str) -> Judged:
    return next(each for each in plan.ranking if each.candidate.stages and each.candidate.stages.schedule == schedule)


@pytest.mark.parametrize(
    "candidate",
    [
        staged("dp", 2, "1f1b"),
        staged("fsdp", 2, "interleaved", "keep-shards", 2),
        staged("fsdp", 4, "zb-h1", "once"),
        Candidate("pp", Mesh((("stage", 8),)), "", "keep-shards", Stages("gpipe", 4, None)),
        Candidate("pp x dp x tp", TENSOR, BY_COLUMNS, "keep-shards", Stages("1f1b", 4, None)),
    ],
    ids=str,
)
def test_a_step_under_a_plan_with_stages_is_the_step(candidate: Candidate, tmp_path: Path) -> None:
    args = arguments(8) if candidate.mesh.axes == (("stage", 8),) else ARGS
    Plan("cpu:8", candidate).save(tmp_path / "plan.toml")
    plan = Plan.load(tmp_path / "plan.toml")
    assert (plan.candidate.mesh, plan.candidate.policy, plan.candidate.stages) == (
        candidate.mesh,
        candidate.policy,
        candidate.stages,
    )
    run = plan.jit(step)
    state = run.place(*args)  # type: ignore[attr-defined]
    if "fsdp" in candidate.name:
        assert "data" in str(state[0]["w"].sharding.spec)
    if candidate.mesh == TENSOR:
        assert candidate.batch_axes == ("data",) and state[0]["w"].sharding.spec == PartitionSpec(None, "model")
    assert len(state[0]["w"].sharding.device_set) == 8 // candidate.mesh.axes[0][1]
    for got, want in zip(jax.tree.leaves(run(state, args[1])), jax.tree.leaves(jax.jit(step)(*args)), strict=True):
        np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
    again = run(*args)  # from wherever they are
    for got, want in zip(jax.tree.leaves(again), jax.tree.leaves(jax.jit(step)(*args)), strict=True):
        np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


def test_tensor_parallelism_inside_stages_is_compiled_and_counted() -> None:
    candidate = Candidate("pp x dp x tp", TENSOR, BY_COLUMNS, "keep-shards", Stages("1f1b", MICROBATCHES))
    plan = paropt.plan(step, *ARGS, target="cpu:8", candidates=[candidate, staged("dp", 2, "1f1b")])
    tensor, data = (
        next(each.audit for each in plan.ranking if (each.candidate == candidate) == is_tensor)
        for is_tensor in (True, False)
    )
    assert tensor is not None and data is not None
    over = {each.axes for each in tensor.collectives}
    assert ("data",) in over and ("model",) in over
    gradients = [each for each in tensor.collectives if each.axes == ("data",)]
    half = WIDTH * (WIDTH + 1) // 2  # elements of a layer on each device
    assert sum(each.payload * (each.executions or 0) for each in gradients) == 2 * 4 * half, "once"
    assert {each.axes for each in data.collectives} == {("data",), ("stage",)}


def test_candidates_with_stages_stand_in_the_ranking_with_their_schedule(found: Plan) -> None:
    assert all(each.audit is not None for each in found.ranking), found
    text = str(found)
    titles, *rows = text.splitlines()[1:]
    assert "schedule" in titles and "waits" in titles
    assert any("1f1b of 4" in row and "stage=2 x data=4" in row for row in rows)
    assert text.count("<- best") == 1 and "x the time: " in text


def test_a_schedule_that_keeps_more_takes_more_and_sends_the_same(found: Plan) -> None:
    one, all_ = judged(found, "1f1b"), judged(found, "gpipe")
    assert one.audit is not None and all_.audit is not None
    assert one.peak_memory < all_.peak_memory
    assert one.audit.collectives == all_.audit.collectives


def test_bytes_sent_are_those_of_the_stage_that_sends_most(found: Plan) -> None:
    """An activation or a cotangent per micro-batch; and the gradients of two layers, reduced over four devices."""
    audit = judged(found, "1f1b").audit
    assert audit is not None
    sent = {each.name: each for each in audit.collectives if isinstance(each, Transfer)}
    (transfer,) = [each for each in sent.values() if each.executions == MICROBATCHES]
    assert transfer.wire_bytes == EXAMPLES * WIDTH * 4 / 4 and transfer.axes == ("stage",)
    reduced = [each for each in audit.collectives if each.kind == "all-reduce" and each.axes == ("data",)]
    gradients = 2 * (WIDTH * WIDTH + WIDTH) * 4
    assert sum(each.payload * (each.executions or 0) for each in reduced) in (gradients, gradients + 4)


def test_the_time_is_that_of_the_busiest_stage_and_what_it_waits(found: Plan) -> None:
    for each in found.ranking:
        assert each.audit is not None and each.audit.estimate is not None
        time = each.audit.estimate
        assert (time.waiting > 0) == (each.candidate.stages is not None)
        assert time.seconds == pytest.approx(time.compute + time.communication - time.hidden + time.waiting)


def test_equal_stages_are_compiled_once() -> None:
    cuts = StageCuts(lowered())
    with standing_stage_compiler():
        made = compile_stages(targets.get("cpu:8"), *cuts.of(staged("dp", 4, "1f1b")))
    numbers = {key: made.numbers[key] for key in made.numbers if key[0] in ("forward_1", "forward_2")}
    assert len(numbers) == 2 and len({*numbers.values()}) == 1
    assert len(made.programs) < len(made.numbers)


def test_the_model_keeps_what_the_plan_of_the_step_keeps() -> None:
    """Values of micro-batches alone: as the report of a pipeline counts them."""
    cuts = StageCuts(lowered())
    for schedule in ("1f1b", "gpipe"):
        cut, layout = cuts.of(staged("dp", 2, schedule))
        plan = layout.plan(cut)
        is_value = [slot.microbatch >= 0 and slot.name != "trip" for slot in plan.slots]
        sizes = [int(np.prod(cut.shapes[slot.name].shape)) * 4 for slot in plan.slots]
        held = [size * value for size, value in zip(sizes, is_value, strict=True)]
        peaks = peak_memory(plan, held.__getitem__, _made(held))
        assert peaks == peak_bytes(cut, plan)


def _made(held: list[int]) -> Callable[[Action], Footprint]:
    """Results are in new memory, and that is all."""
    return lambda action: Footprint(sum(held[number] for number in action.outputs))


def test_choices_are_as_good_as_all_cuts_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of layers of different widths, with all cuts between them, schedules, shardings and policies."""

    widths = [256, 1024, 1024, 256, 256, 256]
    state = [{"w": _shape(*pair), "b": _shape(pair[1])} for pair in pairwise(widths)]
    module = lowered(step, (state, _shape(4, 4096, widths[0])))
    ours = cluster()
    ours = replace(ours, machine=replace(ours.machine, program_start=0.0))  # times are those of the devices
    alone = seconds_alone(choices_of(module.module), ours)
    chosen, _ = stage_choices(StageCuts(module), ours, alone)
    best = min(each.model.seconds for each in chosen)
    worse = 0
    for stages in (2, 4):
        for points in combinations(range(1, len(state)), stages - 1):
            monkeypatch.setattr(forward_stages, "cut_points", _fixed(points, stages))
            made, _ = stage_choices(StageCuts(module), ours, alone)
            forced = [each for each in made if _is_of(each.candidate, stages)]  # none where a stage has no parameters
            assert all(each.model.seconds >= best * (1 - 1e-9) for each in forced), points
            worse += bool(forced) and min(each.model.seconds for each in forced) > best * 1.01
    assert worse >= 3, "cuts are not all alike"


def _shape(*sizes: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sizes, jnp.float32)


def _is_of(candidate: Candidate, stages: int) -> bool:
    """Whether it has so many stages, one per device."""
    return candidate.mesh.axes[0][1] == stages and candidate.stages is not None and candidate.stages.chunks is None


def _fixed(points: tuple[int, ...], stages: int) -> Any:
    """Cuts at these layers where there are as many; else the best."""
    found = cut_points

    def cut(costs: Any, count: int, candidates: Any) -> list[int] | None:
        starts = [*candidates]
        is_forced = count == stages and len(starts) < len(costs)
        return [starts[point - 1] for point in points] if is_forced else found(costs, count, candidates)

    return cut


def test_a_step_that_jax_has_printed_is_cut_the_same() -> None:
    text = jax.jit(step).lower(*ARGS).as_text(debug_info=True)
    module = step_in(parsed(text))
    target = compiled_for(targets.get("cpu:8"), read_table())
    printed = planned(module, target, Goal(), candidates=[staged("dp", 2, "1f1b")])
    assert "1f1b of 4" in str(printed) and printed.ranking[0].audit is not None


def scanned(state: Any, inputs: jax.Array) -> Any:
    def layer(x: jax.Array, own: Any) -> Any:
        return jnp.maximum(x @ own["w"] + own["b"], 0), None

    def body(total: Any, x: jax.Array) -> Any:
        made = jax.value_and_grad(lambda state: jnp.sum(jax.lax.scan(layer, x, state)[0]))(state)
        return jax.tree.map(jnp.add, total, made), None

    start = (jnp.float32(0), jax.tree.map(jnp.zeros_like, state))
    (value, gradients), _ = jax.lax.scan(body, start, inputs)
    return jax.tree.map(lambda old, leaf: old - leaf, state, gradients), value


def test_scanned_layers_are_cut_between_their_rows() -> None:
    layers, inputs = ARGS
    module = lowered(scanned, (jax.tree.map(lambda *rows: np.stack(rows), *layers), inputs))
    found, why = stage_choices(StageCuts(module), cluster(), seconds_alone(choices_of(module.module), cluster()))
    assert {each.candidate.mesh.axes[0][1] for each in found} == {2, 4}, why


def test_no_choice_with_stages_counts_as_a_template() -> None:
    assert staged("dp", 2, "1f1b").is_proposed and not any(each.is_proposed for each in templates(8))


def test_what_another_choice_beats_in_all_is_left_out() -> None:
    names = {"a": (1.0, 9, 9.0), "b": (2.0, 9, 9.0), "c": (3.0, 5, 9.0), "d": (4.0, 9, 1.0), "e": (1.0, 9, 9.0)}
    mesh = Mesh((("stage", 2),))
    made = [Choice(Candidate(name, mesh, "", ""), Modelled(*figures)) for name, figures in names.items()]
    assert [each.candidate.name for each in unbeaten(made)] == ["a", "c", "d"]


def without_loop(state: Any, inputs: jax.Array) -> Any:
    return jax.tree.map(lambda leaf: leaf - jnp.sum(inputs), state), jnp.sum(inputs)


@pytest.mark.parametrize(
    ("function", "args", "why"),
    [
        (without_loop, ARGS, "no stages: the step cannot be cut into stages: "),
        (step, arguments(LAYERS, 1), "no stages: "),
        (step, arguments(1), "no stages: "),
    ],
    ids=["no loop", "one micro-batch", "one layer"],
)
def test_a_step_without_stages_says_why_in_one_line(function: Any, args: Any, why: str) -> None:
    module = lowered(function, args)
    found, text = stage_candidates(StageCuts(module), cluster(), choices_of(module.module), Goal())
    assert found == [] and text.startswith(why) and "\n" not in text


def test_a_budget_leaves_out_what_keeps_more() -> None:
    module = lowered()
    choices = choices_of(module.module)
    found, _ = stage_candidates(StageCuts(module), cluster(), choices, Goal(1 << 30))
    assert found and all(each.stages is not None for each in found)
    none, text = stage_candidates(StageCuts(module), cluster(), choices, Goal(100))
    assert none == [] and "take" in text and "at least" in text


def test_stages_that_send_least_come_first_where_bytes_count_however_slow_they_are() -> None:
    module = lowered()
    choices = choices_of(module.module)
    slow, text = stage_candidates(StageCuts(module), cluster(), choices, Goal())
    assert slow == [] and "without stages" in text
    first, *_ = stage_candidates(StageCuts(module), cluster(), choices, Goal(objective="bytes"))[0]
    ways, _ = stage_choices(StageCuts(module), cluster(), seconds_alone(choices, cluster()))
    assert min(ways, key=lambda each: each.model.sent).candidate.mesh == first.mesh


def test_the_page_shows_the_schedule(found: Plan) -> None:
    candidate = judged(found, "1f1b").candidate
    text = Plan("cpu:8", candidate, found.ranking).html()
    assert "<h3>Schedule</h3>" in text and "1f1b of 4 micro-batches" in text and "waiting for other stages" in text


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('stages = { schedule = "1f1b" }', "plan, stages: expected schedule and microbatches"),
        ('stages = { schedule = "1f1", microbatches = 4 }', "plan, stages: no schedule '1f1': did you mean '1f1b'?"),
        ('stages = { schedule = "1f1b", microbatches = "4" }', "plan, stages, microbatches: expected a number"),
        ('stages = { schedule = "interleaved", microbatches = 3 }', "micro-batches must be a multiple of the stages"),
    ],
)
def test_a_wrong_plan_file_is_one_line_that_says_where(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(
        f'[plan]\nname = "a"\ntarget = "cpu:8"\npolicy = "once"\nmesh = {{ stage = 2, data = 4 }}\n{line}\n'
    )
    with pytest.raises(PlanError) as error:
        Plan.load(path)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_mistakes_are_one_line(found: Plan) -> None:
    plan = Plan("cpu:8", staged("dp", 2, "1f1b"))
    with pytest.raises(PlanError, match=r"^plan.jit: a plan with stages takes `donate_argnums`, not `inline`$"):
        plan.jit(step, inline=True)
    wrong = staged("dp", 2, "1f1b", "gather")
    both = paropt.plan(step, *ARGS, target="cpu:8", candidates=[wrong, found.candidate])
    assert "policy: expected one of keep-shards, defer, once, got 'gather'" in str(both)


def test_stages_are_judged_for_devices_that_are_not_here() -> None:
    cut, layout = StageCuts(lowered()).of(staged("dp", 2, "1f1b"))
    with standing_stage_compiler():
        for target in ("tpu:v5e:2x4", "gpu:h100:1x2x4"):
            audit = staged_audit(targets.get(target), cut, layout, cluster(target))
            assert audit.peak_memory and audit.estimate is not None and audit.estimate.waiting > 0
