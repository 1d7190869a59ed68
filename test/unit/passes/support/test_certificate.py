"""Each reduction that moves has a certificate that follows the schema and names the laws and facts it rests on."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jsonschema
import pytest
from jax import lax
from jax.sharding import PartitionSpec
from numeric.corpus import LIT, Case, cases
from numeric.oracle import only, optimized
from programs.program import mesh_of
from unit.scripts import ROOT

import paropt
from paropt.certificates import certificate_json
from paropt.passes.ir.branches import BRANCHES
from paropt.passes.ir.loops import WHILE
from paropt.passes.ir.op_table import LINEAR
from paropt.passes.support.certificate import Certificate
from paropt.passes.support.pipeline import Pipeline

SCHEMA = json.loads((ROOT / "docs/certificate-schema.json").read_text())
STAYS = (
    "each device reads one shard",
    "equivalent values are reduced once",
)  # of a reduction that is still in its loop
CASES = [case for path in sorted(LIT.glob("defer-sync*.mlir")) for case in cases(path)]


def certificates(case: Case) -> list[Certificate]:
    _, remarks = optimized(only(case.module, case.function), case.passes)
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(certificate_json(remarks, case.passes)))
    deferred = [remark for remark in remarks if remark.applied and remark.pass_name == "defer-sync"]
    reductions = [remark for remark in deferred if remark.op not in (*BRANCHES, WHILE)]
    moved = [remark for remark in reductions if not any(words in remark.text for words in STAYS)]
    assert all(remark.certificate is not None for remark in moved)
    return [remark.certificate for remark in moved if remark.certificate]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_move_has_a_certificate(case: Case) -> None:
    for found in certificates(case):
        assert len(found.moved_to) < len(found.moved_from)
        assert found.moved_to == found.moved_from[: len(found.moved_to)]
        # A value of a program for all devices is one for all of them.
        assert bool(found.uniform) == (found.form == "manual"), (
            "the number of trips has to be uniform, or the branch is known"
        )
        for step in found.chain:
            assert step.op in LINEAR or step.op in (found.combiner, "stablehlo.if", "stablehlo.case", "stablehlo.while")


def one(function: str, passes: str = "defer-sync") -> Certificate:
    (case,) = [c for c in CASES if c.function == function and c.passes == passes]
    return certificates(case)[0]


def test_a_reduction_that_shardings_imply() -> None:
    passes = next(c.passes for c in CASES if "defer-sync{wire-dtype=bf16}" in c.passes)
    found = one("single_accumulator", passes)
    assert (found.form, found.kind, found.axes, found.groups) == ("global", "sdy.all_reduce", ("data",), ())
    assert (found.bytes, found.runs, found.bytes_after) == (64, 4, 64)


def test_a_chain_in_program_order() -> None:
    found = one("scaled")
    assert [step.op for step in found.chain] == [
        f"stablehlo.{name}" for name in ("divide", "multiply", "multiply", "add")
    ]
    assert found.chain[0].law == "sum(x) / c = sum(x / c)"
    roles = [(fact.role, fact.op) for fact in found.uniform]
    assert roles == [("the trip count", "stablehlo.while")] + [
        ("a factor", f"stablehlo.{name}") for name in ("divide", "multiply", "multiply")
    ]
    assert found.uniform[1].why == "computed on every device from constants"
    assert "all_reduce at" in found.uniform[2].why and "which all devices of a group get" in found.uniform[2].why


def test_bytes_and_runs() -> None:
    found = one("in_a_branch")
    assert (found.kind, found.element_type, found.bytes, found.runs, found.bytes_after) == (
        "stablehlo.all_reduce",
        "f32",
        16,
        3,
        16,
    )
    assert [scope.op for scope in found.moved_from] == ["stablehlo.while", "stablehlo.if"]
    assert ("a predicate", "stablehlo.if") in [(fact.role, fact.op) for fact in found.uniform]


def test_a_nest_of_loops_has_an_entry_for_each() -> None:
    (case,) = [c for c in CASES if c.function == "nested_loops"]
    inner, outer = certificates(case)
    assert inner.source == outer.source
    assert (len(inner.moved_from), len(inner.moved_to), len(outer.moved_from), len(outer.moved_to)) == (2, 1, 1, 0)


def test_a_branch_that_is_peeled_says_how_that_is_known() -> None:
    found = one("sync_in_the_last_trip")
    assert found.chain == ()
    assert [fact.why for fact in found.uniform] == ["computed for each of 4 trips: only the last one takes the branch"]


def test_axes_and_sources_of_a_program() -> None:
    mesh = mesh_of(replica=2, data=4)

    def step(x: jax.Array, scale: jax.Array) -> jax.Array:
        return lax.fori_loop(0, 3, lambda i, total: total + scale * lax.psum(x, "data"), jnp.zeros(x.shape))

    specs: dict[str, Any] = {
        "in_specs": (PartitionSpec("data"), PartitionSpec()),
        "out_specs": PartitionSpec(),
        "check_vma": False,
    }
    ours = paropt.jit(jax.shard_map(step, mesh=mesh, **specs))
    remarks = paropt.remarks(ours.lower(jnp.ones(8), jnp.ones(())))
    (found,) = [remark.certificate for remark in remarks if remark.certificate]
    assert found.axes == ("data",)
    assert Path(found.source.file).name == Path(__file__).name
    assert "argument 1 of the manual computation, which is not sharded over the groups" in found.uniform[1].why


def test_the_command_line_writes_them(tmp_path: Path) -> None:
    source, target = tmp_path / "step.mlir", tmp_path / "moved.json"
    (case,) = [c for c in CASES if c.function == "accumulate"]
    source.write_text(only(case.module, case.function))
    script = "import sys; from paropt.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", script, str(source), "--passes=grad-sync", f"--certificate={target}"]
    assert subprocess.run(command, capture_output=True).returncode == 0
    written = json.loads(target.read_text())
    jsonschema.Draft202012Validator(SCHEMA).validate(written)
    assert len(written["moved"]) == 1 and written["passes"] == str(Pipeline.parse("grad-sync"))
    refused = subprocess.run([*command, "--split-input-file"], capture_output=True, text=True)
    assert refused.returncode == 1
    assert refused.stderr == "par-opt: error: --certificate is for one module: leave --split-input-file out\n"
