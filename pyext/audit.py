"""`paropt.audit`: what the final executable of a program communicates, how often, and in which loop.

Counted in the optimized HLO, after everything that XLA does to the program; definitions are in docs/census.md, reports
in docs/audit.md.
"""

from collections.abc import Sequence
from typing import Any

from paropt.census import census
from paropt.comparison import AuditComparison, AuditReport
from paropt.report_text import size_text
from paropt.totals import SYNC_KINDS, Audit, Total

__all__ = ["SYNC_KINDS", "Audit", "AuditComparison", "AuditReport", "Total", "audit", "size_text"]


def audit(
    program: Any,
    /,
    *args: Any,
    passes: str | None = None,
    targets: Sequence[Any] | None = None,
    **kwargs: Any,
) -> Audit | AuditComparison | AuditReport:
    """Counts the collectives of the executable that XLA makes of `program`.

    `program` is a function, or the result of `jax.jit` or `paropt.jit`, that is compiled for the arguments (arrays or
    `jax.ShapeDtypeStruct`); or a `jax.stages.Lowered` or `Compiled`; or the text of optimized HLO.
    With `passes`, a function is compiled twice, as it is and with these passes, and the result has both audits.

    With `targets`, names such as `tpu:v5e:2x4` or what `paropt.targets.get` returns, the function is lowered once,
    here, and its module compiled for each target. A `Lowered` does as well, such as one for the target's devices.

    Raises TypeError for another program, `hlo.HloError` when the executable's text cannot be read.
    """
    import jax

    if targets is not None:
        return _for_targets(_lowered(program, args, kwargs), passes or "", targets)
    if isinstance(program, str | jax.stages.Compiled | jax.stages.Lowered):
        if args or kwargs or passes is not None:
            raise TypeError("paropt.audit: arguments and passes are for functions; this is lowered or compiled already")
        return _audit(program.compile() if isinstance(program, jax.stages.Lowered) else program)
    jitted = _jitted(program)
    if passes is None:
        return _audit(jitted.lower(*args, **kwargs).compile())

    from paropt.jit import Jitted, enabled, remarks

    if isinstance(program, Jitted):
        raise TypeError("paropt.audit: with `passes`, give the function or jax.jit of it; this has passes already")
    before = _audit(jitted.lower(*args, **kwargs).compile())
    with enabled(passes):
        after = jitted.lower(*args, **kwargs)
    said = remarks(after) if passes.strip() else ()
    return AuditComparison(before, _audit(after.compile()), passes=passes, remarks=said)


def _jitted(program: Any) -> Any:
    import jax

    if not callable(program):
        raise TypeError(
            f"paropt.audit: expected a function, Lowered, Compiled or HLO text, not {type(program).__name__}"
        )
    return program if isinstance(program, jax.stages.Wrapped) else jax.jit(program)


def _lowered(program: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The `jax.stages.Lowered` to compile for targets."""
    import jax

    if isinstance(program, str | jax.stages.Compiled):
        raise TypeError("paropt.audit: with `targets`, give a function or what its `lower` returns: this is compiled")
    if not isinstance(program, jax.stages.Lowered):
        return _jitted(program).lower(*args, **kwargs)
    if args or kwargs:
        raise TypeError("paropt.audit: arguments are for functions; this is lowered already")
    return program


def _for_targets(lowered: Any, passes: str, names: Sequence[Any]) -> AuditReport:
    from paropt import modules
    from paropt.target_audits import compare
    from paropt.targets import get

    optimized = modules.optimize(lowered, passes)
    found = [get(name) if isinstance(name, str) else name for name in names]
    before = lowered.compiler_ir()
    return AuditReport(tuple(compare(t, before, optimized.module, passes, optimized.remarks) for t in found))


def _audit(compiled: Any) -> Audit:
    """The audit of a `jax.stages.Compiled` or of HLO text."""
    if isinstance(compiled, str):
        return Audit(census(compiled), None)
    memory = compiled.memory_analysis()
    peak = None
    if memory is not None:
        peak = memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes
        peak -= memory.alias_size_in_bytes
    return Audit(census(compiled.as_text()), peak)
