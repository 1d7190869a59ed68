"""Audits as JSON, and back. docs/audit-schema.json describes the form; the same audits give the same bytes."""

import json
import math
from importlib import metadata
from typing import Any

from paropt.base.argument_types import require_type
from paropt.costs.step_time import Estimate, OpTime
from paropt.hlo.census import Collective, Loop
from paropt.hlo.origins import Origin
from paropt.hlo.parser import Array
from paropt.passes.support.remarks import Remark
from paropt.passes.support.sources import Source
from paropt.reports.comparison import AuditComparison, AuditReport, Changes, Row
from paropt.reports.metrics import METRICS
from paropt.reports.totals import Audit

SCHEMA = "paropt.audit/1"

_REMARK = ("pass", "op", "file", "line", "column", "scope", "applied", "text")
_ORIGIN = Origin._fields
_ESTIMATE = ("cluster", "compute", "communication", "hidden", "flops", "at_least", "at_most")
_LOOP = ("name", "trip_count")
_COLLECTIVE = ("kind", "name", "group", "at_most", "asynchronous", "op_name", "source_file", "source_line")


class ReportError(ValueError):
    """The text is no report that can be read; the message, one line, says why."""


def dumps(report: AuditReport) -> str:
    """The report as JSON text."""
    require_type(report, AuditReport, "dumps", "the report of an audit with targets")
    document = {
        "schema": SCHEMA,
        "versions": {name: metadata.version(name) for name in ("paropt", "jax", "jaxlib")},
        "targets": [_comparison(comparison) for comparison in report.comparisons],
    }
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def loads(text: str) -> AuditReport:
    """The report that `dumps` wrote. Raises ReportError. Rows, metrics and sums are computed anew."""
    require_type(text, (str, bytes), "loads", "JSON text")
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ReportError(f"no JSON: {error}") from error
    except RecursionError as error:
        raise ReportError("no report: its brackets are nested too deeply") from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        raise ReportError(f"expected a report of schema {SCHEMA}, found {f'`{schema}`' if schema else 'no schema'}")
    try:
        return AuditReport(tuple(map(_read_comparison, document["targets"])))
    except KeyError as error:
        raise ReportError(f"not as {SCHEMA} has it: {error} is missing") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise ReportError(f"not as {SCHEMA} has it: {error}") from error


def _comparison(comparison: AuditComparison) -> dict[str, Any]:
    changes = comparison.changes
    return {
        "module": comparison.module,
        "target": comparison.target,
        "passes": comparison.passes,
        "before": None if comparison.is_single else _audit(comparison.before),
        "after": _audit(comparison.after),
        "rows": [_row(row) for row in comparison.rows],
        "remarks": [_remark(remark) for remark in comparison.remarks],
        "mismatches": list(comparison.mismatches),
        "changes": changes and {"added": list(changes.added), "removed": list(changes.removed)},
    }


def _audit(audit: Audit) -> dict[str, Any]:
    bounds = {name: metric.of(audit) for name, metric in METRICS.items()}
    return {
        "peak_memory": audit.peak_memory,
        "metrics": {name: _number(found.exact) for name, found in bounds.items()},
        "bounds": {name: [_number(bound) for bound in found] for name, found in bounds.items() if found.exact is None},
        "collectives": [_collective(collective) for collective in audit.collectives],
        **({} if audit.estimate is None else {"estimate": _estimate(audit.estimate)}),
    }


def _estimate(estimate: Estimate) -> dict[str, Any]:
    values = {name: getattr(estimate, name) for name in _ESTIMATE}
    ops = [op._asdict() for op in estimate.ops]
    return {**values, "seconds": estimate.seconds, "unknown": list(estimate.unknown), "ops": ops}


def _number(value: float | None) -> float | None:
    """A JSON number, an integer where it is one; None for one that is not known or infinite."""
    if value is None or math.isinf(value):
        return None
    return int(value) if value == int(value) else value


