"""What the passes promise in their docstrings is held by tests of the same words; the layout holds too."""

import re
import subprocess
import sys

import pytest
from unit.scripts import ROOT

import paropt.passes  # noqa: F401  registers every pass
from paropt.passes.support.pipeline import Pipeline
from paropt.passes.support.registry import PASSES, PIPELINES

LIT = ROOT / "test" / "passes"
SECTIONS = ("Before", "After", "Legal when", "Worth it when", "Sources")
SUB_HEADING = re.compile(r"\*.+\*")  # of a part of a list
LONGEST_LIST = 8
CONDITION = re.compile(r"^// (?P<words>(?:Legal|Worth it) when: .*)$", re.M)


def conditions(doc: str) -> list[str]:
    """The bullets under `Legal when:` and `Worth it when:`, each on one line with its heading."""
    found: list[str] = []
    heading = None
    for line in doc.splitlines():
        if line in ("Legal when:", "Worth it when:"):
            heading = line
        elif line.startswith("- ") and heading:
            found.append(f"{heading} {line.removeprefix('- ')}")
        elif line.startswith("  ") and heading and found:
            found[-1] += f" {line.strip()}"
        elif line and not SUB_HEADING.fullmatch(line):
            heading = None
    return found


def test_conditions_of_a_docstring() -> None:
    doc = "Do it.\n\nLegal when:\n\n- one\n\n*Of both*\n\n- two\n  lines\n\nWorth it when:\n\n- three\n\nText.\n\n- not one\n"
    assert conditions(doc) == ["Legal when: one", "Legal when: two lines", "Worth it when: three"]


@pytest.mark.parametrize("name", PASSES)
def test_sections_are_there_and_in_order(name: str) -> None:
    headings = [s for s in re.findall(r"^([A-Z][a-z ]+):", PASSES[name].doc, re.M) if s in SECTIONS]
    assert headings == [s for s in SECTIONS if s in headings], "the sections are not in the usual order"
    assert {*SECTIONS} - {*headings} <= {"Worth it when"}, "a section is missing"


@pytest.mark.parametrize("name", PASSES)
def test_a_long_list_of_conditions_has_sub_headings(name: str) -> None:
    lengths = [len(re.findall("^- ", part, re.M)) for part in re.split(r"\n\n(?![- ])", PASSES[name].doc)]
    assert max(lengths) <= LONGEST_LIST


@pytest.mark.parametrize("name", PASSES)
def test_each_condition_heads_a_lit_case(name: str) -> None:
    promised = conditions(PASSES[name].doc)
    files = [LIT / f"{name}.mlir", *LIT.glob(f"{name}-*.mlir")]
    tested = {found["words"] for file in files for found in CONDITION.finditer(file.read_text())}
    assert promised
    assert [c for c in promised if c not in tested] == [], "no lit case is headed by these words"
    assert sorted(tested.difference(promised)) == [], "the docstring does not promise these"


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_has_one_name(name: str) -> None:
    file = name.replace("-", "_")
    assert PASSES[name].run.__module__ == f"paropt.passes.{file}"
    assert (ROOT / "passes" / f"{file}.py").exists()
    assert (LIT / f"{name}.mlir").exists()


@pytest.mark.parametrize("name", PIPELINES)
def test_named_pipelines_are_made_of_passes(name: str) -> None:
    stages = Pipeline.parse(name).stages
    assert stages and all(stage.declared for stage in stages)
    assert PIPELINES[name].doc


def test_a_stage_that_is_repeated_says_why() -> None:
    (explained,) = (named.explained for named in PIPELINES.values() if named.explained)
    seen: set[str] = set()
    for stage in explained:
        assert stage.reason.startswith("Again: ") == (stage.text in seen), stage
        seen.add(stage.text)


@pytest.mark.parametrize("page", ["pass", "api"])
def test_docs_are_not_stale(page: str) -> None:
    """In a process of its own: other tests register passes in this one."""
    check = [sys.executable, str(ROOT / "tools" / f"gen_{page}_docs.py"), "--check"]
    assert not subprocess.run(check, timeout=60).returncode, "run `make docs`"
