"""Runs StableHLO modules on the 8 simulated devices; the one test file that uses private names of jaxlib.

Inputs are small integers, different on each device, so that sums are exact in every type and results can be compared
bit for bit (zeros of either sign count as equal: moving a negation may change the sign of a zero).

How a module runs follows from its own text:

| the module has | it runs as | an argument is |
|---|---|---|
| an `sdy.mesh` | 8 partitions, partitioned by Shardy | a global array, cut as XLA's executable says |
| the same, and `mhlo.num_replicas = 2` | 2 replicas of 4 partitions | none: XLA has no sharding for one |
| `mhlo.num_partitions = 8` | 8 partitions of a per-device program | different data on each device |
| anything else | 8 replicas | different data on each device |

An integer or i1 argument of rank 0 (a trip count, a predicate) is equal on all devices; three seeds in a row give it
each of the values 0, 3 and 1.

Modules that were the same before, and modules of one text, are executed by night (test/store.py).
"""

import functools
from pathlib import Path
from typing import Any, NamedTuple

import jax
import ml_dtypes
import numpy as np
import store
from jax._src.interpreters.pxla import batched_device_put
from jax._src.sharding_impls import GSPMDSharding
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxlib import xla_client
from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager
from modules import parsed
from programs import quick_options
from programs.quick_options import QUICK

import paropt.passes  # noqa: F401  registers every pass
from paropt.passes.sharding.collectives import GLOBAL_ALL_REDUCE, GLOBAL_REDUCE_SCATTER
from paropt.passes.spmd.global_form import take_back
from paropt.passes.support.pipeline import Pipeline
from paropt.passes.support.remarks import Remark

_SOURCES = tuple(Path(file) for file in (__file__, store.__file__, quick_options.__file__))
DEVICES = 8
UNIFORM = (0, 3, 1)
DTYPES = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "complex<f32>": np.complex64,
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "ui8": np.uint8,
    "ui16": np.uint16,
    "ui32": np.uint32,
    "ui64": np.uint64,
}
Results = list[list[np.ndarray]]  # of each result, the array on each device


class Argument(NamedTuple):
    """An argument of `@main`."""

    shape: tuple[int, ...]
    dtype: np.dtype
    cuts: list[tuple[slice, ...]] | None  # where each device's part of the global array is; None: data of its own

    @property
    def is_uniform(self) -> bool:
        """Equal on all devices: a trip count or a predicate."""
        return self.shape == () and (self.dtype == np.bool_ or np.issubdtype(self.dtype, np.integer))


class Program(NamedTuple):
    """A compiled module."""

    executable: xla_client._xla.LoadedExecutable
    arguments: list[Argument]


def only(text: str, function: str) -> str:
    """The module of `text` with public `function` as its `@main`, and what that uses."""
    module = parsed(text)
    symbols = ir.SymbolTable(module.operation)
    for op in module.body.operations:
        if op.operation.name == "func.func" and ir.StringAttr(op.operation.attributes["sym_name"]).value != function:
            op.operation.attributes["sym_visibility"] = ir.StringAttr.get("private", module.context)
    if function != "main":
        if "main" in symbols:
            _rename(module, "main", "main_of_the_file")
        _rename(module, function, "main")
    PassManager.parse("builtin.module(symbol-dce)", module.context).run(module.operation)
    return str(module)


def optimized(text: str, passes: str) -> tuple[str, list[Remark]]:
    """The module after the pipeline `passes`, and what the passes decided."""
    module = parsed(text)
    remarks = Pipeline.parse(passes).run(module.operation)
    assert module.operation.verify()
    return str(module), remarks


def unexposed(text: str) -> str:
    """The module without what `expose-all-reduces` has written: what its reductions, wherever they stand, mean."""
    if not _is_exposed(text):
        return text
    module = parsed(text)
    take_back(module.operation)
    return str(module)


def annotated(text: str) -> str:
    """The module in a form that XLA compiles, if `expose-all-reduces` has left it in another."""
    return optimized(text, "annotate-unreduced")[0] if _is_exposed(text) else text


