"""Every command and every snippet of README.md and docs/*.md is run, on a model of flax and one of equinox."""

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from command import par_opt
from frontend.doc_snippets import ROOT, Block, Training, blocks, pages
from jax.sharding import NamedSharding, PartitionSpec

import paropt
from paropt.clusters import targets
from paropt.passes.support.pipeline import Pipeline
from paropt.passes.support.registry import PASSES

BLOCKS = blocks()
LIBRARIES = ("flax", "equinox")

# Blocks and command lines that are not run here, by their first line: why.
NOT_RUN = {
    "make demo": "test/unit/tools/test_demo.py runs the demo",
    "pip install .": "`make lint` does, for the type checker",
    "make quick": "a part of what runs this",
    "make test": "it would run itself",
    "make test ROWS=all": "it would run itself, and more",
    "make test UNCHANGED=skip": "it would run itself",
    "make test-newest": "it would run itself, on another Python",
    "make times": "it would run itself",
    "make nightly": "it takes hours; by day, the same tests run on fewer programs",
    'python tools/policies_page.py --program half_blocks_p17 --width 128 --target gpu:h100:1x1x8 --budget "" --plans 7 --plot docs/policies.png': "it takes minutes; test/numeric/test_policies.py makes such a picture",
    'python tools/policies_page.py --program blocks_over_all --target gpu:h100:1x2x4 --width 128 --budget "" --plans 3': "it takes minutes; test/numeric/test_two_level_sharding.py counts what its rows do",
    "par-opt step.mlir --plan --target=gpu:h100:1x2x8 --memory=80GiB -o plan.toml": "it takes minutes; test/unit/pyext/command/test_plan_command.py runs it on a smaller cluster",
    "// RUN: %par-opt %s --passes=erase-unused-reductions | FileCheck %s": "a test is shown by its beginning",
    "%r = while (%i = 0, %acc = %start) {           %d = while (%i = 0, %sum = 0) {": "test/frontend/test_readme.py",
    '*_of("elementwise", "deterministic",': "a row of passes/ir/op_table.py",
    "[axes]                              # names of your own for axes of the mesh": "the rules.toml of the commands",
}
# Pages that are run elsewhere.
RUN_ELSEWHERE = {
    "docs/planning.md": "test/unit/pyext/planning/test_planning_page.py runs its scripts, test_stage_plans.py plans of stages, test_plan_command.py the command",
    "docs/stages.md": "test/numeric/test_pipeline_processes.py runs its scripts, in one process and in two",
    "docs/gallery.md": "tools/gallery.py, which takes the lines from the programs that it measures",
}

ACCUMULATION = "docs/accumulation.md"
DRIVER = (
    "One program per micro-batch: `paropt.accumulate`"  # test/numeric/test_accumulate.py runs it, with its own model
)

# Parts of snippets that a reader fills in.
FILLED_IN = {
    "def train_step(state, micro_batches): ...": "def train_step(state, micro_batches): return step(state, micro_batches)",
    "def train_step(state, batch): ...": "def train_step(state, batch): return step(state, batch)",
    "in_shardings=...": "in_shardings=in_shardings(mesh)",
}
TPU = "tpu:v5e:2x4"

# How the step of a section is written (see `Training`), where it is not a scan; and of a list of alternatives, of each line.
FORMS = {
    "Python loops: `roll-accumulation`": "unrolled",
    "A loss that is summed in a loop: `fuse-loops`": "summed_loss",
    "Whole batches: `split-microbatches`": "of_the_batch",
}
ALTERNATIVES = {"When gradients are reduced": ("scanned", "unrolled", "of_the_batch", "scanned", "scanned")}


def first_line(text: str) -> str:
    return text.splitlines()[0].split("    #")[0].strip() if text.startswith(("make", "pip")) else text.splitlines()[0]


def commands() -> list[Any]:
    """Each command line of the pages; what a command prints is shown below it, after the name of the program."""
    found = []
    for block in BLOCKS:
        if block.language not in ("sh", "") or not block.text.startswith(("par-opt", "make", "jq", "pip")):
            continue
        for number, line in enumerate(block.text.splitlines()):
            if not line.startswith("par-opt: "):
                found.append(pytest.param(line, id=f"{block.page}:{block.line + number}"))
    return found


