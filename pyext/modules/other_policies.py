"""A pipeline with another policy in place of its own. Never imports jax.

Tests: test/unit/pyext/modules/test_offers.py, test/unit/pyext/modules/test_decisions.py.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from paropt.passes.deferral.policy import UNLIMITED
from paropt.passes.support.pipeline import Pipeline, Stage

ALL_ONCE = {"policy": "auto", "memory-budget": UNLIMITED}  # which tells the bytes of each sum, as `once` does not
AT_USE = {"policy": "keep-shards"}  # the default


def with_policy(pipeline: Pipeline, options: Mapping[str, Any]) -> Pipeline | None:
    """`pipeline`, the stages that have a policy with these options in place of theirs; None where none has."""
    if not any(map(has_policy, pipeline.stages)):
        return None
    stages = tuple(_with(stage, options) if has_policy(stage) else stage for stage in pipeline.stages)
    return dataclasses.replace(pipeline, stages=stages)


def has_policy(stage: Stage) -> bool:
    return stage.declared is not None and {"policy", "memory-budget"} <= {o.name for o in stage.declared.options}


def _with(stage: Stage, options: Mapping[str, Any]) -> Stage:
    kept = {name: value for name, value in stage.options if name not in ("policy", "memory-budget")}
    return dataclasses.replace(stage, options=tuple({**kept, **options}.items()))
