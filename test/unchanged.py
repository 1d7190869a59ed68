"""Leaves out a test that has passed before when nothing that it ran or read has changed since: `make test` does.

Beside verdicts and executables (test/store.py) the store has, for each test that passed, hashes of all that its outcome
follows from: the functions of par-opt that it entered, the files and folders of this repository that it read, its own
file and what that imports, and the rest: everything in par-opt outside of functions, the versions of all packages, the
environment. One such test in 20, others in each run, is run all the same. A test that starts processes always is, since
nothing is known of what they do.
"""

import ast
import importlib.metadata
import importlib.util
import json
import os
import sys
from collections import defaultdict
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import FrameType
from typing import Any

import functions_run
import pytest
import store

ROOT = store.ROOT
PAROPT = (ROOT / "passes", ROOT / "pyext")
REASON = "has passed before, and nothing that it ran or read has changed"
# These ask whether files exist, and read what others do not.
PHASES = 3
ALWAYS = (ROOT / "test" / "unit" / "repository",)
_PROCESSES = {"subprocess.Popen", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "socket.connect"}
_READS = {"open", "os.listdir", "os.scandir"}
_NOT_READ = ("__pycache__", "build", "demo-out", "paropt.egg-info")
# Values that modules keep: lists of passes, devices.
_KEPT_BY = ("passes/support/registry.py", "pyext/clusters/targets.py")


def is_wanted() -> bool:
    """Asked for, and par-opt is the one of this repository."""
    if os.environ.get("PAROPT_UNCHANGED") != "skip" or not store.is_used():
        return False
    found = importlib.util.find_spec("paropt")
    return found is not None and Path(str(found.origin)).is_relative_to(ROOT)


@dataclass
class Seen:
    """What was run and read."""

    functions: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)  # and folders, within the repository
    starts_processes: bool = False

    def add(self, other: "Seen") -> None:
        self.functions |= other.functions
        self.files |= other.files
        self.starts_processes |= other.starts_processes


_now = Seen()


@contextmanager
def seen() -> Iterator[Seen]:
    """What is run and read within the block; what surrounds the block has seen it, too."""
    global _now
    outer, found = _now, Seen()
    outer.functions |= functions_run.entered()
    functions_run.forget()
    _now = found
    try:
        yield found
    finally:
        found.functions |= functions_run.entered()
        functions_run.forget()
        outer.add(found)
        _now = outer


def _notice(event: str, arguments: tuple[Any, ...]) -> None:
    if event in _PROCESSES:
        _now.starts_processes = True
    elif event in _READS and isinstance(arguments[0], str | os.PathLike) and not _is_importing(sys._getframe(1)):
        _read(os.path.abspath(arguments[0]))  # noqa: PTH100  nothing is resolved


def _is_importing(frame: FrameType) -> bool:
    """Python looks for modules, and loads them: see `_imported` and functions_run.py."""
    return frame.f_code.co_filename.startswith("<frozen importlib")


def _read(path: str) -> None:
    if not path.startswith(f"{ROOT}/"):
        return
    name = path.removeprefix(f"{ROOT}/")
    if not any(part in _NOT_READ or part.startswith(".") for part in name.split("/")):
        _now.files.add(name)


