"""The child process of compile_apart.py: answers the request in a folder, or those in folders that it is told.

The one file that compiles modules which jax has not lowered, by private names of jax.

Tests: test/unit/pyext/clusters/test_targets.py, test/unit/pyext/clusters/test_compile_apart.py.
"""

import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxlib import xla_client
from jaxlib.mlir import ir

from paropt.base.device_grid import device_grid
from paropt.clusters.compile_apart import HLO, MODULE, Request
from paropt.clusters.compiled import Compiled, TargetError, first_line, memory_of
from paropt.clusters.device_counts import require_count, require_named_count
from paropt.clusters.targets import get
from paropt.hlo.participants import devices_of
from paropt.passes.support.context import make_context
from paropt.process.subprocesses import put_reply, request_in, serve


def main(folder: Path) -> None:
    """Answers the request in `folder`. An error that is nobody's mistake but ours leaves a traceback and status 1."""
    request = Request(**request_in(folder))
    try:
        reply = _reply(folder, request)
    except TargetError as error:
        reply = {"error": str(error)}
    except jax.errors.JaxRuntimeError as error:
        reply = {"error": f"{request.target}: XLA says {first_line(error)}"}
    put_reply(folder, reply)


def _reply(folder: Path, request: Request) -> dict[str, Any]:
    if not (folder / MODULE).exists():
        _devices(request.target)
        return {}
    compiled = _compile((folder / MODULE).read_bytes(), request)
    (folder / HLO).write_text(compiled.hlo, encoding="utf-8")
    return {"memory": compiled.memory, "seconds": compiled.seconds, "devices": compiled.devices}


@cache
def _devices(target: str) -> list[Any]:
    return get(target).make_devices()


def _compile(bytecode: bytes, request: Request) -> Compiled:
    """Compiles as `jax.stages.Lowered.compile` does. Raises TargetError, or XLA's error."""
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
