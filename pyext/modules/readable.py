"""Bytecode read in a subprocess first: `python -m paropt.modules.readable FOLDER`. Never imports jax.

MLIR's reader trusts its input. Of files with some damaged bytes, one in a few hundred crashes it, takes all the memory
there is, or keeps it busy for ever.
"""

import os
import sys
import tempfile
from pathlib import Path
from subprocess import TimeoutExpired

from paropt.process.crashes import signal_name
from paropt.process.subprocesses import ChildDiedError, ask, command, put_reply

_COMMAND = command("paropt.modules.readable")
_MODULE = "module.mlirbc"
_DAMAGED = "damaged MLIR bytecode: MLIR's reader"

# Many times the cost of an intact module, also on a busy machine.
_SECONDS, _BYTES_PER_SECOND = 60, 100_000
_MEMORY, _MEMORY_PER_BYTE = 2 << 30, 500


def complaint(bytecode: bytes) -> str:
    """The error in `bytecode`, in one line; "" when MLIR reads it."""
    seconds = _SECONDS + len(bytecode) / _BYTES_PER_SECOND
    with tempfile.TemporaryDirectory(prefix="paropt-") as name:
        folder = Path(name)
        (folder / _MODULE).write_bytes(bytecode)
        try:
            return str(ask(_COMMAND, folder, {}, os.environ, seconds)["error"])
        except ChildDiedError as died:
            how = f"died of {signal_name(-died.status)}" if died.status < 0 else f"ended with status {died.status}"
            return f"-: {_DAMAGED} {how}"
        except TimeoutExpired:
            return f"-: {_DAMAGED} did not end in {seconds:.0f} s"


def main(folder: Path) -> None:
    """Reads the module in `folder`."""
    from paropt.modules.module_io import STDIN, ModuleError, parse
    from paropt.passes.support.context import make_context

    bytecode = (folder / _MODULE).read_bytes()
    _limit_memory(_MEMORY + _MEMORY_PER_BYTE * len(bytecode))
    error = ""
    try:
        parse(bytecode, STDIN, make_context())
    except ModuleError as refused:
        error = str(refused)
    except MemoryError:
        error = f"{STDIN}: {_DAMAGED} ran out of memory"
    put_reply(folder, {"error": error})


def _limit_memory(more: int) -> None:
    """Lets this process take no more than `more` bytes beside those that it has, where the system can see to that."""
    if sys.platform != "linux":
        return
    import resource

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + more
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    if hard == resource.RLIM_INFINITY or limit < hard:
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
