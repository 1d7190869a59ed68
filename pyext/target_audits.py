"""Modules compiled for targets, and counted."""

from collections.abc import Iterable
from typing import Any

from paropt.census import census
from paropt.comparison import AuditComparison
from paropt.modules import Module
from paropt.passes.core.remarks import Remark
from paropt.totals import Audit


def compare(target: Any, before: Module, after: Module, passes: str, remarks: Iterable[Remark]) -> AuditComparison:
    """The audits of a module as it was and after `passes`, compiled for `target`; without passes, compiled once."""
    audited = audit_on(target, after)
    return AuditComparison(
        before=audit_on(target, before) if passes else audited,
        after=audited,
        passes=passes,
        target=target.name,
        remarks=tuple(dict.fromkeys(remarks)),
    )


def audit_on(target: Any, module: Module) -> Audit:
    """The audit of the executable that `target` makes of `module`."""
    compiled = target.compile(module)
    return Audit(census(compiled.hlo), compiled.memory.peak if compiled.memory else None)
