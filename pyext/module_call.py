"""Calls a function of a StableHLO module from JAX, as a part of what `jax.jit` compiles. Public names of jax only."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import ml_dtypes
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import mlir
from jaxlib.mlir import ir

from paropt.passes.core.context import inlined_call

_DTYPES: dict[str, Any] = {
    **{f"f{bits}": np.dtype(f"float{bits}") for bits in (16, 32, 64)},
    **{f"i{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"ui{bits}": np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)},
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "i1": np.dtype(bool),
    "complex<f32>": np.dtype(np.complex64),
    "complex<f64>": np.dtype(np.complex128),
    **{
        name.lower().replace("float8_", "f8").replace("_", ""): np.dtype(getattr(ml_dtypes, name))
        for name in ("float8_e4m3fn", "float8_e5m2")
    },
}


@dataclass(frozen=True, eq=False)
class Function:
    """A function with a body, in a module that is kept as bytecode: jax lowers each program in a context of its own."""

    bytecode: bytes
    symbol: str
    results: tuple[Any, ...]  # jax.ShapeDtypeStruct, one for each

    def __call__(self, *arguments: Any) -> list[Any]:
        return list(_call.bind(*arguments, function=self))


def shape_of(type_: ir.Type) -> jax.ShapeDtypeStruct:
    """The shape and dtype of a tensor. Raises ValueError for elements that numpy has not."""
    tensor = ir.RankedTensorType(type_)
    element = str(tensor.element_type).lower()
    if element not in _DTYPES:
        raise ValueError(f"no numpy type is known for {tensor}")
    return jax.ShapeDtypeStruct(tuple(tensor.shape), _DTYPES[element])


_call = Primitive("paropt_call")
_call.multiple_results = True
_call.def_abstract_eval(
    lambda *_, function: [jax.core.ShapedArray(result.shape, result.dtype) for result in function.results]
)


def _lowered(context: Any, *arguments: ir.Value, function: Function) -> Sequence[ir.Value]:
    module = ir.Module.parse(function.bytecode, context.module_context.context)
    called = ir.SymbolTable(module.operation)[function.symbol]
    return inlined_call(called.operation, list(arguments), ir.Location.unknown(module.context))


mlir.register_lowering(_call, _lowered)
