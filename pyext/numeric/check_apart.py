"""Runs two modules on simulated CPU devices and compares them: `python -m paropt.numeric.check_apart FOLDER`.

A module with an `sdy.mesh` or with shardings of its arguments gets global arrays, any other gets different data on each
device.
"""

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

from paropt.base.element_types import DTYPES
from paropt.numeric.data import Argument, drawn, is_float, perturbed
from paropt.numeric.data_roles import narrowed, not_negative
from paropt.numeric.tolerance import Result, are_equal
from paropt.passes.support.traversal import ops_of
from paropt.process.subprocesses import put_reply, request_in

RUNS = 6  # of the program with other arguments, for each set of data
_NUMBER = re.compile(r"-?\d+\.\d+(?:[eE][-+]?\d+)?")
_INFINITY = re.compile(r"\b0x[7F](?:F80|C0|FF0)0*\b")  # of each float type, as MLIR prints it
# Of each type: the largest integer up to which all are values of it, and the difference allowed for reassociated sums.
_FLOATS = {
    "bfloat16": (2**8, 2.0**-4),
    "float16": (2**11, 2.0**-6),
    "float32": (2**24, 2e-4),
    "float64": (2**53, 1e-9),
    "complex64": (2**24, 2e-4),
    "complex128": (2**53, 1e-9),
}
_DTYPES = {name: dtype for name, dtype in DTYPES.items() if dtype.name in _FLOATS or dtype.kind in "iub"}
# Ops on floats whose results, from integers, are integers or halves of them.
_EXACT_OPS = {
    f"stablehlo.{name}"
    for name in "abs add all_gather all_reduce all_to_all broadcast_in_dim case clamp collective_broadcast "
    "collective_permute compare complex concatenate convert convolution dot_general dynamic_slice dynamic_update_slice "
    "floor ceil gather if imag iota maximum minimum multiply negate optimization_barrier pad real reduce "
    "reduce_scatter reduce_window reshape return reverse round_nearest_even scatter select select_and_scatter sign "
    "slice sort subtract transpose while".split()
}


class Unrunnable(Exception):  # noqa: N818  the answer to a request
    """The module cannot be run; the message says why."""


def main(folder: Path) -> None:
    import jax

    request = request_in(folder)
    try:
        before, after = (_Program((folder / f"{name}.mlirbc").read_bytes(), request) for name in ("before", "after"))
        with jax.enable_x64(True):  # else 64-bit data is silently narrowed
            reply: dict[str, Any] = {"results": _compared(before, after, request["seeds"])}
    except Unrunnable as error:
        reply = {"error": str(error)}
    except jax.errors.JaxRuntimeError as error:
        reply = {"error": f"XLA says {str(error).strip().partition(chr(10))[0]}"}
    put_reply(folder, reply)


