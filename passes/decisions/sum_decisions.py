"""What is made of one sum over devices, by the options: a pure function of plain values.

    program shards the sum over   policy                                    stays sharded over   reduced once over
    no axis                       any                                       -                    all axes
    some axes                     keep-shards, hierarchical, gather, auto   these                the others
    some axes                     every                                     these                no axis
    all axes                      keep-shards, hierarchical, gather, auto   these                no axis
    some or all axes              defer, once                               -                    all axes

`axes` keeps `defer` and `once` from the axes that it lacks. With `auto`, the memory budget takes axes out of the third
column, by the bytes that each saves and holds.

Tests: test/unit/passes/decisions/test_sum_decisions.py, test/passes/expose-all-reduces-sharded.mlir.
"""

from dataclasses import dataclass

from paropt.passes.deferral.policy import HOLDS_SUMS, POLICIES, PolicyName
from paropt.passes.support.remarks import require

STAYS_SHARDED = ", and stays so"


@dataclass(frozen=True)
class GradientSum:
    """A sum over devices, by the names of mesh axes."""

    axes: frozenset[str]  # that it is reduced over
    over: frozenset[str]  # those of `axes` with more than one device
    shards: frozenset[str]  # those of `over` that shard it in the program
    is_complex: bool = False


def stays_sharded_over(each: GradientSum, policy: PolicyName, allowed: frozenset[str]) -> frozenset[str]:
    """The axes over which it is reduce-scattered in every iteration, as the program has it.

    `allowed` are axes over which reductions may move; empty for all.
    """
    if policy not in HOLDS_SUMS:
        return each.shards
    return each.shards - allowed if allowed else frozenset()


def reduced_once_over(
    each: GradientSum, kept: frozenset[str], policy: PolicyName, allowed: frozenset[str]
) -> frozenset[str]:
    """The axes over which its reduction may leave loops, where it stays sharded over `kept`. Raises Declined for none.

    `allowed` are axes over which reductions may move; empty for all.
    """
    kept = each.axes if kept and (not POLICIES[policy].splits or kept == each.over) else kept
    moved = each.axes - kept
    require(bool(moved), why_sharded(kept))
    asked = moved & allowed if allowed else moved
    require(bool(asked), f"it is over {_listed(each.axes)}, which option axes does not allow")
    require(asked == moved or not each.is_complex, "XLA would reduce four parts over the other axes")
    return asked


def why_sharded(over: frozenset[str]) -> str:
    """Why a sum that the program shards over these axes is reduced over them in each iteration."""
    return f"its sum is sharded over {_listed(over)}{STAYS_SHARDED} (option policy=defer replicates it)"


def _listed(names: frozenset[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))
