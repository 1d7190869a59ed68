"""The picture of policies: axes start at 0, so proportions are honest, and points that can be told apart have labels."""

from pathlib import Path

import pytest

from paropt.reports.pareto import Point, plot_pareto

pytest.importorskip("matplotlib")


def test_axes_from_zero_and_a_label_for_each_point(tmp_path: Path) -> None:
    points = [
        Point("every", 970_000, 1000.0, is_best=False),
        Point("once", 1_000_000, 500.0, is_best=True),
        Point("defer", 1_000_500, 501.0, is_best=False),  # under `once`
        Point("gather", 985_000, 502.0, is_best=False),  # 1.5 % of the axis before it
    ]
    plot_pareto(points, "cpu:8", tmp_path / "front.svg")
    texts = {line.strip() for line in (tmp_path / "front.svg").read_text().splitlines()}
    assert "<!-- once, defer -->" in texts and "<!-- gather -->" in texts and "<!-- every -->" in texts
    assert "<!-- 0 B -->" in texts and "<!-- 200 kB -->" in texts
