"""What a process runs and reads of this repository, for test/unchanged.py: the workers' plug-in, and their children."""

import _posixsubprocess
import os
import subprocess  # noqa: F401  before `observe` puts another in the place of what it starts processes with
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import functions_run
import store

ROOT = store.ROOT
RECORDS = "TESTS_RECORDS"  # a variable: the folder of the records of a test's processes
CHILDREN = str(ROOT / "test" / "children")  # on their PYTHONPATH
_MODULES = (".py", ".pyc")
# What these start leaves no record.
_UNKNOWN = {"os.exec", "os.forkpty", "os.posix_spawn", "os.system"}
_WATCHED = {
    "open", "os.listdir", "os.scandir", "exec", "cpython.run_file", "subprocess.Popen", "socket.connect", "os.fork",
    *_UNKNOWN,
}  # fmt: skip
_NOT_READ = ("__pycache__", "build", "demo-out", "paropt.egg-info")


class Observer(Protocol):
    """What is told of what runs."""

    def reads(self, name: str) -> None:
        """A file or folder of this repository."""

    def starts(self) -> None:
        """A process that leaves a record."""

    def forks(self) -> None:
        """This process goes on as two."""

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

    def forks(self) -> None:
        self.is_opaque = True

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
    _posixsubprocess.fork_exec = _lost(_posixsubprocess.fork_exec)
    sys.addaudithook(_notice)
    key = store.key

    def read_key(*parts: object, sources: tuple[Path, ...]) -> str:
        """What is stored follows from these sources, whoever ran them."""
        for path in sources:
            read(str(path))
        return key(*parts, sources=sources)

    store.key = read_key


def _lost(start: Callable[..., int]) -> Callable[..., int]:
    """How multiprocessing spawns, of which no event tells; `subprocess` has its own name for it."""

    def starts(*arguments: Any) -> int:
        _observer.loses()
        return start(*arguments)

    return starts


def _notice(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in _WATCHED:
        return
    try:
        _tell(event, arguments, sys._getframe().f_back)
    except Exception:  # whatever it is, what is watched goes on
        _observer.loses()


def _tell(event: str, arguments: tuple[Any, ...], frame: FrameType | None) -> None:
    match event, *arguments:
        case ("open" | "os.listdir" | "os.scandir", int(), *_):  # it was opened before
            return
        case ("open", path, *_):
            if not (_is_importing(frame) and os.fsdecode(path).endswith(_MODULES)):
                read(path)
        case ("os.listdir" | "os.scandir", path):
            if not _is_importing(frame):
                read(path or ".")
        case ("exec", code) if id(code) not in functions_run.marked:
            read(code.co_filename)  # a module that leaves no marks
        case ("cpython.run_file", path):
            read(path)
            read(Path(os.fsdecode(path)).parent)  # where it finds modules first
        case ("subprocess.Popen", executable, *_):
            known = frame is not None and frame.f_locals.get("preexec_fn") is None
            known = known and _is_this_python(Path(os.fsdecode(executable)))
            _observer.starts() if known else _observer.loses()
        case ("socket.connect", _, address):
            _observer.starts() if address == _of_fork_server("address") else _observer.loses()
        case ("os.fork",):
            _observer.forks()
        case (name, *_) if name in _UNKNOWN:
            _observer.loses()


def _is_this_python(executable: Path) -> bool:
    """Or a script for it: it leaves a record, or one is missing. Another program may become a Python, which does."""
    if executable.parent != Path(sys.executable).parent:
        return False
    if executable.name.startswith("python"):
        return True
    with executable.open("rb") as script:
        return script.readline().strip() == b"#!" + os.fsencode(sys.executable)


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


def read(path: str | bytes | os.PathLike[str]) -> None:
    text = os.fsdecode(path)
    for name in {name_of(os.path.abspath(text)), name_of(os.path.realpath(text))}:  # noqa: PTH100  as it is called, too
        if name is not None:
            _observer.reads(name)


def name_of(path: str) -> str | None:
    """Of a file or folder of this repository that tests may read."""
    name = path.removeprefix(f"{ROOT}/")
    is_known = name != path and not any(part in _NOT_READ or part.startswith(".") for part in name.split("/"))
    return name if is_known else None
