"""Budgets, their metrics, and baselines."""

import math
import re

import pytest
from unit.reports import UNKNOWN, S, V, W, collective, comparison, example, report
from unit.scripts import ROOT

from paropt.hlo.census import KINDS
from paropt.reports.baseline import BaselineError, compared, counterpart
from paropt.reports.budgets import Budget, BudgetError
from paropt.reports.metrics import METRICS, Bounds

SIZE = 64 * 64 * 4


@pytest.mark.parametrize(
    "name, value",
    [
        ("sync_ops", 2),
        ("sync_arrays", 2),
        ("sync_executions", 9),
        ("sync_bytes", 9 * SIZE),
        ("sync_in_loop", 8 * SIZE),
        ("sync_wire", 9 * SIZE * 2 * 7 / 8),
        ("all_reduce.executions", 9),
        ("all_gather.bytes", 128),
        ("all_gather.wire", 128 * 7 / 8),
        ("reduce_scatter.ops", 0),
        ("collectives", 3),
        ("scalars", 0),
        ("unknown_trip_counts", 0),
        ("peak_memory", 1000),
    ],
)
def test_metrics_of_the_example(name: str, value: float) -> None:
    assert METRICS[name].of(example()["cpu:8"].after) == Bounds(value, value)


def bounds(name: str, *rows: object) -> tuple[float, float]:
    return METRICS[name].of(comparison([], list(rows), memory=None).after)  # type: ignore[arg-type]  # rows of any kind


def test_bounds_where_something_is_not_known() -> None:
    unknown, branch = collective(V, loops=(UNKNOWN,)), collective(at_most=True)
    assert bounds("sync_bytes", collective(), unknown) == (8 * SIZE, math.inf)
    assert bounds("sync_bytes", collective(), branch) == (0, 16 * SIZE)
    assert bounds("sync_bytes", unknown, branch) == (0, math.inf)
    assert bounds("sync_ops", unknown, branch) == (2, 2)
    assert bounds("unknown_trip_counts", unknown, branch) == (1, 1)
    assert bounds("scalars", collective(S, W)) == (8, 8)
    assert bounds("peak_memory") == (0, math.inf)


def judged(condition: str, *rows: object, memory: int | None = 1000) -> str | None:
    after = comparison([], list(rows), memory=memory)  # type: ignore[arg-type]  # rows of any kind
    return Budget.parse(condition).exceeded(after, None)


@pytest.mark.parametrize(
    "condition, holds",
    [
        ("sync_in_loop > 131071", True),
        ("sync_in_loop > 131072", False),
        ("sync_in_loop >= 131072", True),
        ("sync_in_loop<131073", True),
        ("sync_in_loop < 131072", False),
        ("sync_in_loop <= 131072 B", True),
        ("sync_in_loop == 128KiB", True),
        ("sync_in_loop == 128KB", False),
        ("sync_in_loop != 128kib", False),
        ("sync_in_loop != 1", True),
        ("sync_in_loop > 0.131 MB", True),
        ("sync_in_loop > 0.132 MB", False),
        ("sync_in_loop > 1e6", False),
        ("peak_memory > 1 KiB", False),
        ("peak_memory > 0.9 KiB", True),
        ("peak_memory > 1 GB", False),
        ("peak_memory > 1 TiB", False),
        ("collectives > -1", True),
    ],
)
def test_conditions(condition: str, holds: bool) -> None:
    assert (judged(condition, collective()) is not None) is holds


def test_what_is_said_of_a_budget() -> None:
    assert judged("sync_in_loop > 0", collective()) == "cpu:8: sync_in_loop > 0: it is 131 kB (131072 B)"
    assert judged("collectives > 0", collective()) == "cpu:8: collectives > 0: it is 1"
    assert judged("sync_in_loop > 0", collective(V, loops=(UNKNOWN,))) == "cpu:8: sync_in_loop > 0: it is not known"


def test_what_cannot_be_decided_counts_as_exceeded() -> None:
    some, unknown, branch = collective(), collective(loops=(UNKNOWN,)), collective(at_most=True)
    assert judged("sync_bytes > 1GB", some, unknown) == "cpu:8: sync_bytes > 1GB: it is at least 131 kB (131072 B)"
    assert judged("sync_bytes > 1GB", branch) is None
    assert judged("sync_bytes > 1kB", branch) == "cpu:8: sync_bytes > 1kB: it is at most 131 kB (131072 B)"
    assert judged("sync_bytes == 1kB", some, unknown) is None
    assert judged("sync_bytes != 131072", some, unknown) is not None
    assert judged("sync_bytes < 1kB", branch) is not None
    assert judged("peak_memory > 1TB", memory=None) == "cpu:8: peak_memory > 1TB: it is not known"


