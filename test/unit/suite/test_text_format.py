"""The text tests that run without a process for each command: what they run, and that they can fail."""

from pathlib import Path

import pytest
from text_format import Command, Ran, commands_of, failures_of, run_par_opt

MODULE = """
func.func public @sum(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = stablehlo.add %x, %x : tensor<4xf32>
  return %s : tensor<4xf32>
}
"""


def failures(folder: Path, *lines: str, llvm: str | None = None) -> list[str]:
    file = folder / "test.mlir"
    file.write_text("\n".join(f"// {line}" for line in lines) + MODULE)
    commands = commands_of(file)
    assert commands
    return failures_of(file, commands, llvm)


def test_a_test_passes(tmp_path: Path) -> None:
    assert not failures(tmp_path, "RUN: %par-opt %s --passes=cse | FileCheck %s", "CHECK: stablehlo.add")


def test_a_missing_line_fails(tmp_path: Path) -> None:
    (said,) = failures(tmp_path, "RUN: %par-opt %s --passes=cse | FileCheck %s", "CHECK: stablehlo.multiply")
    assert "stablehlo.multiply" in said


def test_each_command_is_checked(tmp_path: Path) -> None:
    run = "RUN: %par-opt %s --passes=cse"
    lines = [f"{run} | FileCheck %s", f"{run} --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK"]
    said = failures(tmp_path, *lines, "CHECK: stablehlo.add", "REMARK: no such remark")
    assert len(said) == 1 and "--check-prefix=REMARK" in said[0]


def test_a_status_that_is_not_expected_fails(tmp_path: Path) -> None:
    (said,) = failures(tmp_path, "RUN: %par-opt %s --passes=csee | FileCheck %s", "CHECK: stablehlo.add")
    assert "status 1" in said and "csee" in said
    (said,) = failures(tmp_path, "RUN: not %par-opt %s --passes=cse | FileCheck %s", "CHECK: stablehlo.add")
    assert "status 0" in said


def test_a_crash_is_no_expected_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("text_format.run_par_opt", lambda arguments, one_stream: Ran(-6, b"stablehlo.add", b""))
    (said,) = failures(tmp_path, "RUN: not %par-opt %s --passes=cse | FileCheck %s", "CHECK: stablehlo.add")
    assert "status -6" in said


def test_errors_and_output_are_apart_unless_they_are_one_stream() -> None:
    apart = run_par_opt(("--passes=csee", "/dev/null"), False)
    assert apart.status == 1 and not apart.output and b"csee" in apart.errors
    one = run_par_opt(("--passes=csee", "/dev/null"), True)
    assert one == Ran(1, apart.errors, b"")


def test_remarks_leave_the_output_as_it_is(tmp_path: Path) -> None:
    """So that one run serves the text and the remarks."""
    file = Path(__file__).parents[2] / "passes" / "fuse-all-reduces.mlir"
    options = (str(file), "--passes=fuse-all-reduces", "--split-input-file")
    plain, with_remarks = run_par_opt(options, False), run_par_opt((*options, "--remarks"), False)
    assert plain.output == with_remarks.output and not plain.errors and with_remarks.errors


def test_a_run_line_is_read_as_a_shell_does(tmp_path: Path) -> None:
    file = tmp_path / "test.mlir"
    file.write_text("// RUN: not %par-opt %s -p 'a{b=%S/c d}' --remarks 2>&1 | FileCheck %s --check-prefix=WHY\n")
    (command,) = commands_of(file) or []
    assert command == Command(
        command.line, True, ("-p", f"a{{b={tmp_path}/c d}}", "--remarks"), "both", ("--check-prefix=WHY",)
    )
    assert command.without_remarks == ("-p", f"a{{b={tmp_path}/c d}}")


@pytest.mark.parametrize(
    "line",
    [
        "RUN: %par-opt %s | FileCheck %s > x",
        "RUN: cat %s | %par-opt - | FileCheck %s",
        "RUN: true",
        "RUN: %par-opt %s --load-pass-plugin=p | FileCheck %s",
        "",
    ],
)
def test_other_commands_are_left_to_a_shell(tmp_path: Path, line: str) -> None:
    file = tmp_path / "test.mlir"
    file.write_text(f"// RUN: %par-opt %s | FileCheck %s\n// {line}\n" if line else "func.func private @f()")
    assert commands_of(file) is None
