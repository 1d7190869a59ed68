"""`par-opt --plan`: the ranking, the plan file, and mistakes."""

from pathlib import Path

import jax
import pytest
from command import par_opt
from programs.program import Sizes
from programs.unplaced import shapes_of

from paropt.clusters import targets
from paropt.costs.machines import read_table
from paropt.plan import Plan, compiled_for, planned
from paropt.planning.candidates import templates
from paropt.planning.goals import Goal
from paropt.planning.sharded_programs import lowered_without_mesh, step_of

STEP = shapes_of("mlp", Sizes(width=32, layers=1, micro_batches=2, examples=16))


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "step.mlir"
    lowered = jax.jit(STEP.step, donate_argnums=0).lower(*STEP.args)
    path.write_text(lowered.as_text(debug_info=True))
    return path


def test_a_ranking_and_a_file_that_jax_can_use(module: Path, tmp_path: Path) -> None:
    written = tmp_path / "plan.toml"
    done = par_opt(str(module), "--plan", "--target=cpu:2", "-o", str(written))
    assert done.returncode == 0, done.stderr
    ranking, _, shardings = done.stdout.partition("\n\n")
    title, header, *rows = ranking.splitlines()
    assert shardings.startswith("shardings of the best\narguments") and "state/0/0/up " in shardings
    assert title.startswith("candidates for cpu:2, compiled") and header.split()[:3] == ["template", "mesh", "policy"]
    assert {row.split("  ")[0] for row in rows} >= {"dp", "zero1", "fsdp", "tp"}
    assert rows[-1].startswith("no stages: "), "one layer gives two stages nothing to do"
    plan = Plan.load(written)
    assert plan.target == "cpu:2" and rows[0].startswith(plan.candidate.name)
    state, *batches = plan.shardings(STEP.step, *STEP.args, devices=jax.devices()[:2])
    assert len(jax.tree.leaves(state)) == len(jax.tree.leaves(STEP.args[0])) and batches


def test_a_page(module: Path, tmp_path: Path) -> None:
    done = par_opt(str(module), "--plan=html", "--target=cpu:2", "-o", str(tmp_path / "plan.toml"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("<!DOCTYPE html>") and done.stdout.count("<html") == 1
    assert "par-opt plan for cpu:2" in done.stdout and str(Plan.load(tmp_path / "plan.toml").candidate) in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--plan"], "--plan is for one cluster: give one --target, as in --target=gpu:h100:1x1x8"),
        (["--plan", "--target=cpu:2", "--target=cpu:4"], "--plan is for one cluster: give one --target, as in"),
        (["--plan", "--target=cpu:2", "--audit"], "--plan chooses for a step as it is: leave --audit out"),
        (["--plan", "--target=cpu:2", "--passes=cse"], "--plan chooses for a step as it is: leave --passes out"),
        (["--memory=3GiB"], "--memory says what a plan may take: give --plan, too"),
        (["--objective=bytes"], "--objective says what a plan minimises: give --plan, too"),
        (["--plan-cache=folder"], "--plan-cache is for plans: give --plan, too"),
        (
            ["--plan", "--target=cpu:2", "--memory=80"],
            "--memory='80': text takes a unit, as in 80GiB, or 80B for bytes",
        ),
        (["--plan", "--target=cpu:2", "--memory=8apples"], "--memory='8apples': expected a number of bytes, such as"),
        (["--plan=json", "--target=cpu:2"], "argument --plan: invalid choice: 'json'"),
        (["--plan", "--target=cup:2"], "no target `cup:2`: expected `host`, `cpu:8`,"),
        (["--plan", "--target=cpu:2", "--estimate=none.toml"], "cannot read 'none.toml': No such file or directory"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], message: str, module: Path) -> None:
    done = par_opt(str(module), *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"par-opt: error: {message}") and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('module { sdy.mesh @m = <["data"=2]> func.func @main() { return } }', "the module names a mesh itself;"),
        ("module { func.func @f() { return } }", "the module has no function @main, which is what jax calls a step"),
        (
            "module attributes { mhlo.num_partitions = 4 : i32 } { func.func @main() { return } }",
            "the module is for 4 devices; give the step for one",
        ),
        (
            "module { func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> } }",
            "no argument of @main has a name, by which rules would shard it; print the step with",
        ),
        ("nonsense", "-:1:1: "),
    ],
)
def test_a_module_that_is_no_step_is_one_line(text: str, message: str) -> None:
    done = par_opt("--plan", "--target=cpu:2", text=text)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"par-opt: error: {message}") and done.stderr.count("\n") == 1


@pytest.mark.parametrize(("name", "compiler"), [("tpu:v5e:1x2", "libtpu"), ("gpu:h100:1x1x2", "CUDA plugin")])
def test_without_a_compiler_cpu_devices_stand_in(name: str, compiler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The times are of the target, by its figures."""
    monkeypatch.setattr(targets, "_is_installed", lambda module: False)
    monkeypatch.delenv("TPU_LIBRARY_PATH", raising=False)
    compiled = compiled_for(targets.get(name), read_table())
    assert (compiled.target.name, compiled.cluster.name, compiled.cluster.size) == ("cpu:2", name, 2)
    step = step_of(lowered_without_mesh(STEP.step, STEP.args, compiled.target))
    said: list[str] = []
    made = planned(step, compiled, Goal(), candidates=templates(2)[:1], progress=said.append)
    remark = said[0]
    assert remark.startswith(f"plan: remark: {name} needs ") and compiler in remark and "compiled for cpu:2" in remark
    assert made.target == name and str(made).startswith(f"remark: {name} needs ")
    slow = planned(step, compiled_for(targets.get("cpu:2"), read_table()), Goal(), candidates=templates(2)[:1])
    assert made.ranking[0].seconds < slow.ranking[0].seconds / 2