@pytest.mark.parametrize(
    "condition, complaint",
    [
        ("", "expected NAME OP NUMBER[UNIT]"),
        ("sync_in_loop", "expected NAME OP NUMBER[UNIT]"),
        ("sync_in_loop => 1", "expected NAME OP NUMBER[UNIT]"),
        ("sync_in_loop > x", "expected NAME OP NUMBER[UNIT]"),
        ("sync_in_loop > 1 > 2", "expected NAME OP NUMBER[UNIT]"),
        ("sync_inloop > 1", "no metric is called `sync_inloop`; did you mean `sync_in_loop`?"),
        ("all-reduce.ops > 1", "expected NAME OP NUMBER[UNIT]"),
        ("added.qqq > 1", "no metric is called `qqq`; docs/audit.md lists them"),
        ("added. > 1", "no metric is called ``; docs/audit.md lists them"),
        ("new.added.collectives > 1", "no metric is called `added.collectives`; did you mean `collectives`?"),
        ("new.peak_memory > 1", "peak_memory is of the whole executable: take `added.peak_memory`"),
        ("sync_bytes > 1 Mib/s", "expected NAME OP NUMBER[UNIT]"),
        ("sync_bytes > 1 Mbit", "no unit is called `Mbit`; there are B, KB, MB, GB, TB and KiB, MiB, GiB, TiB"),
        ("sync_ops > 1 B", "sync_ops is a count: leave `B` out"),
    ],
)
def test_mistakes_in_conditions(condition: str, complaint: str) -> None:
    with pytest.raises(BudgetError, match=re.escape(f"`{condition}`: {complaint}")):
        Budget.parse(condition)


# ---- baselines


def test_what_a_change_adds_and_removes() -> None:
    earlier = report(comparison([], [collective(W, line=41), collective(V, line=50)]))
    now = report(comparison([], [collective(W, line=44), collective(W, W, line=45), collective(V, loops=())]))
    changes = compared(now, earlier)["cpu:8"].changes
    assert changes is not None
    assert changes.added == (
        "all-reduce 2 arrays f32[64,64] x 8 in loop `while`, over data, loss.py:45 psum, 262 kB per step",
        "all-reduce bf16[64] outside loops, over data, loss.py:41 psum, 128 B per step",
    )
    assert changes.removed == ("all-reduce bf16[64] x 8 in loop `while`, over data, loss.py:50 psum, 1.02 kB per step",)
    text = str(compared(now, earlier))
    assert "this change adds 2 collectives:\n  all-reduce 2 arrays" in text
    assert "this change removes 1 collective:\n  all-reduce bf16[64] x 8" in text


def test_lines_that_moved_are_no_change() -> None:
    earlier, now = (report(comparison([], [collective(line=line)])) for line in (41, 99))
    assert str(compared(now, earlier)).endswith("compared with the baseline, the collectives are the same")


def test_a_sum_over_another_axis_is_a_change_unless_the_baseline_knows_no_axes() -> None:
    over_data, over_model, unknown = (report(comparison([], [collective(axes=a)])) for a in (("data",), ("model",), ()))
    changes = compared(over_model, over_data)["cpu:8"].changes
    assert changes is not None
    assert (len(changes.added), len(changes.removed)) == (1, 1)
    assert str(compared(over_model, unknown)).endswith("the collectives are the same")


def test_budgets_of_changes() -> None:
    earlier, now = comparison([], [collective()]), comparison([], [collective(), collective(V)])

    def grown(condition: str) -> str | None:
        return Budget.parse(condition).exceeded(now, earlier)

    assert grown("added.collectives > 0") == "cpu:8: added.collectives > 0: it is 1"
    assert grown("added.sync_bytes > 1KB") == "cpu:8: added.sync_bytes > 1KB: it is 1.02 kB (1024 B)"
    assert grown("added.sync_bytes > 1KiB") is None
    assert grown("added.peak_memory > 0") is None
    assert (
        Budget.parse("added.sync_bytes < 0").exceeded(earlier, now)
        == "cpu:8: added.sync_bytes < 0: it is -1.02 kB (-1024 B)"
    )


def test_a_reduction_that_returns_for_one_that_goes_is_new() -> None:
    earlier, now = (
        comparison([], [collective(), collective(V)]),
        comparison([], [collective(), collective(V, loops=())]),
    )
    assert Budget.parse("added.collectives > 0").exceeded(now, earlier) is None
    assert Budget.parse("new.collectives > 0").exceeded(now, earlier) == "cpu:8: new.collectives > 0: it is 1"
    assert Budget.parse("new.sync_bytes > 0").exceeded(now, earlier) == "cpu:8: new.sync_bytes > 0: it is 128 B"
    assert Budget.parse("new.sync_in_loop > 0").exceeded(now, earlier) is None
    assert Budget.parse("new.sync_in_loop > 1KB").exceeded(earlier, now) is not None
    assert Budget.parse("new.collectives > 0").exceeded(now, now) is None


def test_a_change_of_what_is_not_known_is_not_known() -> None:
    now = comparison([], [collective(loops=(UNKNOWN,))])
    assert Budget.parse("added.sync_bytes > 1TB").exceeded(now, now) == "cpu:8: added.sync_bytes > 1TB: it is not known"


def test_a_baseline_without_the_target() -> None:
    with pytest.raises(BaselineError, match="the baseline has no target `tpu:v5e:2x4`; it has: cpu:8"):
        counterpart("tpu:v5e:2x4", example())


# ---- documentation


def test_the_documentation_lists_the_metrics() -> None:
    """docs/audit.md has one row per metric; those of each kind are written once, for all-reduce."""
    of_kinds = tuple(f"{kind.replace('-', '_')}." for kind in KINDS if kind != "all-reduce")
    expected = [f"| `{m.name}` | {m.unit} | {m.help} |" for m in METRICS.values() if not m.name.startswith(of_kinds)]
    page = (ROOT / "docs/audit.md").read_text()
    assert [line for line in page.splitlines() if re.match(r"\| `\S+` \| (bytes|count) \|", line)] == expected
