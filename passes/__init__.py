"""Every pass, by name, and the named pipelines. Importing this registers them: there is no other list."""

from paropt.passes import annotate_aliases as annotate_aliases
from paropt.passes import annotate_contract as annotate_contract
from paropt.passes import annotate_shardings as annotate_shardings
from paropt.passes import annotate_unreduced as annotate_unreduced
from paropt.passes import bucket_all_reduces as bucket_all_reduces
from paropt.passes import compose_all_reduces as compose_all_reduces
from paropt.passes import decompose_all_reduces as decompose_all_reduces
from paropt.passes import defer_sync as defer_sync
from paropt.passes import expose_all_reduces as expose_all_reduces
from paropt.passes import fuse_all_reduces as fuse_all_reduces
from paropt.passes import fuse_loops as fuse_loops
from paropt.passes import hoist_gathers as hoist_gathers
from paropt.passes import inline_branches as inline_branches
from paropt.passes import inline_calls as inline_calls
from paropt.passes import merge_repeated_ops as merge_repeated_ops
from paropt.passes import outline_accumulation as outline_accumulation
from paropt.passes import peel_last_sync as peel_last_sync
from paropt.passes import roll_accumulation as roll_accumulation
from paropt.passes import simplify_all_reduces as simplify_all_reduces
from paropt.passes import split_mesh_axis as split_mesh_axis
from paropt.passes import split_microbatches as split_microbatches
from paropt.passes.support.registry import name_pipeline

DEFAULT_PIPELINE = "grad-sync"

name_pipeline(
    "grad-sync",
    "inline-calls,inline-branches,merge-repeated-ops,simplify-all-reduces,compose-all-reduces,simplify-all-reduces,hoist-gathers{policy=keep-shards},expose-all-reduces,fuse-all-reduces,defer-sync,compose-all-reduces,simplify-all-reduces,fuse-all-reduces,annotate-unreduced,decompose-all-reduces",
    "Synchronise gradients once per step: calls are inlined, so that the sync and the accumulator are in one block, "
    "and so are branches that are always taken; what is reduced already is not reduced again; a reduction in steps, "
    "scattered and gathered, is taken for one; reductions that XLA's partitioner would add are written out; sums of "
    "reductions are fused, which may leave fewer that something else reads; the sync leaves the loops; what then meets "
    "after them is taken for one, or fused; what was written out becomes sharding constraints; what was in steps is "
    "again.",
)

name_pipeline(
    "hsdp",
    "inline-calls,annotate-shardings{preset=hsdp},grad-sync",
    "Partially sharded data parallel training: parameters and gradient sums are split over `data` (or `fsdp`), the "
    "optimizer's state over `replica` as well; gradients are summed over `replica` once, after the loop, and scattered "
    "to the optimizer's shards; updates are gathered. With rules=FILE, tensor parallelism beside it.",
)

name_pipeline(
    "split",
    "split-microbatches,grad-sync",
    "A step of the whole batch becomes a loop over micro-batches, after which gradients are synchronised once: "
    "split{count=8}. Options are those of the passes.",
)
