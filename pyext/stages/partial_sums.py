"""Sums of a stage that stay on the devices that add them up: reduced once in a step, not in each micro-batch.

A function of a trip is lowered as the body of a loop over all trips, out of which the passes (`grad-sync`) sink the
reductions; the rest of the body is the function that is compiled. Its sums are arrays with a first dimension that
counts devices, one row on each: as large on each device as the sum is. docs/accumulation.md has more of that form.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec
from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager

from paropt.hook.module_call import Function, shape_of
from paropt.hook.step_programs import spec_of
from paropt.modules.module_io import bytecode_of, optimize
from paropt.passes.pipelining.stage_manifest import StageProgram
from paropt.passes.pipelining.trip_function import TripFunction, changed_after, trip_function
from paropt.passes.support.remarks import Declined, Remark, missed
from paropt.stages.cut_step import CutStep
from paropt.verify.tags import gaps

# Of parameters that are sharded in their stage: gathered, and their gradients reduced to shards, in each micro-batch;
# gradients once in a step, of which each device has a whole one; parameters once too, which each device has whole.
StagePolicy = Literal["keep-shards", "defer", "once"]
Plain: TypeAlias = Callable[..., list[Any]]

_NAME = "pipeline"
_PASSES = "grad-sync"


@dataclass(frozen=True)
class Packed:
    """A sum with a dimension for devices."""

    shape: jax.ShapeDtypeStruct
    spec: PartitionSpec


@dataclass(frozen=True)
class TripProgram:
    """The program compiled for a function of a trip: it takes and returns the sums in `packed` in that form."""

    function: Any
    packed: dict[str, Packed] = field(default_factory=dict)
    remarks: list[Remark] = field(default_factory=list)


def trip_program(
    cut: CutStep,
    program: StageProgram,
    function: Plain,
    shapes: Sequence[jax.ShapeDtypeStruct],
    results: Mapping[str, Any],
    reduced: frozenset[str],
) -> TripProgram:
    """`function`, which is that of `program`, for arguments of these shapes and shardings.

    Its sums are unreduced where they can be, but for those in `reduced`. `results` has the shardings of results.
    """
    trips = cut.manifest.counting.trips
    sums = [name for name in program.arguments if name in cut.manifest.sums and name in program.results]
    sums = [name for name in sums if name not in reduced]
    return _unreduced(cut, program, function, shapes, results, sums) if sums and trips > 1 else TripProgram(function)


def _unreduced(
    cut: CutStep,
    program: StageProgram,
    plain: Plain,
    shapes: Sequence[Any],
    results: Mapping[str, Any],
    sums: list[str],
) -> TripProgram:
    """The function with `sums` unreduced; those that cannot be are arguments and results like others."""
    given = [shape for name, shape in zip(program.arguments, shapes, strict=True) if name not in sums]
    values = [name for name in program.results if name not in sums]
    looped, shardings = _looped(cut, program, plain, sums, values), [results[name] for name in (*values, *sums)]
    lowered = jax.jit(looped, out_shardings=shardings, keep_unused=True).lower(*given)
    module, remarks = optimize(lowered, _PASSES)
    entry = ir.SymbolTable(module.operation)["main"].operation
    changed = [[*values, *sums][number] for number in changed_after(entry)]
    left = [name for name in sums if name not in changed]
    if left and left != sums:
        return _unreduced(cut, program, plain, shapes, results, left)
    try:
        made = trip_function(entry, program.symbol, len(sums))
    except Declined as declined:
        return TripProgram(plain, {}, [*remarks, missed(_NAME, declined.op or entry, declined)])
    wrong = gaps(module.operation)
    if not made.packed or wrong:
        return TripProgram(plain, {}, remarks)
    return _packed(cut, module, made, program, sums, values, remarks)


def _looped(cut: CutStep, program: StageProgram, function: Plain, sums: list[str], values: list[str]) -> Any:
    """All trips of the function in one program. No argument is loop-invariant: each call has arrays of its own.

    Other values than sums are returned as bits, for which no reduction waits: else the last addend of a sum would leave
    the loop.
    """
    trips = cut.manifest.counting.trips
    carried = [*values, *sums]

    def looped(*given: Any) -> list[Any]:
        def trip(state: Any) -> Any:
            number, taken, before = state
            now, others = dict(zip(carried, before, strict=True)), iter(taken)
            made = function(*[now[name] if name in sums else next(others) for name in program.arguments])
            new = dict(zip(program.results, made, strict=True))
            new |= {name: _bits(new[name]) for name in values}
            return (
                number + 1,
                [~each if each.dtype == bool else -each for each in taken],
                [new[name] for name in carried],
            )

        zeros = [jnp.zeros(cut.shapes[name].shape, cut.shapes[name].dtype) for name in carried]
        zeros = [_bits(zero) if name in values else zero for name, zero in zip(carried, zeros, strict=True)]
        start = (jnp.int32(0), list(given), zeros)
        return list(jax.lax.while_loop(lambda state: state[0] < trips, trip, start)[2])

    return looped


def _bits(array: jax.Array) -> jax.Array:
    """The bits of floats, and of signed integers, as unsigned integers; other arrays as they are."""
    if jnp.issubdtype(array.dtype, jnp.floating):
        size = int(jnp.finfo(array.dtype).bits)
    elif jnp.issubdtype(array.dtype, jnp.signedinteger):
        size = int(jnp.iinfo(array.dtype).bits)
    else:
        return array
    return jax.lax.bitcast_convert_type(array, f"uint{size}") if size >= 8 else array


def _packed(
    cut: CutStep,
    module: ir.Module,
    made: TripFunction,
    program: StageProgram,
    sums: list[str],
    values: list[str],
    remarks: Any,
) -> TripProgram:
    type_ = ir.FunctionType(ir.TypeAttr(made.function.attributes["function_type"]).value)
    results = dict(zip([*values, *sums], map(shape_of, type_.results), strict=True))
    packed = {}
    for number, attribute in made.packed.items():
        name, spec = [*values, *sums][number], spec_of(attribute)
        assert spec is not None, "packed arrays are sharded over whole axes, and closed"
        packed[name] = Packed(results[name], spec)
    # jax lowers with meshes spelled out, and names them itself.
    PassManager.parse("builtin.module(sdy-inline-meshes)", module.context).run(module.operation)
    function = Function(bytecode_of(module), program.symbol, tuple(results.values()))
    kinds = {name: cut.shapes[name].dtype for name in values if cut.shapes[name].dtype != results[name].dtype}

    def called(*arguments: Any) -> list[Any]:
        by_name = dict(zip(program.arguments, arguments, strict=True))
        others = [by_name[name] for name in program.arguments if name not in sums]
        made = dict(zip(results, function(*others, *[by_name[name] for name in sums]), strict=True))
        made |= {name: jax.lax.bitcast_convert_type(made[name], kinds[name]) for name in values if name in kinds}
        for name in (
            packed.keys() - sums
        ):  # a loop would need it after the last trip only; here another function reads it
            made[name] = jax.lax.reduce_sum(made[name], (0,))
        return [made[name] for name in program.results]

    return TripProgram(called, {name: each for name, each in packed.items() if name in sums}, remarks)


def reduced_to(array: jax.Array, spec: PartitionSpec, to: NamedSharding) -> jax.Array:
    """The sum over the first dimension of an array with `spec`, sharded as `to`: scattered while it is reduced."""
    reduced, *dimensions = (axes_in(each) for each in (*spec, *[None] * array.ndim)[: array.ndim])
    wanted = [axes_in(each) for each in (*to.spec, *[None] * array.ndim)[: array.ndim - 1]]
    scattered = {d: axes for d, axes in enumerate(wanted) if axes and axes != dimensions[d]}
    over = [axis for axes in scattered.values() for axis in axes]
    if not scattered or any(dimensions[d] for d in scattered) or not {*over} <= {*reduced}:
        return jax.lax.reduce_sum(array, (0,))
    others = tuple(axis for axis in reduced if axis not in over)

    def of_device(rows: jax.Array) -> jax.Array:
        value = jax.lax.psum(rows[0], others) if others else rows[0]
        for d, axes in scattered.items():
            value = jax.lax.psum_scatter(value, axes, scatter_dimension=d, tiled=True)
        return value

    shared = jax.shard_map(of_device, mesh=to.mesh, in_specs=spec, out_specs=to.spec)
    made: jax.Array = shared(array)
    return made


def axes_in(each: Any) -> tuple[str, ...]:
    """The axes of a dimension in a spec."""
    return (each,) if isinstance(each, str) else tuple(each or ())
