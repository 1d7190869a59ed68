"""Loop peeling: with the last micro-batch outside of the loop, results and reductions stay, no loop before them."""

import jax
import pytest
from modules import parsed
from numeric.test_training_programs import assert_close
from programs.catalog import EXPLICIT, INTEGER_MLPS

import paropt
from paropt.passes.ir.loops import WHILE
from paropt.passes.sharding.collectives import ALL_REDUCE
from paropt.passes.support.traversal import defining_op, ops_of


def reads_a_loop(text: str) -> list[bool]:
    """Of each all_reduce, whether it reduces what a loop returns."""
    module = parsed(text)
    sources = [defining_op(op.operands[0]) for op in ops_of(module.operation, ALL_REDUCE)]
    return [source is not None and source.name == WHILE for source in sources]


@pytest.mark.parametrize("name", ["mlp_p0", "mlp_p2", "transformer_p0"])
def test_reductions_do_not_wait_for_the_loop(name: str) -> None:
    program = EXPLICIT[name]()
    deferred, peeled = (
        paropt.jit(program.step, passes=passes, strict=True) for passes in ("grad-sync", "grad-sync,peel-last-sync")
    )
    lowered = [step.lower(*program.args) for step in (deferred, peeled)]
    before, after = (reads_a_loop(each.as_text()) for each in lowered)
    assert len(after) == len(before) and any(before) and not any(after)
    was, now = (paropt.audit(each) for each in lowered)
    assert (was.sync_bytes, was.sync_in_loop) == (now.sync_bytes, now.sync_in_loop)
    assert_close(deferred(*program.args), peeled(*program.args), program.tolerance)


def test_integers_are_equal_bit_for_bit() -> None:
    program = INTEGER_MLPS["mlp_p0_integers"]()
    plain = jax.jit(program.step)
    ours = paropt.jit(program.step, passes="grad-sync,peel-last-sync,bucket-all-reduces", strict=True)
    assert_close(plain(*program.args), ours(*program.args), 0.0)
