"""Two-level sharding of the state, over a slow and a fast axis: `axes=replica` crosses the slow one once."""

import jax
import numpy as np
import pytest
from programs import models, plain
from programs.compare import CLOSE, difference_from_definition
from programs.program import Program, Sizes
from unit.clusters import available

import paropt
from paropt.audit import audit
from paropt.clusters.targets import get
from paropt.hlo.census import Collective
from paropt.hlo.traffic import traffic, traffic_by_axes

SIZES = Sizes(width=64)
PARAMETERS = SIZES.layers * (SIZES.width + 4 * SIZES.width**2)  # elements
PASSES = "grad-sync{policy=once axes=replica}"
SMALL = SIZES.micro_batches  # elements, of losses
# Of what an all-gather or reduce-scatter over all 8 devices sends, 7/8 of the whole, 1/8 crosses `replica`.
COSTS = {("data",): 1, ("replica",): 8, ("replica", "data"): (8 * 1 + 6) / 7}


def built(target: str) -> Program:
    return plain.layers_over_all(models.blocks, SIZES, get(target).devices or None)


def over_slow(collectives: tuple[Collective, ...]) -> list[Collective]:
    arrays = [c for c in collectives if max(array.elements for array in c.arrays) > SMALL]
    return [c for c in arrays if "replica" in c.axes]


@pytest.mark.parametrize("passes", [PASSES, "grad-sync{policy=auto memory-budget=1GiB axes=replica}"])
def test_values(passes: str) -> None:
    program = plain.layers_over_all(models.blocks)
    found = paropt.jit(program.step, passes=passes, strict=True)(*program.args)
    assert difference_from_definition(program, found) <= CLOSE


def test_gathering_over_one_axis_changes_no_bit() -> None:
    program = plain.layers_over_all(models.blocks)
    shards, gathered = (
        paropt.jit(program.step, passes=f"grad-sync{{policy={policy} axes=replica}}", strict=True)(*program.args)
        for policy in ("keep-shards", "gather")
    )
    jax.tree.map(np.testing.assert_array_equal, shards, gathered)


@pytest.mark.parametrize("target", ["cpu:8", "tpu:v5e:2x4", "gpu:h100:1x2x4"])
def test_the_slow_axis_is_crossed_once(target: str) -> None:
    """By a quarter of the parameters, as shards along the fast axis; over that all stays in the loop."""
    available(target)
    program = built(target)
    report = audit(program.step, *program.args, passes=PASSES, targets=[target])[target]
    slow = over_slow(report.after.collectives)
    assert {c.depth for c in over_slow(report.before.collectives)} >= {2}
    assert {(c.kind, c.depth) for c in slow} <= {(kind, 0) for kind in ("all-gather", "all-reduce", "reduce-scatter")}
    assert all(c.axes == ("replica",) for c in slow)
    for kind in ("all-gather", "reduce"):
        elements = sum(array.elements for c in slow if kind in c.kind for array in c.arrays if array.elements > SMALL)
        assert elements == PARAMETERS / 4
    before, after = (traffic(each.collectives) for each in (report.before, report.after))
    assert after <= before


@pytest.mark.parametrize("target", ["cpu:8", "tpu:v5e:2x4", "gpu:h100:1x2x4"])
def test_a_plan_takes_slow_axes_first(target: str) -> None:
    """More memory costs less on the links; between the ends nothing crosses the slow one in the loop any more."""
    available(target)
    program = built(target)
    costs, between = [], []
    for budget in ("0", "60kB", "200kB", "1GB"):
        passes = f"grad-sync{{policy=auto memory-budget={budget} link-cost=replica:8}}"
        after = audit(program.step, *program.args, passes=passes, targets=[target])[target].after
        costs.append(sum(each.known * COSTS[axes] for axes, each in traffic_by_axes(after.collectives).items()))
        in_loop = [c for c in after.collectives if c.depth and max(a.elements for a in c.arrays) > SMALL]
        between.append({c.axes for c in in_loop})
    assert costs[0] > costs[1] > costs[2] > costs[3]
    assert ("data",) not in between[0]
    assert ("data",) in between[2]
    assert not between[3]
