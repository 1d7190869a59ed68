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

SUITE = (
    "children/sitecustomize.py", "functions_run.py", "process_records.py", "seen.py", "store.py", "unchanged.py"
)  # fmt: skip
FILES = {
    "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "--import-mode=importlib"\npythonpath = ["test"]\n',
    "passes/support/context.py": "",
    "passes/support/registry.py": "PASSES = ()\n",
    "pyext/clusters/targets.py": "TARGETS = ()\n",
    "pyext/__init__.py": """
import functools
from math import floor as whole
from math import trunc
from os import sep

TABLE = {"two": trunc(2.0)}

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

def at_collection():
    return (1,)

def by_all(x):
    return x

class Counter:
    def count(self):
        return 1

def in_child():
    return 2

def in_grandchild():
    return 2

def in_fork():
    return 2

def before_its_end():
    return 2
""",
    "test/helper.py": "from further import FOUR\n\ndef helped():\n    return FOUR\n",
    "test/further.py": "FOUR = 4\n",
    "test/loaded.py": "import importlib\nimportlib.import_module('tool')\n",
    "test/tool.py": "",
    "test/source.txt": "",
    "test/data/number.txt": "5\n",
    "test/finder.py": """
import importlib.util
from pathlib import Path

class Finder:
    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_file_location(name, Path(__file__).parents[1] / "pyext" / "__init__.py") if name == "paropt" else None
""",
    "test/scripts/child.py": """
import os, signal, subprocess, sys
from pathlib import Path
TEST = Path(__file__).parents[1]
sys.path.append(str(TEST))
from finder import Finder
sys.meta_path.insert(1, Finder())
import paropt

match sys.argv[1]:
    case "calls":
        paropt.in_child()
    case "starts":
        subprocess.run([sys.executable, __file__, "started"], check=True)
    case "started":
        paropt.in_grandchild()
    case "forks":
        if not os.fork():
            paropt.in_fork()
            os._exit(0)
        os.wait()
    case "reads":
        (TEST / "data" / "child.txt").read_text()
    case "ends":
        paropt.before_its_end()
        os.kill(os.getpid(), signal.SIGKILL)
    case "stays":
        sys.stdin.read()
""",
    "test/data/child.txt": "",
    "test/test_four.py": """
import subprocess, sys
from pathlib import Path
import pytest

def run(*arguments):
    return subprocess.run([sys.executable, str(Path(__file__).with_name("scripts") / "child.py"), *arguments]).returncode

@pytest.fixture(scope="module")
def started():
    return run("starts")

def test_child():
    assert run("calls") == 0

def test_grandchild(started):
    assert started == 0

def test_grandchild_too(started):
    assert started == 0

def test_fork():
    assert run("forks") == 0

def test_child_reads():
    assert run("reads") == 0

def test_child_ends():
    assert run("ends") < 0
""",
    "test/test_five.py": """
import os, subprocess, sys
from pathlib import Path

CHILD = str(Path(__file__).with_name("scripts") / "child.py")
STAYING = []

def test_shell():
    assert subprocess.run(f"{sys.executable} {CHILD} calls", shell=True).returncode == 0

def test_other_variables():
    assert subprocess.run([sys.executable, CHILD, "calls"], env={}).returncode == 0

def test_other_program():
    assert subprocess.run(["true"]).returncode == 0

def test_staying():
    STAYING.append(subprocess.Popen([sys.executable, CHILD, "stays"], stdin=subprocess.PIPE))  # until the tests end

def test_forking():
    if not os.fork():
        os._exit(0)
    os.wait()
""",
    "test/conftest.py": """
import os, sys
from finder import Finder
import unchanged, store

sys.meta_path.insert(0, Finder())
store.is_doubted = lambda name: "DOUBTED" in os.environ

def pytest_configure(config):
    if unchanged.is_wanted():
        config.pluginmanager.register(unchanged.Unchanged())
""",
    "test/test_one.py": """
import functools
import pytest
from paropt import Counter, by_all, doubled, kept

@pytest.fixture(scope="module")
def counter():
    return Counter().count()

@functools.cache
def same(x):
    return by_all(x)

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

def test_same():
    assert same(1) == 1

def test_same_too():
    assert same(1) == 1
""",
    "test/test_three.py": """
import subprocess, sys
from pathlib import Path
import pytest
import store
from paropt import at_collection

@pytest.fixture(scope="module")
def process():
    return subprocess.run([sys.executable, "-S", "-c", ""]).returncode

def test_shared_process(process):
    assert process == 0

def test_shared_process_too(process):
    assert process == 0

@pytest.mark.parametrize("value", at_collection())
def test_collected(value):
    assert value

def test_found():
    assert store.key(sources=(Path(__file__).with_name("source.txt"),))

def test_loading():
    import importlib
    assert importlib.import_module("loaded")

def test_skipped():
    pytest.skip("for another reason")
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
    if os.environ.get("FAILS") == "and ends":
        os._exit(3)
    assert os.environ.get("FAILS") is None
""",
}
ONE = {"doubled", "kept", "kept_too", "counted", "counted_too", "same", "same_too"}
TWO = {"halved", "read", "listed", "process", "failing"}
THREE = {"shared_process", "shared_process_too", "collected", "found", "loading"}
FOUR = {"child", "grandchild", "grandchild_too", "fork", "child_reads", "child_ends"}
FIVE = {"shell", "other_variables", "other_program", "staying", "forking"}
ALL = ONE | TWO | THREE | FOUR | FIVE
ALWAYS = {"process", "shared_process", "shared_process_too"} | FIVE


