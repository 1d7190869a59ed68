"""Ctrl-C at any time: the child ends, and its parent knows by what."""

import signal
import subprocess
import sys

# In a process of its own: par-opt forks before jaxlib and its threads are there, and so must this.
_INTERRUPTED = """
import os, signal
from paropt.process.crashes import run_apart

def interrupted_with_its_parent():
    os.kill(os.getppid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGINT)
    return 0

before = signal.getsignal(signal.SIGINT)
print({run_apart(interrupted_with_its_parent) for _ in range(500)})
assert signal.getsignal(signal.SIGINT) is before
"""


def test_interrupt_does_not_lose_the_status() -> None:
    """A parent that raises KeyboardInterrupt fails in one of 20 rounds: the child is gone, and its status with it."""
    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.stdout, done.stderr) == (f"{{{-signal.SIGINT}}}\n", "")
