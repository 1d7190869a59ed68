"""The example of docs/writing-a-pass.md is a plug-in: its text test runs on 8 devices, and the page shows its source."""

import sys
from collections.abc import Iterator

import pytest
from frontend.doc_snippets import blocks
from numeric.corpus import Case, cases
from numeric.oracle import assert_same, only, optimized
from numeric.structure import assert_no_costlier
from unit.scripts import ROOT

from paropt.passes.support.plugins import load_plugin
from paropt.passes.support.registry import PASSES

FOLDER = ROOT / "test" / "par-opt"
CASES = list(cases(FOLDER / "shrink-all-reduces.mlir"))


@pytest.fixture(scope="module", autouse=True)
def plugin() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER / "Inputs")
        (name,) = load_plugin("shrink_plugin")
        yield
    del PASSES[name], sys.modules["shrink_plugin"]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_same_results(case: Case) -> None:
    before = only(case.module, case.function)
    after, _ = optimized(before, case.passes)
    assert_no_costlier(before, after)
    assert_same(before, after, range(3))


def test_the_page_shows_its_source() -> None:
    shown = [block.text for block in blocks() if block.page == "docs/writing-a-pass.md" and block.language == "python"]
    source = (FOLDER / "Inputs" / "shrink_plugin.py").read_text()
    assert lines("".join(shown[1:])) == lines(source)


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]
