"""Records of the processes that tests start: what each has run and read, for test/unchanged.py.

A record is a file that its process writes from its start on, so that it is whole however the process ends: a byte for
each function of par-opt, and then lines of what it loads, reads and starts.
"""

import mmap
import os
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import functions_run
import seen

_TESTS = 0  # in the place of a number: the process of the tests, and the server of its forks


def begin() -> None:
    """A record of this process, in the folder that a variable names. A fork has its own, too."""
    if folder := os.environ.get(seen.RECORDS):
        seen.told(_Writer(Path(folder)))


class _Writer:
    """An observer that writes all down."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        unfinished, name = tempfile.mkstemp(dir=folder, prefix=".")
        os.close(unfinished)
        self._file = os.open(name, os.O_RDWR | os.O_APPEND)
        self._files: set[str] = set()
        os.truncate(self._file, functions_run.CAPACITY)
        self._add("process", str(os.getpid()), str(os.getppid()))
        functions_run.keep_marks_in(mmap.mmap(self._file, functions_run.CAPACITY), self._loads)

    def _loads(self, functions: Sequence[str]) -> None:
        self._add("functions", *functions)

    def reads(self, name: str) -> None:
        if name not in self._files:
            self._files.add(name)
            self._add("reads", name)

    def starts(self) -> None:
        self._add("starts")

    def loses(self) -> None:
        self._add("loses")

    def _add(self, *words: str) -> None:
        os.write(self._file, ("\t".join(words) + "\n").encode())


@dataclass
class _Process:
    number: int
    parent: int
    seen: seen.Seen


def of_processes(folder: Path, parents: set[int], started: int) -> seen.Seen:
    """What the processes have run and read whose records are in `folder`; `parents` have started so many of them.

    Opaque where one has left no record, or goes on.
    """
    processes = list(map(_process, folder.iterdir())) if folder.is_dir() else []
    children = Counter(_TESTS if each.parent in parents else each.parent for each in processes)
    starts = Counter({_TESTS: started}) + Counter({each.number: each.seen.started for each in processes})
    found = seen.Seen()
    for each in processes:
        found.add(each.seen)
    found.started = 0
    found.is_opaque |= children != starts or any(_goes_on(each.number) for each in processes)
    return found


def _process(file: Path) -> _Process:
    data = file.read_bytes()
    marks, lines = data[: functions_run.CAPACITY], data[functions_run.CAPACITY :].decode().splitlines()
    number, parent, functions, found = 0, 0, list[str](), seen.Seen()
    for kind, *words in (line.split("\t") for line in lines):
        match kind:
            case "process":
                number, parent = map(int, words)
            case "functions":
                functions += words
            case "reads":
                found.reads(*words)
            case "starts":
                found.starts()
            case "loses":
                found.loses()
    found.functions |= {function for function, mark in zip(functions, marks, strict=False) if mark}
    return _Process(number, parent, found)


def _goes_on(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True
