"""Suggestions for an option that par-opt does not have."""

from paropt.passes.support.context import make_context
from paropt.passes.support.pipeline import NO_PASS, Pipeline, PipelineError


def is_pass(name: str) -> bool:
    """Whether a pipeline may name a pass, or another pipeline, so: one of ours, or of MLIR's."""
    try:
        Pipeline.parse(name).manager(make_context(), [])
    except PipelineError as error:
        return bool(name) and not str(error).startswith(NO_PASS)  # one that lacks an option, or runs on functions only
    return bool(name)
