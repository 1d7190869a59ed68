"""The demo, at a small size: what it prints, writes and answers."""

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from unit.scripts import ROOT, load

DEMO = ROOT / "tools" / "demo.py"


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(DEMO), *options], capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def demo() -> ModuleType:
    return load("demo")


def test_small_demo(tmp_path: Path) -> None:
    options = ["--steps", "2", "--layers", "1", "--width", "32", "--micro-batches", "3", "--out", str(tmp_path)]
    done = run(*options)
    assert done.returncode == 0, done.stderr
    assert "step  2/2" in done.stdout
    assert "largest relative difference of a loss" in done.stdout
    names = {"summary.txt", "demo.png", "census.json", "remarks.txt", "before.mlir", "after.mlir"}
    assert {path.name for path in tmp_path.iterdir()} == names
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")

    census = json.loads((tmp_path / "census.json").read_text())
    plain, rewritten = census["jax.jit"], census["paropt.jit"]
    leaves = 2 * 256 * 32 + 12 * 32 * 32 + 3 * 32  # embedding, head, layer, norms
    assert plain["sync_bytes"] == plain["sync_bytes_in_loops"] == 3 * 4 * leaves
    assert rewritten["sync_bytes_in_loops"] == 0
    assert 4 * leaves <= rewritten["sync_bytes"] <= 4 * leaves + 3 * 4  # the losses of 3 micro-batches may be deferred
    assert plain["losses"] == pytest.approx(rewritten["losses"], rel=1e-4)
    assert len(plain["step_seconds"]) == len(rewritten["step_seconds"]) == 2
    assert f"{3 * 4 * leaves / 1e6:.2f}" in done.stdout

    assert "stablehlo.all_reduce" in (tmp_path / "before.mlir").read_text()
    assert (tmp_path / "before.mlir").read_text() != (tmp_path / "after.mlir").read_text()
    assert "defer-sync" in (tmp_path / "remarks.txt").read_text()
    sharded = census["sharded"]
    assert list(sharded) == ["jax.jit", "paropt.jit", "policy=once"]
    sent = [sharded[kind]["sent_bytes"] for kind in sharded]
    assert sent[2] < sent[1] <= 1.01 * sent[0]  # losses of micro-batches are reduced, too
    assert sharded["policy=once"]["all_gathers"] < sharded["jax.jit"]["all_gathers"]
    assert all(len(each["step_seconds"]) == 4 for each in sharded.values())

    summary = (tmp_path / "summary.txt").read_text()
    assert "Fully sharded:" in summary and "largest relative difference of a result" in done.stdout
    assert "[defer-sync]" in summary and "no pass says why" not in summary and "no pass looked at it" not in summary


@pytest.mark.parametrize(
    "options, message",
    [
        (["--width", "12"], "--width 12: expected a multiple of 8"),
        (["--steps", "0"], "argument --steps: expected a positive integer, not '0'"),
        (["--layers", "two"], "argument --layers: expected a positive integer, not 'two'"),
        (["--out", str(DEMO)], "cannot make this folder: File exists"),
    ],
)
def test_wrong_options_are_one_line(options: list[str], message: str) -> None:
    done = run(*options)
    assert done.returncode == 2
    assert message in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "plain, rewritten, status",
    [
        ([2.0, 1.0], [2.0, 1.00001], 0),
        ([2.0, 1.0], [2.0, 1.001], 1),
        ([2.0, 1.0, 0.5], [2.0, float("nan"), 0.5], 1),
    ],
)
def test_differing_losses_fail(
    demo: ModuleType, capsys: pytest.CaptureFixture[str], plain: list[float], rewritten: list[float], status: int
) -> None:
    variants = [
        demo.Variant(name, "", None, 0.0, None, losses) for name, losses in zip("ab", (plain, rewritten), strict=True)
    ]
    assert demo._check(variants) == status
    assert len(capsys.readouterr().err.splitlines()) == status


@pytest.mark.parametrize("other, status", [([1.0, 2.0], 0), ([1.0, 2.1], 1), ([1.0, float("nan")], 1)])
def test_differing_results_of_the_sharded_step_fail(
    demo: ModuleType, capsys: pytest.CaptureFixture[str], other: list[float], status: int
) -> None:
    results = ([1.0, 2.0], other)
    found = [demo.demo_sharded.Sharded("", None, [np.array(each)], []) for each in results]
    assert demo._check_sharded(found) == status
    assert len(capsys.readouterr().err.splitlines()) == status
