"""`par-opt --audit`, after the passes: compile, count, report, and judge by the budgets."""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from paropt.base.device_grid import device_grid
from paropt.clusters import targets
from paropt.clusters.compiled import TargetError
from paropt.command.options import Options
from paropt.costs.machines import CostError, Machine, read_table
from paropt.hlo.parser import HloError
from paropt.modules.module_io import Module, bytecode_of
from paropt.passes.support.remarks import Remark
from paropt.reports.baseline import BaselineError, compared, counterpart
from paropt.reports.budgets import Budget, BudgetError
from paropt.reports.comparison import AuditReport
from paropt.reports.json_form import ReportError, loads
from paropt.reports.target_audits import compare, with_names

ERRORS = (BaselineError, BudgetError, CostError, HloError, ImportError, ReportError, TargetError)


@dataclass(frozen=True)
class Audited:
    """A module before and after the passes."""

    before: bytes  # bytecode
    after: Module
    passes: str
    remarks: tuple[Remark, ...]


@dataclass(frozen=True)
class Request:
    """The request of the command line."""

    form: str  # text, json, html or png
    targets: tuple[Any, ...]  # empty for the default, which depends on the module
    budgets: tuple[Budget, ...]
    baseline: AuditReport | None
    costs: Mapping[str, Machine] | None = None  # None: nothing is estimated

    @classmethod
    def of(cls, options: Options) -> "Request":
        """Reads the options, `--audit` among them, before any module is read. Raises one of ERRORS."""
        assert options.audit is not None, "an audit is asked for"
        budgets = tuple(map(Budget.parse, options.fail_if))
        found = tuple(map(targets.get, options.target))
        twice = [target.name for n, target in enumerate(found) if target in found[:n]]
        if twice:
            raise targets.TargetError(f"--target={twice[0]} is given twice")
        for target in found:
            target.require_compiler()
        costs = None if options.estimate is None else read_table(options.estimate)
        if not options.audit_baseline:
            changes = [budget for budget in budgets if budget.prefix]
            if changes:
                text, prefix = changes[0].text, changes[0].prefix
                raise BudgetError(f"`{text}`: `{prefix}` compares with --audit-baseline, which is not given")
            return cls(options.audit, found, budgets, None, costs)
        baseline = _read_baseline(options.audit_baseline)
        for target in found:
            counterpart(target.name, baseline)
        return cls(options.audit, found, budgets, baseline, costs)

    def report(self, audited: Audited, note: Callable[[str], None]) -> AuditReport:
        """The audits for each target; `note` is told the current activity. Raises one of ERRORS."""
        before, after = with_names(audited.before), with_names(bytecode_of(audited.after))
        comparisons = []
        for target in self.targets or (targets.get(f"cpu:{prod(device_grid(audited.after.operation))}"),):
            note(f"compiling it for {target.name}")
            comparisons.append(compare(target, before, after, audited.passes, audited.remarks, self.costs))
        report = AuditReport(tuple(comparisons))
        return compared(report, self.baseline) if self.baseline else report

    def rendered(self, report: AuditReport) -> bytes:
        """The report in the form asked for. Raises ImportError for a picture without matplotlib."""
        match self.form:
            case "json":
                return report.json().encode()
            case "html":
                return report.html().encode()
            case "png":
                picture = io.BytesIO()
                report.plot(picture)
                return picture.getvalue()
        return f"{report}\n".encode()

    def exceeded(self, report: AuditReport) -> Sequence[str]:
        """A line for each budget that is exceeded on a target."""
        found = []
        for comparison in report.comparisons:
            earlier = counterpart(comparison.target, self.baseline) if self.baseline else None
            found += [budget.exceeded(comparison, earlier) for budget in self.budgets]
        return [line for line in found if line]


def _read_baseline(path: Path) -> AuditReport:
    try:
        return loads(path.read_text())
    except OSError as error:
        raise ReportError(f"cannot read '{path}': {error.strerror}") from error
    except ValueError as error:  # ours, or a text that is not UTF-8
        raise ReportError(f"{path}: {error}") from error
