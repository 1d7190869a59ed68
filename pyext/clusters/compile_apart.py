"""Compiles a module in a process of its own: `python -m paropt.clusters.compile_child [FOLDER]`.

The folder holds a request and, unless that is only about the target's devices, the module; the child adds the HLO and a
reply. Compilers abort the process on some mistakes: the caller gets one line.
"""

import re
import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

from paropt.clusters.compiled import Compiled, Memory, TargetError
from paropt.hlo.participants import Device
from paropt.process.crashes import signal_name
from paropt.process.subprocesses import (
    ChildDiedError,
    StandingChildren,
    ask,
    command,
    last_line,
    standing,
)

_COMMAND = command("paropt.clusters.compile_child")
MODULE, HLO = "module.mlirbc", "optimized.hlo"


_standing: list[StandingChildren] = []  # of the block that is open, in whatever thread


def standing_compilers() -> AbstractContextManager[None]:
    """Within the block, a child that has compiled stays for the next module: targets are described once."""
    return standing(_standing, _COMMAND)


class Request(NamedTuple):
    """The request to the child."""

    target: str
    order: list[int] | None = None  # of each partition, the position of its device among the target's; None: in order
    options: Mapping[str, Any] = {}  # XLA's, on top of those that jax sets


def compile_apart(module: bytes, request: Request, environment: Mapping[str, str]) -> Compiled:
    """Compiles the bytecode `module` in a child process with this environment. Raises TargetError."""
    with tempfile.TemporaryDirectory(prefix="paropt-") as name:
        folder = Path(name)
        (folder / MODULE).write_bytes(module)
        reply = _answer(folder, request, environment)
        memory = None if reply["memory"] is None else Memory(*reply["memory"])
        devices = tuple(Device(*device) for device in reply["devices"])
        return Compiled((folder / HLO).read_text(encoding="utf-8"), memory, reply["seconds"], devices)


def require_devices(target: str, environment: Mapping[str, str]) -> None:
    """Makes the target's devices in a child process, to see that this can be done here. Raises TargetError."""
    with tempfile.TemporaryDirectory(prefix="paropt-") as name:
        _answer(Path(name), Request(target), environment)


def _answer(folder: Path, request: Request, environment: Mapping[str, str]) -> dict[str, Any]:
    """The child's reply. Raises TargetError when that is an error, or when there is none."""
    try:
        if _standing:
            reply = _standing[-1].ask(folder, request._asdict(), environment)
        else:
            reply = ask(_COMMAND, folder, request._asdict(), environment)
    except ChildDiedError as died:
        raise TargetError(f"{request.target}: {obituary(died)}") from None
    if "error" in reply:
        raise TargetError(reply["error"])
    return reply


_FATAL = re.compile(r"^(?:F\d{4} .*?\] |LLVM ERROR: )(.*)", re.M)
# Information, warnings, and reports of absl's failure handler on its own work.
_NOISE = re.compile(r"[IW]\d{4} |E\d{4} .*RAW: |\*\*\* |PC: |@ |https://symbolize")


def obituary(died: ChildDiedError) -> str:
    """The cause of the child's death: the message of a failed check, which a stack trace may follow, or the last
    line."""
    fatal = _FATAL.search(died.stderr)
    own = "\n".join(line for line in died.stderr.splitlines() if not _NOISE.match(line.strip()))
    how = f"died of {signal_name(-died.status)}" if died.status < 0 else f"ended with status {died.status}"
    return f"the compiler {how}: {fatal[1] if fatal else last_line(own)}"
