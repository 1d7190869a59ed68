"""The reductions of a global-view program, which the partitioner would add, as ops."""

from collections.abc import Iterator
from typing import Annotated

from jaxlib.mlir import ir

from paropt.passes.decisions.placed_sums import Bought, PlacedSum, bought, kept_axes, placed_sums
from paropt.passes.decisions.step_sums import StepSums, step_sums
from paropt.passes.deferral.policy import HOLDS_SUMS, Policy, PolicyName, names_where
from paropt.passes.deferral.sharded_sum_scatters import Scatters
from paropt.passes.sharding.annotations import LEFT_OUT
from paropt.passes.sharding.meshes import LinkCosts, MeshAxes, axes_named, has_mesh, has_several_devices
from paropt.passes.sharding.shardings import GSPMD_SHARDING
from paropt.passes.spmd.global_form import expose, note_gathers, note_shardings
from paropt.passes.spmd.inferred_shards import Inferred
from paropt.passes.spmd.pin import note_alone
from paropt.passes.spmd.producers import has_producers
from paropt.passes.spmd.region_sums import region_sums, summing_regions
from paropt.passes.support.registry import Bytes, On, OnlyWith, register
from paropt.passes.support.remarks import Declined, Remark, applied, missed
from paropt.passes.support.traversal import ops_of

NAME = "expose-all-reduces"


