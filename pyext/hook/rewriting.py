"""Programs that jax lowers and compiles, rewritten by passes: remarks, the fallback, doubts, and the memory budget."""

import functools
import operator
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
from jaxlib.mlir import ir

from paropt.base.progress import to_terminal
from paropt.base.wording import size_text
from paropt.clusters import targets
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
from paropt.hook.memory_plans import Plan, fitting, planned, unmet
from paropt.hook.slow_axes import with_link_costs
from paropt.hook.user_warnings import warn
from paropt.modules.module_io import type_of_main
from paropt.modules.offers import offered
from paropt.modules.other_policies import AT_USE, with_policy
from paropt.modules.summary import Remarks, with_nothing_found
from paropt.passes.support.pipeline import Pipeline, PipelineError
from paropt.passes.support.remarks import Remark
from paropt.passes.support.sources import nearest_source

T = TypeVar("T")


class Rewrite(NamedTuple):
    """How a module was rewritten, to be compiled with an eye on the executable."""

    spec: Spec
    fallback: Fallback
    by: Callable[[ir.Module, Pipeline], tuple[Remarks, Fallback]]  # of the module as it was, by other passes
    in_doubt: int  # bytes that XLA alone may reduce less
    is_guess: bool  # whether a policy may send more than the default one
    alone_first: bool = False  # whether XLA alone is likely to send less


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
        found = Remarks([_failure(spec, module_of(made), Setback("failed", reason_of(error)))])
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


def _failure(spec: Spec, module: ir.Module, setback: Setback) -> Remark:
    """The remark that says why the program, or some of it, stays as it was; the same words are the warning."""
    text = f"`{spec.pipeline.title}` {setback.verdict}, {setback.stays} stays as it was: {setback.reason}"
    name = ir.StringAttr(module.operation.attributes["sym_name"]).value
    warn(f"paropt: {name}: {text} (strict=True raises it)")
    return _remark(module, text, applied=False)


def _remark(module: ir.Module, text: str, *, applied: bool) -> Remark:
    return Remark("paropt", module.operation.name, nearest_source(module.operation), applied=applied, text=text)


def compiled_rewrite(module: ir.Module, compile: Callable[[ir.Module], Any], devices: Any, options: Any) -> Any:
    """The result of `compile` on the rewritten `module`; if that does not do, on the module as it was, with a warning.

    With a memory budget, it may be the executable of a smaller plan; without one, that of other passes or none, where
    only a compilation tells which is worse.
    """
    rewrite = REWRITES[module]
    spec = rewrite.spec

    def rehearse(bytecode: bytes) -> None:
        if spec.apart:
            target = spec.apart if isinstance(spec.apart, str) else targets.name_for(devices)
            targets.get(target).compile(bytecode, options=dict(options))

    def plan(module: ir.Module, found: Remarks, fallback: Fallback) -> Plan:
        made, setback = fallback.compiled(module, compile, operator.methodcaller("as_text"), rehearse)
        if setback is not None:
            found = Remarks([*(setback.remarks or found), _failure(spec, module, setback)])
        return Plan(made, found, setback is not None and setback.stays == "the program")

    def by(pipeline: Pipeline) -> Plan:
        fresh = rewrite.fallback.fresh(module.context)
        return plan(fresh, *rewrite.by(fresh, pipeline))

    def again(room: int) -> Plan:  # link costs by these devices: jax lowers for any
        to_terminal(f"memory_budget: compiling a plan that holds {size_text(room)} more at most")
        return by(with_link_costs(planned(spec.pipeline, room), module.operation, tuple(devices)))

    @functools.cache
    def original() -> Plan:
        text = "the program stays as it was, because it takes or sends less than what the passes make of it"
        found = Remarks([_remark(module, text, applied=False)])
        return Plan(compile(rewrite.fallback.fresh(module.context)), found, is_original=True)

    def default() -> Plan:
        pipeline = with_policy(spec.pipeline, AT_USE)
        return by(pipeline) if pipeline is not None else original()

    def is_settled() -> bool:
        try:
            return rewrite.alone_first and reduces_once(original())
        except Exception:  # whatever a compiler raises: it may compile what the passes make of it
            return False

    if is_settled():
        REMARKS[module] = Remarks([*original().remarks, _remark(module, said_alone(original()), applied=True)])
        return original().executable
    chosen = plan(module, REMARKS[module], rewrite.fallback)
    said: list[str] = []
    if spec.memory_budget is not None:
        budget = memory_budget_of(spec.memory_budget, devices)
        chosen, said = fitting(chosen, budget, again, original)
        if not chosen.is_within(budget):
            warn(f"paropt: {unmet(chosen, budget)}")
    elif rewrite.in_doubt or rewrite.is_guess:
        try:
            if rewrite.is_guess:
                chosen, said = least_sent(chosen, default)
            if rewrite.in_doubt:
                may_take = takes_memory(spec.pipeline)
                chosen, more = settled(chosen, original, rewrite.in_doubt, may_take_memory=may_take)
                said = [*said, *more]
        except Exception as error:  # whatever a compiler raises: the rewritten module is right, and it runs
            said = [f"nothing to compare it with was compiled: {reason_of(error)}"]
    REMARKS[module] = Remarks([*chosen.remarks, *(_remark(module, text, applied=True) for text in said)])
    return chosen.executable
