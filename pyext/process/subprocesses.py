"""Work in a subprocess: a command `python -m paropt.X_apart FOLDER`, whose folder holds the question.

The caller puts a request there, and other files that its child reads; the child adds a reply. Without FOLDER it answers
one question after the other, whose folders stand in its standard input, a line each, until that ends. An abort inside
native code (a check that fails, a division by zero, memory that runs out) ends the child only. Work that is forked
instead, before anything is loaded, is in crashes.py.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_REQUEST, _REPLY = "request.json", "reply.json"


class ChildDiedError(Exception):
    """A child that ended without a reply."""

    def __init__(self, status: int, stderr: str) -> None:
        super().__init__(f"status {status}")
        self.status = status  # the negative number of the signal that ended it
        self.stderr = stderr


def command(module: str) -> tuple[str, ...]:
    """The command that runs `module`."""
    return (sys.executable, "-P", "-m", module)  # -P: no folder of the caller's may stand in for a library


def ask(
    command: Sequence[str],
    folder: Path,
    request: dict[str, Any],
    environment: Mapping[str, str],
    seconds: float | None = None,
) -> dict[str, Any]:
    """The reply to `request`, of a child in this environment. Raises ChildDiedError, or subprocess.TimeoutExpired."""
    (folder / _REQUEST).write_text(json.dumps(request))
    ended = subprocess.run(
        [*command, str(folder)],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        timeout=seconds,
    )
    if ended.returncode:
        raise ChildDiedError(ended.returncode, ended.stderr)
    return _reply_in(folder)


class StandingChildren:
    """Children that stay for the next question, so that the cost of starting one is paid once.

    Each answers one question at a time; there are as many as were asked at once, and new ones for those that died. Few
    wait, the last that answered: each holds the libraries that it has loaded.
    """

    _MOST_WAIT = 4

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._idle: list[tuple[Mapping[str, str], _Child]] = []
        self._lock = threading.Lock()

    def ask(self, folder: Path, request: dict[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
        """As `ask`. From any thread."""
        (folder / _REQUEST).write_text(json.dumps(request))
        child = self._take(environment)
        child.answer(folder)
        with self._lock:
            self._idle.append((environment, child))
            left, self._idle = self._idle[: -self._MOST_WAIT], self._idle[-self._MOST_WAIT :]
        for _, oldest in left:
            oldest.end()
        return _reply_in(folder)

    def close(self) -> None:
        """Ends those that wait for a question."""
        with self._lock:
            children, self._idle = self._idle, []
        for _, child in children:
            child.end()

    def _take(self, environment: Mapping[str, str]) -> "_Child":
        with self._lock:
            for place, (known, child) in enumerate(self._idle):
                if known == environment:
                    del self._idle[place]
                    return child
        return _Child(self._command, environment)


@contextmanager
def standing(open_blocks: list[StandingChildren], command: Sequence[str]) -> Iterator[None]:
    """Within the block, children of `command` stay. Within one of `open_blocks`, those of that block do."""
    if open_blocks:
        yield
        return
    children = StandingChildren(command)
    open_blocks.append(children)
    try:
        yield
    finally:
        open_blocks.remove(children)
        children.close()


class _Child:
    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  open as long as the child is
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr
        )

    def answer(self, folder: Path) -> None:
        """Waits until the reply is in `folder`. Raises ChildDiedError."""
        to, back = self._process.stdin, self._process.stdout
        assert to is not None and back is not None
        try:
            to.write(f"{folder}\n".encode())
            to.flush()
        except BrokenPipeError:
            pass  # its last words are read below
        if not back.readline():
            status = self.end()
            raise ChildDiedError(status, self._last_words)

    def end(self) -> int:
        """Its status."""
        try:
            self._process.communicate()
        except BrokenPipeError:
            self._process.wait()
        with self._stderr:
            self._stderr.seek(0)
            self._last_words = self._stderr.read().decode(errors="replace")
        return self._process.returncode


def serve(answer: Callable[[Path], None]) -> None:
    """Answers each folder in standard input. Output of native code is no reply: it goes to standard error."""
    with os.fdopen(os.dup(1), "w") as replies:
        os.dup2(2, 1)
        for line in sys.stdin:
            answer(Path(line.rstrip("\n")))
            print("done", file=replies, flush=True)


def _reply_in(folder: Path) -> dict[str, Any]:
    reply: dict[str, Any] = json.loads((folder / _REPLY).read_text())
    return reply


def request_in(folder: Path) -> dict[str, Any]:
    """The request to the child."""
    request: dict[str, Any] = json.loads((folder / _REQUEST).read_text())
    return request


def put_reply(folder: Path, reply: dict[str, Any]) -> None:
    (folder / _REPLY).write_text(json.dumps(reply))


def last_line(stderr: str) -> str:
    """The last line that a child wrote."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