@register
def expose_all_reduces(
    module: ir.Operation,
    *,
    policy: Annotated[
        PolicyName,
        f"For sums that the program shards over some axes: reduce over those in every iteration, and over the others "
        f"once ({names_where(lambda each: each.splits and not each.sums and not each.budget)}); over all axes once, "
        f"which takes a whole sum on every device ({names_where(lambda each: each.sums)}), for those sums where that "
        f"saves most within memory-budget ({names_where(lambda each: each.budget)}); or over all of them in every "
        f"iteration ({names_where(lambda each: not each.splits)}).",
    ] = "keep-shards",
    memory_budget: Annotated[
        Bytes, "With policy=auto, and only then: bytes per device that sums may take more.", OnlyWith("policy", "auto")
    ] = 0,
    link_cost: Annotated[
        LinkCosts,
        "With policy=auto: what a byte costs over each of these mesh axes, as in `replica:8,data:1`; over others 1.",
    ] = "",
    axes: Annotated[MeshAxes, "Mesh axes over which reductions may move, separated by commas; empty: all."] = "",
    scatters: Annotated[
        Scatters,
        "Sums that are reduced in every iteration over the axes that shard them: write the reduce_scatter, do so from "
        "512 kB per device, or in outermost loops and of sums that are reduced over other axes once, or leave it to "
        "the compiler. paropt.jit and paropt.audit take "
        "`large` for CPUs: XLA:CPU combines all_reduces, and starts each reduce_scatter by itself. They take "
        "`outermost` for TPUs: XLA:TPU sinks a reduce_scatter out of an outermost loop, and holds the whole sum, which "
        "is done up to 48 MiB of sums, that fit into the memory of a core, and up to a fiftieth of the bytes of the "
        "program's arguments; in a loop over layers it makes "
        "one of several sums, and runs each that is written by itself; but of a sum that other axes are taken from, it "
        "makes an all_reduce in some layouts. They take `left` for GPUs: XLA:GPU makes one "
        "itself; of one that is written it takes the first out of a loop over layers, whose buffers are then there "
        "twice.",
        On("cpu", "large"),
        On("tpu", "outermost"),
        On("gpu", "left"),
    ] = "written",
    inferred: Annotated[
        Inferred,
        "Sums that the program leaves open, or shards as their parameters alone, and that the compiler would shard as "
        "what reads them after the loop, such as the state of an optimizer (ZeRO-1, HSDP): they count as sharded by "
        "the program (kept), or each device holds a whole sum, which is reduced once (whole).",
    ] = "kept",
) -> list[Remark]:
    """Write out the reductions that the partitioner would add to a global-view program.

    Before:

        %g = dot_general %x, %y                     contracts a dimension that is sharded over "data"
        %r = add %acc, %g

    After:

        %p = dot_general %x, %y
        %u = sdy.sharding_constraint %p <@mesh, [{?}], unreduced={"data"}>
        %g = sdy.all_reduce {"data"} %u
        %r = add %acc, %g

    A plain `jax.jit` program with shardings has no reductions for passes to move. Shardy's propagation, on a copy,
    yields the shardings of values, and its sharding rules the dimensions that each op reduces. Globally the new ops are
    identities. `annotate-unreduced` reverts those that the passes between have not moved.

    A sum that the program shards, as fully sharded training does, is written as the `sdy.reduce_scatter` that it is,
    where a constraint shards it: XLA:CPU and XLA:TPU reduce all of it in each iteration, and cut that. Behind an
    inner loop that adds up such a sum from zero, as one over chunks does, where a constraint asks for the whole of it,
    it is written once, for all targets. Activations,
    which contractions read, are left to XLA: it may permute their shards while it multiplies. Where an operand of a
    contraction is sharded along a dimension of the sum over another axis than the sum, and that axis is reduced and has
    as many devices, XLA all-gathers neither: devices compute the columns that they have, and all-to-all the sums. The
    contraction is annotated with that.

    Where one operand of a contraction is sharded along a reduced dimension and the other holds all of it, as keys and
    values that a constraint has gathered along their sequence, the other one is cut alike, as XLA does.

    Where activations are sharded by positions between layers and by features within, over the same axis, as in sequence
    parallel training, XLA all-gathers all positions for the contractions. Contractions for which it gathers the same
    are marked. Where the rows that a scatter adds are sharded by features over an axis that shards their indices, too,
    it all-gathers the indices.

    Shardings after a loop, such as those of an optimizer's state, are not to influence how the loop shards its
    examples; unless loops would then reduce more activations than by XLA alone, or are over layers of which XLA
    all-gathers most parameters, as they are sharded over the axis of the examples. A sum that they alone shard, as in
    ZeRO-1, would be whole on each device then: it stays sharded.

    Values that the program itself declares unreduced, and then asks the sum of, are exposed there: so JAX's explicit
    mode writes the gradients of parameters that are resharded as `reduced`.

    A manual computation, a block under `jax.shard_map`, has reductions of its own. Those that it does last, such as of
    the gradients of replicated parameters, are exposed behind it; the block itself reduces until `annotate-unreduced`
    knows that the reduction has moved. Reductions in loops of the block, and sums with other terms, are prepared by
    `separate-reductions`.

    Legal when:

    *The program*

    - it is lowered for Shardy
    - no value that it says to be unreduced has operands sharded in different ways (Shardy aborts)

    *The op that reduces*

    - it is a contraction, a sum from zero, or a constraint to an unreduced value of which other ops ask the sum
    - a convolution has one group (XLA reduces others itself)
    - the window of a convolution is not sharded (XLA reduces over it itself)
    - it is not a reduction within an array of complex numbers (XLA:TPU aborts)
    - it is outside of manual computations

    *Its shardings*

    - its result is sharded into equal parts (XLA aborts)
    - its operands shard the reduced dimensions in the same way, or one of them shards them not
    - its operands and its result are sharded on one mesh
    - outside of loops, it reduces over whole axes of the mesh (XLA would move examples)
    - no part of an axis shards its result while it reduces over another part (XLA would move examples)
    - its result is not sharded over the axes that it reduces over

    *Addends that stay on their devices (else XLA would add wrong parts)*

    - partial sums are not moved between devices before they are reduced
    - in the mesh, no axis without a part in a contraction is between one that it reduces over and one that shards its
      result only
    - in the mesh, no axis without a part in a scatter to sharded rows precedes one with a part

    *An all_reduce in a manual computation*

    - it reduces over axes of the mesh, before the return or linear ops
    - the block adds nothing else to the sum
    - the block returns the sum once, and nothing else in there reads it
    - devices that hold the same sum hold the same addend

    Worth it when:

    *What the user asks for*

    - the program does not shard the sum over these axes, as fully sharded training does (or `policy=defer`)
    - nor do its readers after the loop, as a state over more axes does (option `inferred`, or `policy=defer`)
    - the option `axes` allows it
    - for complex numbers, `axes` allows all of them (a contraction becomes four real ones, each reduced over the
      others)
    - a sum that is scattered in every iteration as before is not left to the compiler (option `scatters`)
    - another axis takes fewer bytes out of loops than they reduce over it, where XLA:TPU would combine what is left
      (option `scatters`)
    - nor is a small one beside it, of one type and over the same axes: XLA reduces both in one collective
    - nor is one, of any type, that is less than a thousandth of those beside it (`scatters=outermost`)

    *What it costs*

    - the compiler has not lost the sum before (attribute `paropt.left_out` of the module)
    - an operand that holds all of a reduced dimension is cut along it as the other one is sharded, where the sum is no
      larger than the other one (which XLA may all-gather instead)
    - before a reduce_scatter, a scatter adds rows of no fewer bytes (XLA all-gathers smaller rows: then each device
      adds to its part of the sum, and only the residual is reduced)
    - outside of loops, a scatter to a table that is sharded over these axes adds rows of no fewer bytes
    - no batched scatter has devices exchange parts of an operand for it (XLA:TPU makes a select of it, and all-gathers)
    - a manual computation returns at most twice the bytes that it reduces (which then is half as often, at least)

    Sources: Shardy's `sdy-insert-explicit-reshards`, which decides by its own costs where XLA's partitioner does not.
    """
    if not has_mesh(module):
        gspmd = [op for op in ops_of(module, "func.func") if _is_gspmd(op)]
        return [missed(NAME, op, Declined("the program is lowered for GSPMD, not for Shardy")) for op in gspmd[:1]]
    if not has_several_devices(module):
        return []  # not to be asked of Shardy
    regions, stays = region_sums(summing_regions(module))
    remarks = [missed(NAME, op, reason) for op, reason in stays]
    if not regions and not has_producers(module):
        return remarks
    spending = Policy.of(module, policy, memory_budget, axes_named(axes), link_cost)
    infers = inferred == "kept" and (policy not in HOLDS_SUMS or bool(spending.axes))
    try:
        sums = step_sums(module, [each.producer for each in regions], infers=infers)
    except Declined as reason:
        return [*remarks, missed(NAME, reason.op or module, reason)]
    if LEFT_OUT in module.attributes:
        del module.attributes[LEFT_OUT]
    held, kept = bought(sums, kept_axes(sums, spending), spending)
    spending.note(module)
    placed = placed_sums(module, sums, kept, spending, scatters)
    remarks += _told(sums, held, placed)
    _write([each for each in placed if each.is_written], module, sums)
    return remarks