def compiler(text: str) -> str:
    """`text`, which compiles for a CPU in place of a TPU where the TPU's compiler is not installed."""
    try:
        targets.get(TPU).require_compiler()
        targets.get("gpu:h100:1x1x8").require_compiler()
    except targets.TargetError:
        return re.sub(r"(tpu:v5e:2x4|gpu:h100:1x1x8)", "cpu:8", text).replace('"cpu:8", "cpu:8"', '"cpu:8"')
    return text


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the files that the commands read."""
    made = tmp_path_factory.mktemp("docs")
    training = Training("flax", {"replica": 2, "data": 4})
    (made / "step.mlir").write_text(training.module())
    (rules,) = (block.text for block in BLOCKS if block.language == "toml")
    (made / "rules.toml").write_text(rules)
    return made


@pytest.mark.parametrize("line", commands())
def test_command(line: str, folder: Path) -> None:
    line = line.split("  #")[0].strip()
    if line.split("    ")[0] in NOT_RUN:
        assert NOT_RUN[line]
        return
    line = compiler(line).replace("--target=cpu:8 --target=cpu:8", "--target=cpu:8")
    program, *arguments = shlex.split(line)
    if program == "jq":
        if shutil.which("jq") is None:
            pytest.skip("jq is not installed")
        write_audit("audit.json", folder)
        done = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    else:
        assert program == "par-opt"
        # Another worker may have run the command before, which writes it.
        for baseline in (each for each in arguments if each.startswith("--audit-baseline=")):
            write_audit(baseline.partition("=")[2], folder, "--passes=grad-sync")
        done = par_opt(*arguments, folder=folder)
    assert done.returncode == 0, done.stderr
    assert "internal error" not in done.stderr


def write_audit(name: str, folder: Path, *options: str) -> None:
    done = par_opt("step.mlir", *options, "--audit=json", f"--audit-output={name}", folder=folder)
    assert done.returncode == 0, done.stderr


def is_run_here(block: Block) -> bool:
    return block.language == "python" and block.page not in RUN_ELSEWHERE and block.section != DRIVER


PYTHON = sorted({block.page for block in BLOCKS if is_run_here(block)})


def snippets(page: str) -> Iterator[tuple[str, str, str]]:
    """The Python of `page`: where it stands, the text, and how the step is written."""
    for block in BLOCKS:
        if block.page != page or not is_run_here(block):
            continue
        if page != ACCUMULATION:
            yield block.place, block.text, "scanned"
        elif block.section in ALTERNATIVES:
            for line, form in zip(block.text.splitlines(), ALTERNATIVES[block.section], strict=True):
                yield block.place, line, form
        else:
            yield block.place, block.text, FORMS.get(block.section, "scanned")


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("page", PYTHON)
def test_snippets(page: str, library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    training = Training(library, {"replica": 2, "data": 4} if page == "docs/sharding-rules.md" else {"data": 8})
    registered = set(PASSES)
    names: dict[str, Any] = {}
    try:
        for place, text, form in snippets(page):
            names |= training.names(page, form)
            run_snippet(place, text, names)
    finally:
        for name in set(PASSES) - registered:
            del PASSES[name]


def run_snippet(place: str, text: str, names: dict[str, Any]) -> None:
    """Where it puts the step through passes, something is done, and the results stay."""
    step, data = names["step"], names["batch"]
    state = jax.tree.map(lambda a: a.copy(), names["state"])  # the pages donate theirs
    want = jax.jit(step)(state, data)
    names["in_shardings"] = lambda mesh: jax.tree.map(lambda _: NamedSharding(mesh, PartitionSpec()), names["shapes"])
    for part, filled in FILLED_IN.items():
        text = text.replace(part, filled)
    exec(compile(compiler(text), place, "exec"), names)
    ours = names["step"]
    if ours is step:
        return
    lowered = ours.lower(state, data)
    if not isinstance(lowered, dict):  # of paropt.accumulate
        assert any(remark.applied for remark in paropt.remarks(lowered)), place
    close(ours(state, data), want)


def close(one: Any, other: Any) -> None:
    for got, want in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)


def test_no_block_is_left_out() -> None:
    """What is not a command or Python is output, or has a reason."""
    run = {block for block in BLOCKS if is_run_here(block)}
    run |= {
        block for block in BLOCKS if block.language in ("sh", "") and block.text.startswith(("par-opt", "make", "jq"))
    }
    rest = [b for b in BLOCKS if b not in run and b.page not in RUN_ELSEWHERE and b.section != DRIVER]
    assert [b.place for b in rest if first_line(b.text) not in NOT_RUN and not _is_output(b)] == []


def _is_output(block: Block) -> bool:
    """A report, as text: no language is given, and the block before it makes it."""
    return block.language == "" and not block.text.startswith(("par-opt", "make", "$"))


def test_every_reason_is_needed() -> None:
    text = "\n".join(path.read_text() for path in pages())
    assert [line for line in (*NOT_RUN, *FILLED_IN) if line not in text] == []


PIPELINES = sorted(
    {
        (str(path.relative_to(ROOT)), found[2])
        for path in pages()
        for found in re.finditer(r"passes=(['\"]?)([^'\"`\s]+(?:\{[^}]*\}[^'\"`\s]*)?)\1", path.read_text())
    }
)


@pytest.mark.parametrize("page, text", PIPELINES)
def test_pipelines_in_the_text_are_pipelines(page: str, text: str) -> None:
    if text.startswith(("...", "found.passes")):
        return  # any pipeline
    Pipeline.parse(text.rstrip(",)").replace("count=M", "count=4"))
