"""By day each program of marked tests is compiled for one target, and each target has its programs."""

import os
import subprocess
import sys
from pathlib import Path

from unit.scripts import ROOT

TESTS = """import pytest

@pytest.mark.targets_in_turns
@pytest.mark.parametrize("target", ["cpu", "tpu", "gpu"])
@pytest.mark.parametrize("program", "abcdef")
def test_marked(program, target):
    pass

@pytest.mark.parametrize("target", ["cpu", "tpu", "gpu"])
def test_each(target):
    pass
"""
EACH = {"test_each[cpu]", "test_each[tpu]", "test_each[gpu]"}
# The second three begin one further: programs of one kind are not all for one target.
TURNS = {f"test_marked[{row}]" for row in ("a-cpu", "b-tpu", "c-gpu", "d-tpu", "e-gpu", "f-cpu")}
ALL = {f"test_marked[{program}-{target}]" for program in "abcdef" for target in ("cpu", "tpu", "gpu")}


def collected(folder: Path, *arguments: str, rows: str = "", tests: str = TESTS) -> tuple[set[str], str]:
    """The names of the tests that would run, and all that pytest says."""
    (folder / "test_turns.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "target_turns", *arguments]
    environment = {**os.environ, "PAROPT_ROWS": rows, "PYTHONPATH": str(ROOT / "test")}
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    names = {line.partition("::")[2] for line in ran.stdout.splitlines() if "::" in line}
    return names, ran.stdout + ran.stderr


def test_each_program_has_one_target(tmp_path: Path) -> None:
    names, said = collected(tmp_path)
    assert names == EACH | TURNS
    assert "9/21 tests collected (12 deselected)" in said


def test_all_rows(tmp_path: Path) -> None:
    assert collected(tmp_path, rows="all")[0] == EACH | ALL


def test_what_is_named_runs(tmp_path: Path) -> None:
    assert collected(tmp_path, "test_turns.py::test_marked[a-gpu]")[0] == {"test_marked[a-gpu]"}
    assert collected(tmp_path, "-k", "d-gpu")[0] == {"test_marked[d-gpu]"}


def test_a_word_that_is_not_known(tmp_path: Path) -> None:
    names, said = collected(tmp_path, rows="every")
    assert not names and "PAROPT_ROWS is 'every': only 'all' is known" in said


def test_a_target_without_a_program_is_refused(tmp_path: Path) -> None:
    _, said = collected(tmp_path, tests=TESTS.replace('"abcdef"', '"ab"'))
    assert "test_marked[a-cpu]: targets_in_turns needs a program for each target" in said
