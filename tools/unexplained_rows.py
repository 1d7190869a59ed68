"""Audits the programs of the tests, and lists rows that no pass explains although the passes moved or weighed them.

By default for CPU, TPU and GPU targets, with the default policy and with policy=once. It prints the programs of each
target and pipeline, and how many rows say so; then one line for each such row. The status is 1 if there are any.
All of it takes an hour on two cores.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import simulated_devices

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = simulated_devices.flags_for(8)
sys.path.append(str(Path(__file__).resolve().parent.parent / "test"))

from bench_counts import SIZES, TARGETS
from programs.catalog import LAYERS, MATRIX

import paropt
from paropt.clusters import targets
from paropt.clusters.compile_apart import standing_compilers
from paropt.reports.comparison import AuditComparison
from paropt.reports.report_text import NOBODY_LOOKED, NOBODY_SAYS, described, row_texts, why

PIPELINES = ("grad-sync", "grad-sync{policy=once}")
PROGRAMS = {**MATRIX, **LAYERS}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS), metavar="NAME")
    parser.add_argument("--targets", nargs="+", default=TARGETS, metavar="TARGET", help="(%(default)s)")
    parser.add_argument("--passes", nargs="+", default=PIPELINES, metavar="PIPELINE", help="(%(default)s)")
    options = parser.parse_args()
    found = 0
    for target in options.targets:
        for passes in options.passes:
            with standing_compilers():
                lines = [line for name in options.programs for line in unexplained(name, target, passes)]
            print(
                f"{target}, {passes}: {len(options.programs)} programs, {len(lines)} rows",
                *lines,
                sep="\n  ",
                flush=True,
            )
            found += len(lines)
    return 1 if found else 0


def unexplained(name: str, target: str, passes: str) -> Iterator[str]:
    """A line for each row of the audit of a program that no remark is about."""
    program = PROGRAMS[name](SIZES, targets.get(target).devices)
    report = paropt.audit(program.step, *program.args, passes=passes, targets=[target])
    return rows_of(name, report[target])


def rows_of(name: str, comparison: AuditComparison) -> Iterator[str]:
    for row in comparison.rows:
        said = why(row, comparison)
        if said in ([NOBODY_SAYS], [NOBODY_LOOKED]):
            what = described(row.place, row.after or row.before)
            yield f"{name}: {what}: {row.verdict}, {' -> '.join(row_texts(row, comparison))}: {said[0]}"


if __name__ == "__main__":
    sys.exit(main())
