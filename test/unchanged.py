"""Leaves out a test that has passed before when nothing that it ran or read has changed: `make test UNCHANGED=skip`.

Beside verdicts and executables (test/store.py) the store has, for each test that passed, hashes of all that its outcome
follows from: the functions of par-opt that it entered, the files and folders of this repository that it read, its own
file and what that imports, and the rest: everything in par-opt outside of functions, the versions of all packages, the
environment. One such test in 20, others in each run, is run all the same. Processes that a test starts tell what they run
and read (test/process_records.py); one that starts others, such as programs that are not Python, always is run.
"""

import ast
import importlib.metadata
import importlib.util
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

import functions_run
import process_records
import pytest
import seen
import store
from seen import Seen

ROOT = store.ROOT
PAROPT = (ROOT / "passes", ROOT / "pyext")
REASON = "has passed before, and nothing that it ran or read has changed"
PHASES = 3  # of a test
# These ask whether files exist, and read what others do not.
ALWAYS = (ROOT / "test" / "unit" / "repository",)
# What later tests get from earlier ones: lists of passes, devices, contexts.
_KEPT_BY = ("passes/support/context.py", "passes/support/registry.py", "pyext/clusters/targets.py")


def is_wanted() -> bool:
    """Asked for, and par-opt is the one of this repository; a process that a test has started has its record."""
    if os.environ.get("PAROPT_UNCHANGED") != "skip" or not store.is_used() or seen.RECORDS in os.environ:
        return False
    found = importlib.util.find_spec("paropt")
    return found is not None and Path(str(found.origin)).is_relative_to(ROOT)


_now = Seen()


@contextmanager
def _seen(records: Path | None = None) -> Iterator[Seen]:
    """What is run and read within the block; what surrounds the block has seen it, too.

    With a folder for `records`, so have processes that are started within the block, and end there.
    """
    global _now
    outer, found = _now, Seen()
    outer.functions |= functions_run.entered()
    functions_run.forget()
    _now = found
    seen.told(found)
    folder = Path(tempfile.mkdtemp(dir=records)) if records else None
    began = time.time()
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in _variables(folder).items():
                patch.setenv(name, value)
            yield found
    finally:
        found.functions |= functions_run.entered()
        functions_run.forget()
        if folder is not None:
            of_processes = process_records.of_processes(folder, seen.parents_of_processes(), found.started)
            found.started = 0
            found.add(of_processes)
            found.is_opaque |= any(_changed(file) > began for file in of_processes.files)  # since they read it, perhaps
            shutil.rmtree(folder, ignore_errors=True)
        outer.add(found)
        _now = outer
        seen.told(outer)


def _changed(file: str) -> float:
    """When it was, in seconds as `time.time` gives them."""
    path = ROOT / file
    return path.stat().st_mtime if path.is_file() else 0.0


def _variables(folder: Path | None) -> dict[str, str]:
    """For processes that leave a record there."""
    if folder is None:
        return {}
    paths = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    others = [path for path in paths if path != seen.CHILDREN]
    return {seen.RECORDS: str(folder), "PYTHONPATH": os.pathsep.join([seen.CHILDREN, *others])}


class _Kept:
    """A function under `functools.cache`: who gets a value has seen what made it."""

    def __init__(self, function: Any) -> None:
        self._function = function
        self._made = Seen()

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            _now.is_opaque = True  # `seen` is for one thread
            return self._function(*arguments, **options)
        misses = self._function.cache_info().misses
        with _seen() as found:
            value = self._function(*arguments, **options)
        if self._function.cache_info().misses > misses:
            found.is_opaque |= found.started > 0  # their records are of the test that runs now
            found.started = 0
            self._made.add(found)
        _now.add(self._made)
        return value

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)


def _watch_kept_values() -> None:
    """Of functions in the modules of this repository that are loaded."""
    watched: dict[int, _Kept] = {}  # modules import them from each other
    for module in list(sys.modules.values()):
        if seen.name_of(str(getattr(module, "__file__", None))) is None:
            continue
        for name, value in list(vars(module).items()):
            if functions_run.is_kept_for_ever(value):
                setattr(module, name, watched.setdefault(id(value), _Kept(value)))


