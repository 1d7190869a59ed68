"""Micro-batches unrolled in Python (P8), rolled: each target's executable reduces what that of `lax.scan` (P0) does."""

import pytest
from programs.catalog import MATRIX
from unit.clusters import available

from paropt.audit import audit
from paropt.clusters.targets import get


def reduced(name: str, passes: str, target: str) -> tuple[int, int]:
    """Bytes of arrays per device and step, in loops and after them."""
    program = MATRIX[name](devices=get(target).devices or None)
    report = audit(program.step, *program.args, passes=passes, targets=[target])
    total = report[target].after.total("all-reduce", "reduce-scatter")
    return total.in_loops, total.outside


@pytest.mark.parametrize("form", ["plain", "explicit"])
@pytest.mark.parametrize("target", ["cpu:8", "tpu:v5e:2x4", "gpu:h100:1x1x8"])
def test_unrolled_micro_batches_reduce_as_a_loop(target: str, form: str) -> None:
    available(target)
    rolled = reduced(f"{form}_mlp_p8", "inline-calls,roll-accumulation,grad-sync", target)
    in_loop, after = reduced(f"{form}_mlp_p0", "grad-sync", target)
    gradients = MATRIX[f"{form}_mlp_p8"]().gradient_bytes
    assert rolled == (0, gradients)
    assert (in_loop, after - gradients) in ((0, 0), (0, 16))  # a loop also reduces its losses at once
