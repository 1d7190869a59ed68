"""`python -m paropt.schedules`, its pictures, and the page in docs/."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from unit.scripts import load

from paropt.schedules import SCHEDULES, schedule, simulate
from paropt.schedules.__main__ import main
from paropt.schedules.page import page
from paropt.schedules.picture import plot
from paropt.schedules.timeline import boxes


def test_the_command_prints_sizes_and_orders(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["1f1b", "--stages", "2", "--microbatches", "3"]) == 0
    printed = capsys.readouterr().out
    assert "1f1b: 2 devices, 3 micro-batches; time 12, bubble 1/4 = 25.0%" in printed
    assert "device 0: 0F0 0F1 0B0 0F2 0B1 0B2 0U2\ndevice 1: 1F0 1B0 1F1 1B1 1F2 1B2 1U2\n" in printed


def test_the_command_needs_no_jax() -> None:
    code = "import sys; from paropt.schedules.__main__ import main; main(['gpipe']); assert 'jax' not in sys.modules"
    assert "gpipe" in subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_a_reader_may_go_away() -> None:
    command = [sys.executable, "-m", "paropt.schedules", "gpipe", "--microbatches", "500", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""


def test_json_has_exact_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["interleaved", "--chunks", "3", "--costs", "F=1/3,B=1,W=1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["chunks"], found["makespan"], found["idle"]) == (12, "21", ["7/3"] * 4)
    first = {"kind": "F", "chunk": 0, "microbatch": 0, "direction": 0, "token_slice": 0, "step": 0}
    assert found["events"][0][0] == first | {"start": "0", "end": "1/9"}


def test_costs_by_chunk(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gpipe", "--stages", "2", "--microbatches", "1", "--costs", "F=1:2,B=0,W=0.5,transfer=3"]) == 0
    assert "time 10, " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["1fb1"], "no schedule '1fb1': did you mean '1f1b'?"),
        (["gpipe", "--stages", "x"], "argument --stages: invalid int value: 'x'"),
        (["gpipe", "--steps", "0"], "--steps must be from 1 up, not 0"),
        (["gpipe", "--costs", "F"], "--costs: expected NAME=NUMBER with a name of F, B, W, U, pair, transfer, "),
        (["gpipe", "--costs", "F=1,F=2"], "--costs: F is given twice"),
        (["gpipe", "--costs", "W=many"], "W: expected a number such as 2, 0.5 or 1/3, not 'many'"),
        (["gpipe", "--html", "/nowhere/x.html"], "cannot write '/nowhere/x.html': No such file or directory"),
        (["dualpipe", "--microbatches", "4"], "dualpipe: micro-batches must be at least twice the stages: "),
        ([], "the following arguments are required: schedule"),
    ],
)
def test_mistakes_are_one_line(given: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(given) == 1
    written = capsys.readouterr().err
    assert written.startswith(f"python -m paropt.schedules: error: {message}")
    assert written.count("\n") == 1


@pytest.mark.parametrize("name", SCHEDULES)
def test_boxes_fill_what_is_busy_and_nothing_twice(name: str) -> None:
    found = simulate(schedule(name, stages=4, microbatches=8))
    for device, busy in enumerate(found.busy):
        own = [box for box in boxes(found) if box.device == device]
        assert sum((box.end - box.start) * (2 if box.bottom - box.top == 1 else 1) for box in own) == 2 * busy


def test_a_page_needs_nothing_else(tmp_path: Path) -> None:
    assert main(["dualpipe", "--html", str(tmp_path / "a.html"), "--png", str(tmp_path / "a.png")]) == 0
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    written = (tmp_path / "a.html").read_text()
    assert not re.search(r"src=|href=|url\(|<script", written)
    found = simulate(schedule("dualpipe", stages=4, microbatches=8))
    assert written == page(found)
    assert written.count("<rect") == len(list(boxes(found)))


def test_pictures_without_matplotlib_say_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match="pictures need matplotlib: pip install matplotlib"):
        plot([simulate(schedule("gpipe", stages=1, microbatches=1))], tmp_path / "a.png")


def test_the_page_in_docs_is_that_of_the_schedules() -> None:
    assert load("schedules_page").stale() == []


def test_a_stale_page_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = load("schedules_page")
    monkeypatch.setattr(tool, "MICROBATCHES", 12)
    found = tool.stale()
    assert any(line.startswith("+| `gpipe` |") for line in found)
    assert "docs/pipelines/both-ways.png is stale" in found
