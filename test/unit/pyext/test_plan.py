"""Plans: candidates, their ranking, budgets, files, and steps that run under a plan."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs import models
from programs.program import Sizes

import paropt
from paropt.base.wording import size_text
from paropt.clusters.compiled import TargetError
from paropt.costs.clusters import cluster_of
from paropt.costs.machines import read_table
from paropt.passes.state.role_rules import parse
from paropt.plan import Plan, PlanError
from paropt.planning.candidates import PROPOSED, Candidate, Mesh, templates
from paropt.planning.goals import TOLERANCE
from paropt.planning.proposals import choices_of, proposals, rates_of
from paropt.planning.ranking import sent
from paropt.planning.sharded_programs import lowered_without_mesh

MODEL = models.split_mlp(Sizes(width=32, layers=1, micro_batches=2, examples=16))
PARAMETERS = sum(leaf.nbytes for leaf in jax.tree.leaves(MODEL.parameters))


def step(state: Any, *batches: jax.Array) -> Any:
    """Nothing in it knows of a mesh."""

    def body(total: Any, batch: Any) -> Any:
        loss, gradients = jax.value_and_grad(MODEL.loss)(state, *batch)
        return jax.tree.map(jnp.add, total, gradients), loss

    total, losses = jax.lax.scan(body, jax.tree.map(jnp.zeros_like, state), batches)
    return jax.tree.map(lambda p, g: p - 0.125 * g, state, total), losses


ARGS = (jax.tree.map(np.asarray, MODEL.parameters), *map(np.asarray, MODEL.batches))


def chosen(*names: str, policy: str = "keep-shards") -> list[Candidate]:
    return [c for c in templates(8) if c.name in names and c.policy == policy and c.mesh.axes[0][1] in (1, 2, 8)]


@pytest.fixture(scope="module")
def found() -> Plan:
    return paropt.plan(step, *ARGS, target="cpu:8", candidates=chosen("dp", "fsdp"))


def test_templates_are_over_all_devices_and_their_rules_can_be_read() -> None:
    made = templates(8)
    assert {c.name for c in made} == {"dp", "zero1", "fsdp", "hsdp", "tp", "dp x tp", "fsdp x tp", "hsdp x tp"}
    assert all(c.mesh.size == 8 for c in made)
    assert all(parse(c.rules, c.name).rules for c in made)
    assert len(set(made)) == len(made)
    names = [c.name for c in made if c.policy == "keep-shards"]
    assert [c.name for c in made[: len(names)]] == names, "the default policy of all comes first"


@pytest.mark.parametrize("devices", [1, 2, 6])
def test_templates_of_other_numbers_of_devices(devices: int) -> None:
    assert {c.mesh.size for c in templates(devices)} == {devices}


def test_the_fastest_that_fits_wins(found: Plan) -> None:
    times = [judged.seconds for judged in found.ranking]
    assert times[1] > times[0] * (1 + TOLERANCE) and found.candidate == found.ranking[0].candidate
    text = str(found)
    assert text.count("<- best") == 1 and "x the time: " in text and "dp" in text and "fsdp" in text


def test_a_template_wins_over_a_proposal_that_is_the_same_in_all() -> None:
    (dp,) = chosen("dp")
    both = paropt.plan(step, *ARGS, target="cpu:8", candidates=[replace(dp, name=PROPOSED), dp])
    assert [judged.candidate.name for judged in both.ranking] == ["dp", PROPOSED]
    assert "about as fast, sends and takes the same\n" in str(both)


def test_a_budget_excludes_what_takes_more(found: Plan) -> None:
    """All was compiled before: the second plan reads the cache."""
    peaks = {judged.candidate.name: judged.peak_memory for judged in found.ranking}
    smallest = min(peaks, key=lambda name: peaks[name])
    limited = paropt.plan(step, *ARGS, target="cpu:8", candidates=chosen("dp", "fsdp"), memory=peaks[smallest])
    assert limited.candidate.name == smallest
    assert "over the memory budget" in str(limited)


def test_fewest_bytes_win_where_that_is_asked(found: Plan) -> None:
    """All was compiled before."""
    given = chosen("dp", "fsdp")
    lean = paropt.plan(step, *ARGS, target="cpu:8", candidates=given, objective="bytes")
    assert {judged.candidate for judged in lean.ranking} == {judged.candidate for judged in found.ranking}
    bytes_sent = [sent(judged) for judged in lean.ranking]
    assert bytes_sent == sorted(bytes_sent) and bytes_sent[0] * (1 + TOLERANCE) < bytes_sent[1]
    assert str(lean).startswith("candidates for cpu:8, compiled; per device and step; times are estimated; of those")
    assert "of those within 2% of the fewest bytes, the fastest wins" in lean.html()
    for wrong in ("time", None, np.array(["bytes", "seconds"])):
        with pytest.raises(ValueError, match=r"^objective: expected seconds or bytes, got "):
            paropt.plan(step, *ARGS, target="cpu:8", objective=cast(Any, wrong))


@pytest.mark.parametrize("seconds", [-1, float("nan")])
def test_a_time_that_is_none_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match=rf"^seconds={seconds}: expected a number of at least 0$"):
        paropt.plan(step, *ARGS, target="cpu:8", seconds=seconds)


def test_a_budget_that_nothing_fits_is_one_line_that_says_by_how_much(found: Plan) -> None:
    smallest = min(judged.peak_memory for judged in found.ranking)
    with pytest.raises(
        PlanError,
        match=r"^plan: no candidate fits 100 B: the smallest that was tried \(.*\) takes .*more; .* would help$",
    ) as error:
        paropt.plan(step, *ARGS, target="cpu:8", candidates=chosen("dp", "fsdp"), memory=100)
    assert size_text(smallest - 100) in str(error.value)


def test_a_saved_plan_can_be_loaded_and_used_as_rules(found: Plan, tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    found.save(path)
    loaded = Plan.load(path)
    assert (loaded.candidate.mesh, loaded.candidate.policy, loaded.target) == (
        found.candidate.mesh,
        found.candidate.policy,
        "cpu:8",
    )
    assert parse(loaded.candidate.rules, "plan").rules == parse(found.candidate.rules, "plan").rules
    assert str(loaded).startswith("plan for cpu:8: ")
    assert loaded.shardings(step, *ARGS) == found.shardings(step, *ARGS)


def test_rules_say_where_arguments_are() -> None:
    (fsdp,) = chosen("fsdp")
    state, *batches = Plan("cpu:8", fsdp).shardings(step, *ARGS)
    assert all("data" in str(sharding.spec) for sharding in jax.tree.leaves(state))
    assert all(not sharding.spec[0] and "data" in str(sharding.spec[1]) for sharding in batches)


@pytest.mark.parametrize("name", ["dp", "fsdp", "fsdp x tp"])
def test_a_step_under_a_plan_computes_the_same(name: str) -> None:
    want = jax.jit(step)(*ARGS)
    candidate = chosen(name)[0]
    got = Plan("cpu:8", candidate).jit(step)(*ARGS)
    for g, w in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(np.asarray(g), np.asarray(w), rtol=1e-4, atol=1e-4)


def test_a_step_under_a_plan_takes_numbers() -> None:
    with_number: Any = Plan("cpu:8", chosen("dp")[0]).jit(lambda scale, state, x, y: scale * jnp.sum(x))
    assert float(with_number(0.5, *ARGS)) == pytest.approx(0.5 * float(jnp.sum(ARGS[1])), rel=1e-5)
    assert with_number.lower(0.5, *ARGS).as_text()


def test_what_a_program_proposes_is_as_good_as_templates_that_know_names() -> None:
    """Of wide matrices, the first over its columns and the second over its rows; batches are whole then."""
    wide = models.split_mlp(Sizes(width=512, layers=1, micro_batches=2, examples=16))

    def renamed(state: Any, *batches: jax.Array) -> Any:
        def loss(state: Any, x: jax.Array, y: jax.Array) -> jax.Array:
            return wide.loss([{"up": state["a"], "down": state["b"]}], x, y)

        def body(total: Any, batch: Any) -> Any:
            return jax.tree.map(jnp.add, total, jax.grad(loss)(state, *batch)), None

        total = jax.lax.scan(body, jax.tree.map(jnp.zeros_like, state), batches)[0]
        return jax.tree.map(lambda p, g: p - 0.125 * g, state, total)

    (layer,) = wide.parameters
    args: tuple[Any, ...] = (
        {"a": np.asarray(layer["up"]), "b": np.asarray(layer["down"])},
        *map(np.asarray, wide.batches),
    )
    target = paropt.targets.get("cpu:8")
    lowered = lowered_without_mesh(renamed, args, target)
    proposed = proposals(choices_of(lowered.compiler_ir()), cluster_of(target, read_table()))
    over_all = [each for each in proposed if str(each.mesh) == "data=8"]
    made = paropt.plan(renamed, *args, target=target, candidates=[over_all[0], *chosen("dp", "tp")])
    assert made.candidate == over_all[0] and made.ranking[0].seconds < made.ranking[1].seconds / 2
    specs = [sharding.spec for sharding in jax.tree.leaves(made.shardings(renamed, *args))]
    assert [tuple(filter(None, spec)) for spec in specs] == [("data",), ("data",), (), ()]
    for got, want in zip(jax.tree.leaves(made.jit(renamed)(*args)), jax.tree.leaves(renamed(*args)), strict=True):
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-4, atol=1e-4)


def test_links_of_an_axis_are_the_slowest_that_it_crosses() -> None:
    table = read_table()
    inner, outer = table["h100"].links
    cluster = cluster_of("gpu:h100:1x2x4", table)
    over_hosts = rates_of(cluster, Mesh((("data", 2), ("model", 4)))).links
    assert over_hosts == {"data": min(inner.bandwidth, outer.bandwidth), "model": inner.bandwidth}


@pytest.mark.parametrize(("target", "link"), [("tpu:v5e:2x4", "v5e"), ("gpu:h100:1x1x8", "h100")])
def test_plans_for_devices_that_are_not_here(target: str, link: str) -> None:
    paropt.targets.get(target).require_compiler()
    made = paropt.plan(step, *ARGS, target=target, candidates=chosen("dp", "fsdp"))
    assert {judged.candidate.name for judged in made.ranking if judged.audit is not None} == {"dp", "fsdp"}
    assert link in made.target and made.ranking[0].seconds <= made.ranking[1].seconds


def test_a_plan_and_its_step_show_what_they_are() -> None:
    plan = Plan("cpu:8", chosen("dp")[0])
    assert repr(plan) == f"<Plan for cpu:8: {plan.candidate}>"
    assert repr(plan.jit(step)) == f"<{plan!r}.jit of {step!r}>"


def test_no_time_still_gives_the_first_candidates() -> None:
    given = chosen("dp", "fsdp", "zero1", "tp", "hsdp")
    limited = paropt.plan(step, *ARGS, target="cpu:8", candidates=given, seconds=0)
    assert 1 <= len(limited.ranking) < len(given)
    assert limited.skipped == len(given) - len(limited.ranking) and "no time for" in str(limited)


def test_no_time_still_gives_the_templates_that_everybody_knows() -> None:
    said: list[str] = []
    limited = paropt.plan(step, *ARGS, target="cpu:8", seconds=0, progress=said.append)
    assert {judged.candidate.name for judged in limited.ranking} == {"dp", "zero1", "fsdp", "hsdp"}
    assert limited.skipped > 10
    assert not any("shardings over" in line or "stages:" in line for line in said), "nothing else is looked for"
    rest = "proposals of the linear program, templates for experts, pipeline stages"
    assert f"no time for {limited.skipped} more candidates, {rest}\n" in str(limited)
    with pytest.raises(
        PlanError, match=rf"no candidate fits 1 B: .*; there was no time for \d\d more candidates, {rest}$"
    ):
        paropt.plan(step, *ARGS, target="cpu:8", seconds=0, memory="1B")


def test_a_candidate_with_wrong_rules_loses_and_says_why(found: Plan) -> None:
    wrong = Candidate("mine", Mesh((("data", 8),)), '[[rule]]\nrole = "state"\nlargest = "model"\n', "")
    both = paropt.plan(step, *ARGS, target="cpu:8", candidates=[wrong, *chosen("dp")])
    assert both.candidate.name == "dp"
    assert "the mesh has no axis `model`" in str(both)
    with pytest.raises(PlanError, match=r"plan: no candidate compiles for cpu:8: .*no axis `model`"):
        paropt.plan(step, *ARGS, target="cpu:8", candidates=[wrong])


def test_mistakes_are_one_line() -> None:
    with pytest.raises(TargetError, match="no target `cup:8`"):
        paropt.plan(step, *ARGS, target="cup:8")
    with pytest.raises(TypeError, match=r"^progress: expected a function that takes a line"):
        paropt.plan(step, *ARGS, target="cpu:8", progress=cast(Any, None))
    with pytest.raises(ValueError, match=r"^memory='80 apples': expected"):
        paropt.plan(step, *ARGS, target="cpu:8", memory="80 apples")
    mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    named = jax.jit(step, in_shardings=jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec()))
    with pytest.raises(PlanError, match="the step names a mesh itself"):
        paropt.plan(named, *ARGS, target="cpu:8")


def plan_text(policy: str = "", target: str = "cpu:8", mesh: str = "data = 8") -> str:
    return f'[plan]\nname = "a"\ntarget = "{target}"\npolicy = "{policy}"\nmesh = {{ {mesh} }}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[plan", "plan.toml: "),
        ('[[rule]]\nrole = "state"\nwhole = true', "it has no table [plan]"),
        ('[plan]\nname = "a"\ntarget = "cpu:8"\npolicy = ""', "plan.toml, plan: `mesh` is missing"),
        (
            '[plan]\nname = "a"\ntarget = "cpu:8"\npolicy = ""\nmesh = { data = 0 }',
            "mesh, data: expected a number of devices, found `0`",
        ),
        ('[[rule]]\nrole = "stat"\nwhole = true\n[plan]', "no role called `stat`"),
        (plan_text(policy="onse"), "plan.toml, plan, policy: grad-sync{policy=onse}: expected one of keep-shards, "),
        (plan_text(target="cpux:8"), "plan.toml, plan, target: no target `cpux:8`"),
        (plan_text(mesh="data = 7"), "plan: the mesh (data=7) has 7 devices, and the target cpu:8 has 8"),
        (plan_text(target="gpu:h100:1x2x8"), "the mesh (data=8) has 8 devices, and the target gpu:h100:1x2x8 has 16"),
    ],
)
def test_a_wrong_plan_file_is_one_line_that_says_where(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(text)
    with pytest.raises(PlanError) as error:
        Plan.load(tmp_path / "plan.toml")
    assert message in str(error.value) and "\n" not in str(error.value)


def test_a_plan_for_other_devices_is_one_line() -> None:
    with pytest.raises(PlanError, match=r"the plan is for 4 devices \(data=4\), not 8"):
        Plan("cpu:4", Candidate("dp", Mesh((("data", 4),)), "", "")).mesh()
