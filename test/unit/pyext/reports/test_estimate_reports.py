"""Estimates of step times in audits: text, JSON and its schema, the command line, errors of users."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import jsonschema
import pytest
from command import par_opt
from programs.catalog import MATRIX
from programs.program import Sizes
from unit.clusters import available
from unit.scripts import ROOT

import paropt
from paropt.clusters import gpus
from paropt.costs import CostError, Estimate, OpTime
from paropt.reports.json_form import loads
from paropt.reports.report_text import slowest_ops

SCHEMA = json.loads((ROOT / "docs/audit-schema.json").read_text())
STEP = ROOT / "test/par-opt/audit.mlir"
SLOW_WIRE = """
[cpu]
memory_bandwidth = 4e9
op_start = 0.0
source = "a test"
flops = { f32 = 20e9 }
links = [{ name = "wire", within = "cluster", bandwidth = 1e6, latency = 1e-3, start = 0.0, algorithms = ["ring"], source = "a test" }]
"""


def test_the_command_estimates_before_and_after() -> None:
    done = par_opt(str(STEP), "--passes=defer-sync", "--audit", "--estimate")
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("estimated step"))
    assert line.count("ms") + line.count("us") == 2
    assert "hidden beside compute" in done.stdout and "slowest ops" in done.stdout


def test_without_the_option_there_is_no_estimate() -> None:
    done = par_opt(str(STEP), "--passes=defer-sync", "--audit=json")
    assert "estimate" not in json.loads(done.stdout)["targets"][0]["after"]


def test_names_of_combined_ops_are_whole() -> None:
    name = "jit(step)/(while/body/psum:while/body/add:mul)"
    op = OpTime("all-reduce.1", "all-reduce", "communication", 1, 1.0, 0.0, 0.0, name)
    total = Estimate("cpu:8", 0.0, 1.0, 0.0, 0.0, False, False, (), (op,))
    assert slowest_ops(total).splitlines()[1].endswith("  while/body/psum and 2 more")


def test_json_follows_the_schema_and_can_be_read_again() -> None:
    text = par_opt(str(STEP), "--passes=defer-sync", "--audit=json", "--estimate").stdout
    document = json.loads(text)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    for side in ("before", "after"):
        found = document["targets"][0][side]["estimate"]
        assert found["seconds"] == pytest.approx(found["compute"] + found["communication"] - found["hidden"])
        assert found["cluster"].startswith("cpu:") and found["ops"]
    assert loads(text).json() == text


def test_fewer_reductions_are_estimated_to_be_faster_with_a_slow_wire(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(SLOW_WIRE)
    program = MATRIX["plain_mlp_p0"](Sizes())
    found = paropt.audit(program.step, *program.args, passes="grad-sync", estimate=str(tmp_path / "own.toml"))
    before, after = found.before.estimate, found.after.estimate
    assert before is not None and after is not None
    assert after.communication < before.communication / 2
    assert after.flops == before.flops > 0
    assert "estimated step" in str(found)


def test_flops_of_a_program_do_not_depend_on_how_its_compiler_writes_products() -> None:
    flops = set()
    for name in ("cpu:8", "tpu:v5e:2x4", "gpu:h100:1x1x8"):
        target = paropt.targets.get(name)
        target.require_compiler()
        program = MATRIX["plain_mlp_p14"](Sizes(), devices=target.devices)
        after = paropt.audit(program.step, *program.args, targets=[name], estimate=True)[name].after
        assert after.estimate is not None and not after.estimate.unknown
        flops.add(after.estimate.flops)
    assert len(flops) == 1


def test_a_program_on_one_device_has_an_estimate() -> None:
    found = paropt.audit(jax.jit(lambda x: x @ x), jnp.ones((8, 8)), estimate=True)
    assert found.estimate.flops == 2 * 8**3 and found.estimate.communication == 0
    assert "estimated step" in str(found)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--estimate"], "--estimate says how to audit: give --audit, too"),
        (["--audit", "--estimate=none.toml"], "cannot read 'none.toml': No such file or directory"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], message: str) -> None:
    done = par_opt(str(STEP), *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"par-opt: error: {message}\n"


def test_a_machine_without_figures_is_one_line(tmp_path: Path) -> None:
    available("gpu:h100:1x1x2")
    (tmp_path / "mine.txtpb").write_text(gpus.target_config(gpus.GPUS["h100"]))
    done = par_opt(str(STEP), "--audit", "--estimate", f"--target=gpu:{tmp_path}/mine.txtpb:1x1x2")
    assert done.returncode == 1
    assert "no machine `mine`" in done.stderr and done.stderr.count("\n") == 1


def test_compiled_programs_do_not_say_for_which_machine() -> None:
    compiled = jax.jit(lambda x: x @ x).lower(jnp.ones((8, 8))).compile()
    with pytest.raises(TypeError, match="`estimate` is for programs that are not compiled yet"):
        paropt.audit(compiled, estimate=True)
    with pytest.raises(CostError, match=r"cannot read 'none.toml'"):
        paropt.audit(jax.jit(lambda x: x @ x), jnp.ones((8, 8)), estimate="none.toml")
