"""The tool that compares estimated with measured step times: its table, its figure, its place in the page."""

import importlib
import sys

import pytest
from unit.scripts import ROOT

sys.path.append(str(ROOT / "tools"))
cost_ranks = importlib.import_module("cost_ranks")


def found(*seconds: tuple[float, float], width: int = 8) -> list[object]:
    return [
        cost_ranks.Found(cost_ranks.Variant("mlp", width, "grad-sync" if number else ""), *pair)
        for number, pair in enumerate(seconds)
    ]


def test_the_correlation_is_of_ranks() -> None:
    assert cost_ranks.correlation(found((1, 10), (2, 11), (3, 1000))) == pytest.approx(1)
    assert cost_ranks.correlation(found((1, 3), (2, 2), (3, 1))) == pytest.approx(-1)


def test_within_a_program_only_its_own_variants_are_ranked() -> None:
    two = [*found((1, 3), (2, 2)), *found((10, 20), (20, 30), width=16)]
    assert cost_ranks.correlation(two) == pytest.approx(0.8)
    assert cost_ranks.correlation_within(two) == pytest.approx((-1 + 1) / 2)


def test_a_section_has_a_row_for_each_variant() -> None:
    text = cost_ranks.section("here", found((1e-3, 2e-3), (2e-3, 3e-3)))
    assert (
        "here: Spearman's rank correlation of 2 variants is 1.00; of the variants of one program and width it is 1.00"
        in text
    )
    assert "| mlp | 8 | XLA alone | 1 ms | 2 ms |" in text and "| mlp | 8 | `grad-sync` | 2 ms | 3 ms |" in text


def test_the_page_has_a_place_for_it() -> None:
    page = (ROOT / "docs/costs.md").read_text()
    start, end = cost_ranks.MARKS
    made = cost_ranks.with_section(page, "NEW\n")
    assert made.count(f"{start}NEW\n{end}") == 1
    assert made.partition(start)[0] == page.partition(start)[0]
    with pytest.raises(SystemExit, match="lacks the lines"):
        cost_ranks.with_section("no marks", "NEW\n")


def test_one_variant_is_estimated_and_measured() -> None:
    variant = cost_ranks.Variant("plain_mlp_p0", 16, "grad-sync")
    measured = cost_ranks._one(variant, 2)
    assert measured.variant == variant and measured.estimated > 0 and measured.measured > 0
