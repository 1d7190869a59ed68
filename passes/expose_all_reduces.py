"""Writes the reductions that the partitioner will add into the program."""

from collections.abc import Iterable
from typing import Annotated, Literal

from jaxlib.mlir import ir

from paropt.passes.analysis.meshes import has_mesh
from paropt.passes.analysis.policy import axes_named
from paropt.passes.analysis.producers import ROWS as PRODUCERS
from paropt.passes.analysis.producers import Producer, producers
from paropt.passes.analysis.propagation import Propagated
from paropt.passes.analysis.sharded_sums import sharded_sums, whole_sums
from paropt.passes.analysis.shardings import Axes, is_manual, names_of
from paropt.passes.core.global_form import expose, note_shardings
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
    """Write into a program for all devices the reductions that the partitioner would add to it.

    Before:

        %g = dot_general %x, %y                     adds up a dimension that is split over "data"
        %r = add %acc, %g

    After:

        %p = dot_general %x, %y
        %u = sdy.sharding_constraint %p <@mesh, [{?}], unreduced={"data"}>
        %g = sdy.all_reduce {"data"} %u
        %r = add %acc, %g

    A plain `jax.jit` program with shardings has no reductions for passes to move. Shardy's propagation, on a copy,
    tells how values are split, and its sharding rules what each op adds up. Globally the new ops are identities. What
    the passes after this one have not moved, `annotate-unreduced` takes back.

    Legal when:

    - the program is lowered for Shardy
    - the op is a product, or a sum from zero
    - its operands split what it adds up in the same way
    - it is outside of manual computations, where reductions are written already

    Worth it when:

    - the program does not split the sum over these axes, as fully sharded training does (or `policy=defer`)
    - the option `axes` allows it

    Sources: Shardy's `sdy-insert-explicit-reshards`, which decides by its own costs where XLA's partitioner does not.
    """
    if not has_mesh(module):
        gspmd = [op for op in ops_of(module, "func.func") if _is_gspmd(op)]
        return [missed(NAME, op, Declined("the program is lowered for GSPMD, not for Shardy")) for op in gspmd[:1]]
    if all(is_manual(op) for op in ops_of(module, *PRODUCERS)):
        return []
    split = sharded_sums(module)
    # What a sharded optimizer does with a sum after the loop is not to decide how the loop splits its examples.
    propagated = Propagated(module, forward_only=whole_sums(module, split))
    found, declined = producers(module, propagated)
    remarks = [missed(NAME, reason.op, reason) for reason in declined if reason.op is not None]
    allowed = frozenset(axes_named(axes))
    movable: list[tuple[Producer, Axes]] = []
    for producer in found:
        try:
            movable.append((producer, _movable(producer, split.get(producer.value, frozenset()), policy, allowed)))
        except Declined as reason:
            remarks.append(missed(NAME, op_of(producer.value), reason))
    note_shardings([producer.value for producer, _ in movable], propagated)
    for producer, over in movable:
        expose(producer, over)
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


def _is_gspmd(function: ir.Operation) -> bool:
    """Whether arguments of `function` are split in GSPMD's terms."""
    if "arg_attrs" not in function.attributes:
        return False
    return any("mhlo.sharding" in ir.DictAttr(noted) for noted in ir.ArrayAttr(function.attributes["arg_attrs"]))
