"""`paropt.mark_gradient`: says in the program where gradients end and the update begins."""

from typing import Any, TypeVar

import jax
from jax.extend.core import Primitive
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters import ad, batching, mlir

from paropt.passes.ir.gradient_marks import ATTRIBUTES, GRADIENT, MARK

Tree = TypeVar("Tree")


def mark_gradient(gradients: Tree) -> Tree:
    """`gradients`, a tree of arrays, unchanged; passes can tell that these are the gradients of the step.

    Call it once per step, on the gradients that the optimizer gets: after the micro-batches were added up, before
    clipping or scaling that needs the whole sum. It costs nothing, and does nothing when no pass looks for it.
    """
    return jax.tree.map(_marked, gradients)


def _marked(leaf: Any) -> Any:
    return _mark.bind(leaf) if hasattr(leaf, "dtype") else leaf


_mark = Primitive("paropt_mark_gradient")
_mark.def_impl(lambda value: value)
_mark.def_abstract_eval(lambda aval: aval)
# The tangent of a gradient is no gradient of this step.
ad.primitive_jvps[_mark] = lambda primals, tangents: (_mark.bind(*primals), *tangents)
batching.primitive_batchers[_mark] = lambda values, dimensions: (_mark.bind(*values), *dimensions)


def _lowered(_context: Any, value: ir.Value) -> Any:
    """A reshape to the same shape: the one op that passes on everything, that MLIR keeps and that XLA removes."""
    op = stablehlo.ReshapeOp(value.type, value).operation
    op.attributes[ATTRIBUTES] = ir.DictAttr.get({MARK: ir.StringAttr.get(GRADIENT)})
    return op.results


mlir.register_lowering(_mark, _lowered)