class Unchanged:
    """The plug-in."""

    def __init__(self) -> None:
        seen.observe()
        self._records = tempfile.TemporaryDirectory(prefix="paropt-records-")
        self._of_modules: dict[str, Seen] = defaultdict(Seen)
        self._of_fixtures: dict[Any, Seen] = defaultdict(Seen)
        self._outcomes: list[str] = []  # of setup, test, and teardown
        self._fixtures: list[Any] = []  # of the test that runs
        self._leaves_out = False

    def _seen(self) -> AbstractContextManager[Seen]:
        return _seen(Path(self._records.name))

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, object, object]:
        if not isinstance(collector, pytest.Module):
            return (yield)
        functions_run.forget_values()
        with self._seen() as found:
            report = yield
        self._of_modules[collector.nodeid].add(found)
        for file in found.files | _imported(collector.path):
            _content(file)  # as it is now: it may be edited before its tests have passed
        return report

    def pytest_collection_finish(self) -> None:
        _watch_kept_values()

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, object, object]:
        with self._seen() as found:
            value = yield
        self._of_fixtures[fixturedef].add(found)
        return value

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        name = _record_name(item)
        self._leaves_out = _is_unchanged(item, name) and not store.is_doubted(name)
        if self._leaves_out:
            return (yield)
        store.put(name)  # nothing is known of it, should it end the process
        _forget_values()
        self._outcomes.clear()
        self._fixtures.clear()
        with self._seen() as found:
            done = yield
        for each in self._before(item):
            found.add(each)
        if self._outcomes == ["passed"] * PHASES and not found.is_opaque:
            _write(item, name, found)
        return done

    def _before(self, item: pytest.Item) -> Iterator[Seen]:
        """What ran before the test, for it and others."""
        yield from (self._of_modules[parent.nodeid] for parent in item.listchain())
        fixtures = getattr(item, "_fixtureinfo").name2fixturedefs.values()  # noqa: B009  a private name
        yield from (self._of_fixtures[each] for each in chain(self._fixtures, *fixtures))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        self._fixtures = list(getattr(item, "_request")._fixture_defs.values())  # noqa: B009  asked for by name, too

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


def _forget_values() -> None:
    """What earlier tests have made."""
    functions_run.forget_values()
    if (search := sys.modules.get("paropt.planning.search")) is not None:
        search._CACHE.clear()
    if (jax := sys.modules.get("jax")) is not None:
        jax.clear_caches()


def _record_name(item: pytest.Item) -> str:
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
    data = sorted(path for folder in PAROPT for path in folder.rglob("*") if path.is_file() and _is_data(path.name))
    packages = sorted(f"{each.name}=={each.version}" for each in importlib.metadata.distributions())
    variables = sorted(item for item in os.environ.items() if item[0].startswith("PAROPT_"))
    parts: list[object] = [packages, variables, store.flags(), sys.version]
    parts += [(path.name, functions_run.source_of(path).rest) for path in _sources()]
    whole = {
        "pyproject.toml",
        "test/children/sitecustomize.py",
        *_KEPT_BY,
        *_imported(Path(__file__).with_name("conftest.py")),
    }
    parts += [(file, _content(file)) for file in sorted(whole)]
    parts += [_content(str(path.relative_to(ROOT))) for path in data]
    return sha256(repr(parts).encode()).hexdigest()


def _is_data(name: str) -> bool:
    """Neither a source nor what editors leave."""
    return not name.endswith((".py", ".pyc", "~")) and not name.startswith(".")


@cache
def _content(file: str) -> str:
    path = ROOT / file
    if path.is_dir():
        return " ".join(sorted(each.name for each in path.iterdir() if seen.name_of(str(each)) is not None))
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
    if "unit.scripts.load" in names:  # it loads whatever tool it is asked for
        files |= set((ROOT / "tools").glob("*.py"))
    return tuple(sorted(file for file in files if file.is_file()))
