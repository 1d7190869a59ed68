"""Work in a child process: an abort in native code ends the child, and par-opt says so in one line."""

import contextlib
import ctypes
import mmap
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

_SIZE = mmap.PAGESIZE
_PR_SET_PDEATHSIG = 1  # Linux: a signal for the child when its parent dies


class Progress:
    """A note on the current activity, which outlives the process that wrote it: memory shared with forked children."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _SIZE)

    def note(self, chunk: int, activity: str) -> None:
        """Chunk number `chunk` of the input is in `activity`, as in "parsing" or "running cse"."""
        text = f"{chunk}\n{activity}".encode()[: _SIZE - 1]
        self._memory[: len(text) + 1] = text + b"\0"

    @property
    def chunk(self) -> int:
        return int(self._read()[0] or 0)

    @property
    def activity(self) -> str:
        return self._read()[1]

    def _read(self) -> tuple[str, str]:
        text = bytes(self._memory[:]).partition(b"\0")[0].decode(errors="replace")
        chunk, _, activity = text.partition("\n")
        return chunk, activity


def run_apart(work: Callable[[], int]) -> int:
    """The exit status of `work()`, done in a forked child; the negative number of the signal that ended it.

    A fork before jaxlib is loaded costs about 1 ms. Where there is no fork, the work is done here. Ctrl-C ends the
    child, even where it reaches this process only. KeyboardInterrupt would not do: raised after the wait and before its
    status is returned, it loses the status.
    """
    if not hasattr(os, "fork"):
        return work()
    sys.stdout.flush()
    sys.stderr.flush()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # until both processes have a handler of it
    child = os.fork()
    if not child:
        _exit_with(work)

    def pass_on(number: int, _: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)

    previous = signal.signal(signal.SIGINT, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        signal.signal(signal.SIGINT, previous)


def signal_name(number: int) -> str:
    return signal.Signals(number).name


def _exit_with(work: Callable[[], int]) -> NoReturn:
    """Ends this process with `work()`: at once, without Python's and MLIR's teardown."""
    parent = os.getppid()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python would wait for native code to return
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # the reader went away: nothing to report
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
    status = 1
    try:
        try:
            status = work()
            sys.stdout.flush()
        except BaseException:  # as the interpreter does at its own top level
            status = 1
            sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
    finally:
        os._exit(status)