def _is_exposed(text: str) -> bool:
    return any(name in text for name in (GLOBAL_ALL_REDUCE, GLOBAL_REDUCE_SCATTER))


def results(text: str, seed: int = 0) -> Results:
    """What `@main` of `text` computes on the devices from the data of `seed`."""
    executable, arguments = _compiled(text)
    rng = np.random.default_rng(seed)
    with jax.enable_x64(True):  # else 64-bit data is silently narrowed
        shards = [_shards(rng, argument, UNIFORM[(seed + i) % len(UNIFORM)]) for i, argument in enumerate(arguments)]
        outputs = executable.execute_sharded([_array(rows) for rows in shards])
        pieces = outputs.disassemble_into_single_device_arrays()
        return [[np.asarray(piece) for piece in result] for result in pieces]


def assert_same(before: str, after: str, seeds: range = range(1)) -> None:
    """Fails unless both modules' `@main` compute the same on every device, bit for bit."""
    before, after = _printed(before), _printed(after)
    if before == after and not store.BY_NIGHT:
        return
    key = store.key("same", before, after, seeds, store.flags(), sources=_SOURCES)
    is_known = store.get(key) is not None
    if is_known and not store.is_doubted(key):
        return
    try:
        _execute_both(before, after, seeds)
    except AssertionError as differs:
        if is_known:
            differs.add_note(f"test/store.py holds, under {key}, that they are the same")
        raise
    store.put(key)


def _execute_both(before: str, after: str, seeds: range) -> None:
    for seed in seeds:
        for number, (want, got) in enumerate(zip(_results_before(before, seed), results(after, seed), strict=True)):
            for device, (w, g) in enumerate(zip(want, got, strict=True)):
                assert w.dtype == g.dtype, f"result {number} has type {g.dtype}, was {w.dtype}"
                message = f"result {number} differs on device {device}, seed {seed}"
                np.testing.assert_array_equal(g, w, err_msg=message)


@functools.lru_cache(maxsize=512)  # as often as a pipeline changes the module
def _results_before(text: str, seed: int) -> Results:
    return results(text, seed)


@functools.lru_cache(maxsize=512)  # as `_results_before`
def _printed(text: str) -> str:
    """The module's text as MLIR prints it: equal for equal modules."""
    return str(parsed(text))


def optimized_hlo(text: str) -> str:
    """XLA's optimized HLO of the module of `text`."""
    return _compiled(text).executable.hlo_modules()[0].to_string()


# 30 pipelines in turn go through the same 60 modules: fewer would be gone before they are needed again. An executable
# is a few 100 kB.
@functools.lru_cache(maxsize=512)
def _compiled(text: str) -> Program:
    devices = jax.devices()
    if len(devices) != DEVICES:
        raise RuntimeError(
            f"the oracle needs {DEVICES} simulated devices, jax has {len(devices)}; conftest.py asks for 8"
        )
    module = parsed(text)
    has_mesh = any(op.operation.name == "sdy.mesh" for op in module.body.operations)
    if has_mesh:
        _pin_unsharded(module)
    replicas = _count(module, "replicas") if has_mesh else 1 if _count(module, "partitions") > 1 else DEVICES
    grid = np.arange(DEVICES).reshape(replicas, -1)
    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = grid.shape
    options.device_assignment = xla_client.DeviceAssignment.create(grid)
    build = options.executable_build_options
    build.num_replicas, build.num_partitions = grid.shape
    build.device_assignment = options.device_assignment
    build.use_spmd_partitioning = build.num_partitions > 1
    build.use_shardy_partitioner = has_mesh
    options.env_option_overrides = list(QUICK.items())
    executable = devices[0].client.compile_and_load(module, xla_client.DeviceList(tuple(devices)), options)
    shardings = executable.get_parameter_shardings() if has_mesh else None
    return Program(executable, _arguments(module, shardings))


def _rename(module: ir.Module, old: str, new: str) -> None:
    symbols = ir.SymbolTable(module.operation)
    ir.SymbolTable.replace_all_symbol_uses(old, new, module.operation)
    symbols.set_symbol_name(symbols[old], new)


