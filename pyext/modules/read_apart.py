"""The child process of readable.py: reads the module in a folder. Never imports jax.

Tests: test/unit/pyext/modules/test_hostile_input.py.
"""

import sys
from pathlib import Path

from paropt.modules.module_io import STDIN, ModuleError, parse
from paropt.modules.readable import DAMAGED, MODULE
from paropt.passes.support.context import make_context
from paropt.process.subprocesses import put_reply

_MEMORY, _MEMORY_PER_BYTE = 2 << 30, 500  # many times the cost of an intact module


def main(folder: Path) -> None:
    """Reads the module in `folder`."""
    bytecode = (folder / MODULE).read_bytes()
    _limit_memory(_MEMORY + _MEMORY_PER_BYTE * len(bytecode))
    error = ""
    try:
        parse(bytecode, STDIN, make_context())
    except ModuleError as refused:
        error = str(refused)
    except MemoryError:
        error = f"{STDIN}: {DAMAGED} ran out of memory"
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
