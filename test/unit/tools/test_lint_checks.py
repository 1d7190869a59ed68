"""Checks that FileCheck would ignore are found, and good ones are not."""

from pathlib import Path

import pytest
from unit.scripts import load

lint_checks = load("lint_checks")
findings, main = lint_checks.findings, lint_checks.main

RUN = "// RUN: %par-opt %s | FileCheck %s\n"
REMARKS = "// RUN: %par-opt %s --remarks | FileCheck %s --check-prefix=REMARK\n"


@pytest.mark.parametrize(
    "line",
    [
        "// CHECK: a",
        "//CHECK-NEXT: a",
        "  // CHECK-SAME: a",
        "// CHECK-COUNT-2: a",
        "// CHECK-NOT:   a",
        "// CHECK{LITERAL}: a",
        "// CHECK-NEXT{LITERAL}: a",
        "// CHECK-LABEL: a",
        "// NUMERIC: skip (a reason)",
        "// Legal when: it is",
        "// Checked: by hand",
        "// CHECKED by hand",
        "%0 = stablehlo.add %a, %b",
    ],
)
def test_good_lines(line: str) -> None:
    assert findings(f"{RUN}// CHECK: x\n{line}\n") == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("// CHECK-NEXT : a", "FileCheck ignores this line"),
        ("// CHECK-SAMEL: a", "FileCheck ignores this line"),
        ("// CHECK a", "FileCheck ignores this line"),
        ("// CHECK-: a", "FileCheck ignores this line"),
        ("// CHECK-COUNT: a", "FileCheck ignores this line"),
        ("// CHECK-COUNT-0: a", "FileCheck ignores this line"),
        ("  // CHECK-NXT: a", "FileCheck ignores this line"),
        ("// CHECK-NOT a", "FileCheck ignores this line"),
        ("// CHEKC: a", "no RUN line checks CHEKC"),
        ("// REMARK: a", "no RUN line checks REMARK"),
        ("// CHCEK-NEXT: a", "no RUN line checks CHCEK-NEXT"),
    ],
)
def test_bad_lines(line: str, message: str) -> None:
    (found,) = findings(f"{RUN}// CHECK: x\n{line}\n")
    assert found.line == 3
    assert found.message.startswith(message)


def test_several_prefixes() -> None:
    assert findings(f"{RUN}{REMARKS}// CHECK: x\n// REMARK-DAG: y\n") == []
    (found,) = findings(f"{RUN}{REMARKS}// CHECK: x\n")
    assert found.message == "RUN line checks REMARK, and no line has that prefix"


def test_check_alone_is_dead_when_only_other_prefixes_run() -> None:
    (found,) = findings(f"{REMARKS}// REMARK: x\n// CHECK: y\n")
    assert found.message == "FileCheck ignores this line: // CHECK: y"


def test_run_lines() -> None:
    assert findings("func.func @f()")[0].message == "no RUN line: lit runs nothing"
    (found,) = findings("// RUN: %par-opt %s\n")
    assert found.message.startswith("RUN line without FileCheck")
    assert findings("// RUN: %par-opt %s --verify-diagnostics\n// expected-error@+1 {{a}}\n") == []
    assert findings("// RUN: not %par-opt %s --passes=a\n") == []
    assert findings("// RUN: %par-opt %s \\\n// RUN:   | FileCheck %s\n// CHECK: x\n") == []


def test_exit_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "some.mlir"
    file.write_text(f"{RUN}// CHECK: x\n")
    assert main([str(tmp_path)]) == 0
    file.write_text(f"{RUN}// CHECK: x\n// CHECK-NEXT y\n")
    assert main([str(tmp_path)]) == 1
    assert capsys.readouterr().out == f"{file}:3: error: FileCheck ignores this line: // CHECK-NEXT y\n"
    assert main([]) == 2


def test_a_file_that_is_too_long_to_be_read() -> None:
    text = RUN + "// CHECK: x\n"
    assert findings(text + "\n" * (lint_checks.LONGEST - 2)) == []
    assert [str(found) for found in findings(text + "\n" * (lint_checks.LONGEST - 1))] == [
        "801: error: 801 lines, and at most 800 are read: cut the file by topic"
    ]
