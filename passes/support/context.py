"""A context for JAX's modules: StableHLO, CHLO, Shardy, MHLO and upstream dialects.

The one file that knows jaxlib's private extension module: it registers the upstream dialects, and inlines calls.
"""

from collections.abc import Sequence
from typing import Any

import jaxlib
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import chlo, mhlo, mpmd, sdy, stablehlo

KNOWN = "paropt needs jaxlib 0.10 to 0.12"
OLDEST = (0, 10)


def require_known(version: str) -> None:
    """Raises ImportError for an older jaxlib. A newer one is tried: what has changed there is told where it is met."""
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        raise ImportError(f"{KNOWN}, and this is {version}: pip install --upgrade jax")


require_known(jaxlib.__version__)

try:
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext as _jaxlib
except ImportError as error:
    raise ImportError(f"{KNOWN}: jaxlib.mlir._mlir_libs._jax_mlir_ext is missing") from error

_APPENDS = "block:" in (_jaxlib.inlined_func_call.__doc__ or "")  # jaxlib 0.10.0 writes to the end of a given block


def make_context(*, allow_unregistered_dialects: bool = False) -> ir.Context:
    """A fresh single-threaded context. Keep it referenced for as long as a module made in it."""
    context = ir.Context()
    registry = ir.DialectRegistry()
    _jaxlib.register_dialects(registry)
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    context.enable_multithreading(False)
    context.allow_unregistered_dialects = allow_unregistered_dialects
    sdy.register_dialect(context)
    mpmd.register_dialect(context)
    mhlo.register_mhlo_dialect(context)
    chlo.register_dialect(context)
    stablehlo.register_dialect(context)
    return context


def inlined_call(callee: ir.Operation, arguments: Sequence[ir.Value], location: ir.Location) -> list[ir.Value]:
    """Clones the body of `callee` (one block) at the insertion point; returns the values it returns.

    Each clone's location is the call's, followed by its own: `loc("while/body/closed_call/psum"(...))`.
    """
    with location:  # jaxlib reads the current context as well, and crashes when there is none
        if not _APPENDS:
            return list(_jaxlib.inlined_func_call(callee, arguments, location))
        elsewhere, point = ir.Module.create(), ir.InsertionPoint.current
        append: Any = _jaxlib.inlined_func_call
        values = list(append(callee, arguments, elsewhere.body, location))
        for op in list(elsewhere.body.operations):
            if point.ref_operation is None:
                point.block.append(op)
            else:
                op.move_before(point.ref_operation)
        return values