def _collective(c: Collective) -> dict[str, Any]:
    return {
        **{name: getattr(c, name) for name in _COLLECTIVE},
        "axes": list(c.axes),
        "origins": [origin._asdict() for origin in c.origins],
        "arrays": [{"dtype": array.dtype, "dims": list(array.dims)} for array in c.arrays],
        "loops": _loops(c.loops),
        "executions": c.executions,
        "payload": c.payload,
        "wire_bytes": _number(c.wire_bytes),
    }


def _loops(loops: tuple[Loop, ...]) -> list[dict[str, Any]]:
    return [{name: getattr(loop, name) for name in _LOOP} for loop in loops]


def _row(row: Row) -> dict[str, Any]:
    place = row.place
    return {
        "verdict": row.verdict,
        "kind": place.kind,
        "source_file": place.source_file,
        "source_line": place.source_line,
        "source_name": place.name,
        "loops": _loops(place.loops),
        "group": place.group,
        "axes": list(place.axes),
        "origins": [
            {"source_file": o.source_file, "source_line": o.source_line, "source_name": o.op_name}
            for o in place.origins
        ],
        "at_most": place.at_most,
        "before": _side(row.before),
        "after": _side(row.after),
        "gone": row.gone,
        "fresh": row.fresh,
        "reasons": [{"pass": r.pass_name, "applied": r.applied, "text": r.text} for r in row.reasons],
    }


def _side(collectives: tuple[Collective, ...]) -> dict[str, Any] | None:
    if not collectives:
        return None
    return {
        "ops": len(collectives),
        "arrays": sum(len(c.arrays) for c in collectives),
        "executions": collectives[0].executions,
        "payload": sum(c.payload for c in collectives),
    }


def _remark(remark: Remark) -> dict[str, Any]:
    values = (remark.pass_name, remark.op, *remark.source, remark.applied, remark.text)
    return dict(zip(_REMARK, values, strict=True))


def _read_comparison(given: dict[str, Any]) -> AuditComparison:
    after = _read_audit(given["after"])
    changes = given["changes"]
    return AuditComparison(
        before=after if given["before"] is None else _read_audit(given["before"]),
        after=after,
        passes=given["passes"],
        target=given["target"],
        remarks=tuple(map(_read_remark, given["remarks"])),
        mismatches=tuple(given.get("mismatches", ())),  # reports from before there were any lack it
        module=given.get("module", ""),
        changes=changes and Changes(tuple(changes["added"]), tuple(changes["removed"])),
    )


def _read_audit(given: dict[str, Any]) -> Audit:
    collectives = tuple(map(_read_collective, given["collectives"]))
    return Audit(collectives, given["peak_memory"], _read_estimate(given.get("estimate")))


def _read_estimate(given: dict[str, Any] | None) -> Estimate | None:
    if given is None:
        return None
    ops = tuple(OpTime(**{name: op[name] for name in OpTime._fields}) for op in given["ops"])
    return Estimate(**{name: given[name] for name in _ESTIMATE}, unknown=tuple(given["unknown"]), ops=ops)


def _read_collective(given: dict[str, Any]) -> Collective:
    return Collective(
        **{name: given[name] for name in _COLLECTIVE},
        arrays=tuple(Array(array["dtype"], tuple(array["dims"])) for array in given["arrays"]),
        loops=tuple(Loop(**{name: loop[name] for name in _LOOP}) for loop in given["loops"]),
        axes=tuple(given.get("axes", ())),  # reports of earlier versions lack these
        origins=tuple(Origin(**{name: origin[name] for name in _ORIGIN}) for origin in given.get("origins", ())),
    )


def _read_remark(given: dict[str, Any]) -> Remark:
    pass_name, op, file, line, column, scope, applied, text = (given[name] for name in _REMARK)
    return Remark(pass_name, op, Source(file, line, column, scope), applied, text)
