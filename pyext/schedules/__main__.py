"""`python -m paropt.schedules`: the times and memory of a schedule, as text, JSON, a picture or a page."""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

from paropt.schedules.catalog import SCHEDULES, schedule
from paropt.schedules.costs import NAMES, Costs
from paropt.schedules.page import page
from paropt.schedules.picture import plot
from paropt.schedules.simulation import Simulation, simulate
from paropt.schedules.table import ScheduleError
from paropt.schedules.text import json_form, text

PROGRAM = "python -m paropt.schedules"


class _Parser(argparse.ArgumentParser):
    """One line for a mistake."""

    def error(self, message: str) -> NoReturn:
        raise ScheduleError(message)


def main(argv: list[str] | None = None) -> int:
    """Runs the command; returns the exit status, 0 or 1."""
    try:
        options = _parser().parse_args(argv)
        _write(_simulated(options), options)
    except BrokenPipeError:  # who read it has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ScheduleError, ImportError) as error:
        print(f"{PROGRAM}: error: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    names = "one of " + ", ".join(SCHEDULES)
    parser = _Parser(prog=PROGRAM, description="What a schedule of a pipeline takes, in exact fractions.")
    parser.add_argument("schedule", help=names)
    parser.add_argument("--stages", type=int, default=4, help="devices in a row (default: 4)")
    parser.add_argument("--microbatches", type=int, default=8, help="parts of the batch (default: 8)")
    parser.add_argument("--chunks", type=int, help="chunks of the model on each device, for interleaved (default: 2)")
    parser.add_argument("--token-slices", type=int, help="parts of each sequence, for terapipe (default: 4)")
    parser.add_argument(
        "--costs",
        default="",
        help=f"times and sizes such as F=1,B=2,W=1/2, of {', '.join(NAMES)}; F=1:2:1:2 has one for each chunk",
    )
    parser.add_argument("--steps", type=int, default=1, help="steps in a row (default: 1)")
    parser.add_argument("--png", type=Path, help="write a timeline there")
    parser.add_argument("--html", type=Path, help="write a page there")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    return parser


def _simulated(options: argparse.Namespace) -> Simulation:
    made = schedule(
        options.schedule,
        stages=options.stages,
        microbatches=options.microbatches,
        chunks=options.chunks,
        token_slices=options.token_slices,
    )
    if options.steps < 1:
        raise ScheduleError(f"--steps must be from 1 up, not {options.steps}")
    return simulate(made, costs_of(options.costs), steps=options.steps)


def costs_of(given: str) -> Costs:
    """The costs that `F=1,B=2` names; raises ScheduleError."""
    found: dict[str, Any] = {}
    for part in filter(None, given.split(",")):
        name, _, number = part.partition("=")
        if name not in NAMES or not number:
            raise ScheduleError(f"--costs: expected NAME=NUMBER with a name of {', '.join(NAMES)}, not '{part}'")
        if name in found:
            raise ScheduleError(f"--costs: {name} is given twice")
        found[name] = number.split(":") if ":" in number else number
    return Costs(**found)


def _write(simulation: Simulation, options: argparse.Namespace) -> None:
    try:
        if options.png:
            plot([simulation], options.png)
        if options.html:
            options.html.write_text(page(simulation))
    except OSError as error:
        raise ScheduleError(f"cannot write '{error.filename}': {error.strerror}") from error
    print(json.dumps(json_form(simulation), indent=1) if options.json else text(simulation), flush=True)


if __name__ == "__main__":
    sys.exit(main())
