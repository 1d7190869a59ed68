"""The page of public names: what is shown of functions, classes and modules, and when it is stale."""

import dataclasses
import re
import sys
from pathlib import Path

import pytest
from unit.scripts import ROOT

import paropt

sys.path.insert(0, str(ROOT / "tools"))

import gen_api_docs

PAGES = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]


@dataclasses.dataclass
class Example:
    """One | other.

    docs/jit.md has more.
    """

    size: int
    _hidden: int = 0

    @property
    def twice(self) -> int:
        """Of `size`."""
        return 2 * self.size

    def grow(self, by: int = 1, *, how: object = len) -> None:
        """Larger."""

    def _shrink(self) -> None: ...


def named(text: str) -> str:
    return text


def test_signatures_have_no_types_and_no_addresses() -> None:
    def f(self: object, a: int, /, b: str = "x", *, c: object = named, d: object = lambda: 0) -> None: ...

    assert gen_api_docs.signature("f", f) == "f(a, /, b='x', *, c=named, d=...)"


def test_a_class_has_its_public_fields_and_members(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gen_api_docs, "defined_here", lambda member, described: True)
    assert list(gen_api_docs.fields(Example)) == ["| `size` | fields |"]
    rows = list(gen_api_docs.methods(Example))
    assert "| `.twice` | Of `size`. |" in rows
    assert any(row.startswith("| `.grow(by=1, *, how=") for row in rows)
    assert not any("shrink" in row for row in rows)


def test_names_of_pages_are_links_and_bars_do_not_end_cells() -> None:
    assert gen_api_docs.prose(Example) == "One | other.\n\n[jit.md](jit.md) has more."
    assert gen_api_docs.summary(Example) == "One \\| other."


def test_all_public_names_are_on_the_page() -> None:
    page = gen_api_docs.page()
    assert [name for name in paropt.__all__ if f"## `paropt.{name}`\n" not in page] == []


def test_import_lines_work_as_they_are_written() -> None:
    lines = re.findall(r"(?:from paropt\S* import [^`\n#(]+)", "\n".join(map(Path.read_text, PAGES)))
    assert any("PlanError" in line for line in lines) and any("TargetError" in line for line in lines)
    for line in lines:
        exec(line, {})


def test_each_class_is_imported_from_where_the_page_says() -> None:
    for places in (gen_api_docs.RESULTS, gen_api_docs.ERRORS):
        for place, names in places.items():
            for name in names:
                known: dict[str, object] = {}
                exec(gen_api_docs.import_line(place, name), known)
                assert getattr(known[name], "__name__", None) == name


def test_a_stale_page_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gen_api_docs, "PAGE", tmp_path / "api.md")
    monkeypatch.setattr(sys, "argv", ["gen_api_docs.py"])
    assert gen_api_docs.main() == 0
    monkeypatch.setattr(sys, "argv", ["gen_api_docs.py", "--check"])
    assert gen_api_docs.main() == 0
    gen_api_docs.PAGE.write_text(gen_api_docs.PAGE.read_text().replace("paropt.audit", "paropt.audits", 1))
    assert gen_api_docs.main() == 1
    assert "docs/api.md is stale" in capsys.readouterr().out
