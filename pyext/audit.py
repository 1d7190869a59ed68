"""`paropt.audit`: the collectives of a program's final executable, how often they run, and in which loop.

Counted in the optimized HLO, after everything that XLA does to the program; definitions are in docs/census.md, reports
in docs/audit.md.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias, overload

from paropt.base.wording import size_text
from paropt.clusters.targets import Target
from paropt.costs.clusters import Cluster, cluster_of
from paropt.costs.machines import Machine, read_table
from paropt.costs.step_time import estimate as step_time
from paropt.hlo.census import SYNC_KINDS, census
from paropt.hlo.participants import Layout, devices_of
from paropt.modules.module_io import name_of
from paropt.modules.offers import offered
from paropt.passes.support.pipeline import Pipeline
from paropt.passes.support.remarks import Remark
from paropt.reports.comparison import AuditComparison, AuditReport
from paropt.reports.totals import Audit, Total

Costs: TypeAlias = Mapping[str, Machine]  # figures, by the machine's name

__all__ = ["SYNC_KINDS", "Audit", "AuditComparison", "AuditReport", "Total", "audit", "size_text"]


@overload
def audit(
    program: Any,
    /,
    *args: Any,
    passes: None = None,
    targets: None = None,
    mesh: Any = None,
    estimate: bool | str = False,
    **kwargs: Any,
) -> Audit: ...


@overload
def audit(
    program: Any,
    /,
    *args: Any,
    passes: str,
    targets: None = None,
    mesh: Any = None,
    estimate: bool | str = False,
    **kwargs: Any,
) -> AuditComparison: ...


@overload
def audit(
    program: Any,
    /,
    *args: Any,
    passes: str | None = None,
    targets: Target | Sequence[Any],
    mesh: Any = None,
    estimate: bool | str = False,
    **kwargs: Any,
) -> AuditReport: ...


def audit(
    program: Any,
    /,
    *args: Any,
    passes: str | None = None,
    targets: Target | Sequence[Any] | None = None,
    mesh: Any = None,
    estimate: bool | str = False,
    **kwargs: Any,
) -> Audit | AuditComparison | AuditReport:
    """Counts the collectives of the executable that XLA makes of `program`.

    `program` is a function, or the result of `jax.jit` or `paropt.jit`, that is compiled for the arguments (arrays or
    `jax.ShapeDtypeStruct`); or a `jax.stages.Lowered` or `Compiled`; or the text of optimized HLO.
    With `passes`, a program is compiled twice, as it is and with these passes, and the result has both audits.

    An option `memory-budget=auto` in `passes` is the free memory of a device beside a program that holds no more, less
    a tenth: docs/sharded-training.md.

    With `targets`, a name such as `tpu:v5e:2x4`, or several, or results of `paropt.targets.get`, the function is
    lowered once, here, and its module compiled for each target. A `Lowered` does as well, such as one for the target's
    devices.

    The axes that a collective spans are those of the meshes that the program names, or of `mesh`, a
    `jax.sharding.Mesh`: HLO text and executables name none.

    With `estimate`, each audit has an estimate of the step time, from the schedule of the executable and the figures of
    the target's machine: docs/costs.md. A string is the path of a TOML file with figures of one's own. Arguments and
    targets are those of a function: executables and HLO text do not name their machine.

    Raises TypeError for another program, or a keyword that neither this nor `program` takes; CostError for wrong
    figures, `hlo.HloError` when the executable's text cannot be read.
    """
    import jax

    from paropt.base.keywords import require_no_arguments

    if isinstance(program, str | jax.stages.Compiled):
        if args or passes is not None or targets is not None:
            raise TypeError("paropt.audit: arguments, passes and targets are for programs that are not compiled yet")
        require_no_arguments(audit, args, kwargs)
        if estimate:
            raise TypeError("paropt.audit: `estimate` is for programs that are not compiled yet")
        return _audit(program, Layout() if mesh is None else Layout.of_mesh(mesh))
    if mesh is not None:
        raise TypeError("paropt.audit: `mesh` is for programs that are compiled; this one names its meshes itself")
    costs = read_table(None if estimate is True else estimate) if estimate else None
    before = _lowered(program, args, kwargs)
    passes = _with_budget(program, before, passes) if passes is not None and targets is None else passes
    if targets is not None:
        chosen = [targets] if isinstance(targets, str) or not isinstance(targets, Sequence) else targets
        return _for_targets(program, before, passes or "", chosen, costs)
    if passes is None:
        return _audit_of_lowered(before, costs)
    after, remarks, offer = _rewritten(program, before, passes)
    alone, audited = _audit_of_lowered(before, costs), _audit_of_lowered(after, costs)
    return AuditComparison(
        alone,
        audited,
        passes=passes,
        remarks=remarks,
        offers=offer,
        mismatches=_differences(before, after, alone, audited),
        module=name_of(after.compiler_ir().operation),
    )


def _audit_of_lowered(lowered: Any, costs: Costs | None = None) -> Audit:
    from paropt.clusters.targets import lowered_for, name_for

    devices = lowered_for(lowered)
    layout = Layout.of_module(lowered.compiler_ir(), devices_of(devices))
    if costs is None:
        return _audit(lowered.compile(), layout)
    cluster = cluster_of(name_for(devices), costs) if devices else cluster_of("cpu:1", costs)
    return _audit(lowered.compile(), layout, cluster)


def _lowered(program: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The `jax.stages.Lowered` of a function for its arguments."""
    from paropt.base.keywords import explained_keywords, require_no_arguments
    from paropt.hook.lowering import lowered_for_arguments, lowered_of

    lowered = lowered_of(program)
    if lowered is not None:
        require_no_arguments(audit, args, kwargs)
        return lowered
    if not callable(program):
        raise TypeError(
            f"paropt.audit: expected a function, Lowered, Compiled or HLO text, not {type(program).__name__}"
        )
    with explained_keywords(audit, program, kwargs):
        return lowered_for_arguments(program, args, kwargs)


