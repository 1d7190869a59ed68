"""The tables of docs/limits.md quote remarks that par-opt gives: in a text test or in the source of a pass."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from frontend.doc_snippets import ROOT

COLUMNS = ["layout", "what happens", "the remark you see", "what to do"]
NONE = ("none", "-")  # of a limit without a remark


def rows() -> list[list[str]]:
    """The rows of all tables, without their heads."""
    lines = (ROOT / "docs" / "limits.md").read_text().splitlines()
    tables = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line.startswith("| ")]
    assert COLUMNS in tables
    return [row for row in tables if row != COLUMNS]


def texts_of(source: str) -> Iterator[str]:
    """The string constants of a file, but for its docstrings: a remark is one, or a part of an f-string."""
    tree = ast.parse(source)
    documented = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in documented:
            yield node.value


ROWS = rows()
REMARKS = sorted({remark for row in ROWS for remark in re.findall(r"`([^`]+)`", row[2])})
GIVEN = [text for path in (ROOT / "passes").rglob("*.py") for text in texts_of(path.read_text())]
GIVEN += [
    line
    for path in (ROOT / "test" / "passes").glob("*.mlir")
    for line in path.read_text().splitlines()
    if line.startswith("// REMARK")
]
# What tests expect: the check lines of text tests, and the tests of Python but this one.
EXPECTED = [
    line
    for path in (ROOT / "test").rglob("*.mlir")
    for line in path.read_text().splitlines()
    if re.match(r"// [\w-]+: ", line) and not line.startswith("// RUN")
]
EXPECTED += [path.read_text() for path in (ROOT / "test").rglob("test_*.py") if path != Path(__file__)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_each_row_quotes_a_remark_or_says_that_there_is_none(row: list[str]) -> None:
    assert len(row) == len(COLUMNS)
    assert all(row)
    assert row[2] in NONE or re.fullmatch(r"`[^`]+`(, `[^`]+`)*", row[2])


@pytest.mark.parametrize("remark", REMARKS)
def test_each_quoted_remark_is_one(remark: str) -> None:
    assert any(remark in given for given in GIVEN)


@pytest.mark.parametrize("remark", REMARKS)
def test_each_quoted_remark_is_expected_by_a_test(remark: str) -> None:
    assert any(remark in line for line in EXPECTED)


def test_readme_links_the_limits() -> None:
    assert "(docs/limits.md)" in (ROOT / "README.md").read_text()
