"""Plans of the GPT models of Alpa's benchmark, beside those that were published, and writes docs/plans.md.

For each model, on V100s of p3.16xlarge hosts and on as many H100s: by the same estimates the published plan, the best
of the grid data x tensor x pipeline, and of each template; and what `paropt.plan` chooses. Each row is measured in a
process of its own, and kept in docs/plans.json. `--estimate` compiles nothing. `--check MODEL` compiles all templates
of a model on H100s, and compares them with their estimates. `--run MODEL` runs its plan, at a tenth of the width.
What `--check` compares shows how good `HIDDEN`, `BESIDE` and `SMALL` of the estimates are.
"""

import argparse
import datetime
import fnmatch
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"  # plugins are for targets without devices

import jax
import plan_executed
import plans_page
from alpa_plans import PUBLISHED

ROOT = Path(__file__).resolve().parent.parent
MEASURE = Path(__file__).resolve().with_name("plans_measure.py")
DATA, PAGE = ROOT / "docs" / "plans.json", ROOT / "docs" / "plans.md"
LOGS = ROOT / "build" / "plans"
START = "plans: "
GPUS = ("v100", "h100")


def main() -> int:
    options = _options()
    found: dict[str, Any] = json.loads(DATA.read_text()) if DATA.exists() else {}
    rows = [(model, gpu, f"{model} | {gpu}") for gpu in GPUS for model in PUBLISHED]
    seconds = "estimate" if options.estimate else str(options.seconds)
    chosen = [(*row, seconds) for row in rows if fnmatch.fnmatch(row[2], options.only)]
    if options.check:
        chosen = [(options.check, "h100", f"{options.check} | check", "check")]
    if options.run:
        chosen = [(options.run, "h100", f"{options.run} | {plans_page.RUN}", plans_page.RUN)]
    order = [key for *_, key in rows]
    order += [f"{model} | {what}" for what in (plans_page.CHECK, plans_page.RUN) for model in PUBLISHED]
    for model, gpu, key, how in [] if options.only_page else chosen:
        print(key, flush=True)
        measured = _run(model) if how == plans_page.RUN else _measured(model, gpu, how)
        new = {**found, **({key: measured} if measured else {})}
        found = {key: new[key] for key in order if key in new}
        DATA.write_text(json.dumps(found, indent=1) + "\n")
    PAGE.write_text(plans_page.page(found))
    print(f"wrote {PAGE.relative_to(ROOT)} from {DATA.relative_to(ROOT)}")
    return 0


def _measured(model: str, gpu: str, how: str) -> dict[str, Any]:
    """One row; empty, and a line, where it fails."""
    LOGS.mkdir(parents=True, exist_ok=True)
    with (LOGS / f"{model}-{gpu}-{how}.log").open("w") as errors:
        command = [sys.executable, str(MEASURE), model, gpu, how]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, text=True, check=False)
    lines = [line.removeprefix(START) for line in done.stdout.splitlines() if line.startswith(START)]
    if done.returncode or not lines:
        print(f"      failed with status {done.returncode}: {errors.name}", flush=True)
        return {}
    return _dated(json.loads(lines[-1]))


def _run(model: str) -> dict[str, Any]:
    """The plan for a model, run; empty, and a line, where a process fails."""
    try:
        return _dated(plan_executed.measure(model))
    except plan_executed.RunError as error:
        print(f"      failed: {error}", flush=True)
        return {}


def _dated(found: dict[str, Any]) -> dict[str, Any]:
    return {"date": str(datetime.datetime.now(datetime.UTC).date()), "jax": jax.__version__, **found}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="*", help="rows whose `model | gpu` matches, such as '39B*'")
    parser.add_argument("--seconds", type=float, default=600.0, help="of each plan (%(default)s)")
    parser.add_argument("--estimate", action="store_true", help="estimates only, in seconds per row")
    parser.add_argument("--check", metavar="MODEL", choices=PUBLISHED, help="compare all templates with executables")
    parser.add_argument("--run", metavar="MODEL", choices=PUBLISHED, help="run its plan for 8 H100s on 8 CPU devices")
    parser.add_argument("--only-page", action="store_true", help="write the page from what is measured already")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