class _Rewritten(NamedTuple):
    """A lowered program after passes, their remarks, and those on reductions that stay in loops: made when they are
    asked for."""

    lowered: Any
    remarks: tuple[Remark, ...] = ()
    offer: Callable[[], Sequence[Remark]] = tuple


def _rewritten(program: Any, lowered: Any, passes: str, target: Any = None) -> _Rewritten:
    """`lowered`, which was made of `program`, after the passes for `target`."""
    from paropt.jit import Jitted, rewritten

    if isinstance(program, Jitted):
        raise TypeError("paropt.audit: with `passes`, give the function or jax.jit of it; this has passes already")
    made, found = rewritten(lowered, passes, target)

    def offer() -> Sequence[Remark]:
        module = lowered.compiler_ir().operation
        return offered(found, module, Pipeline.parse(passes), lambda other: rewritten(lowered, other, target)[1])[:1]

    return _Rewritten(made, found, offer)


def _for_targets(
    program: Any, before: Any, passes: str, names: Sequence[Any], costs: Costs | None = None
) -> AuditReport:
    """The passes run once for targets of one platform and the same slow axes."""
    from paropt.clusters.device_counts import require_named_count
    from paropt.clusters.targets import target_of
    from paropt.hook.lowering import copied, platform_of
    from paropt.hook.slow_axes import slow_axes
    from paropt.reports.target_audits import compare, label_reducers

    def labelled(lowered: Any) -> Any:
        label_reducers(lowered.compiler_ir())
        return lowered

    found = [target_of(name) for name in names]
    for target in found:
        require_named_count(target, before.compiler_ir().operation)
    alone = labelled(copied(before))
    after: dict[tuple[object, ...], _Rewritten] = {}
    compared: list[AuditComparison] = []
    for target in found:
        own = _with_budget(program, before, passes, target)
        key = (platform_of([target.platform]), slow_axes(before.compiler_ir().operation, target.devices), own)
        if key not in after:
            made = _rewritten(program, before, own, target) if own.strip() else _Rewritten(before)
            after[key] = made._replace(lowered=labelled(copied(made.lowered)))
        lowered, remarks, offer = after[key]
        compared.append(replace(compare(target, alone, lowered, own, remarks, costs), offers=offer))
    return AuditReport(tuple(compared))


def _with_budget(program: Any, lowered: Any, passes: str, target: Any = None) -> str:
    """`passes` with a number for `memory-budget=auto`: the free memory of a device beside a program that holds no more.

    The compiler of `target` tells, or of the devices that the program is lowered for.
    """
    from paropt.clusters.device_memory import ASKS_AUTO, AUTO, MEMORY_BUDGET, memory_budget_of
    from paropt.clusters.targets import lowered_for

    if not ASKS_AUTO.search(passes):
        return passes
    nothing = ASKS_AUTO.sub(f"{MEMORY_BUDGET}=0", passes)
    devices = lowered_for(lowered) if target is None else target.devices
    budget = memory_budget_of(AUTO, devices)
    made = _rewritten(program, lowered, nothing, target).lowered
    peak = _audit_of_lowered(made).peak_memory if target is None else getattr(target.compile(made).memory, "peak", None)
    return ASKS_AUTO.sub(f"{MEMORY_BUDGET}={max(budget - (peak or 0), 0)}", passes)


def _differences(before: Any, after: Any, alone: Audit, audited: Audit) -> tuple[str, ...]:
    from paropt.verify.verification import differences

    was, rewritten = (lowered.compiler_ir().operation for lowered in (before, after))
    return tuple(differences(was, rewritten, audited.collectives, alone.collectives))


def _audit(compiled: Any, layout: Layout, cluster: Cluster | None = None) -> Audit:
    """The audit of a `jax.stages.Compiled` or of HLO text; with an estimate for `cluster`."""
    if isinstance(compiled, str):
        return Audit(census(compiled, layout), None)
    memory = compiled.memory_analysis()
    peak = None
    if memory is not None:
        peak = memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes
        peak -= memory.alias_size_in_bytes
    text = compiled.as_text()
    return Audit(census(text, layout), peak, None if cluster is None else step_time(text, cluster, layout.devices))
