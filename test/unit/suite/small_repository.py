"""A small repository for test_unchanged.py: its files, and the names of its tests."""

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

def in_module():
    return 2

def checked(x):
    assert x

def before_its_end():
    return 2
""",
    "pyext/__main__.py": "from paropt import in_module\n\ndef main():\n    in_module()\n\nmain()\n",
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
        return importlib.util.spec_from_file_location(name, Path(__file__).resolve().parents[1] / "pyext" / "__init__.py") if name == "paropt" else None
""",
    "test/scripts/child.py": """
import os, runpy, signal, subprocess, sys
from pathlib import Path
TEST = Path(__file__).parents[1]
sys.path.append(os.path.join(os.path.dirname(__file__), ".."))
import dotted
import store  # its own
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
        open(os.fsencode(TEST / "data" / "child.txt")).read()
    case "runs":
        runpy.run_module("paropt", run_name="__main__")
    case "ends":
        paropt.before_its_end()
        os.kill(os.getpid(), signal.SIGKILL)
    case "stays":
        print("ready", flush=True)
        sys.stdin.read()
    case "starts a shell":
        os.system("true")
    case "checks":
        paropt.checked(False)
""",
    "test/scripts/store.py": "",
    "test/dotted.py": "",
    "test/data/child.txt": "",
    "test/test_four.py": """
import subprocess, sys
from pathlib import Path
import pytest

from paropt import checked

def run(*arguments, options=()):
    script = str(Path(__file__).with_name("scripts") / "child.py")
    return subprocess.run([sys.executable, *options, script, *arguments]).returncode

@pytest.fixture(scope="module")
def started():
    return run("starts")

def test_child():
    assert run("calls") == 0

def test_grandchild(started):
    assert started == 0

def test_grandchild_too(started):
    assert started == 0

def test_asked_for(request):
    assert request.getfixturevalue("started") == 0

def test_fork():
    assert run("forks") == 0

def test_optimized():
    assert run("checks", options=["-O"]) == 0
    with pytest.raises(AssertionError):
        checked(False)

def test_child_reads():
    assert run("reads") == 0

def test_module():
    assert run("runs") == 0

def test_child_ends():
    assert run("ends") < 0
""",
    "test/test_five.py": """
import multiprocessing, os, subprocess, sys
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
    STAYING.append(subprocess.Popen([sys.executable, CHILD, "stays"], stdin=subprocess.PIPE, stdout=subprocess.PIPE))
    assert STAYING[0].stdout.readline() == b"ready\\n"  # it ends after the tests

def test_shell_of_a_child():
    assert subprocess.run([sys.executable, CHILD, "starts a shell"]).returncode == 0

def test_spawning():
    process = multiprocessing.get_context("spawn").Process(target=print)
    process.start()
    process.join()

def test_before_it_is_started():
    assert subprocess.run([sys.executable, CHILD, "calls"], preexec_fn=lambda: None).returncode == 0

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
FOUR = {
    "child",
    "grandchild",
    "grandchild_too",
    "fork",
    "child_reads",
    "child_ends",
    "module",
    "asked_for",
    "optimized",
}
FIVE = {
    "shell",
    "other_variables",
    "other_program",
    "staying",
    "forking",
    "shell_of_a_child",
    "spawning",
    "before_it_is_started",
}
ALL = ONE | TWO | THREE | FOUR
ALWAYS = {"process", "shared_process", "shared_process_too"}
