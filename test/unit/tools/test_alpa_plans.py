"""`tools/bench_alpa.py`: its models and published plans, what is chosen and why others are not, and its page."""

import json
import sys
from pathlib import Path
from typing import Any

import jax
import pytest
from unit.scripts import ROOT

sys.path.insert(0, str(ROOT / "tools"))  # its parts import each other

import bench_alpa
import plan_executed
import plans_page
from alpa_plans import PUBLISHED, SHAPES
from gpt_programs import BATCH, VOCABULARY, Gpt, step_of

from paropt.costs.clusters import cluster_of
from paropt.plan import Plan
from paropt.planning.candidates import templates


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_plan_is_of_a_model_of_that_size(name: str) -> None:
    published = PUBLISHED[name]
    model = published.model
    size = float(name[:-1]) * {"M": 1e6, "B": 1e9}[name[-1]]
    tied = model.parameters - VOCABULARY * model.width  # the name counts one matrix for embedding and head
    assert tied == pytest.approx(size, rel=0.04)
    assert sum(stage.share for stage in published.stages) == 1
    assert cluster_of(f"gpu:v100:{SHAPES[published.devices]}").size == published.devices
    assert BATCH % published.micro_batches == 0


def test_a_step_takes_the_whole_batch_and_keeps_its_state() -> None:
    step, (state, tokens) = step_of(Gpt("tiny", 64, 2, 4), 128, "float16")
    assert tokens.shape[:2] == (128, BATCH // 128)
    new, loss = jax.eval_shape(step, state, tokens)
    assert str(jax.tree.structure(new)) == str(jax.tree.structure(state)) and loss.shape == ()


def row(template: str, seconds: float, **changes: Any) -> dict[str, Any]:
    made = {"template": template, "plan": "data=8, keep-shards", "micro_batches": 64, "fits": True, "runs": True}
    parts = {"compute": 1.0, "exposed": seconds - 1.0, "waiting": 0.0, "memory": 9e9, "links": {"NVLink": 2e9}}
    return {**made, **parts, "seconds": seconds, **changes}


def measured(*rows: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"rows": list(rows), "took": 12.0, "date": "2026-11-28", "jax": "0.10.2", "compiled": [], **more}


@pytest.mark.parametrize(
    ("others", "faster"),
    [
        ([row("grid", 1.99)], []),
        ([row("grid", 1.5, runs=False)], ["grid"]),
        ([row("grid", 1.5, fits=False)], []),
        ([row("zero1", 1.0)], []),  # it is chosen itself
    ],
)
def test_what_is_faster_than_the_chosen_plan(others: list[dict[str, Any]], faster: list[str]) -> None:
    assert plans_page.faster(measured(row("dp", 2.0), *others)) == faster


def test_the_page_says_why_each_lost() -> None:
    rows = row("dp", 2.0), row("fsdp", 5.0), row("grid", 1.5, runs=False), row("tp", 9.0, fits=False)
    page = plans_page.page({"2.6B | v100": measured(*rows)})
    assert "## 2.6B on 8 V100 (`gpu:v100:1x1x8`)" in page and "- 2.6B on 8 V100 (`gpu:v100:1x1x8`): grid" in page
    ends = {line.split("|")[1].strip(): line.split("|")[-2].strip() for line in page.splitlines() if "| yes" in line}
    assert ends == {"dp": "chosen", "fsdp": "2.50 x the time: communication", "tp": "does not fit"}
    assert "faster, but not run" in page and "None is compiled." in page


def test_the_page_compares_estimates_with_executables() -> None:
    times = ((2.2, 2.0), (3.0, 2.1), (1.8, 1.9))
    made = [{**row("dp", time), "executable": {"seconds": own, "memory": 10e9}} for time, own in times]
    page = plans_page.page({"1.3B | check": {"check": made, "date": "", "jax": ""}})
    assert "Of 3 programs that were compiled, the estimates of 2 are within 15 %" in page
    assert "10% off, of the memory 10%." in page
    assert "| 1.3B, H100 | dp, data=8, keep-shards | 2.2 s | 2 s | 9.0 | 10.0 |" in page
    assert "3 programs of 1.3B on H100s is 1.00." in page


def test_a_saved_plan_runs_over_one_process_and_two(tmp_path: Path) -> None:
    """Each parameter is gathered once and reduced once, by both, and the new state is that of `jax.jit`."""
    once = next(each for each in templates(8) if (each.name, each.policy) == ("fsdp", "once"))
    plan, model = tmp_path / "plan.toml", PUBLISHED["1.3B"].model._replace(layers=2).narrowed(32, 32)
    Plan(plan_executed.TARGET, once).save(plan)
    for processes in (1, 2):
        found = plan_executed.run(plan, model, processes)
        assert found["moved"] == {"all-gather": 1.0, "reduce-scatter": 1.0}
        assert found["difference"] < 1e-5 and found["loss"] == pytest.approx(found["alone"], rel=1e-6)


def test_a_process_that_fails_is_told_by_its_last_line(tmp_path: Path) -> None:
    with pytest.raises(plan_executed.RunError, match=r"^status 1: paropt.planning\S*PlanError: .*No such file"):
        plan_executed.run(tmp_path / "none.toml", PUBLISHED["1.3B"].model.narrowed(32, 32), 1)


def test_the_page_tells_what_ran() -> None:
    ran = {"difference": 4e-7, "moved": {"all-gather": 1.0}}
    each = {"plan": "fsdp", "moved": {"all-gather": 1.25}, "width": 200, "parameters": 13_000_000, "runs": {"2": ran}}
    page = plans_page.page({"1.3B | run": {**each, "date": "", "jax": ""}})
    assert "| for 8 H100s, compiled | 1.25 |" in page and "4e-07 is the largest" in page
    assert "| 2 processes with 4 CPU devices | 1.00 |" in page


def test_the_page_is_that_of_the_data() -> None:
    assert bench_alpa.PAGE.read_text() == plans_page.page(json.loads(bench_alpa.DATA.read_text()))