class _Program:
    """A module, compiled for all devices of this process."""

    def __init__(self, bytecode: bytes, request: dict[str, int]) -> None:
        import jax
        from jaxlib import xla_client
        from jaxlib.mlir import ir

        from paropt.passes.support.context import make_context

        self.module = ir.Module.parse(bytecode, make_context())
        _prepare_lapack(self.module)
        main = self._main()
        kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
        types = [_array_type(t, "argument", i) for i, t in enumerate(kind.inputs)]
        roots, uses = not_negative(main, self.module.operation), narrowed(main, self.module.operation)
        self.arguments = [Argument(*t, i in roots, uses.get(i, t[1])) for i, t in enumerate(types)]
        has_mesh = any(op.operation.name == "sdy.mesh" for op in self.module.body.operations)
        sharded = "arg_attrs" in main.attributes and "mhlo.sharding" in str(main.attributes["arg_attrs"])
        self.is_global = has_mesh or sharded
        if has_mesh:
            self._replicate_open(main, kind)
        self.is_exact = self._has_only_exact_ops()
        grid = np.arange(jax.device_count()).reshape(request["replicas"], request["partitions"])
        options: Any = xla_client.CompileOptions()
        options.num_replicas, options.num_partitions = grid.shape
        options.device_assignment = xla_client.DeviceAssignment.create(grid)
        build = options.executable_build_options
        build.num_replicas, build.num_partitions = grid.shape
        build.device_assignment = options.device_assignment
        build.use_spmd_partitioning = grid.shape[1] > 1
        build.use_shardy_partitioner = has_mesh
        self.devices = jax.devices()
        client: Any = self.devices[0].client
        chosen: Any = xla_client.DeviceList(tuple(self.devices))
        self.executable = client.compile_and_load(self.module, chosen, options)

    def _main(self) -> Any:
        """The function `@main`; in a module without, its only public function, which takes that name."""
        from jaxlib.mlir import ir

        symbols = ir.SymbolTable(self.module.operation)
        if "main" not in symbols:
            functions = [op for op in self.module.body.operations if op.operation.name == "func.func"]
            public = [op for op in functions if not _is_private(op)]
            if len(public) != 1:
                raise Unrunnable(f"the module has no function @main, and {len(public)} others that are public")
            symbols.set_symbol_name(public[0], "main")
            return public[0].operation
        return symbols["main"].operation

    def _replicate_open(self, main: Any, kind: Any) -> None:
        """Replicates arguments and results that have no sharding: else XLA may choose another one after the passes."""
        from jaxlib.mlir import ir

        meshes = [op.operation for op in self.module.body.operations if op.operation.name == "sdy.mesh"]
        mesh = ir.StringAttr(meshes[0].attributes["sym_name"]).value
        for key, types in (("arg_attrs", kind.inputs), ("res_attrs", kind.results)):
            given = main.attributes[key] if key in main.attributes else [ir.DictAttr.get({}, main.context)] * len(types)
            pinned = []
            for attributes, type_ in zip(given, types, strict=True):
                given_here: Any = ir.DictAttr(attributes)
                others = {named.name: named.attr for named in given_here}
                if "sdy.sharding" not in others or "?" in str(others["sdy.sharding"]):
                    dimensions = ", ".join(["{}"] * ir.ShapedType(type_).rank)
                    text = f"#sdy.sharding<@{mesh}, [{dimensions}]>"
                    others["sdy.sharding"] = ir.Attribute.parse(text, main.context)
                pinned.append(ir.DictAttr.get(others, main.context))
            main.attributes[key] = ir.ArrayAttr.get(pinned, main.context)

    def _has_only_exact_ops(self) -> bool:
        """Whether floats are only computed by ops that are exact on small integers, from constants that are such."""
        from jaxlib.mlir import ir

        exact = True

        def visit(op: Any) -> Any:
            nonlocal exact
            floats = any("f" in str(r.type).rpartition("x")[2] for r in op.results)
            if op.name == "stablehlo.constant":
                exact = exact and (not floats or _is_dyadic(op))
            elif op.name.startswith(("stablehlo.", "chlo.")) and floats:
                exact = exact and op.name in _EXACT_OPS
            return ir.WalkResult.ADVANCE

        self.module.operation.walk(visit)
        return exact

    def _places(self) -> list[list[Any]]:
        """Of each argument, where each device's part of it is."""
        from jax._src.sharding_impls import GSPMDSharding

        if not self.is_global:
            return [list(range(len(self.devices)))] * len(self.arguments)
        shardings = self.executable.get_parameter_shardings() or []
        if len(shardings) != len(self.arguments):
            raise Unrunnable("XLA does not say how it shards the arguments")
        maps = [
            GSPMDSharding(self.devices, sharding).devices_indices_map(argument.shape)
            for sharding, argument in zip(shardings, self.arguments, strict=True)
        ]
        return [[indices[device] for device in self.devices] for indices in maps]

    def run(self, arrays: list[np.ndarray]) -> list[list[np.ndarray]]:
        """Of each result, the array on each device. `arrays` are whole, or have those of each device."""
        rows = [[array[cut] for cut in place] for array, place in zip(arrays, self._places(), strict=True)]
        outputs: Any = self.executable.execute_sharded([_on_devices(pieces) for pieces in rows])
        return [[np.asarray(piece) for piece in result] for result in outputs.disassemble_into_single_device_arrays()]


