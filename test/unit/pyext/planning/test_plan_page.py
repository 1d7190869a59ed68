"""The page of a plan: one file that needs nothing else, with mesh, shardings, traffic and ranking."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from programs.program import Sizes
from programs.unplaced import shapes_of
from unit.browser import needs_chromium, opened

import paropt
from paropt.clusters import targets
from paropt.plan import Plan
from paropt.planning.argument_groups import ArgumentGroup, argument_groups
from paropt.planning.candidates import Candidate, Mesh, Stages, templates
from paropt.planning.goals import Goal
from paropt.planning.plan_page import Shown, page
from paropt.planning.search import Judged
from paropt.planning.sharded_programs import Step, lowered_without_mesh, step_of
from paropt.reports.totals import Audit

STEP = shapes_of("mlp", Sizes(width=32, layers=3, micro_batches=2, examples=16))


class Page(HTMLParser):
    """Checks that tags are closed in order, and keeps the texts and the attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self._open: list[str] = []
        self.feed(text)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs
        if tag != "meta":
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())


def template(name: str, *sizes: int) -> Candidate:
    """The first with these sizes of its mesh."""
    return next(c for c in templates(8) if c.name == name and tuple(size for _, size in c.mesh.axes) == sizes)


@pytest.fixture(scope="module")
def found() -> Plan:
    wrong = Candidate("mine <&>", Mesh((("data", 8),)), '[[rule]]\nrole = "state"\nlargest = "model"\n', "")
    candidates = [template("fsdp x tp", 2, 4), template("dp", 8), wrong]
    return paropt.plan(STEP.step, *STEP.args, target="cpu:8", memory="1GiB", candidates=candidates)


@pytest.fixture(scope="module")
def step() -> Step:
    return step_of(lowered_without_mesh(STEP.step, STEP.args, targets.get("cpu:8")))


def test_the_page_is_complete_and_needs_nothing_else(found: Plan) -> None:
    text = found.html()
    read = Page(text)
    assert not re.search(r"https?://|<script|<link|@import|url\(", text)
    headings = {"Mesh", "Traffic of a step", "Candidates", "Shardings", "Rules"}
    assert headings <= set(read.texts) and str(found.candidate) in read.texts
    assert "mine <&>" in read.texts, "names are escaped"
    for row in str(found).splitlines()[2 : 2 + len(found.ranking)]:
        assert set(re.split(r"\s{2,}", row)) - {""} <= set(read.texts), "the ranking is that which is printed"


def test_each_device_is_drawn_once_in_the_row_of_its_place() -> None:
    hosts = tuple(device // 4 for device in range(8))
    plan = Shown("t", template("fsdp x tp", 2, 4), (), Goal(), (), hosts, "")
    text = page(plan)
    boxes = re.findall(r'<title>device (\d+), host (\d+)</title><rect x="([\d.]+)" y="(\d+)"', text)
    assert [(int(device), int(host)) for device, host, _, _ in boxes] == list(enumerate(hosts))
    rows = [{y for device, _, _, y in boxes if int(device) // 4 == row} for row in (0, 1)]
    columns = [{x for device, _, x, _ in boxes if int(device) % 4 == column} for column in range(4)]
    assert all(len(each) == 1 for each in (*rows, *columns)) and rows[0] != rows[1]
    assert {"data=0", "data=1", "model=4 →", "2 hosts, in turn of two colours."} <= set(Page(text).texts)


def test_bars_of_traffic_are_as_long_as_bytes(found: Plan) -> None:
    best = found.ranking[0]
    assert best.audit is not None
    sent: dict[str, float] = {}
    for each in best.audit.collectives:
        name = f"{each.kind} over {', '.join(each.axes) or 'all'}"
        sent[name] = sent.get(name, 0) + each.wire_bytes * (each.executions or 0)
    bars = dict(re.findall(r'<text[^>]*>([^<]* over [^<]*)</text><rect class="bar"[^>]*width="([\d.]+)"', found.html()))
    longest = max(sent, key=lambda name: sent[name])
    assert set(bars) == set(sent)
    for name, size in sent.items():
        assert float(bars[name]) / float(bars[longest]) == pytest.approx(size / sent[longest], abs=1e-3)


def test_a_plan_that_was_loaded_has_a_page_without_a_ranking(found: Plan) -> None:
    text = Plan(found.target, found.candidate).html()
    read = Page(text)
    assert {"Mesh", "Rules"} <= set(read.texts) and "Candidates" not in read.texts


def test_a_notebook_shows_the_page_in_a_frame(found: Plan) -> None:
    assert found._repr_html_().startswith("<iframe srcdoc=")


def test_layers_that_are_alike_are_one_group(step: Step) -> None:
    groups = {group.name: group for group in argument_groups(step, template("dp x tp", 2, 4))}
    up = groups["state/0/*/up"]
    assert (up.arrays, up.sharding) == (3, "[-, model]")
    rows, columns = (int(size) for size in re.findall(r"\d+", up.type.removeprefix("f32")))
    assert up.held == 3 * rows * columns * 4 // 4
    assert groups["batches/*"].sharding == "[-, data, -]"
    assert groups["state/1/0/count"].sharding == "replicated"


def test_arrays_that_no_rule_is_about_are_left_to_shardy(step: Step) -> None:
    rules = '[[rule]]\nregex = "0/up$"\nrole = "state"\nshard = ["", "data"]\n'
    groups = argument_groups(step, Candidate("mine", Mesh((("data", 8),)), rules, ""))
    shardings = {group.name: group.sharding for group in groups}
    assert shardings["state/0/0/up"] == "[-, data]" and shardings["state/0/*/up"] == "left to Shardy"
    assert sum(group.arrays for group in groups) == len(step.donated)


def staged(name: str, schedule: str) -> Judged:
    """A candidate with as many columns as there are, and long texts in each."""
    mesh = Mesh((("stage", 4), ("replica", 2), ("data", 128)))
    time = SimpleNamespace(seconds=9.87, compute=8.76, communication=7.65, hidden=6.54, waiting=0.987, bound=">= ")
    sent = [SimpleNamespace(kind="all-reduce", axes=("data",), wire_bytes=123456789.0, executions=16)]
    audit = SimpleNamespace(collectives=sent, peak_memory=87654321, estimate=time)
    return Judged(Candidate(name, mesh, "", "keep-shards", Stages(schedule, 128)), cast(Audit, audit))


@needs_chromium
def test_the_page_fits_1200_pixels(tmp_path: Path) -> None:
    ranking = [staged("pp x fsdp", "interleaved"), staged("hsdp x tp", "zb-h1")]
    rules = f"path = {['layers/*/attention/query/kernel'] * 9}"
    best = replace(ranking[0].candidate, rules=rules)
    ranking[0] = ranking[0]._replace(candidate=best)
    group = ArgumentGroup("state/1/0/mu/params/" + "Block_0/" * 9 + "kernel", 12, "f32[8, 16, 128]", (("data",),), 4096)
    text = page(Shown("gpu:h100:1x128x8", best, ranking, Goal(80 << 30), [group], (), ""))
    measure = (
        "<script>document.title = [...document.querySelectorAll('.scroll, pre, body')]"
        ".map(each => each.scrollWidth - each.clientWidth).join(' ')</script>"
    )
    shown = opened(text.replace("</body>", f"{measure}</body>"), tmp_path, "--dump-dom").decode()
    widths = re.search(r"<title>([\d ]+)</title>", shown)
    assert widths is not None and {int(width) for width in widths[1].split()} == {0}
