"""Passes whose effect shows in the results of a program, and what the tests of `paropt.jit` share."""

from collections.abc import Iterator
from typing import Annotated, Any

import jax.numpy as jnp
import numpy as np
import pytest
from jaxlib.mlir import ir

from paropt.passes.support.registry import PASSES, register
from paropt.passes.support.remarks import Remark, applied
from paropt.passes.support.traversal import ops_of

COSINE = "sine-to-cosine"
NOTED = f"note-module,{COSINE}"
x = np.linspace(0.1, 0.8, 8, dtype=np.float32)


def wave(x: Any) -> Any:
    return jnp.sin(x) * 2


def same(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=1e-6)


def sine_to_cosine(module: ir.Operation, *, fail_after: Annotated[int, "Raise after this many."] = -1) -> list[Remark]:
    """Replace every sine by a cosine."""
    remarks = []
    for op in ops_of(module, "stablehlo.sine"):
        cosine = ir.Operation.create(
            "stablehlo.cosine", [op.result.type], list(op.operands), loc=op.location, ip=ir.InsertionPoint(op)
        )
        op.result.replace_all_uses_with(cosine.result)
        remarks.append(applied("sine-to-cosine", op, "it is a cosine now"))
        op.erase()
        if len(remarks) == fail_after:
            raise KeyError("a defect\nwith details")
    return remarks


def break_types(module: ir.Operation) -> list[Remark]:
    """Leave the module invalid."""
    for op in ops_of(module, "stablehlo.sine"):
        op.result.set_type(ir.RankedTensorType.get([7], ir.F32Type.get(module.context), loc=op.location))
    return []


def drop_result(module: ir.Operation) -> list[Remark]:
    """Make main return one result less: valid for MLIR, not for jax."""
    main = next(f for f in ops_of(module, "func.func") if ir.StringAttr(f.attributes["sym_name"]).value == "main")
    block = main.regions[0].blocks[0]
    returned = ops_of(main, "func.return")[-1]
    kept = list(returned.operands)[:-1]
    ir.Operation.create("func.return", [], kept, loc=returned.location, ip=ir.InsertionPoint(returned))
    returned.erase()
    with module.context:
        signature = ir.FunctionType.get([a.type for a in block.arguments], [v.type for v in kept])
        main.attributes["function_type"] = ir.TypeAttr.get(signature)
    del main.attributes["res_attrs"]
    return []


@pytest.fixture(autouse=True)
def seen() -> Iterator[list[str]]:
    """The names of the modules that `note-module` was run on; the test's passes are registered around each test."""
    names: list[str] = []

    def note_module(module: ir.Operation) -> list[Remark]:
        """Write down the module's name."""
        names.append(ir.StringAttr(module.attributes["sym_name"]).value)
        return []

    before = dict(PASSES)
    for run in (sine_to_cosine, break_types, drop_result, note_module):
        register(run)
    yield names
    PASSES.clear()
    PASSES.update(before)
