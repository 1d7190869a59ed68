"""Programs that jax lowers and compiles, rewritten by passes: remarks, the fallback, doubts, and the memory budget."""

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
from jaxlib.mlir import ir

from paropt.clusters.device_memory import AUTO, memory_budget_of
from paropt.hook.donation import given_away
from paropt.hook.doubts import (
    are_guessed,
    bytes_in_doubt,
    is_likely_less,
    least_sent,
    reduces_once,
    said_alone,
    settled,
    takes_memory,
)
from paropt.hook.fallback import Fallback, Setback, reason_of
from paropt.hook.jit_arguments import Spec
from paropt.hook.memory_plans import Plan, fitting, unmet
from paropt.hook.user_warnings import warn
from paropt.hook.variants import Rewrite, Variants, failure, remark_on
from paropt.modules.module_io import type_of_main
from paropt.modules.offers import offered
from paropt.modules.summary import Remarks, with_nothing_found
from paropt.passes.support.pipeline import Pipeline, PipelineError

T = TypeVar("T")


class Otherwise(NamedTuple):
    """The remarks of passes on a module with other options: found when they are asked for."""

    pipeline: Pipeline
    run: Callable[[Pipeline], Remarks]  # on the module as it was; holds no module


# Modules are held by jax's caches and by every `Lowered` of theirs: a module's remarks live as long as it does.
REMARKS: weakref.WeakKeyDictionary[ir.Module, Remarks] = weakref.WeakKeyDictionary()
REWRITES: weakref.WeakKeyDictionary[ir.Module, Rewrite] = weakref.WeakKeyDictionary()
OTHERWISE: weakref.WeakKeyDictionary[ir.Module, Otherwise] = weakref.WeakKeyDictionary()
COMPILED: weakref.WeakKeyDictionary[Any, ir.Module] = weakref.WeakKeyDictionary()  # by jax's executable


def rewritten_by(
    fresh: Callable[[], T],
    module_of: Callable[[T], ir.Module],
    spec: Spec,
    donated: Sequence[bool],
    platform: str,
) -> T:
    """The result of `fresh`, its module rewritten in place; if the passes fail, as it was, with a warning.

    A pass that fails may leave the module half rewritten. So `fresh` is called again, which costs nothing until it
    happens.
    """
    spec.reached = True
    if spec.memory_budget == AUTO and platform == "cpu":  # whose devices do not tell: refused before it takes long
        memory_budget_of(AUTO, jax.local_devices(backend=platform))
    made = fresh()
    module = module_of(made)

    def by(module: ir.Module, pipeline: Pipeline) -> tuple[Remarks, Fallback]:
        found, fallback, _ = _rewrite(module, spec, pipeline.on(platform), donated)
        return found, fallback

    try:
        found, fallback, is_needed = _rewrite(module, spec, spec.pipeline.on(platform), donated)
        compares = spec.compares_in_doubt and fallback.has_mesh
        in_doubt = bytes_in_doubt(found, spec.pipeline, platform) if compares else 0
        is_guess = compares and are_guessed(found)
        if is_needed or in_doubt or is_guess:
            alone_first = spec.memory_budget is None and not is_guess and is_likely_less(found, in_doubt)
            REWRITES[module] = Rewrite(spec, fallback, by, in_doubt, is_guess, alone_first)
        if fallback.has_mesh:
            OTHERWISE[module] = _otherwise(module.context, fallback, spec.pipeline.on(platform), donated)
    except PipelineError:  # the user's mistake, told in one line, and no defect
        raise
    except Exception as error:  # whatever a pass, ours or a plug-in, raises: XLA can compile the program without it
        if spec.strict:
            raise
        made = fresh()
        found = Remarks([failure(spec, module_of(made), Setback("failed", reason_of(error)))])
    REMARKS[module_of(made)] = found
    return made


