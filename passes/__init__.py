"""Every pass, in reading order, and the named pipelines. Importing this registers them: there is no other list."""

from paropt.passes import bucket_all_reduces as bucket_all_reduces
from paropt.passes import defer_sync as defer_sync
from paropt.passes import fuse_all_reduces as fuse_all_reduces
from paropt.passes import inline_calls as inline_calls
from paropt.passes import peel_last_sync as peel_last_sync
from paropt.passes import roll_accumulation as roll_accumulation
from paropt.passes.core.registry import name_pipeline

DEFAULT_PIPELINE = "grad-sync"

name_pipeline(
    "grad-sync",
    "inline-calls,fuse-all-reduces,defer-sync,fuse-all-reduces",
    "Synchronise gradients once per step: calls are inlined, so that the sync and the accumulator are in one block; "
    "sums of reductions are fused, which may leave fewer that something else reads; the sync leaves the loops; what "
    "then meets after them is fused.",
)
