"""The mutation script deletes what it should and notices what survives, on a tree of one small file."""

import ast
import os
from pathlib import Path

import pytest
from unit.scripts import load

mutate = load("mutate")

SOURCE = '''"""Text with ä, which is two bytes."""
from paropt.passes.core import require


def tested(x):
    require(x > 0, "not positive")
    return x


def untested(x):
    if x > 0: require(
        x < 9,
        f"too large: ä {x}",
    )
    return x


row = lambda x: require(x != 5, "is five")
'''
CORE = """def require(holds, why_not):
    if not holds:
        raise ValueError(why_not)
"""
CHECKS = [mutate.Check("python", ("test/check.py",))]
CHECK = """from paropt.passes.rules import row, tested

for rule, bad in ((tested, 0), (row, 5)):
    try:
        rule(bad)
    except ValueError:
        continue
    print(f"FAILED test.py::{rule.__name__}")
    raise SystemExit(1)
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    files = {"passes/rules.py": SOURCE, "passes/core.py": CORE, "pyext/__init__.py": "", "test/check.py": CHECK}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_conditions_are_found_and_deleted(tree: Path) -> None:
    found = mutate.conditions(tree)
    assert [str(c) for c in found] == [
        'passes/rules.py:6: require(x > 0, "not positive")',
        'passes/rules.py:11: require( x < 9, f"too large: ä {x}", )',
        'passes/rules.py:18: require(x != 5, "is five")',
    ]
    for condition in found:
        text = mutate.without(SOURCE.encode(), condition).decode()
        ast.parse(text)
        assert text.count("require(") == 2


def test_survivors_are_reported(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    survivors = mutate.survey(tree, mutate.conditions(tree), CHECKS, jobs=1)
    assert [c.line for c in survivors] == [11]
    assert capsys.readouterr().out.splitlines() == [
        '[1/3] killed by test.py::tested: passes/rules.py:6: require(x > 0, "not positive")',
        '[2/3] SURVIVED 0 tests: passes/rules.py:11: require( x < 9, f"too large: ä {x}", )',
        '[3/3] killed by test.py::<lambda>: passes/rules.py:18: require(x != 5, "is five")',
    ]
    assert (tree / "passes" / "rules.py").read_text() == SOURCE


def test_broken_tests_are_not_taken_for_kills(tree: Path) -> None:
    (tree / "test" / "check.py").write_text("raise SystemExit(3)")
    with pytest.raises(ValueError, match="fail before anything is deleted: exit status 3"):
        mutate.survey(tree, mutate.conditions(tree), CHECKS, jobs=1)


def test_the_passes_have_conditions() -> None:
    assert len(mutate.conditions(mutate.ROOT)) > 9


def test_checks_that_do_not_test_the_copy_are_refused(tree: Path) -> None:
    with pytest.raises(ValueError, match=r"does not notice that passes/rules.py is broken: python -c pass"):
        mutate.survey(tree, mutate.conditions(tree), [*CHECKS, mutate.Check("python -c pass", ())], jobs=1)


def test_nothing_runs_on_after_a_check(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutate, "SECONDS", 1)
    copy = mutate.Copy(tree, tree / "copy")
    started = "import os, pathlib, time; pathlib.Path('pid').write_text(str(os.getpid())); time.sleep(60)"
    (copy.folder / "test" / "hangs.py").write_text(started)
    assert copy.killer(["python test/hangs.py"]) == "no answer in 1 s: python test/hangs.py"
    with pytest.raises(ProcessLookupError):
        os.kill(int((copy.folder / "pid").read_text()), 0)


def test_only_tests_in_which_a_condition_is_false_run(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "test" / "test_rules.py").write_text(TESTS)
    checks = [mutate.Check("python -m pytest -x -p no:cacheprovider", ("test/test_rules.py",))]
    declined = mutate.Copy(tree, tree / "copy").declined(checks[0])
    assert declined == {
        "passes/rules.py:6": ["test/test_rules.py::test_tested[0 as it is]"],
        "passes/rules.py:11": ["test/test_rules.py::test_untested"],
    }
    survivors = mutate.survey(tree, mutate.conditions(tree), checks, jobs=1)
    assert [c.line for c in survivors] == [11, 18]
    assert "SURVIVED 1 tests: passes/rules.py:11" in (said := capsys.readouterr().out)
    assert "killed by test/test_rules.py::test_tested[0" in said


TESTS = """import pytest
from paropt.passes import rules

@pytest.mark.parametrize("value", [0], ids=["0 as it is"])
def test_tested(value):
    with pytest.raises(ValueError):
        rules.tested(value)

def test_untested():
    try:
        rules.untested(10)
    except ValueError:
        pass

def test_row():
    rules.row(4)
"""
