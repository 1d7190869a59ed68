"""Writes the reductions that the partitioner will add into the program."""

from collections.abc import Iterable
from typing import Annotated, Literal

from jaxlib.mlir import ir

from paropt.passes.analysis.producers import Producer, producers
from paropt.passes.analysis.propagation import Propagated
from paropt.passes.analysis.sharded_sums import sharded_sums
from paropt.passes.analysis.shardings import Axes, names_of
from paropt.passes.core.global_form import expose
from paropt.passes.core.registry import register
from paropt.passes.core.remarks import Declined, Remark, missed, require
from paropt.passes.core.traversal import op_of, ops_of

NAME = "expose-all-reduces"

Policy = Literal["hierarchical", "defer", "every"]


@register
def expose_all_reduces(
    module: ir.Operation,
    *,
    policy: Annotated[
        Policy,
        "For sums that the program splits over some axes: reduce over those in every iteration and over the others "
        "once; over all axes once, which takes a whole sum on every device; or over all in every iteration.",
    ] = "hierarchical",
    axes: Annotated[str, "Mesh axes over which reductions may move, separated by commas; empty: all."] = "",
) -> list[Remark]:
    """doc"""
    allowed = frozenset(axis.strip() for axis in axes.split(",") if axis.strip())
    propagated = Propagated(module)
    found, declined = producers(module, propagated)
    split = sharded_sums(module, propagated)
    remarks = [missed(NAME, reason.op, reason) for reason in declined if reason.op is not None]
    for producer in found:
        try:
            expose(producer, _movable(producer, split.get(producer.value, frozenset()), policy, allowed))
        except Declined as reason:
            remarks.append(missed(NAME, op_of(producer.value), reason))
    return remarks


def _movable(producer: Producer, split: frozenset[str], policy: Policy, allowed: frozenset[str]) -> Axes:
    """The axes over which the reduction of `producer` is taken out of the partitioner's hands."""
    kept = names_of(split) & names_of(producer.axes) if policy != "defer" else frozenset()
    if kept and policy == "every":
        kept = names_of(producer.axes)
    axes = tuple(axis for axis in producer.axes if not names_of([axis]) & kept)
    require(bool(axes), f"its sum is split over {_listed(kept)}, and stays so (option policy=defer holds it whole)")
    axes = tuple(axis for axis in axes if not allowed or names_of([axis]) <= allowed)
    require(bool(axes), f"it is over {_listed(names_of(producer.axes))}, which option axes does not allow")
    return axes


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))
