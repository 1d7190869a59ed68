"""HTML and PNG reports: one file that needs nothing else, drawn by a real browser."""

import dataclasses
import datetime
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import jax
import matplotlib.image
import numpy as np
import pytest
from unit.browser import WINDOW, needs_chromium, opened
from unit.reports import UNKNOWN, S, V, W, collective, comparison, example, report

from paropt.audit import AuditComparison
from paropt.reports.comparison import AuditReport
from paropt.reports.lanes import COLORS, Bar, bars_text, lanes
from paropt.reports.totals import Audit


def test_lanes_of_the_example() -> None:
    loop, outside = lanes(example()["cpu:8"])
    assert loop.title == "in loop `while`, 8 trips"
    assert loop.bars == (
        (Bar("all-reduce", ((8, 32768),), True, False),),
        (Bar("all-reduce", ((8, 16384),), True, False),),
    )
    assert outside.title == "outside loops"
    gather = Bar("all-gather", ((1, 128),), True, False)
    assert outside.bars == ((gather,), (Bar("all-reduce", ((1, 16384),), True, False), gather))
    assert outside.bytes == 16384 + 128


def test_labels_of_bars() -> None:
    assert bars_text(()) == "-"
    assert bars_text((Bar("send", ((1, 5),), True, False),)) == "1 run, 5 B"
    two = Bar("send", ((1, 5),), True, True), Bar("all-reduce", ((1, 3), (1, 2)), True, False)
    assert bars_text(two) == "at most 3 runs, 10 B"
    (lane,) = lanes(comparison([collective(V, loops=(UNKNOWN,))], []))
    assert bars_text(lane.bars[0]) == "unknown number of runs; 128 B if each ran once"


def svg_of(page: str) -> ElementTree.Element:
    return ElementTree.fromstring(page[page.index("<svg") : page.index("</svg>") + len("</svg>")])


def test_bars_are_to_scale_with_a_tick_between_runs() -> None:
    svg = svg_of(example().html())
    widths = [float(bar.attrib["width"]) for bar in svg.iter("rect") if bar.attrib["class"] == "bar"]
    loop_before, loop_after, gather, reduce, gather_after = widths
    assert loop_before == pytest.approx(2 * loop_after, abs=0.1)
    assert loop_before == pytest.approx(16 * reduce, abs=1)
    assert gather == gather_after == 1, "the smallest bar can still be seen"
    ticks = [line.attrib for line in svg.iter("line")]
    assert len(ticks) == 7 + 7, "between the 8 runs in the loop, before and after"
    many = collective(loops=(collective().loops[0].__class__("jit(step)/while", 10_000),))
    assert list(svg_of(comparison([many], [many]).html()).iter("line")) == []


def test_blocks_are_as_wide_as_what_each_run_takes() -> None:
    apart = [collective(W), collective(W, W, W, S)]
    svg = svg_of(comparison(apart, []).html())
    bar = next(shape for shape in svg.iter("rect") if shape.attrib["class"] == "bar")
    ends = [float(line.attrib["x1"]) for line in svg.iter("line")] + [
        float(bar.attrib["x"]) + float(bar.attrib["width"])
    ]
    widths = np.diff([float(bar.attrib["x"]), *ends])
    assert widths == pytest.approx([widths[0]] * 8 + [3 * widths[0]] * 8, abs=0.2)


def test_the_chart_counts_what_the_sums_count() -> None:
    (lane,) = lanes(comparison([collective(W, S), collective(S)], []))
    assert lane.bars[0] == (Bar("all-reduce", ((8, 16384),), True, False),)
    assert "<svg" not in comparison([collective(S)], []).html()


def test_notebooks_show_the_page_in_a_frame_and_a_short_text() -> None:
    found = example()
    for each in (found, found["cpu:8"], found["cpu:8"].after):
        shown = each._repr_html_()
        assert shown.startswith("<iframe srcdoc=") and shown.count("<") == 2
        assert len(repr(each)) < 250
    assert repr(found["cpu:8"].after) == "<Audit: 3 collectives, 147 kB of gradient sync, 131 kB of it in loops>"