def _count(module: ir.Module, kind: str) -> int:
    name, attributes = f"mhlo.num_{kind}", module.operation.attributes
    return ir.IntegerAttr(attributes[name]).value if name in attributes else 1


def _pin_unsharded(module: ir.Module) -> None:
    """Replicates the arguments and results of `@main` that have no sharding: else XLA may choose differently after."""
    names = (op.operation.attributes["sym_name"] for op in module.body.operations if op.operation.name == "sdy.mesh")
    mesh = ir.StringAttr(next(names)).value
    main = ir.SymbolTable(module.operation)["main"].operation
    kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    for key, types in (("arg_attrs", kind.inputs), ("res_attrs", kind.results)):
        nothing = [ir.DictAttr.get({}, main.context)] * len(types)
        given = ir.ArrayAttr(main.attributes[key]) if key in main.attributes else nothing
        pinned = [_pinned(ir.DictAttr(a), mesh, ir.ShapedType(t).rank) for a, t in zip(given, types, strict=True)]
        main.attributes[key] = ir.ArrayAttr.get(pinned, main.context)


def _pinned(attributes: Any, mesh: str, rank: int) -> ir.DictAttr:
    if "sdy.sharding" in attributes:
        return attributes
    dimensions = ", ".join(["{}"] * rank)
    sharding = ir.Attribute.parse(f"#sdy.sharding<@{mesh}, [{dimensions}]>", attributes.context)
    others = {named.name: named.attr for named in attributes}
    return ir.DictAttr.get({**others, "sdy.sharding": sharding}, attributes.context)


def _arguments(module: ir.Module, shardings: list[xla_client.OpSharding] | None) -> list[Argument]:
    main = ir.SymbolTable(module.operation)["main"]
    types = map(ir.RankedTensorType, ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).inputs)
    return [_argument(t, shardings[i] if shardings else None) for i, t in enumerate(types)]


def _argument(kind: ir.RankedTensorType, sharding: xla_client.OpSharding | None) -> Argument:
    element, shape = str(kind.element_type), tuple(kind.shape)
    if element not in DTYPES:
        raise ValueError(f"the oracle has no data of type {element}; it knows {', '.join(DTYPES)}")
    if sharding is None:
        return Argument(shape, np.dtype(DTYPES[element]), None)
    cuts = GSPMDSharding(jax.devices(), sharding).devices_indices_map(shape)
    return Argument(shape, np.dtype(DTYPES[element]), [cuts[device] for device in jax.devices()])


def _shards(rng: np.random.Generator, argument: Argument, uniform: int) -> list[np.ndarray]:
    """The argument's array on each device; `uniform` is its value when it is a trip count or a predicate."""
    if argument.is_uniform:
        return [np.array(uniform, argument.dtype)] * DEVICES
    if argument.cuts is None:
        return list(_data(rng, (DEVICES, *argument.shape), argument.dtype))
    whole = _data(rng, argument.shape, argument.dtype)
    return [whole[cut] for cut in argument.cuts]


def _data(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(dtype)
    if np.issubdtype(dtype, np.complexfloating):
        return (rng.integers(-8, 9, shape) + 1j * rng.integers(-8, 9, shape)).astype(dtype)
    if dtype.itemsize == 2 and not np.issubdtype(dtype, np.integer):
        return rng.integers(-2, 3, shape).astype(dtype)  # bf16 counts exactly to 256 only
    if np.issubdtype(dtype, np.floating):
        return rng.integers(-3, 4, shape).astype(dtype)  # six layers of width 8 stay below 2**24
    return rng.integers(0 if np.issubdtype(dtype, np.unsignedinteger) else -8, 9, shape).astype(dtype)


def _array(rows: list[np.ndarray]) -> jax.Array:
    """An array that holds on each device that device's row, of which it claims to be the shard: nothing checks."""
    first = rows[0]
    whole = jax.core.ShapedArray((DEVICES, *first.shape), first.dtype)
    return batched_device_put(whole, _by_device(), [row[None] for row in rows], jax.devices())


@functools.cache
def _by_device() -> NamedSharding:
    return NamedSharding(Mesh(np.array(jax.devices()), "devices"), PartitionSpec("devices"))