def run(folder: Path, **variables: str) -> tuple[set[str], int]:
    """The tests that run in the repository in `folder`, and how many are left out."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PAROPT_")},
        "PAROPT_UNCHANGED": "skip",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        **variables,
    }
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", "test"]
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
    assert run(folder) == (ALL, 0)
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
        pytest.param(replace(PAROPT, "in_grandchild():\n    return 2", "in_grandchild():\n    return 3"), {"grandchild", "grandchild_too"}, id="a child of a child"),
        pytest.param(replace(PAROPT, "in_fork():\n    return 2", "in_fork():\n    return 3"), {"fork"}, id="a fork of a child"),
        pytest.param(replace(PAROPT, "before_its_end():\n    return 2", "before_its_end():\n    return 3"), {"child_ends"}, id="a child that is ended"),
        pytest.param(write("test/data/child.txt", "again"), {"child_reads"}, id="a file that a child reads"),
        pytest.param(replace("test/scripts/child.py", "TEST =", "\nTEST ="), FOUR, id="what a child runs"),
        pytest.param(replace("test/test_one.py", "\ndef test_doubled", "\n# again\n\ndef test_doubled"), ONE, id="its file"),
    ],
)  # fmt: skip
def test_what_a_change_reaches(repository: Path, change: Callable[[Path], None], reached: set[str]) -> None:
    change(repository)
    assert run(repository) == (reached | ALWAYS, len(ALL - reached - ALWAYS))


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
    os.environ[seen.RECORDS] = str(Path.cwd() / str(number))
    assert command.par_opt("--list-passes").returncode == 0
    found = process_records.of_processes(Path(os.environ[seen.RECORDS]), seen.parents_of_processes(), 1)
    print(found.is_opaque, bool(found.functions & set(driver)))
"""


def test_commands_that_are_forks_tell_what_they_run(tmp_path: Path) -> None:
    """The first starts the server of forks, which stays."""
    paths = os.pathsep.join(str(store.ROOT / "test" / each) for each in ("children", ""))
    environment = {**os.environ, "TESTS_RECORDS": str(tmp_path / "own"), "PYTHONPATH": paths}
    command = [sys.executable, "-c", FORKS]
    told = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100, check=True
    )
    assert told.stdout == "True True\nFalse True\n"