def _otherwise(context: ir.Context, fallback: Fallback, pipeline: Pipeline, donated: Sequence[bool]) -> Otherwise:
    by_text: dict[str, Remarks] = {}

    def once(other: Pipeline) -> Remarks:
        text = str(other)
        if text not in by_text:
            by_text[text] = run(other, fallback.fresh(context), donated)
        return by_text[text]

    return Otherwise(pipeline, once)


def remarks_of(module: ir.Module) -> Remarks | None:
    """The decisions of passes on `module`, behind a remark on reductions that stay in its loops; None where none
    ran."""
    found, otherwise = REMARKS.get(module), OTHERWISE.get(module)
    if found is None or otherwise is None:
        return found
    return Remarks(offered(found, module.operation, *otherwise))


def _rewrite(
    module: ir.Module, spec: Spec, pipeline: Pipeline, donated: Sequence[bool]
) -> tuple[Remarks, Fallback, bool]:
    """Rewrites `module`; the last tells whether the executable has to be looked at."""
    rerun = functools.partial(run, pipeline, donated=donated)
    fallback = Fallback(module, strict=spec.strict, compare=bool(spec.compare), rerun=rerun)
    found = run(pipeline, module, donated)
    is_needed = fallback.is_needed(module)
    return found, fallback, is_needed or (spec.memory_budget is not None and fallback.has_mesh)


def run(pipeline: Pipeline, module: ir.Module, donated: Sequence[bool]) -> Remarks:
    """Runs the passes on `module`. Errors of a pass go through."""
    before = type_of_main(module)
    with given_away(module, donated, pipeline):
        found = pipeline.run(module.operation)
    if type_of_main(module) != before:  # jax has its own record of arguments and results, and XLA would crash
        raise RuntimeError(f"the passes changed the type of @main from {before} to {type_of_main(module)}")
    return Remarks(with_nothing_found(found, module.operation, pipeline))


def compiled_rewrite(module: ir.Module, compile: Callable[[ir.Module], Any], devices: Any, options: Any) -> Any:
    """The result of `compile` on the rewritten `module`; if that does not do, on the module as it was, with a warning.

    With a memory budget, it may be the executable of a smaller plan; without one, that of other passes or none, where
    only a compilation tells which is worse.
    """
    variants = Variants(module, REWRITES[module], REMARKS[module], compile, devices, options)
    chosen, said = _chosen(variants)
    REMARKS[module] = Remarks([*chosen.remarks, *(remark_on(module, text, applied=True) for text in said)])
    return chosen.executable


def _chosen(variants: Variants) -> tuple[Plan, list[str]]:
    """The variant that runs, and what was measured to choose it."""
    spec, rewrite = variants.rewrite.spec, variants.rewrite
    if _is_settled(variants):
        return variants.original(), [said_alone(variants.original())]
    chosen = variants.rewritten()
    measured: list[str] = []
    if spec.memory_budget is not None:
        budget = memory_budget_of(spec.memory_budget, variants.devices)
        chosen, measured = fitting(chosen, budget, variants.within, variants.original)
        if not chosen.is_within(budget):
            warn(f"paropt: {unmet(chosen, budget)}")
        return chosen, measured
    try:
        if rewrite.is_guess:
            chosen, measured = least_sent(chosen, variants.default)
        if rewrite.in_doubt:
            may_take = takes_memory(spec.pipeline)
            chosen, more = settled(chosen, variants.original, rewrite.in_doubt, may_take_memory=may_take)
            measured = [*measured, *more]
    except Exception as error:  # whatever a compiler raises: what the passes have made is right, and runs
        measured = [f"nothing to compare it with was compiled: {reason_of(error)}"]
    return chosen, measured


def _is_settled(variants: Variants) -> bool:
    """Whether XLA alone is likely to send no more, and does."""
    try:
        return variants.rewrite.alone_first and reduces_once(variants.original())
    except Exception:  # whatever a compiler raises: it may compile what the passes make of it
        return False
