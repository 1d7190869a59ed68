"""The picture and the table at the head of README.md are those of docs/scale.json."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from unit.scripts import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import readme_picture

MOST_LINES = 110


def found(sent: float) -> dict[str, Any]:
    variants = {name: {"kinds": {"all-reduce": sent, "all-gather": 1e9}, "peak": 2e9} for name in VARIANTS}
    return {key: {"variants": variants} for key in readme_picture.STEPS.values()}


VARIANTS = list(readme_picture.VARIANTS.values())


@pytest.fixture
def pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "README.md").write_text(f"head\n{readme_picture.BEGIN}\n{readme_picture.END}\ntail\n")
    (tmp_path / "scale.json").write_text(json.dumps(found(3e9)))
    for name, file in (("README", "README.md"), ("PICTURE", "headline.png"), ("DATA", "scale.json")):
        monkeypatch.setattr(readme_picture, name, tmp_path / file)
    monkeypatch.setattr(sys, "argv", ["readme_picture.py"])
    return tmp_path


def test_readme_is_not_stale() -> None:
    shown = readme_picture.figures(json.loads(readme_picture.DATA.read_text()))
    text = readme_picture.README.read_text()
    assert readme_picture.with_generated(text, shown) == text, "run `make docs`"
    assert readme_picture.drawn(readme_picture.PICTURE) == readme_picture.digest(shown), "run `make docs`"
    assert len(text.splitlines()) <= MOST_LINES


def test_sums_of_all_kinds_are_shown_in_gigabytes(pages: Path) -> None:
    assert readme_picture.main() == 0
    text = (pages / "README.md").read_text()
    assert "| 7 G parameters, fully sharded | 4.0, 2.0 | 4.0, 2.0 | 4.0, 2.0 |" in text
    assert text.startswith("head\n") and text.endswith("\ntail\n")


def test_new_figures_make_both_stale(
    pages: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert readme_picture.main() == 0
    monkeypatch.setattr(sys, "argv", ["readme_picture.py", "--check"])
    assert readme_picture.main() == 0
    (pages / "scale.json").write_text(json.dumps(found(5e9)))
    assert readme_picture.main() == 1
    assert "is stale" in capsys.readouterr().out