class Unchanged:
    """The plug-in."""

    def __init__(self) -> None:
        functions_run.start()
        self._of_parents: dict[str, Seen] = defaultdict(Seen)
        self._outcomes: list[str] = []  # of setup, test, and teardown
        self._leaves_out = False
        sys.addaudithook(_notice)
        self._key_of, store.key = store.key, self._key

    def _key(self, *parts: object, sources: tuple[Path, ...]) -> str:
        """What is stored follows from these sources, whoever ran them."""
        for path in sources:
            _read(str(path))
        return self._key_of(*parts, sources=sources)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, object, object]:
        with seen() as found:
            report = yield
        if isinstance(collector, pytest.Module):
            self._of_parents[collector.nodeid].add(found)
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: pytest.FixtureRequest) -> Generator[None, object, object]:
        with seen() as found:
            value = yield
        if fixturedef.scope != "function":
            self._of_parents[request.node.nodeid].add(found)
        return value

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._outcomes.clear()
        name = _name(item)
        self._leaves_out = _is_unchanged(item, name) and not store.is_doubted(name)
        functions_run.forget_values()
        with seen() as found:
            done = yield
        if self._leaves_out:
            return done
        if self._outcomes != ["passed"] * PHASES or found.starts_processes:
            store.put(name)  # nothing is known of it
            return done
        for parent in item.listchain():
            found.add(self._of_parents[parent.nodeid])
        _write(item, name, found)
        return done

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if self._leaves_out:
            pytest.skip(REASON)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        self._outcomes.append(report.outcome)
        return report

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        is_one = report.skipped and isinstance(report.longrepr, tuple) and report.longrepr[2].endswith(REASON)
        return ("unchanged", "u", "UNCHANGED") if is_one else None


def _name(item: pytest.Item) -> str:
    return store.key("passed", item.nodeid, sources=())


def _write(item: pytest.Item, name: str, found: Seen) -> None:
    files = found.files | _imported(item.path)
    record = {
        "rest": _rest(),
        "functions": sorted(found.functions | functions_run.at_import),
        "files": {file: _content(file) for file in sorted(files)},
    }
    store.put(name, json.dumps(record).encode())


def _is_unchanged(item: pytest.Item, name: str) -> bool:
    if any(item.path.is_relative_to(folder) for folder in ALWAYS) or not (found := store.get(name)):
        return False
    record = json.loads(found)
    return (
        record["rest"] == _rest()
        and _functions().issuperset(record["functions"])
        and all(_content(file) == content for file, content in record["files"].items())
    )


@cache
def _functions() -> frozenset[str]:
    """Of all of par-opt, as it is now."""
    return frozenset(each for path in _sources() for each in functions_run.source_of(path).functions)


@cache
def _sources() -> tuple[Path, ...]:
    return tuple(sorted(path for folder in PAROPT for path in folder.rglob("*.py")))


@cache
def _rest() -> str:
    data = (
        path for folder in PAROPT for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    )
    packages = sorted(f"{each.name}=={each.version}" for each in importlib.metadata.distributions())
    variables = sorted(item for item in os.environ.items() if item[0].startswith("PAROPT_"))
    parts: list[object] = [packages, variables, store.flags(), sys.version]
    parts += [(path.name, functions_run.source_of(path).rest) for path in _sources()]
    parts += [
        (file, _content(file))
        for file in sorted({"pyproject.toml", *_KEPT_BY, *_imported(Path(__file__).with_name("conftest.py"))})
    ]
    parts += [_content(str(path.relative_to(ROOT))) for path in sorted(data) if path.suffix != ".py"]
    return sha256(repr(parts).encode()).hexdigest()


@cache
def _content(file: str) -> str:
    path = ROOT / file
    if path.is_dir():
        return " ".join(
            sorted(each.name for each in path.iterdir() if each.name not in _NOT_READ and each.name[0] != ".")
        )
    return sha256(path.read_bytes()).hexdigest() if path.exists() else ""


@cache
def _imported(path: Path) -> frozenset[str]:
    """A file of tests or tools, and what it imports from there, wherever in it, and so on."""
    found, left = set(), [path]
    while left:
        file = left.pop()
        if (name := str(file.relative_to(ROOT))) not in found:
            found.add(name)
            left += _imports(file)
    return frozenset(found)


@cache
def _imports(path: Path) -> tuple[Path, ...]:
    names = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        match node:
            case ast.Import():
                names |= {alias.name for alias in node.names}
            case ast.ImportFrom(module=str(module)):
                names |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    folders = (ROOT / "test", ROOT / "tools", path.parent)
    files = {(folder / name.replace(".", "/")).with_suffix(".py") for name in names for folder in folders}
    if "unit.scripts" in names:  # it loads whatever tool it is asked for
        files |= set((ROOT / "tools").glob("*.py"))
    return tuple(sorted(file for file in files if file.is_file()))
