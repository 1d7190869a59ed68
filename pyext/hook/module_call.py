"""A call of a function of a StableHLO module from JAX, as a part of a `jax.jit` program. Public names of jax only."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.extend.core import Primitive
from jax.interpreters import mlir
from jaxlib.mlir import ir

from paropt.base.element_types import DTYPES
from paropt.passes.support.context import inlined_call


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
    if element not in DTYPES:
        raise ValueError(f"no numpy type is known for {tensor}")
    return jax.ShapeDtypeStruct(tuple(tensor.shape), DTYPES[element])


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
