"""Work in a subprocess: a command `python -m paropt.X_apart FOLDER`, whose folder holds the question.

The caller puts a request there, and what else its child reads; the child adds a reply. What aborts inside native code
(a check that fails, a division by zero, memory that runs out) ends the child only. What is forked instead, before
anything is loaded, is in crashes.py.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
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
    """What runs `module`."""
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
    reply: dict[str, Any] = json.loads((folder / _REPLY).read_text())
    return reply


def request_in(folder: Path) -> dict[str, Any]:
    """What the child is asked."""
    request: dict[str, Any] = json.loads((folder / _REQUEST).read_text())
    return request


def put_reply(folder: Path, reply: dict[str, Any]) -> None:
    (folder / _REPLY).write_text(json.dumps(reply))


def last_line(stderr: str) -> str:
    """The last line that a child wrote."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
