"""Gradients in buckets: the same sums and bytes in fewer reductions, none larger than asked."""

from collections.abc import Callable
from math import prod

import jax
import numpy as np
import pytest
from jaxlib.mlir import ir
from modules import parsed
from numeric.test_training_programs import assert_close
from programs.catalog import EXPLICIT, INTEGER_MLPS
from programs.program import Program

import paropt
from paropt.audit import Audit
from paropt.passes.sharding.collectives import ALL_REDUCE, REDUCE_SCATTER
from paropt.passes.support.traversal import ops_of

PROGRAMS = {
    name: EXPLICIT[name] for name in ("mlp_p0", "mlp_p6", "mlp_p7", "mlp_p14", "transformer_p0", "transformer_p6")
}


def sizes(text: str) -> list[int]:
    """Elements of the array that each reduction reduces, in program order."""
    module = parsed(text)
    reductions = ops_of(module.operation, ALL_REDUCE, REDUCE_SCATTER)
    return [prod(ir.RankedTensorType(operand.type).shape) for op in reductions for operand in op.operands]


def sync(audit: Audit) -> list[tuple[str, int]]:
    """Of each kind of collective, the bytes per step."""
    found: dict[str, int] = {}
    for row in audit.collectives:
        found[row.kind] = found.get(row.kind, 0) + (row.executions or 0) * row.payload
    return sorted(found.items())


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("max_bytes", [1 << 10, 1 << 25])
def test_fewer_reductions_of_the_same_bytes(name: str, max_bytes: int) -> None:
    program = PROGRAMS[name]()
    passes = f"grad-sync,bucket-all-reduces{{max-bytes={max_bytes}}}"
    deferred, bucketed = (paropt.jit(program.step, passes=p, strict=True) for p in ("grad-sync", passes))
    lowered = [step.lower(*program.args) for step in (deferred, bucketed)]
    before, after = (sizes(each.as_text()) for each in lowered)
    assert sum(after) == sum(before), "each element is reduced once"
    assert len(after) <= len(before)
    assert all(4 * size <= max_bytes or size in before for size in after), "a bucket is too large"
    if max_bytes == 1 << 25:
        assert len(after) < len(before)
    was, now = (paropt.audit(each) for each in lowered)
    assert sync(was) == sync(now)
    assert_close(deferred(*program.args), bucketed(*program.args), program.tolerance)


@pytest.mark.parametrize("name", ["mlp_p0", "mlp_p6", "transformer_p0"])
def test_a_loop_adds_up_one_array(name: str) -> None:
    program = EXPLICIT[name]()
    policy = "{policy=defer}" if name == "mlp_p6" else ""
    passes = f"grad-sync{policy},bucket-all-reduces"
    apart, flat = (
        paropt.jit(program.step, passes=p, strict=True).lower(*program.args) for p in (passes, passes + "{flat}")
    )
    assert f"tensor<{max(sizes(flat.as_text()))}xf32>" in flat.as_text() or name == "mlp_p6"
    before, after = (max(len(_carried(each.as_text())), 0) for each in (apart, flat))
    assert after < before, "the loop carries one sum"
    was, now = (paropt.audit(each) for each in (apart, flat))
    assert sync(was) == sync(now)
    want, got = (each.compile()(*program.args) for each in (apart, flat))
    assert_close(want, got, program.tolerance)


def _carried(text: str) -> list[str]:
    """What the loop over micro-batches carries: the outermost loop with most values."""
    module = parsed(text)
    loops = [list(op.results) for op in ops_of(module.operation, "stablehlo.while")]
    return [str(value.type) for value in max(loops, key=len)]


@pytest.mark.parametrize("form", ["contiguous", "variadic", "contiguous flat"])
def test_integers_are_equal_bit_for_bit(form: str) -> None:
    program = INTEGER_MLPS["mlp_p0_integers"]()
    plain = jax.jit(program.step)
    ours = paropt.jit(program.step, passes=f"grad-sync,bucket-all-reduces{{form={form}}}", strict=True)
    assert_close(plain(*program.args), ours(*program.args), 0.0)


def test_a_step_has_one_reduction_of_gradients() -> None:
    build: Callable[[], Program] = EXPLICIT["transformer_p0"]
    program = build()
    ours = paropt.jit(program.step, passes="grad-sync,bucket-all-reduces", strict=True)
    (gradients,) = sizes(ours.lower(*program.args).as_text())
    assert 4 * gradients - program.gradient_bytes in (0, 4 * np.shape(program.args[1])[0]), "with the losses, in one"
