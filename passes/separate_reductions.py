"""Reductions of loops and manual computations, apart from what is computed around them."""

from typing import Annotated

from jaxlib.mlir import ir

from paropt.passes.deferral.policy import Policy
from paropt.passes.deferral.rewrite import Options, defer_in
from paropt.passes.deferral.sums_by_device import sums_by_device
from paropt.passes.rewrite.wire import set_wire_type
from paropt.passes.sharding.meshes import MeshAxes, axes_named, has_several_devices, meshes_of
from paropt.passes.spmd.region_sums import SummingRegion, summing_regions
from paropt.passes.spmd.running_maxima import extremes_by_device
from paropt.passes.spmd.shard_map_sums import terms_apart
from paropt.passes.spmd.xla_quirks.scatter_rows import rows_apart
from paropt.passes.support.registry import register
from paropt.passes.support.remarks import Remark, applied

NAME = "separate-reductions"


@register
def separate_reductions(
    module: ir.Operation,
    *,
    axes: Annotated[MeshAxes, "Mesh axes over which reductions may move, separated by commas; empty: all."] = "",
) -> list[Remark]:
    """Separate the reductions of loops and manual computations from what is computed around them.

    Before:

        sdy.manual_computation {                    in a loop
          %r = all_reduce(%p)                       in a loop of the block
          %s = add %r, %q
          sdy.return %s
        }

    After:

        %g:2 = sdy.manual_computation {
          %r = all_reduce(%sum)                     the last that the block does with it
          sdy.return %r, %q
        }
        %s = add %g#0, %g#1

    `expose-all-reduces` writes out the reductions that may move. Those of which Shardy can't say that a value is
    unreduced, and those that are one op with other additions, are prepared here. No other pass has to follow: the
    result is a complete program.

    A manual computation, a block under `jax.shard_map`, has reductions of its own. Its loops are deferred, as by
    `defer-sync{policy=keep-shards}`, whatever the policy is, so that their reductions come last. Other terms that a
    block in a loop adds to such a sum, as an L2 penalty to a gradient, are returned beside it, and added behind the
    block.

    In a block that leaves other axes of the mesh to the partitioner, Shardy lets no value be unreduced. There the sums
    of the block's loops are deferred, and accumulated with a dimension for the devices, which the contraction has as a
    batch dimension, of examples cut in parts. A block in a loop returns such an array; its sum outside is exposed as
    any other.

    Shardy has no word for an unreduced maximum or minimum. A loop that keeps one keeps one for each device instead, in
    an array with a dimension for the devices, and one is made of these after it.

    A scatter that adds rows to a loop-carried value, as `counts.at[labels].add(1)` does, or to the result of another
    such scatter, adds them to zeros, and their sum is added.

    Legal when:

    *The op in a manual computation that leaves axes to the partitioner*

    - it is a contraction or a sum over one sharded dimension, in equal parts, over whole axes
    - its sum is not sharded over these axes
    - its sum leaves a loop, or the block returns it to one
    - between the op and its all_reduce are only elementwise ops, transposes, reshapes, broadcasts, loops, sums, and
      reads and writes of parts of an array

    *The running maximum or minimum*

    - it is outside of manual computations
    - it is of a type with an identity element, and the loop only keeps it
    - its examples are sharded into equal parts, over whole axes of the mesh

    *The scatter*

    - its rows are sharded, and `expose-all-reduces` may write the reduction of their sum
    - nothing else reads the value that it adds to

    *The other terms of a sum that a manual computation returns*

    - the manual computation is in a loop
    - without them, `expose-all-reduces` may write the reduction of the sum

    Worth it when:

    - the option `axes` allows it (for scatters and other terms, `expose-all-reduces` asks)
    - a loop that keeps a maximum or minimum makes more than one iteration

    A maximum is the same but for NaNs, which not all of XLA's reductions over devices pass on: a device that meets one
    keeps it until the loop ends, and what it has seen else is lost if the reduction then drops it.

    Sources: XLA `WhileLoopAllReduceCodeMotion`, for the loops of manual computations.
    """
    if not has_several_devices(module):
        return []
    allowed, meshes = frozenset(axes_named(axes)), tuple(meshes_of(module).values())
    inside = Options(NAME, "widening", None, Policy("keep-shards", 0, axes_named(axes)), meshes)
    text = "its rows are added to zeros, and their sum to what is carried"
    return [
        *sums_by_device(module, inside, allowed),
        *_separated(summing_regions(module), inside),
        *extremes_by_device(module, NAME, allowed),
        *(applied(NAME, op, text) for op in rows_apart(module)),
    ]


def _separated(regions: list[SummingRegion], options: Options) -> list[Remark]:
    """Has manual computations reduce last, and return other terms of their sums as results of their own."""
    remarks: list[Remark] = []
    text = "what the manual computation adds to its sum is added outside"
    for region in regions:
        remarks += [remark for remark in defer_in(region.manual, options) if remark.applied]
        set_wire_type(region.manual, None)
        remarks += [applied(NAME, op, text) for op in terms_apart(region)]
    return remarks
