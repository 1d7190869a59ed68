"""What `make test UNCHANGED=skip` leaves out, in a small repository: the tests that no change can have reached."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import store
from unit.suite.small_repository import ALL, ALWAYS, FILES, FIVE, FOUR, ONE, SUITE, THREE, TWO

QUICK = tuple(f"test/test_{name}.py" for name in ("one", "two", "three", "four"))


def run(folder: Path, *files: str, **variables: str) -> tuple[set[str], int]:
    """The tests that run in the repository in `folder`, and how many are left out.

    Of these files: by default of all but test_five.py, whose tests take longest.
    """
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("PAROPT_", "TESTS_"))},
        "PAROPT_UNCHANGED": "skip",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        **variables,
    }
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", *(files or QUICK)]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100)
    assert ran.returncode in (0, 1, 3), ran.stdout + ran.stderr
    left_out = re.search(r"(\d+) unchanged", ran.stdout)
    return set(re.findall(r"^(?:PASSED|FAILED) \S+::test_(\w+)", ran.stdout, re.M)), int(left_out[1]) if left_out else 0


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose tests have all passed."""
    folder = tmp_path_factory.mktemp("filled")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for name in SUITE:
        (folder / "test" / name).parent.mkdir(exist_ok=True)
        shutil.copy(store.ROOT / "test" / name, folder / "test" / name)
    assert run(folder, "test") == (ALL | FIVE, 0)
    return folder


@pytest.fixture
def repository(filled: Path, tmp_path: Path) -> Path:
    return shutil.copytree(filled, tmp_path / "copy")


def replace(file: str, old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        text = (folder / file).read_text()
        assert old in text
        (folder / file).write_text(text.replace(old, new))

    return change


def write(file: str, text: str = "") -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / file).write_text(text)

    return change


PAROPT = "pyext/__init__.py"


@pytest.mark.parametrize(
    "change, reached",
    [
        pytest.param(replace(PAROPT, "return 0", "return 1"), set(), id="a function that no test enters"),
        pytest.param(replace(PAROPT, 'return TABLE["two"] * x', "return x + x"), {"doubled"}, id="one that a test enters"),
        pytest.param(replace(PAROPT, "within(x):\n    return x", "within(x):\n    return +x"), {"kept", "kept_too"}, id="a kept value"),
        pytest.param(replace(PAROPT, "return 1\n", "return 2 - 1\n"), {"counted", "counted_too"}, id="a fixture of a module"),
        pytest.param(replace(PAROPT, "math import floor", "numpy import floor"), {"halved"}, id="where a name is from"),
        pytest.param(replace(PAROPT, "import trunc", "import ceil as trunc"), ALL, id="one that a table reads"),
        pytest.param(replace(PAROPT, "from os import sep\n", ""), ALL, id="one that is passed on, or registers"),
        pytest.param(replace(PAROPT, "return (1,)", "return (2,)"), THREE, id="called at collection"),
        pytest.param(replace(PAROPT, "    return x\n\nclass", "    return +x\n\nclass"), {"same", "same_too"}, id="a value that a test keeps"),
        pytest.param(replace(PAROPT, "\ndef never", "# says why\ndef never"), set(), id="a comment"),
        pytest.param(replace(PAROPT, "\ndef never", "\ndef new():\n    pass\n\ndef never"), set(), id="a new function"),
        pytest.param(replace(PAROPT, "\ndef never", "\nimport json\n\ndef new():\n    json.loads\n\ndef never"), set(), id="a new import"),
        pytest.param(replace(PAROPT, "trunc(2.0)", "trunc(2.5)"), ALL, id="a table"),
        pytest.param(replace(PAROPT, "return function", "return (function)\n    pass"), ALL, id="run at import"),
        pytest.param(replace(PAROPT, "count=3", "count=4"), ALL, id="the head of a decorated function"),
        pytest.param(replace(PAROPT, "Lists.", "Counts."), ALL, id="its docstring"),
        pytest.param(replace(PAROPT, "return count", "return -count"), set(), id="its body"),
        pytest.param(replace(PAROPT, "def count(self)", "def more(self): ...\n    def count(self)"), ALL, id="a method"),
        pytest.param(replace(PAROPT, "once():\n    return 7", "once():\n    return 8"), ALL, id="a value that is kept for ever"),
        pytest.param(write("pyext/table.toml"), ALL, id="data of par-opt"),
        pytest.param(write("pyext/.table.swp"), set(), id="what an editor leaves"),
        pytest.param(write("passes/support/context.py", "# again"), ALL, id="what stays from test to test"),
        pytest.param(write("test/source.txt", "again"), {"found"}, id="a source of what is stored"),
        pytest.param(write("test/tool.py", "# again"), {"loading"}, id="what is loaded by name"),
        pytest.param(write("test/further.py", "FOUR = 2 + 2"), TWO, id="what this imports"),
        pytest.param(write("test/data/number.txt", "5\n"), set(), id="nothing"),
        pytest.param(write("test/data/other.txt"), {"listed"}, id="a file in a folder that a test lists"),
        pytest.param(replace("test/helper.py", "return FOUR", "return +FOUR"), TWO, id="what a test's file imports"),
        pytest.param(replace(PAROPT, "in_child():\n    return 2", "in_child():\n    return 3"), {"child"}, id="one that a child enters"),
        pytest.param(replace(PAROPT, "in_grandchild():\n    return 2", "in_grandchild():\n    return 3"), {"grandchild", "grandchild_too", "asked_for"}, id="a child of a child"),
        pytest.param(replace(PAROPT, "in_fork():\n    return 2", "in_fork():\n    return 3"), {"fork"}, id="a fork of a child"),
        pytest.param(replace(PAROPT, "before_its_end():\n    return 2", "before_its_end():\n    return 3"), {"child_ends"}, id="a child that is ended"),
        pytest.param(replace(PAROPT, "in_module():\n    return 2", "in_module():\n    return 3"), {"module"}, id="called by a module that a child runs"),
        pytest.param(replace("pyext/__main__.py", "    in_module()", "    return in_module()"), {"module"}, id="this module"),
        pytest.param(write("test/data/child.txt", "again"), {"child_reads"}, id="a file that a child reads"),
        pytest.param(replace("test/scripts/child.py", "TEST =", "\nTEST ="), FOUR, id="what a child runs"),
        pytest.param(write("test/dotted.py", "# again"), FOUR, id="what this imports, by a path with dots"),
        pytest.param(write("test/scripts/signal.py"), FOUR, id="what stands in for a module"),
        pytest.param(replace("test/test_one.py", "\ndef test_doubled", "\n# again\n\ndef test_doubled"), ONE, id="its file"),
    ],
)  # fmt: skip
def test_what_a_change_reaches(repository: Path, change: Callable[[Path], None], reached: set[str]) -> None:
    change(repository)
    assert run(repository) == (reached | ALWAYS, len(ALL - reached - ALWAYS))


