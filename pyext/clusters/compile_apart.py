"""Compiles a module in a process of its own: `python -m paropt.clusters.compile_apart [FOLDER]`.

The folder holds a request and, unless that is only about the target's devices, the module; the child adds the HLO and a
reply. Compilers abort the process on some mistakes: the caller gets one line.

The one file that compiles modules which jax has not lowered, by private names of jax.
"""

import re
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from paropt.clusters.targets import Compiled, Memory, TargetError, first_line, get, memory_of
from paropt.hlo.participants import Device, devices_of
from paropt.process.crashes import signal_name
from paropt.process.subprocesses import (
    ChildDiedError,
    StandingChildren,
    ask,
    command,
    last_line,
    put_reply,
    request_in,
    serve,
    standing,
)

_COMMAND = command("paropt.clusters.compile_apart")
_MODULE, _HLO = "module.mlirbc", "optimized.hlo"


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
        (folder / _MODULE).write_bytes(module)
        reply = _answer(folder, request, environment)
        memory = None if reply["memory"] is None else Memory(*reply["memory"])
        devices = tuple(Device(*device) for device in reply["devices"])
        return Compiled((folder / _HLO).read_text(encoding="utf-8"), memory, reply["seconds"], devices)


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


def main(folder: Path) -> None:
    """Answers the request in `folder`. An error that is nobody's mistake but ours leaves a traceback and status 1."""
    import jax

    request = Request(**request_in(folder))
    try:
        reply = _reply(folder, request)
    except TargetError as error:
        reply = {"error": str(error)}
    except jax.errors.JaxRuntimeError as error:
        reply = {"error": f"{request.target}: XLA says {first_line(error)}"}
    put_reply(folder, reply)


def _reply(folder: Path, request: Request) -> dict[str, Any]:
    if not (folder / _MODULE).exists():
        _devices(request.target)
        return {}
    compiled = _compile((folder / _MODULE).read_bytes(), request)
    (folder / _HLO).write_text(compiled.hlo, encoding="utf-8")
    return {"memory": compiled.memory, "seconds": compiled.seconds, "devices": compiled.devices}


@cache
def _devices(target: str) -> list[Any]:
    return get(target).make_devices()


def _compile(bytecode: bytes, request: Request) -> Compiled:
    """Compiles as `jax.stages.Lowered.compile` does. Raises TargetError, or XLA's error."""
    import numpy as np
    from jaxlib import xla_client
    from jaxlib.mlir import ir

    from paropt.base.device_grid import device_grid
    from paropt.clusters.device_counts import require_count, require_named_count
    from paropt.passes.support.context import make_context

    try:
        from jax._src.compiler import backend_compile_and_load, get_compile_options
    except ImportError as error:
        raise TargetError("paropt needs jax 0.10 to 0.12: jax._src.compiler is not as it was") from error

    module = ir.Module.parse(bytecode, make_context())
    require_named_count(get(request.target), module.operation)
    devices = _devices(request.target)
    if "sym_name" not in module.operation.attributes:  # jax reads it
        module.operation.attributes["sym_name"] = ir.StringAttr.get("module", module.context)
    require_count(request.target, len(devices), module.operation)
    replicas, partitions = device_grid(module.operation)

    ordered = np.array([devices[position] for position in request.order or range(len(devices))])
    options = get_compile_options(
        num_replicas=replicas,
        num_partitions=partitions,
        device_assignment=ordered.reshape(replicas, partitions),
        env_options_overrides=dict(request.options),
        backend=devices[0].client,
    )
    build = options.executable_build_options
    build.use_shardy_partitioner = any(op.operation.name == "sdy.mesh" for op in module.body.operations)
    build.allow_spmd_sharding_propagation_to_parameters = _is_open(module, "arg_attrs")
    build.allow_spmd_sharding_propagation_to_output = _is_open(module, "res_attrs")

    chosen = xla_client.DeviceList(tuple(ordered))
    start = time.perf_counter()
    executable = backend_compile_and_load(devices[0].client, module, chosen, options, [])
    seconds = time.perf_counter() - start
    hlo = "\n\n".join(part.to_string() for part in executable.hlo_modules())
    return Compiled(hlo, memory_of(executable.get_compiled_memory_stats()), seconds, devices_of(ordered))


def _is_open(module: Any, attribute: str) -> list[bool]:
    """Of each argument or result of `@main`: may XLA choose its sharding, in whole or in a dimension?"""
    functions = [op for op in module.body.operations if op.operation.name == "func.func"]
    mains = [op for op in functions if op.attributes["sym_name"].value == "main"]
    if not mains or attribute not in mains[0].attributes:
        return [True]
    return [
        "mhlo.sharding" not in each and ("sdy.sharding" not in each or "?" in str(each["sdy.sharding"]))
        for each in mains[0].attributes[attribute]
    ]


if __name__ == "__main__":
    if sys.argv[1:]:
        main(Path(sys.argv[1]))
    else:
        serve(main)
