"""Counts what the training programs communicate, XLA alone against par-opt, and measures step times.

Writes a page with tables and, beside it, a picture. For each program and target it compiles both and counts in the
optimized HLO; `cpu:8` is always there, other targets need their compiler. Step times are measured on this machine:
8 simulated devices in one process, and two processes of 4 that are joined by a slow link; so is what rewriting takes.
"""

import argparse
import fnmatch
import os
import sys
from pathlib import Path

import simulated_devices

DEVICES = 8
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = simulated_devices.flags_for(DEVICES)
os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")  # no machine with TPUs: libtpu need not look for its neighbours
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # XLA's warnings, once per program
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "test"))

import bench_costs  # noqa: E402  after the environment is set
import bench_exposed  # noqa: E402
import bench_page  # noqa: E402
import bench_pipelines  # noqa: E402
import bench_plan_programs  # noqa: E402
import bench_plans  # noqa: E402
import bench_sharded  # noqa: E402
import bench_times  # noqa: E402
import matplotlib  # noqa: E402
from bench_counts import TARGETS, count  # noqa: E402
from programs.catalog import LAYERS, MATRIX  # noqa: E402

matplotlib.use("Agg")

PROGRAMS = MATRIX | LAYERS
ONCE = "grad-sync{policy=once}"
STEP_TIMES = (
    *(bench_times.Step(name) for name in ("explicit_mlp_p0", "explicit_mlp_p1")),
    *(bench_times.Step(name, passes, 9) for name in ("blocks_p17", "blocks_p18") for passes in ("grad-sync", ONCE)),
)
PAIRS = 25


def main() -> int:
    options = _options()
    if options.only_times:
        bench_page.write_times(options.out, list(bench_times.measure(STEP_TIMES, PAIRS, progress=_say)))
        _say(f"wrote the step times in {options.out}")
        return 0
    if options.only_rewrite:
        bench_page.write_costs(options.out, bench_costs.measure_costs(_say))
        _say(f"wrote the rewrite times in {options.out}")
        return 0
    if options.only_sharded:
        bench_page.write_sharded(options.out, _sharded(options))
        _say(f"wrote the counts of sharded programs in {options.out}")
        return 0
    if options.only_exposed:
        names = [name for name in options.programs if name in bench_exposed.PROGRAMS]
        chosen = [target for target in options.targets if target in bench_exposed.TARGETS]
        bench_page.write_exposed(options.out, list(bench_exposed.measure(names, chosen, progress=_say)))
        _say(f"wrote the exposed communication in {options.out}")
        return 0
    if options.only_pipelines:
        bench_page.write_pipelines(options.out, list(bench_pipelines.measure(progress=_say)))
        _say(f"wrote the counts of pipelines in {options.out}")
        return 0
    if options.only_plans:
        targets = bench_plans.TARGETS if options.targets == list(TARGETS) else options.targets
        for row in bench_plans.measure(bench_plans.PROGRAMS, targets, progress=_say):
            bench_page.write_plans(options.out, [row])  # at once: all take an hour
        bench_page.write_plan_programs(options.out, bench_plan_programs.measure(_say))
        _say(f"wrote the plans in {options.out}")
        return 0
    names = [name for name in options.programs if name in MATRIX]
    counts = [count(target, names, progress=_say) for target in options.targets]
    sharded = _sharded(options)
    times = [] if options.no_times else list(bench_times.measure(STEP_TIMES, PAIRS, progress=_say))
    costs = None if options.no_times else bench_costs.measure_costs(_say)
    pipelines = list(bench_pipelines.measure(progress=_say)) if _is_all(options) else []
    bench_page.write(options.out, counts, times, command=_command(), sharded=sharded, pipelines=pipelines, costs=costs)
    _say(f"wrote {options.out} and {options.out.with_suffix('.png')}")
    return 0


def _is_all(options: argparse.Namespace) -> bool:
    return options.programs == list(PROGRAMS) and not options.no_times


def _sharded(options: argparse.Namespace) -> list[bench_sharded.Counts]:
    names = [name for name in options.programs if name in bench_sharded.PROGRAMS]
    return [bench_sharded.count(target, names, progress=_say) for target in options.targets] if names else []


def _command() -> str:
    return " ".join(["python", "tools/bench.py", *sys.argv[1:]])


def _say(line: str) -> None:
    print(line, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--programs",
        type=_programs,
        default=list(PROGRAMS),
        metavar="NAMES",
        help="names or patterns, separated by commas: `plain_mlp_p0,explicit_*` (default: all)",
    )
    parser.add_argument(
        "--targets",
        type=lambda text: text.split(","),
        default=list(TARGETS),
        metavar="TARGETS",
        help=f"separated by commas (default: {','.join(TARGETS)})",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("docs/benchmarks.md"), help="page to write (default: %(default)s)"
    )
    times = parser.add_mutually_exclusive_group()
    times.add_argument("--no-times", action="store_true", help="only count: no step or rewrite times, no pipelines")
    times.add_argument("--only-times", action="store_true", help="count nothing: measure the page's step times again")
    times.add_argument("--only-rewrite", action="store_true", help="the same for the page's rewrite times")
    times.add_argument("--only-sharded", action="store_true", help="the same for the counts of sharded programs")
    times.add_argument("--only-exposed", action="store_true", help="the same for exposed communication")
    times.add_argument("--only-pipelines", action="store_true", help="the same for the runs of pipelines")
    times.add_argument("--only-plans", action="store_true", help="the same for plans; alone, as it takes an hour")
    options = parser.parse_args()
    for part in ("times", "rewrite", "sharded", "exposed", "pipelines", "plans"):
        if getattr(options, f"only_{part}") and not options.out.is_file():
            parser.error(f"--only-{part}: there is no page {options.out} yet")
    try:
        options.out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"--out {options.out}: cannot make its folder: {error.strerror}")
    return options


def _programs(text: str) -> list[str]:
    chosen: list[str] = []
    for pattern in text.split(","):
        found = fnmatch.filter(PROGRAMS, pattern)
        if not found:
            known = ", ".join(PROGRAMS)
            raise argparse.ArgumentTypeError(f"no program is called {pattern!r}; there are: {known}")
        chosen += [name for name in found if name not in chosen]
    return chosen


if __name__ == "__main__":
    sys.exit(main())