def test_what_starts_processes_of_which_nothing_is_known_always_runs(repository: Path) -> None:
    assert run(repository, "test/test_five.py") == (FIVE, 0)


def test_a_file_that_a_test_reads(repository: Path) -> None:
    (repository / "test/data/number.txt").write_text("6\n")
    assert run(repository)[0] == {"read", *ALWAYS}


def test_a_variable_reaches_all(repository: Path) -> None:
    assert run(repository, PAROPT_OTHER="1")[0] == ALL


def test_a_test_that_has_failed_runs_again(repository: Path) -> None:
    again = {"failing", *ALWAYS}
    change = replace("test/test_two.py", "\ndef test_halved", "\n# again\n\ndef test_halved")
    change(repository)
    assert run(repository, FAILS="1")[0] == TWO | ALWAYS
    assert run(repository)[0] == again
    assert run(repository)[0] == ALWAYS


@pytest.mark.parametrize(
    "variables", [{"PAROPT_UNCHANGED": "run"}, {"PAROPT_TEST_STORE": ""}, {"PAROPT_PROGRAMS": "9"}]
)
def test_all_run_where_that_is_asked_for(repository: Path, variables: dict[str, str]) -> None:
    assert run(repository, **variables) == (ALL, 0)


def test_what_is_edited_while_tests_run_has_not_passed(repository: Path) -> None:
    edit = "\ndef test_halved():\n    (Path(__file__).parent / 'further.py').write_text('FOUR = 8')\n"
    replace("test/test_two.py", "\ndef test_halved():\n", edit)(repository)
    assert run(repository)[0] == TWO | ALWAYS
    assert run(repository)[0] == TWO | ALWAYS


def test_what_is_edited_while_a_child_runs_has_not_passed(repository: Path) -> None:
    edit = "run('reads') == 0\n    (Path(__file__).parent / 'data' / 'child.txt').write_text('later')"
    replace("test/test_four.py", 'run("reads") == 0', edit)(repository)
    assert run(repository)[0] == FOUR | ALWAYS
    assert run(repository)[0] == {"child_reads"} | ALWAYS


def test_a_test_that_ends_its_process_has_not_passed(repository: Path) -> None:
    run(repository, DOUBTED="1", FAILS="and ends")
    assert run(repository)[0] == {"failing", *ALWAYS}


def test_doubted_ones_run(repository: Path) -> None:
    for _ in range(2):
        assert run(repository, DOUBTED="1")[0] == ALL


FORKS = """
import command, functions_run, os, process_records, seen, store
from pathlib import Path

driver = functions_run.source_of(store.ROOT / "pyext" / "command" / "driver.py").functions
for number in range(2):
    folder = Path.cwd() / str(number)
    folder.mkdir()
    os.environ[seen.RECORDS] = str(folder)
    assert command.par_opt("--list-passes").returncode == 0
    found = process_records.of_processes(folder, seen.parents_of_processes(), 1)
    print(found.is_opaque, bool(found.functions & set(driver)))
"""


def test_commands_that_are_forks_tell_what_they_run(tmp_path: Path) -> None:
    """The first starts the server of forks, which stays."""
    paths = os.pathsep.join(str(store.ROOT / "test" / each) for each in ("children", ""))
    environment = {**os.environ, "TESTS_RECORDS": str(tmp_path), "PYTHONPATH": paths}
    command = [sys.executable, "-c", FORKS]
    told = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100, check=True
    )
    assert told.stdout == "True True\nFalse True\n"
