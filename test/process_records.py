"""Records of the processes that tests start: what each has run and read, for test/unchanged.py.

A record is a file that its process writes from its start on, as memory, so that it is whole however the process ends: a
byte for each function of par-opt, and then lines of what it loads, reads and starts.
"""

import json
import mmap
import os
import tempfile
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import functions_run
import seen

_TESTS = 0  # in the place of a number: the process of the tests, and the server of its forks
# A record: marks of functions, whether something is lost, and lines.
_LOST = functions_run.CAPACITY
_LINES = _LOST + 1
_SIZE = _LINES + (1 << 20)


def begin() -> None:
    """A record of this process, in the folder that a variable names. A fork has its own, too."""
    folder = os.environ.get(seen.RECORDS, "")
    seen.told(_Writer(folder) if os.path.isdir(folder) else seen.Seen())  # noqa: PTH112  it is loaded by each process


class _Writer:
    """An observer that writes all down, in memory that is a file: descriptors may be closed, and mean another file."""

    def __init__(self, folder: str) -> None:
        file, _ = tempfile.mkstemp(dir=folder)
        os.truncate(file, _SIZE)
        self._memory = mmap.mmap(file, _SIZE)
        os.close(file)
        self._end = _LINES
        self._lock = threading.RLock()
        self._files: set[str] = set()
        self._add("process", os.getpid(), os.getppid())
        functions_run.keep_marks_in(self._memory, self._loads)

    def _loads(self, first: int, functions: Sequence[str]) -> None:
        self._add("functions", first, *functions)

    def reads(self, name: str) -> None:
        if name not in self._files:
            self._files.add(name)
            self._add("reads", name)

    def starts(self) -> None:
        self._add("starts")

    def forks(self) -> None:
        self._add("starts")

    def loses(self) -> None:
        self._memory[_LOST] = 1

    def _add(self, *words: object) -> None:
        line = json.dumps(words).encode() + b"\n"
        with self._lock:
            first, self._end = self._end, self._end + len(line)
        if self._end > _SIZE:
            self.loses()
        else:
            self._memory[first : first + len(line)] = line


@dataclass
class _Process:
    """What a record tells."""

    number: int = 0
    parent: int = 0
    found: seen.Seen = field(default_factory=seen.Seen)


def of_processes(folder: Path, parents: set[int], started: int) -> seen.Seen:
    """What the processes have run and read whose records are in `folder`; `parents` have started so many of them.

    Opaque where one has left no record, or goes on.
    """
    files = list(folder.iterdir())
    found = seen.Seen()
    try:
        goes_on = any(_goes_on(_process(file).number) for file in files)  # before their records are read
        processes = list(map(_process, files))
    except ValueError:  # a line that is not whole
        return seen.Seen(is_opaque=True)
    children = Counter(_TESTS if each.parent in parents else each.parent for each in processes)
    starts = Counter({_TESTS: started}) if started else Counter()
    for each in processes:
        starts += Counter({each.number: each.found.started})
        found.add(each.found)
    found.started = 0
    found.is_opaque |= goes_on or children != starts
    return found


def _process(file: Path) -> _Process:
    data = file.read_bytes()
    marks, lines = data[: functions_run.CAPACITY], data[_LINES:].rstrip(b"\0").splitlines()
    process = _Process()
    process.found.is_opaque = bool(data[_LOST]) or not lines
    for kind, *words in map(json.loads, lines):
        match kind:
            case "process":
                process.number, process.parent = words
            case "functions":
                first, *functions = words
                entered = zip(functions, marks[first:], strict=False)
                process.found.functions |= {function for function, mark in entered if mark}
            case "reads":
                process.found.reads(*words)
            case "starts":
                process.found.starts()
    return process


def _goes_on(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it is another user's
    return True
