"""Every pass, by name, and the named pipelines. Importing this registers them: there is no other list."""

from paropt.passes import accumulate_in_place as accumulate_in_place
from paropt.passes import annotate_aliases as annotate_aliases
from paropt.passes import annotate_contract as annotate_contract
from paropt.passes import annotate_shardings as annotate_shardings
from paropt.passes import annotate_unreduced as annotate_unreduced
from paropt.passes import bucket_all_reduces as bucket_all_reduces
from paropt.passes import compose_all_reduces as compose_all_reduces
from paropt.passes import cut_stages as cut_stages
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
from paropt.passes import outline_stages as outline_stages
from paropt.passes import peel_last_sync as peel_last_sync
from paropt.passes import pipeline_layer_loop as pipeline_layer_loop
from paropt.passes import roll_accumulation as roll_accumulation
from paropt.passes import separate_reductions as separate_reductions
from paropt.passes import simplify_all_reduces as simplify_all_reduces
from paropt.passes import split_layer_loop as split_layer_loop
from paropt.passes import split_mesh_axis as split_mesh_axis
from paropt.passes import split_microbatches as split_microbatches
from paropt.passes.support.registry import Stage, name_pipeline

DEFAULT_PIPELINE = "grad-sync"

name_pipeline(
    "grad-sync",
    [
        Stage("inline-calls", "The analyses look into one block: reduction and accumulator have to be in it."),
        Stage("inline-branches", "A branch that is always taken hides its reductions from the analyses."),
        Stage(
            "merge-repeated-ops", "Before constraints are added: XLA merges equivalent ops only while they are alike."
        ),
        Stage("simplify-all-reduces", "A second sum of shards keeps compose-all-reduces from matching a hierarchy."),
        Stage("compose-all-reduces", "The ops of a hierarchy cannot move one by one; an all_reduce can."),
        Stage("simplify-all-reduces", "Again: an all_reduce that was composed may reduce a uniform value."),
        Stage(
            "hoist-gathers{policy=keep-shards}", "Before exposing, which asks how parameters are sharded in the loop."
        ),
        Stage(
            "separate-reductions", "Before exposing: those beside other terms, and those that Shardy has no word for."
        ),
        Stage("expose-all-reduces", "The stages below move reductions that are ops of the module."),
        Stage("fuse-all-reduces", "Before deferring: what keeps a reduction in its loop may not read the fused one."),
        Stage("defer-sync", "Reductions sink out of their loops."),
        Stage("compose-all-reduces", "Again: after its loop, a deferred sum may meet a sum over other axes."),
        Stage("simplify-all-reduces", "Again: a deferred or composed all_reduce may reduce a uniform value."),
        Stage("fuse-all-reduces", "Again: reductions deferred from several loops or accumulators may be added."),
        Stage("simplify-all-reduces", "Again: a fused all_reduce may have come to stand before another one."),
        Stage("accumulate-in-place", "After all moves: sums that have left the loop over layers are unreduced there."),
        Stage("annotate-unreduced", "After all moves: what has moved becomes constraints, the rest is reverted."),
        Stage("decompose-all-reduces", "Last: the stages above know an all_reduce, not the steps of a hierarchy."),
    ],
    "Reduce gradients once per step, after the loops that accumulate them.",
)

name_pipeline(
    "hsdp",
    "inline-calls,annotate-shardings{preset=hsdp},grad-sync",
    "Hybrid sharded data parallel training: parameters and gradient sums are sharded over `data` (or `fsdp`), the "
    "optimizer's state over `replica` as well; gradients are reduce-scattered over `replica` once, after the loop, to "
    "the optimizer's shards; updates are all-gathered. With rules=FILE, tensor parallelism beside it.",
)

name_pipeline(
    "split",
    "split-microbatches,grad-sync",
    "A whole-batch step becomes a loop over micro-batches, after which gradients are reduced once: split{count=8}. "
    "Options are those of the passes.",
)
