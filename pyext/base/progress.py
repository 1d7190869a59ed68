"""Progress of long work: a line of text each time."""

import sys
from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[str], None]


def to_terminal(line: str) -> None:
    """For somebody who watches; nothing for a file or a pipe."""
    if sys.stderr.isatty():
        print(line, file=sys.stderr)


def require_progress(progress: object) -> None:
    """Raises TypeError where it cannot be called."""
    if not callable(progress):
        raise TypeError(f"progress: expected a function that takes a line, such as print, got {progress!r}")
