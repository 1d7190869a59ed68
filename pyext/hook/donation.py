"""Donation: from jax's flags to the pass `annotate-aliases`."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from jaxlib.mlir import ir

from paropt.passes.ir.signature import DONATED, main_of
from paropt.passes.ir.signature_edits import note_arguments
from paropt.passes.support.pipeline import Pipeline

_PASS = "annotate-aliases"

Donate = Literal["state"]


def with_donation(pipeline: Pipeline, donate: Donate | None) -> Pipeline:
    """`pipeline` with `annotate-aliases{donate=...}`, at its end where it has no such pass. Raises ValueError."""
    if donate is None:
        return pipeline
    if donate != "state":
        where = "arguments are named by donate_argnums or donate_argnames"
        raise ValueError(f"donate: expected 'state' or None, got {donate!r}; {where}")
    (stage,) = Pipeline.parse(f"{_PASS}{{donate={donate}}}").stages
    if not _annotates(pipeline):
        return replace(pipeline, stages=(*pipeline.stages, stage))
    return replace(pipeline, stages=tuple(stage if old.name == _PASS else old for old in pipeline.stages))


@contextlib.contextmanager
def given_away(module: ir.Module, donated: Sequence[bool], pipeline: Pipeline) -> Iterator[None]:
    """Within the block, the arguments of `@main` that jax's callers donate say so, if `pipeline` wants to know.

    jax itself notes the donated arguments that it found a use for. `donated` is about the last arguments: tokens and
    sizes come before them.
    """
    main = main_of(module.operation) if any(donated) and _annotates(pipeline) else None
    if main is None:
        yield
        return
    count = len(main.arguments)
    first = count - len(donated)
    numbers = [first + i for i, is_donated in enumerate(donated) if is_donated]
    mark = ir.UnitAttr.get(module.context)
    note_arguments(main.function, {number: {DONATED: mark} for number in numbers})
    yield
    after = main_of(module.operation)  # found anew: passes may have replaced it
    if after is not None and len(after.arguments) == count:
        note_arguments(after.function, {number: {DONATED: None} for number in numbers})


def _annotates(pipeline: Pipeline) -> bool:
    return any(stage.declared is not None and stage.name == _PASS for stage in pipeline.stages)
