"""JSON reports: their schema, that the same audit gives the same bytes, and that they can be read again."""

import dataclasses
import json
from typing import Any

import jsonschema
import pytest
from unit.reports import FILE, UNKNOWN, S, collective, comparison, example, report
from unit.scripts import ROOT

from paropt.hlo.census import KINDS
from paropt.hlo.origins import Origin
from paropt.reports.baseline import compared
from paropt.reports.comparison import AuditComparison, AuditReport
from paropt.reports.json_form import ReportError, loads
from paropt.reports.totals import Audit

SCHEMA = json.loads((ROOT / "docs/audit-schema.json").read_text())


def inexact() -> AuditReport:
    before = collective(loops=(UNKNOWN,)), collective(S, at_most=True)
    return report(comparison(list(before), [], memory=None))


def without_passes() -> AuditReport:
    audit = example()["cpu:8"].after
    return report(AuditComparison(audit, audit), AuditComparison(Audit((), 0), Audit((), 0), target="cpu:8"))


def wrong() -> AuditReport:
    return report(dataclasses.replace(example()["cpu:8"], mismatches=("a reduction is missing", "<b>")))


def several_places() -> AuditReport:
    origins = (Origin("jit(step)/psum", FILE, 41), Origin("", FILE, 43))
    reduce = collective(op_name="", source_file="", line=0, axes=("replica", "data:(2)4"), origins=origins)
    return report(comparison([reduce], [reduce]))


REPORTS = [
    example(),
    inexact(),
    without_passes(),
    wrong(),
    several_places(),
    compared(example(), example()),
    compared(example(), inexact()),
]


@pytest.mark.parametrize("given", REPORTS, ids=["example", "inexact", "alone", "wrong", "places", "same", "changed"])
def test_reports_follow_the_schema_and_can_be_read_again(given: AuditReport) -> None:
    text = given.json()
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(text))
    again = loads(text)
    assert again == given
    assert (str(again), again.html(), again.json()) == (str(given), given.html(), text)


def test_mismatches_are_shown() -> None:
    assert wrong().mismatches == ["cpu:8: a reduction is missing", "cpu:8: <b>"]
    assert "RESULTS WOULD BE WRONG: a reduction is missing" in str(wrong())
    assert "a reduction is missing</p>" in wrong().html() and "&lt;b&gt;" in wrong().html()


def test_reports_without_the_field_can_be_read() -> None:
    document = json.loads(example().json())
    del document["targets"][0]["mismatches"]
    assert loads(json.dumps(document)) == example()


def test_axes_and_origins() -> None:
    (found,) = after(several_places())["collectives"]
    assert found["axes"] == ["replica", "data:(2)4"]
    assert found["origins"][1] == {"op_name": "", "source_file": FILE, "source_line": 43}
    (row,) = json.loads(several_places().json())["targets"][0]["rows"]
    assert row["axes"] == found["axes"]
    assert row["origins"][0] == {"source_file": FILE, "source_line": 41, "source_name": "psum"}


def test_a_report_of_the_first_version_has_no_axes_and_no_origins() -> None:
    document = json.loads(example().json())
    for target in document["targets"]:
        parts = [*target["rows"], *(c for side in ("before", "after") for c in target[side]["collectives"])]
        for part in parts:
            del part["axes"], part["origins"]
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    assert loads(json.dumps(document))["cpu:8"].after.collectives[0].axes == ()


def test_the_schema_refuses_other_documents() -> None:
    """Every object of it is closed, so a field that is not described is noticed."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    document = json.loads(example().json())
    collective_ = document["targets"][0]["after"]["collectives"][0]
    for spoiled in ({"group": "8"}, {"executions": -1}, {"kind": "all"}, {"surprise": 1}):
        kept = dict(collective_)
        collective_.update(spoiled)
        assert not jsonschema.Draft202012Validator(SCHEMA).is_valid(document), spoiled
        collective_.clear()
        collective_.update(kept)
    assert jsonschema.Draft202012Validator(SCHEMA).is_valid(document)


def test_the_schema_lists_the_kinds() -> None:
    assert SCHEMA["$defs"]["kind"]["enum"] == list(KINDS)


def after(given: AuditReport) -> Any:
    return json.loads(given.json())["targets"][0]["after"]


def test_numbers() -> None:
    found = after(example())
    assert found["metrics"]["sync_in_loop"] == 8 * 16384
    assert found["bounds"] == {}
    assert [c["executions"] for c in found["collectives"]] == [8, 1, 1]
    before = json.loads(inexact().json())["targets"][0]["before"]
    assert before["metrics"]["sync_bytes"] is None
    assert before["bounds"]["sync_bytes"] == [0, None]
    assert before["bounds"]["peak_memory"] == [0, None]
    assert before["metrics"]["unknown_trip_counts"] == 1


def test_without_passes_there_is_no_before() -> None:
    assert json.loads(without_passes().json())["targets"][0]["before"] is None


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("", "no JSON: Expecting value"),
        ("[1]", "expected a report of schema paropt.audit/1, found no schema"),
        ("{}", "expected a report of schema paropt.audit/1, found no schema"),
        ('{"schema": "paropt.audit/2"}', "expected a report of schema paropt.audit/1, found `paropt.audit/2`"),
        ('{"schema": "paropt.audit/1"}', "not as paropt.audit/1 has it: 'targets' is missing"),
        ('{"schema": "paropt.audit/1", "targets": 3}', "not as paropt.audit/1 has it: "),
        ('{"schema": "paropt.audit/1", "targets": [3]}', "not as paropt.audit/1 has it: "),
        ('{"schema": "paropt.audit/1", "targets": [{"after": {}}]}', "'collectives' is missing"),
        ("[" * 100_000, "its brackets are nested too deeply"),
    ],
)
def test_what_is_no_report_takes_one_line(text: str, complaint: str) -> None:
    with pytest.raises(ReportError) as raised:
        loads(text)
    assert complaint in str(raised.value)
    assert "\n" not in str(raised.value)
