"""What `make test` leaves out, in a repository of two files and four tests: those that no change can have reached."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import store

SUITE = ("functions_run.py", "store.py", "unchanged.py")
FILES = {
    "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "--import-mode=importlib"\npythonpath = ["test"]\n',
    "passes/support/registry.py": "PASSES = ()\n",
    "pyext/clusters/targets.py": "TARGETS = ()\n",
    "pyext/__init__.py": """
import functools
from math import floor as whole

TABLE = {"two": 2}

def doubled(x):
    '''Twice x.'''
    return TABLE["two"] * x

def halved(x):
    return whole(x / 2)

def never():
    return 0

@functools.lru_cache(maxsize=8)
def kept(x):
    return within(x)

def within(x):
    return x

@functools.cache
def once():
    return 7

def registered(function):
    return function

@registered
def listed(count=3):
    '''Lists.'''
    return count

class Counter:
    def count(self):
        return 1
""",
    "test/helper.py": "def helped():\n    return 4\n",
    "test/data/number.txt": "5\n",
    "test/conftest.py": """
import importlib.util, sys
from pathlib import Path
import unchanged, store

class Finder:
    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_file_location(name, Path(__file__).parents[1] / "pyext" / "__init__.py") if name == "paropt" else None

sys.meta_path.insert(0, Finder())
store.is_doubted = lambda name: False

def pytest_configure(config):
    if unchanged.is_wanted():
        config.pluginmanager.register(unchanged.Unchanged())
""",
    "test/test_one.py": """
import pytest
from paropt import Counter, doubled, kept

@pytest.fixture(scope="module")
def counter():
    return Counter().count()

def test_doubled():
    assert doubled(2) == 4

def test_kept():
    assert kept(1) == 1

def test_kept_too():
    assert kept(1) == 1

def test_counted(counter):
    assert counter == 1

def test_counted_too(counter):
    assert counter == 1
""",
    "test/test_two.py": """
import os, subprocess, sys
from pathlib import Path
from helper import helped
from paropt import halved

def test_halved():
    assert halved(helped() + 1) == 2

def test_read():
    assert (Path(__file__).parent / "data" / "number.txt").read_text() == "5\\n"

def test_listed():
    assert os.listdir(Path(__file__).parent / "data")

def test_process():
    assert subprocess.run([sys.executable, "-S", "-c", ""]).returncode == 0

def test_failing():
    assert os.environ.get("FAILS") is None
""",
}
ONE = {"doubled", "kept", "kept_too", "counted", "counted_too"}
TWO = {"halved", "read", "listed", "process", "failing"}
ALWAYS = {"process"}


def run(folder: Path, *options: str, **variables: str) -> tuple[set[str], int]:
    """The tests that run in the repository in `folder`, and how many are left out."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PAROPT_")},
        "PAROPT_UNCHANGED": "skip",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        **variables,
    }
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", *options, "test"]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100)
    assert ran.returncode in (0, 1), ran.stdout + ran.stderr
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
        shutil.copy(store.ROOT / "test" / name, folder / "test")
    assert run(folder) == (ONE | TWO, 0)
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
        pytest.param(replace(PAROPT, "    return x\n", "    return +x\n"), {"kept", "kept_too"}, id="a kept value"),
        pytest.param(replace(PAROPT, "return 1\n", "return 2 - 1\n"), {"counted", "counted_too"}, id="a fixture of a module"),
        pytest.param(replace(PAROPT, "math import floor", "numpy import floor"), {"halved"}, id="where a name is from"),
        pytest.param(replace(PAROPT, "\ndef never", "# says why\ndef never"), set(), id="a comment"),
        pytest.param(replace(PAROPT, "\ndef never", "\ndef new():\n    pass\n\ndef never"), set(), id="a new function"),
        pytest.param(replace(PAROPT, "import functools", "import functools, json"), set(), id="a new import"),
        pytest.param(replace(PAROPT, '"two": 2', '"two": 2, "three": 3'), ONE | TWO, id="a table"),
        pytest.param(replace(PAROPT, "return function", "return (function)\n    pass"), ONE | TWO, id="run at import"),
        pytest.param(replace(PAROPT, "count=3", "count=4"), ONE | TWO, id="the head of a decorated function"),
        pytest.param(replace(PAROPT, "Lists.", "Counts."), ONE | TWO, id="its docstring"),
        pytest.param(replace(PAROPT, "return count", "return -count"), set(), id="its body"),
        pytest.param(replace(PAROPT, "def count(self)", "def more(self): ...\n    def count(self)"), ONE | TWO, id="a method"),
        pytest.param(replace(PAROPT, "once():\n    return 7", "once():\n    return 8"), ONE | TWO, id="a value that is kept for ever"),
        pytest.param(write("pyext/table.toml"), ONE | TWO, id="data of par-opt"),
        pytest.param(write("test/data/number.txt", "5\n"), set(), id="nothing"),
        pytest.param(write("test/data/other.txt"), {"listed"}, id="a file in a folder that a test lists"),
        pytest.param(replace("test/helper.py", "4", "2 + 2"), TWO, id="what a test's file imports"),
        pytest.param(replace("test/test_one.py", "\ndef test_doubled", "\n# again\n\ndef test_doubled"), ONE, id="its file"),
    ],
)  # fmt: skip
def test_what_a_change_reaches(repository: Path, change: Callable[[Path], None], reached: set[str]) -> None:
    change(repository)
    assert run(repository) == (reached | ALWAYS, len((ONE | TWO) - reached - ALWAYS))


def test_a_file_that_a_test_reads(repository: Path) -> None:
    (repository / "test/data/number.txt").write_text("6\n")
    assert run(repository)[0] == {"read", *ALWAYS}


def test_a_variable_reaches_all(repository: Path) -> None:
    assert run(repository, PAROPT_OTHER="1")[0] == ONE | TWO


def test_a_test_that_has_failed_runs_again(repository: Path) -> None:
    again = {"failing", *ALWAYS}
    change = replace("test/test_two.py", "\ndef test_halved", "\n# again\n\ndef test_halved")
    change(repository)
    assert run(repository, FAILS="1")[0] == TWO
    assert run(repository)[0] == again
    assert run(repository)[0] == ALWAYS


@pytest.mark.parametrize(
    "variables", [{"PAROPT_UNCHANGED": "run"}, {"PAROPT_TEST_STORE": ""}, {"PAROPT_PROGRAMS": "9"}]
)
def test_all_run_where_that_is_asked_for(repository: Path, variables: dict[str, str]) -> None:
    assert run(repository, **variables) == (ONE | TWO, 0)


def test_doubted_ones_run(repository: Path) -> None:
    replace("test/conftest.py", "lambda name: False", "lambda name: True")(repository)
    assert run(repository)[0] == ONE | TWO
    assert run(repository)[0] == ONE | TWO