def _write(placed: list[PlacedSum], module: ir.Operation, sums: StepSums) -> None:
    """Annotates shardings first: they are those of the program as it is."""
    note_shardings(module, [(each.producer.value, each.moved) for each in placed], sums.propagated)
    note_gathers(module, [each.producer for each in placed], sums.propagated)
    if sums.held:
        note_alone(module, *sums.held)
    for each in placed:
        expose(each.producer, each.moved, each.scattering)


def _told(sums: StepSums, held: list[Bought], placed: list[PlacedSum]) -> Iterator[Remark]:
    """A remark for each sum that a budget pays for, and for each that is not reduced once, or not over all axes."""
    yield from (missed(NAME, reason.op, reason) for reason in sums.declined if reason.op is not None)
    for each in held:
        if each.declined is not None:
            yield from (missed(NAME, producer.op, each.declined) for producer in each.parts)
            continue
        text = f"{each.saved} bytes per device fewer are reduced, {each.held} more are held"
        first = each.parts[0]
        yield from (applied(NAME, p.op, text, held=each.held if p == first else 0) for p in each.parts)
    for one in placed:
        yield from (missed(NAME, one.producer.op, reason) for reason in one.declined)


def _is_gspmd(function: ir.Operation) -> bool:
    """Whether arguments of `function` have GSPMD's shardings."""
    if "arg_attrs" not in function.attributes:
        return False
    return any(GSPMD_SHARDING in ir.DictAttr(noted) for noted in ir.ArrayAttr(function.attributes["arg_attrs"]))