def test_page_says_of_what_by_what_and_when() -> None:
    page = dataclasses.replace(comparison([collective()], []), module="jit_step").html()
    assert "<h1>par-opt audit of jit_step</h1>" in page and f"jax {jax.__version__}" in page
    assert datetime.date.today().isoformat() in page


def test_page_needs_nothing_else_and_quotes_names() -> None:
    evil = collective(op_name='jit(step)/<script>"&', source_file="/a/<b>.py")
    page = report(comparison([evil], [])).html()
    assert "<b>.py" not in page
    assert "&lt;b&gt;.py" in page
    for external in ("http", "src=", "href=", "@import", "url(", "<script", "<link"):
        assert external not in page, external


def test_page_without_passes_and_without_collectives() -> None:
    audit = example()["cpu:8"].after
    alone = AuditComparison(audit, audit, target="cpu:8").html()
    assert "no passes" in alone
    assert "before" not in re.sub("<style>.*</style>", "", alone, flags=re.S)
    assert "No collectives." in comparison([], []).html()


@needs_chromium
def test_browser_reads_the_page_as_it_is_meant(tmp_path: Path) -> None:
    dom = opened(example().html(), tmp_path, "--dump-dom").decode()
    rows = re.findall(r"<tr>(.*?)</tr>", dom[dom.index("Where, and why") :], re.S)
    cells = [[re.sub("<[^>]*>", " ", cell).split() for cell in re.findall(r"<td.*?>(.*?)</td>", row)] for row in rows]
    kept = next(row for row in cells if row and "loss.py:42" in row[1])
    assert [" ".join(cell) for cell in kept] == [
        "all-reduce f32[64,64]",
        "in loop while, 8 trips loss.py:42 psum",
        "8",
        "data",
        "combined",
        "8 x 16.4 kB",
        "kept",
        "the reduced value is also read by stablehlo.sqrt (stablehlo.sqrt at loss.py:43:11) [defer-sync]",
    ]


def screenshot(page: str, folder: Path, *flags: str) -> np.ndarray:
    """The page as pixels: height x width x red, green, blue, from 0 to 255."""
    picture = folder / "page.png"
    opened(page, folder, f"--screenshot={picture}", *flags)
    return (matplotlib.image.imread(picture)[..., :3] * 255).round().astype(int)


def count(pixels: np.ndarray, color: str) -> int:
    wanted = [int(color[i : i + 2], 16) for i in (1, 3, 5)]
    return int((np.abs(pixels - wanted).max(axis=-1) <= 2).sum())


@needs_chromium
@pytest.mark.parametrize("theme, background", [("light", "#ffffff"), ("dark", "#15171a")])
def test_browser_draws_the_bars(theme: str, background: str, tmp_path: Path) -> None:
    scheme = f"--blink-settings=preferredColorScheme={0 if theme == 'dark' else 1}"
    pixels = screenshot(example().html(), tmp_path, scheme)
    assert count(pixels, background) > pixels.shape[0] * pixels.shape[1] / 2
    red = (np.abs(pixels - [0xD1, 0x49, 0x5B]).max(axis=-1) <= 2).sum(axis=1)
    assert COLORS["all-reduce"] == "#d1495b"
    widths = sorted({int(width) for width in red if width > 20})
    # Three bars: the loop before, the loop after, half as wide, and one run outside, an eighth of that.
    assert widths[-1] > 0.5 * WINDOW[0]
    assert any(abs(width - widths[-1] / 2) < 20 for width in widths)
    assert any(abs(width - widths[-1] / 16) < 20 for width in widths)


@pytest.mark.parametrize("given", [example(), report(comparison([], [])), report(*example().comparisons * 3)])
def test_plot(given: AuditReport, tmp_path: Path) -> None:
    given.plot(tmp_path / "audit.png")
    pixels = (matplotlib.image.imread(tmp_path / "audit.png")[..., :3] * 255).round().astype(int)
    drawn = count(pixels, COLORS["all-reduce"])
    assert (drawn > 5000) is bool(given.comparisons[0].rows)


def test_plot_of_one_audit(tmp_path: Path) -> None:
    audit: Audit = example()["cpu:8"].after
    audit.plot(tmp_path / "audit.svg")
    text = (tmp_path / "audit.svg").read_text()
    assert text.count(COLORS["all-reduce"]) >= 2
