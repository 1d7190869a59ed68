"""tools/gpu_check.py on CPU devices: its checks do not depend on the platform, and notice what is wrong."""

import re
import sys
from pathlib import Path

import jax
import pytest
from unit.scripts import ROOT

sys.path.insert(0, str(ROOT / "tools"))  # its parts import each other

import bench_page
import gpu_check
import gpu_worker
from gpu_worker import ALONE, OURS, Finding

ON_CPU = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=4"}


def test_no_gpu_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(gpu_check, "DRIVERS", "no such device")
    monkeypatch.setattr(sys, "argv", ["gpu_check.py"])
    assert gpu_check.main() == 0
    assert capsys.readouterr().out == "gpu_check: this machine has no NVIDIA GPU; nothing was run\n"


def test_gpus_that_cannot_be_shared_are_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu_check, "DRIVERS", "null")  # a device that every machine has
    monkeypatch.setattr(gpu_check, "SERVICE", "no such command")
    monkeypatch.setattr(sys, "argv", ["gpu_check.py"])
    assert gpu_check.main() == 0
    assert capsys.readouterr().out == (
        "gpu_check: 1 GPUs for 8 processes, which takes `no such command`; nothing was run\n"
    )


def test_wrong_results_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = gpu_worker.check_program("explicit_mlp_p0", jax.devices())
    assert not right.is_wrong and not right.is_xla_wrong
    assert re.fullmatch(r"jax.jit differs by \S+, paropt.jit differs by \S+", right.said)
    monkeypatch.setattr(gpu_worker, "tolerance_of", lambda name: -1.0)
    wrong = gpu_worker.check_program("explicit_mlp_p0", jax.devices())
    assert wrong.is_wrong and wrong.is_xla_wrong
    assert re.match(r"jax.jit differs by \S+ \(\S+ without while-loop-all-reduce-code-motion\), paropt", wrong.said)

    monkeypatch.setattr(gpu_worker, "LOSS_TOLERANCE", -1.0)
    found = gpu_worker.check_training(jax.devices(), steps=2)
    assert found.is_wrong and float(found.said.split()[-1]) < 1e-4


def test_checks_that_do_not_fit_are_named() -> None:
    one = jax.devices()[:1]
    assert not gpu_worker.check_program("explicit_mlp_p0", one).is_wrong
    assert gpu_worker.check_program("explicit_mlp_p7", one).said.startswith("not run: ")
    assert gpu_check.check_suite(1, "cpu").said == "not run: it needs 8 devices, this machine has 1"


def test_numeric_suite_of_a_platform() -> None:
    """Collected only: the suite itself runs as tests of its own."""
    found = gpu_check.check_suite(8, "cpu", "--collect-only", "-k", "test_same_results")
    assert not found.is_wrong and "collected" in found.said
    assert gpu_check.check_suite(8, "cpu", "-k", "no test has this name").is_wrong


def line(name: str, count: int, datatype: int) -> str:
    """As NCCL 2.30 writes it."""
    return (
        f"host:7:9 [0] NCCL INFO {name}: opCount 2c sendbuff 0x7f01 recvbuff 0x7f02 count {count} datatype {datatype} "
        "op 0 root 0 comm 0x55 [nranks=4] stream 0x56\n"
    )


def test_what_nccl_was_asked_for_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = gpu_worker.NcclLog(tmp_path / "log")
    assert log.since_last() == {}
    log.path.write_text(line("AllReduce", 10, 7) + line("AllReduce", 3, 9) + line("Recv", 1, 7))
    assert log.since_last() == {"all-reduce": 46}
    assert log.since_last() == {}
    with log.path.open("a") as more:
        more.write(line("ReduceScatter", 10, 7) + line("AllGather", 5, 8))
    assert log.since_last() == {"all-gather": 160, "reduce-scatter": 160}  # of the whole

    sent_too_little = gpu_worker.check_program("explicit_mlp_p0", jax.devices(), log)
    assert sent_too_little.is_wrong and "paropt.jit sent {}, not {'all-reduce': 3088}" in sent_too_little.said


def test_two_processes_find_what_one_does(capsys: pytest.CaptureFixture[str]) -> None:
    names = ["plain_mlp_p9", "no such program", "plain_mlp_p0"]
    right, unknown = gpu_check.check_together(names, "cpu", ON_CPU, gpus=0, processes=2)
    assert right.what == "plain_mlp_p9" and not right.is_wrong
    assert unknown == Finding("no such program", "KeyError: 'no such program'", is_wrong=True)
    assert [shown.split()[0] for shown in capsys.readouterr().out.splitlines()] == ["ok", "WRONG"]


def test_what_any_process_objects_to_counts() -> None:
    fine, ours, xla = Finding("a", "fine"), Finding("a", "off", is_wrong=True), Finding("a", "off", is_xla_wrong=True)
    assert gpu_check._merged([fine, ours]) == ours
    assert gpu_check._merged([fine, xla]) == xla
    assert gpu_check._merged([xla, ours]) == ours


def test_outcome_is_recorded_and_kept(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    bench_page.write(page, [], [], command="make bench")
    sent = {ALONE: {"all-reduce": 4000, "reduce-scatter": 96}, OURS: {"all-reduce": 1024, "all-gather": 8}}
    findings = [
        Finding("a", "fine", sent=sent),
        Finding("b", "off", is_wrong=True),
        Finding("c", "not run: d"),
        Finding("e", "far off", is_xla_wrong=True),
    ]
    report = gpu_check.summary(findings, "8 processes on 1 x GPU")
    gpu_check.record(page, report)
    written = page.read_text()
    assert "8 processes on 1 x GPU: 3 checks. Of par-opt 1 results are wrong, of XLA alone 1." in written
    assert "\n\n- b: off\n- c: not run: d\n\nXLA alone is wrong:\n\n- e: far off\n" in written
    assert "\n| a | 4,096 | 1,024 | 0 | 8 |\n" in written
    assert bench_page.recorded(page) == report
    bench_page.write(page, [], [], command="make bench")
    assert report in page.read_text()
    (tmp_path / "other.md").write_text("# Other\n")
    with pytest.raises(SystemExit, match="has no section"):
        gpu_check.record(tmp_path / "other.md", report)
