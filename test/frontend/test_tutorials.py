"""The notebooks of docs/tutorials run, and what they print is stored in them."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from frontend.doc_snippets import ROOT
from unit.clusters import available

sys.path.insert(0, str(ROOT / "tools"))

import run_tutorials

TUTORIALS = run_tutorials.tutorials()


def notebook_of(*cells: str) -> dict[str, Any]:
    return {"cells": [{"cell_type": "code", "source": [text]} for text in cells], "metadata": {}}


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_tutorial(path: Path) -> None:
    notebook = run_tutorials.read(path)
    for name in set(re.findall(r"targets\.get\(\"([^\"]+)\"\)", "\n".join(run_tutorials.sources(notebook)))):
        available(name)
    printed = run_tutorials.run(notebook)
    stored = [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [bool(text) for text in printed] == [bool(outputs) for outputs in stored]


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_results_are_of_the_cells(path: Path) -> None:
    notebook = run_tutorials.read(path)
    assert notebook["metadata"]["paropt"]["results of"] == run_tutorials.digest(notebook), "run `make tutorials`"


def test_there_are_three_and_the_index_has_them() -> None:
    assert len(TUTORIALS) == 3
    index = (ROOT / "docs" / "index.md").read_text()
    assert [path.name for path in TUTORIALS if f"(tutorials/{path.name})" not in index] == []


def test_cells_share_names_and_show_their_last_value() -> None:
    assert run_tutorials.cells(["x = 2", "print(x)\nx + 1", "None", "x;\nx = 3"]) == ["", "2\n3\n", "", ""]


def test_results_are_stored_as_jupyter_does() -> None:
    done = run_tutorials.with_results(notebook_of("print(1)", "y = 2"), ["1\n", ""])
    assert done["cells"][0]["outputs"] == [{"name": "stdout", "output_type": "stream", "text": ["1\n"]}]
    assert done["cells"][1]["outputs"] == [] and done["cells"][1]["execution_count"] == 2
    assert done["metadata"]["paropt"]["results of"] != run_tutorials.digest(notebook_of("print(2)", "y = 2"))


def test_a_cell_that_fails_is_told() -> None:
    with pytest.raises(run_tutorials.TutorialError, match="ZeroDivisionError"):
        run_tutorials.run(notebook_of("1 / 0"))


def test_an_unknown_tutorial_is_one_line() -> None:
    script = ROOT / "tools" / "run_tutorials.py"
    done = subprocess.run([sys.executable, str(script), "nothing"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "no tutorial is called 'nothing'; there are: data_parallel, " in done.stderr.splitlines()[-1]


def test_notebooks_are_of_this_format() -> None:
    for path in TUTORIALS:
        notebook = json.loads(path.read_text())
        assert notebook["nbformat"] == 4 and all(cell["id"] for cell in notebook["cells"])