def _prepare_lapack(module: Any) -> None:
    """Sets the pointers through which XLA calls LAPACK, as jax does when it lowers such a call: else they are null."""
    import jax
    from jaxlib.mlir import ir

    calls = ops_of(module.operation, "stablehlo.custom_call")
    if any(ir.StringAttr(call.attributes["call_target_name"]).value.startswith("lapack_") for call in calls):
        jax.jit(jax.numpy.linalg.cholesky).lower(jax.ShapeDtypeStruct((1, 1), np.float32))


def _is_private(function: Any) -> bool:
    attributes = function.operation.attributes
    return "sym_visibility" in attributes and attributes["sym_visibility"].value == "private"


def _array_type(type_: Any, what: str, number: int) -> tuple[tuple[int, ...], np.dtype]:
    from jaxlib.mlir import ir

    if not isinstance(type_, ir.RankedTensorType) or not type_.has_static_shape:
        raise Unrunnable(f"{what} {number} is no array of static shape: {type_}")
    if str(type_.element_type) not in _DTYPES:
        raise Unrunnable(f"there are no data of type {type_.element_type}, which {what} {number} has")
    return tuple(type_.shape), _DTYPES[str(type_.element_type)]


def _is_dyadic(constant: Any) -> bool:
    """Whether all numbers in `constant` are infinite, or multiples of 1/256 and below 65536."""
    text = _INFINITY.sub("", str(constant.attributes["value"]))
    numbers = [float(n) for n in _NUMBER.findall(text)]
    return "0x" not in text and all(abs(n) < 65536 and float(n * 256).is_integer() for n in numbers)


def _on_devices(rows: list[np.ndarray]) -> Any:
    """An array that holds on each device that device's row; it claims to be replicated, which nothing checks."""
    import jax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    devices = jax.devices()
    sharding = NamedSharding(Mesh(np.array(devices), "devices"), PartitionSpec())
    pieces = jax.device_put(rows, devices)
    return jax.make_array_from_single_device_arrays(rows[0].shape, sharding, pieces)


def _compared(before: _Program, after: _Program, seeds: int) -> list[dict[str, Any]]:
    found: list[Result] = []
    copies = None if before.is_global else len(before.devices)
    for seed in range(seeds):
        arrays = drawn(before.arguments, seed, copies, is_exact=before.is_exact)
        want, got = before.run(arrays), after.run(arrays)
        found = found or [Result(n, pieces[0], _sums(pieces[0].dtype)) for n, pieces in enumerate(want)]
        different = [number for number, pair in enumerate(zip(want, got, strict=True)) if not _are_equal(*pair)]
        if not different:
            continue
        is_exact = before.is_exact and all(_is_small(piece) for pieces in want for piece in pieces)
        runs = None if is_exact else _runs(before, arrays, seed)
        for number in different:
            for device, pair in enumerate(zip(want[number], got[number], strict=True)):
                nearby = None if runs is None else [run[number][device] for run in runs]
                found[number].add(device, *pair, nearby)
    return [result.found() for result in found]


def _runs(program: _Program, arrays: list[np.ndarray], seed: int) -> list[list[list[np.ndarray]]]:
    """The results of `program` on arguments near `arrays`; nothing where there are none."""
    if not any(is_float(array.dtype) for array in arrays):
        return []
    return [program.run(perturbed(program.arguments, arrays, seed * RUNS + run)) for run in range(RUNS)]


def _are_equal(want: list[np.ndarray], got: list[np.ndarray]) -> bool:
    return all(are_equal(*pair) for pair in zip(want, got, strict=True))


def _sums(dtype: np.dtype) -> float:
    return _FLOATS[dtype.name][1] if dtype.name in _FLOATS else 0.0


def _is_small(piece: np.ndarray) -> bool:
    """Whether integers of this size are exact in the type."""
    if piece.dtype.name not in _FLOATS:
        return True
    limit, _ = _FLOATS[piece.dtype.name]
    return bool(np.abs(piece).max(initial=0) < limit)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
