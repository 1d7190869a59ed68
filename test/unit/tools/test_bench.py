"""`make bench`: counts of a few programs, the page, the slow link, and what they say when they cannot."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import jax
import pytest
from programs.catalog import LAYERS, MATRIX, NUMBERS
from programs.program import Sizes
from unit.repository.test_layout import WORK_LISTS
from unit.repository.test_op_lists import ALLOWED
from unit.scripts import ROOT, load

BENCH = ROOT / "tools" / "bench.py"
sys.path.insert(0, str(ROOT / "tools"))  # its parts import each other

import bench_counts  # noqa: E402
import bench_exposed  # noqa: E402
import bench_page  # noqa: E402
import bench_picture  # noqa: E402
import bench_plans  # noqa: E402
import bench_sharded  # noqa: E402
import bench_times  # noqa: E402
import slow_link  # noqa: E402
from bench_costs import Costs  # noqa: E402
from bench_counts import Count, Row, TargetCounts  # noqa: E402
from bench_growth import Growth  # noqa: E402
from bench_rewrite import Part, Rewrite, Share  # noqa: E402
from bench_times import Times  # noqa: E402

from paropt.planning.candidates import Candidate, Mesh  # noqa: E402
from paropt.planning.search import Judged  # noqa: E402
from paropt.reports.totals import Audit  # noqa: E402


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(BENCH), *options], capture_output=True, text=True, timeout=300)


def cells(page: str, program: str) -> list[str]:
    """Of the program's line in the first table that has one."""
    (line, *_) = [line for line in page.splitlines() if line.startswith(f"| {program} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_page_says_what_the_number_in_a_name_means() -> None:
    named = {int(name.rpartition("_p")[2]) for name in (*MATRIX, *LAYERS)}
    assert set(NUMBERS) - named == {16}  # a way to write the others
    assert named <= set(NUMBERS)
    assert bench_page.legend() in (ROOT / "docs" / "benchmarks.md").read_text()


def test_the_picture_names_each_pattern() -> None:
    assert {name.rpartition("_")[2] for name in MATRIX} == set(bench_picture.PATTERNS)
    assert bench_picture.label("plain_mlp_p2") == "averaged  plain_mlp_p2"
    assert bench_picture.label("other") == "other"


def test_what_xla_alone_gets_wrong_is_read_from_the_page() -> None:
    recorded = "12 checks.\n\n- a: off\n\nXLA alone is wrong:\n\n- plain_b: jax.jit differs\n- c: d\n\nBytes:\n\n- e: f"
    assert bench_picture.wrong_alone(recorded) == {"plain_b", "c"}
    assert bench_picture.wrong_alone(bench_page.NO_GPU) == set()


def test_a_subset(tmp_path: Path) -> None:
    """Counts known by construction: once per micro-batch alone, once per step with par-opt, where it can."""
    page = tmp_path / "page.md"
    done = run(
        "--programs", "plain_mlp_p0,explicit_mlp_p[08]", "--targets", "cpu:8", "--no-times", "--out", str(page)
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "cpu:8  3/3 explicit_mlp_p8" in done.stdout
    text = page.read_text()
    assert cells(text, "plain_mlp_p0")[:6] == ["plain_mlp_p0", "197", "4.00", "1.00", "4", "0"]
    assert cells(text, "explicit_mlp_p0")[:6] == ["explicit_mlp_p0", "197", "4.00", "1.00", "4", "0"]
    assert cells(text, "explicit_mlp_p8")[:6] == ["explicit_mlp_p8", "197", "4.00", "1.00", "0", "0"]
    assert f"jax {jax.__version__}" in text
    assert "Not measured in this run." in text and bench_page.NO_GPU in text
    assert page.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_sharded_programs(tmp_path: Path) -> None:
    """P6 by construction: gradients are all-reduced in each of 4 micro-batches, as XLA:CPU combines them, or scattered once."""
    page = tmp_path / "page.md"
    page.write_text(f"{bench_page.SHARDED_TITLE}\n\noutdated\n\n{bench_page.GPU_TITLE}\n")
    done = run("--only-sharded", "--programs", "plain_mlp_p6", "--targets", "cpu:8", "--out", str(page))
    assert done.returncode == 0, done.stderr
    text = page.read_text()
    assert cells(text, "plain_mlp_p6")[:4] == ["plain_mlp_p6", "XLA alone", "1.00", "8.00"]
    lines = [[cell.strip() for cell in line.split("|")[2:5]] for line in text.splitlines() if line.startswith("|  |")]
    assert lines == [["par-opt", "1.00", "8.00"], ["`policy=once`", "1.00", "1.00"]]
    assert "outdated" not in text and bench_page.GPU_TITLE in text


def test_the_ideal_of_a_hybrid_sharding() -> None:
    """By hand: 4 shards, 2 replicas, and parameters in f32 that are computed with in bf16."""
    program = bench_sharded.PROGRAMS["half_blocks_p18"](Sizes(width=16, layers=2))
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(program.args[0]))
    ideal = bench_sharded.ideal("half_blocks_p18", program)
    assert ideal == (size / 2 * 3 / 4, size * 3 / 4 + size / 4)


def test_exposed_communication_is_told_by_program_and_options() -> None:
    """A program that waits longer by default is named; one that waits shorter, or by no part of the step, is not."""
    alone, less, more = (bench_exposed.Time(2.0, 1.0, exposed) for exposed in (0.5, 0.1, 0.75))
    little = alone._replace(exposed=alone.exposed * 1.02)
    rows = [
        bench_exposed.Row("gpu:x", title, "mlp", {"XLA alone": alone, "par-opt": ours})
        for title, ours in ((bench_exposed.DEFAULTS, less), ("flags", more))
    ]
    rows.append(bench_exposed.Row("tpu:x", bench_exposed.DEFAULTS, "", {}, "no compiler"))
    text = bench_exposed.section(rows)
    assert "|  | par-opt | 2e+03 | 1e+03 | 100 | 750 |" in text and "Not measured: no compiler" in text
    assert (
        "After `grad-sync`, longer than with XLA alone by more than 1% of that and of the step: `mlp` (750 for 500 ms with flags)."
        in text
    )
    assert not bench_exposed.waits_longer({"XLA alone": alone, "par-opt": little})


def judged(name: str, seconds: float, sent: int) -> Judged:
    """A candidate that sends so many bytes, and takes 1000."""
    candidate = Candidate(name, Mesh((("data", 2),)), "", "")
    group = SimpleNamespace(wire_bytes=sent, executions=1)
    audit = SimpleNamespace(collectives=[group], peak_memory=1000, estimate=SimpleNamespace(seconds=seconds))
    return Judged(candidate, cast(Audit, audit))


def test_plans_are_merged_into_the_table_that_is_there(tmp_path: Path) -> None:
    """A row that is measured again replaces its own, and no other; programs stand in their order."""
    page = tmp_path / "page.md"
    page.write_text(f"{bench_page.GPU_TITLE}\n")
    template, plan = judged("dp", 4e-3, 400), judged("ilp", 1e-3, 100)
    row = bench_plans.Row("wide_embedding", "cpu:8", template, plan, 4e-3, 200, 42, 3.0, 10**6, 2 * 10**6)
    for each in (row, row._replace(program="mlp", least=None), row._replace(plan=template)):
        bench_page.write_plans(page, [each])
    text = page.read_text()
    rows = [line for line in text.splitlines() if "cpu:8" in line]
    assert [line.split(" | ")[0] for line in rows] == ["| mlp", "| wide_embedding"]
    assert cells(text, "mlp")[8:10] == ["0.250", "-"] and cells(text, "wide_embedding")[8:10] == ["1.000", "2.00"]
    sides = ["dp, data=2, XLA alone", "400 B", "4 ms", "ilp, data=2, XLA alone", "100 B", "1 ms"]
    assert cells(text, "mlp")[2:8] == sides
    assert text.count(bench_plans.LEGEND) == 1 and bench_page.GPU_TITLE in text


@pytest.mark.parametrize(
    "options, message",
    [
        (["--programs", "mlp"], "no program is called 'mlp'; there are: plain_mlp_p0,"),
        (["--out", str(BENCH / "page.md")], "cannot make its folder"),
        (["--only-times", "--out", "no-such-page.md"], "--only-times: there is no page no-such-page.md yet"),
    ],
)
def test_wrong_options_are_one_line(options: list[str], message: str) -> None:
    done = run(*options)
    assert done.returncode == 2
    assert message in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_a_target_that_is_not_there_is_a_column_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(target: object) -> None:
        raise bench_counts.targets.TargetError("tpu:v5e:2x4 needs libtpu: pip install '.[tpu]'")

    monkeypatch.setattr(bench_counts.targets.TpuTarget, "require_compiler", missing)
    counts = bench_counts.count("tpu:v5e:2x4", list(MATRIX), progress=print)
    assert "pip install '.[tpu]'" in capsys.readouterr().out
    bench_page.write(tmp_path / "page.md", [counts], [], command="bench")
    assert "Not measured: tpu:v5e:2x4 needs libtpu: pip install '.[tpu]'" in (tmp_path / "page.md").read_text()


def test_activations_are_counted_apart() -> None:
    """Two reductions of activations per block and micro-batch in explicit P14: forward over `model`, and backward."""
    row = bench_counts._row("explicit_mlp_p14", jax.devices())
    sizes = bench_counts.SIZES
    activation = sizes.examples // 4 * sizes.width * 4  # f32, of the devices with the same examples
    assert row.alone is not None and row.ours is not None
    assert row.alone.activations == row.ours.activations
    assert row.ours.activations % (activation * sizes.micro_batches) == 0 and row.ours.activations
    losses = 4 * sizes.micro_batches  # as an array, after the loop
    assert (row.alone.sync, row.ours.sync) == (4 * row.ideal, row.ideal + losses)


def page_of(tmp_path: Path, counts: list[TargetCounts], times: list[Times]) -> str:
    page = tmp_path / "page.md"
    bench_page.write(page, counts, times, command="bench")
    return page.read_text()


def test_page_says_what_is_not_known(tmp_path: Path) -> None:
    exact = Count(sync=200, runs_in_loops=4, activations=0, others=0, peak=None, seconds=1.0, is_exact=True)
    bound = Count(sync=100, runs_in_loops=0, activations=0, others=0, peak=1000, seconds=1.0, is_exact=False)
    rows = [Row("first", 100, exact, bound), Row("second", 100, problem="XLA says no")]
    text = page_of(tmp_path, [TargetCounts("cpu:8", rows)], [])
    assert cells(text, "first")[2:6] == ["2.00", ">= 1.00", "4", ">= 0"]
    assert cells(text, "second")[2] == "XLA says no"
    counts = text.partition("## What is communicated")[2]
    lengths = {len(line.split("|")) for line in counts.splitlines() if line.startswith("|")}
    assert len(lengths) == 1, "a line of the table has too many or too few cells"


def test_page_of_times(tmp_path: Path) -> None:
    """Ratios are of pairs: 4, 2, 3 and 1.5, of which the middle half lies between 1.875 and 3.25."""
    measured = Times("p0", "here", alone=[4.0, 4.0, 6.0, 3.0], ours=[1.0, 2.0, 2.0, 2.0])
    text = page_of(tmp_path, [], [measured, Times("p1", "there", skipped="needs root")])
    assert cells(text, "p0") == ["p0", "here", "4000", "2000", "2.50", "1.88 to 3.25", "4"]
    assert cells(text, "p1")[2] == "skipped: needs root"
    bench_page.write_times(tmp_path / "page.md", [measured])
    again = (tmp_path / "page.md").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("| p1 |")]
    assert again.splitlines() == lines, "only the step times are written again"


MEASURE = """
import dataclasses, json, sys
sys.path += [".", "../test"]
import bench_growth, bench_rewrite
from programs.program import Sizes
small = bench_rewrite.STEPS[0]._replace(sizes=Sizes(layers=1, micro_batches=2))
(found,) = bench_rewrite.measure(print, (small,), 1)
known, unknown = bench_rewrite.measure_shares(print, (small,), ("cpu:8", "cpu:none"), 1)
bench_rewrite.STEPS = (small,)
parts = bench_rewrite.measure_parts(print, 1)
growths = bench_growth.measure_growth(print, 3, 5)
print(json.dumps([[dataclasses.asdict(each) for each in (found, known, unknown)], [part.name for part in parts],
                  [growth.declined for growth in growths], bench_growth.walks_and_lists()]))
"""


def test_page_of_rewrite_times(tmp_path: Path) -> None:
    """In a page that lacks them, again, and kept where others are measured."""
    page = tmp_path / "page.md"
    assert bench_page.NO_REWRITES in page_of(tmp_path, [], [])
    text = page.read_text().replace(f"{bench_page.REWRITE_TITLE}\n\n{bench_page.NO_REWRITES}\n\n", "")
    page.write_text(text)
    for seconds, share in ((1.0, "8.8 %"), (2.0, "13.8 %")):
        costs = Costs(
            [Rewrite("plain", 9, 0.5, 0.25, seconds), Rewrite("large", 9, 1.0, None, 3.0)],
            [
                Share("step", "cpu:8", 20.0, 12.0, seconds, 0.5, 0.75),
                Share("same", "tpu:v5e:2x4", problem="no compiler"),
            ],
            [Part("all", seconds), Part("`defer-sync`", 0.25)],
            [Growth("two sums", "defer-sync", seconds, 1)],
            loops=8,
            lists=11,
        )
        bench_page.write_costs(page, costs)
        text = page_of(tmp_path, [], [])
        assert cells(text, "plain") == ["plain", "9", "0.50", "0.25", f"{seconds:.2f}", f"{4 * seconds:.1f} x"]
        assert cells(text, "large")[3:] == ["", "3.00", ""]
        assert cells(text, "step") == ["step", "cpu:8", "20.0", "12.0", f"{seconds:.2f}", "0.75", share, "2.5 %"]
        assert cells(text, "same")[1:] == ["tpu:v5e:2x4", "no compiler", "", "", "", "", ""]
        assert cells(text, "`defer-sync`") == ["`defer-sync`", "250", f"{25 / seconds:.0f} %"]
        assert cells(text, "two sums") == ["two sums", "`defer-sync`", f"{seconds:.2f}", "1"]
        assert "8 work-list loops outside of" in text and "11 lists of ops" in text
    assert text.count(bench_page.REWRITE_TITLE) == text.count(bench_page.GPU_TITLE) == 1


def test_rewrite_times_are_measured() -> None:
    """In a process of its own, as the tool runs."""
    measured = subprocess.run([sys.executable, "-c", MEASURE], cwd=ROOT / "tools", capture_output=True, text=True)
    assert not measured.returncode, measured.stderr
    (rewrite, *shares), parts, declined, (loops, lists) = json.loads(measured.stdout.splitlines()[-1])
    found = Rewrite(**rewrite)
    assert found.ops > 100 and found.rewrite > found.shardy > 0
    known, unknown = (Share(**share) for share in shares)
    assert known.compilation > known.rewrite > 0 and known.compilation > known.propagation > 0 and known.checking > 0
    assert parts[0] == "all" and {"`expose-all-reduces`", "of that, Shardy", "`defer-sync`"} <= set(parts)
    assert declined == [0, 1, 1, 0, 0]
    assert (loops, lists) == (len(WORK_LISTS), len(ALLOWED))
    assert unknown.problem == "no target `cpu:none`: expected the number of devices, as in `cpu:8`"


@pytest.mark.parametrize(
    "what, field, more, said",
    [
        ("bytes", "wire", 401_000, "401 kB for 400 kB"),
        ("collectives", "collectives", 5, "5 for 4"),
        ("temporary memory", "temporary", 1_030_000, "1030 kB for 1000 kB"),
    ],
)
@pytest.mark.parametrize("name", ["plain_mlp_p7", "plain_mlp_p0"])
def test_page_says_what_is_worse(tmp_path: Path, name: str, what: str, field: str, more: int, said: str) -> None:
    """With the reason, where one is known; the second program is as good as with XLA alone, or holds 2 % more."""
    alone = Count(4, 4, 0, 0, 100, 1.0, True, wire=400_000, collectives=4, temporary=1_000_000)
    ours = dataclasses.replace(alone, **dict[str, Any]({field: more}))
    rows = [Row(name, 100, alone, ours), Row("plain_mlp_p1", 100, alone, alone)]
    rows.append(Row("plain_mlp_p2", 100, alone, dataclasses.replace(alone, temporary=1_020_000)))
    text = page_of(tmp_path, [TargetCounts("cpu:8", rows)], [])
    reason = bench_page.WORSE.get((what, f"_{name[-2:]}"), bench_page.UNKNOWN)
    assert f"More {what} than with XLA alone: `{name}` ({said}). {reason}" in text
    assert text.count("than with XLA alone: ") == 1
    best = page_of(tmp_path, [TargetCounts("cpu:8", rows[1:])], [])
    assert "No program sends more, runs more collectives or holds more temporary memory than with XLA alone." in best


def test_the_page_knows_a_reason_for_all_that_is_worse() -> None:
    text = (ROOT / "docs" / "benchmarks.md").read_text()
    assert bench_page.UNKNOWN not in text
    assert all(reason in text for reason in bench_page.WORSE.values()), "a reason that nothing needs"


def test_step_times_of_one_process() -> None:
    sizes = {"width": 16, "layers": 2}
    seconds = load("bench_steps").measure("blocks_p17", "grad-sync{policy=once}", pairs=2, sizes=sizes)
    assert {kind: len(taken) for kind, taken in seconds.items()} == {"alone": 2, "paropt": 2}
    assert all(taken > 0 for kind in seconds.values() for taken in kind)


def test_two_processes_across_a_slow_link() -> None:
    """Skipped where this machine makes no network namespaces; the rest of the machine is as it was afterwards."""
    step = bench_times.Step("explicit_mlp_p0")
    times = bench_times._measured(step, "there", lambda: bench_times._two_processes(step, 1))
    if times.skipped:
        pytest.skip(f"no slow link: {times.skipped}")
    assert len(times.alone) == len(times.ours) == 1
    left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert f"paropt{os.getpid()}" not in left


def test_no_link_without_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_link.shutil, "which", lambda name: f"/sbin/{name}")
    monkeypatch.setattr(slow_link.os, "geteuid", lambda: 1000)
    said: list[str] = []
    monkeypatch.setattr(bench_times, "_one_process", lambda step, pairs: '{"alone": [2.0], "paropt": [1.0]}')
    found = list(bench_times.measure([bench_times.Step("p", "q")], 1, progress=said.append))
    assert [times.skipped for times in found] == ["", "needs root, to make network namespaces"]
    assert said[0].endswith("p, `q`: par-opt is 2.00 times as fast") and "skipped: needs root" in said[1]


def test_a_worker_that_fails_gives_its_last_line() -> None:
    def started(script: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    with pytest.raises(bench_times.WorkerError, match=r"^no such program$"):
        bench_times.results([started("import sys; sys.exit('no such program')")])
    assert bench_times.results([started("print('noise'); print('{}')"), started("")]) == "{}"
