"""What a process runs and reads of this repository, for test/unchanged.py: the workers' plug-in, and their children."""

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import functions_run
import store

ROOT = store.ROOT
RECORDS = "TESTS_RECORDS"  # a variable: the folder of the records of a test's processes
CHILDREN = str(ROOT / "test" / "children")  # on their PYTHONPATH
_READS = {"open", "os.listdir", "os.scandir"}
# What these start leaves no record.
_UNKNOWN = {"os.exec", "os.forkpty", "os.posix_spawn", "os.system"}
_NOT_READ = ("__pycache__", "build", "demo-out", "paropt.egg-info")
_WITHOUT_VARIABLES = ("-I", "-E", "-S")  # options of Python


class Observer(Protocol):
    """What is told of what runs."""

    def reads(self, name: str) -> None:
        """A file or folder of this repository."""

    def starts(self) -> None:
        """A process that leaves a record."""

    def loses(self) -> None:
        """Something of which nothing is known."""


@dataclass
class Seen:
    """What was run and read."""

    functions: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)  # and folders, within the repository
    started: int = 0  # processes whose records are not read yet
    is_opaque: bool = False

    def reads(self, name: str) -> None:
        self.files.add(name)

    def starts(self) -> None:
        self.started += 1

    def loses(self) -> None:
        self.is_opaque = True

    def add(self, other: "Seen") -> None:
        self.functions |= other.functions
        self.files |= other.files
        self.started += other.started
        self.is_opaque |= other.is_opaque


_observer: Observer = Seen()


def told(observer: Observer) -> Observer:
    """From now on `observer` is told; returns who was until now."""
    global _observer
    before, _observer = _observer, observer
    return before


def observe() -> None:
    """Starts to notice what this process reads and starts, and which functions of par-opt it enters."""
    store.versions()  # which looks for packages in all folders, and keeps what it finds
    functions_run.start()
    sys.addaudithook(_notice)
    key = store.key

    def read_key(*parts: object, sources: tuple[Path, ...]) -> str:
        """What is stored follows from these sources, whoever ran them."""
        for path in sources:
            read(str(path))
        return key(*parts, sources=sources)

    store.key = read_key


def _notice(event: str, arguments: tuple[Any, ...]) -> None:
    if event in _READS:
        if isinstance(arguments[0], str | os.PathLike) and not _is_importing(sys._getframe().f_back):
            read(os.path.abspath(arguments[0]))  # noqa: PTH100  nothing is resolved
    elif event == "exec":
        if arguments[0] not in functions_run.marked:
            read(arguments[0].co_filename)  # a module that leaves no marks
    elif event == "cpython.run_file":
        read(os.path.abspath(arguments[0]))  # noqa: PTH100
    elif event == "subprocess.Popen":
        executable, options, _, environment = arguments
        _observer.starts() if _leaves_record(executable, options, environment) else _observer.loses()
    elif event == "socket.connect":
        _observer.starts() if arguments[1] == _of_fork_server("address") else _observer.loses()
    elif event == "os.fork":
        _observer.starts()
    elif event in _UNKNOWN:
        _observer.loses()


def _leaves_record(executable: Any, options: Any, environment: Any) -> bool:
    """Is it a Python that loads test/children/sitecustomize.py?"""
    variables = os.environ if environment is None else environment
    return (
        isinstance(options, list | tuple)
        and Path(os.fsdecode(executable)).parent == Path(sys.executable).parent
        and not {*map(os.fsdecode, options)} & {*_WITHOUT_VARIABLES}
        and all(variables.get(name) == os.environ.get(name, "") for name in (RECORDS, "PYTHONPATH"))
    )


def parents_of_processes() -> set[int]:
    """This process, and the server of forks that test/command.py asks."""
    return {os.getpid(), _of_fork_server("pid") or os.getpid()}


def _of_fork_server(what: str) -> Any:
    """None before the server has started."""
    module = sys.modules.get("multiprocessing.forkserver")
    return getattr(getattr(module, "_forkserver", None), f"_forkserver_{what}", None)


def _is_importing(frame: FrameType | None) -> bool:
    """Python looks for modules, and loads them."""
    return frame is not None and frame.f_code.co_filename.startswith("<frozen importlib")


def read(path: str) -> None:
    if (name := name_of(path)) is not None:
        _observer.reads(name)


def name_of(path: str) -> str | None:
    """Of a file or folder of this repository that tests may read."""
    name = path.removeprefix(f"{ROOT}/")
    is_known = name != path and not any(part in _NOT_READ or part.startswith(".") for part in name.split("/"))
    return name if is_known else None
