"""Bytecode read in a subprocess first: `python -m paropt.modules.read_apart FOLDER`.

MLIR's reader trusts its input. Of files with some damaged bytes, one in a few hundred crashes it, takes all the memory
there is, or keeps it busy for ever.
"""

import os
import tempfile
from pathlib import Path
from subprocess import TimeoutExpired

from paropt.process.crashes import signal_name
from paropt.process.subprocesses import ChildDiedError, ask, command

_COMMAND = command("paropt.modules.read_apart")
MODULE = "module.mlirbc"
DAMAGED = "damaged MLIR bytecode: MLIR's reader"

# Many times the cost of an intact module, also on a busy machine.
_SECONDS, _BYTES_PER_SECOND = 60, 100_000


def complaint(bytecode: bytes) -> str:
    """The error in `bytecode`, in one line; "" when MLIR reads it."""
    seconds = _SECONDS + len(bytecode) / _BYTES_PER_SECOND
    with tempfile.TemporaryDirectory(prefix="paropt-") as name:
        folder = Path(name)
        (folder / MODULE).write_bytes(bytecode)
        try:
            return str(ask(_COMMAND, folder, {}, os.environ, seconds)["error"])
        except ChildDiedError as died:
            how = f"died of {signal_name(-died.status)}" if died.status < 0 else f"ended with status {died.status}"
            return f"-: {DAMAGED} {how}"
        except TimeoutExpired:
            return f"-: {DAMAGED} did not end in {seconds:.0f} s"
