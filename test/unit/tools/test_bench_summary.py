"""The first section of docs/benchmarks.md: what it makes of the tables below it."""

import sys
from pathlib import Path

import pytest
from unit.scripts import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import bench_summary

COUNTS = """\
### cpu:8

| program | ideal | alone | ours | runs | runs | act | act | other | other | peak | peak | s | s |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| one | 10 | 4.00 | 1.00 | 4 | 0 | 0 | 0 | 0 | 0 | 200 | 100 | 1 | 1 |
| two | 10 | 1.00 | 1.00 | 4 | 0 | 0 | 0 | 0 | 0 | 100 | 110 | 1 | 1 |
| three | 10 | >= 2.00 | >= 2.00 | 4 | 4 | 0 | 0 | 0 | 0 | 100 | 100 | 1 | 1 |
| failed | 10 | no compiler | | | | | | | | | | | |
"""
SHARDED = """\
## Sharded parameters

### Sharded parameters, cpu:8

| program |  | gathers | reductions | by axis, kB | wire kB | collectives | temporary kB |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| one | XLA alone | 1.00 | 8.00 | data 1 | 1000 | 7 | 598 |
|  | par-opt | 1.00 | 8.00 | data 1 | 900 | 7 | 598 |
|  | `policy=once` | 1.00 | 1.00 | data 3 | 100 | 7 | 462 |
"""
TIMES = """\
## Step time

| program | devices | XLA alone, ms | par-opt, ms | ratio | middle half | pairs |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
| one | here | 4 | 2 | 2.00 | 1 to 2 | 9 |
| two | there | 4 | 5 | 0.80 | 1 to 2 | 9 |
| three | there | skipped: no |  |  |  |  |
"""
PAGE = f"# Benchmarks\n\nmeasured\n\n## What is communicated\n\n{COUNTS}\n{SHARDED}\n{TIMES}\n## On a GPU\n\nNot run.\n"


def test_the_page_begins_with_what_its_tables_come_to() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    assert bench_summary.with_summary(page) == page, "run tools/bench_summary.py"


def test_counts_are_of_the_rows_that_have_numbers() -> None:
    text = bench_summary.with_summary(PAGE)
    assert "| [cpu:8](#cpu8) | 4 | 1 | 2 | 1.00 | 1.00 | 1.10 |" in text
    assert (
        "on cpu:8, 1 programs: of the bytes of XLA alone, par-opt sends 0.90 to 0.90 by default, and 0.10 to 0.10"
        in text
    )
    assert "0.80 (two, there) to 2.00 times (one, here) as fast" in text
    assert "On a GPU](" not in text and "Pipelines](" not in text


def test_a_second_time_changes_nothing_and_the_rest_stays() -> None:
    text = bench_summary.with_summary(PAGE)
    assert bench_summary.with_summary(text) == text
    assert text.index(bench_summary.TITLE) < text.index(bench_summary.NEXT)
    assert text.startswith("# Benchmarks\n\nmeasured\n\n") and text.endswith(PAGE.partition(bench_summary.NEXT)[2])


def test_a_page_without_tables_has_no_summary() -> None:
    page = "# Benchmarks\n\n## What is communicated\n\nNot measured.\n"
    assert bench_summary.with_summary(page) == page


def test_the_command_writes_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "page.md").write_text(PAGE)
    monkeypatch.setattr(bench_summary, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(sys, "argv", ["bench_summary.py"])
    bench_summary.main()
    assert (tmp_path / "page.md").read_text() == bench_summary.with_summary(PAGE)
