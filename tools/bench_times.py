"""Measures step times: on the devices of one process, and of two processes that a slow link joins."""

import contextlib
import functools
import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from slow_link import LinkError, Side, slow_link

WORKER = Path(__file__).with_name("bench_steps.py")
RATE = "1gbit"
PORT = 12671  # in a namespace of its own
SECONDS = 300  # for one program

ONE_PROCESS = "8 simulated devices, one process"
TWO_PROCESSES = f"two processes x 4 devices, {RATE} link"


class WorkerError(Exception):
    """A measurement did not end as it should; one line."""


class Step(NamedTuple):
    """A step that is measured: a program of the catalog, and par-opt's pipeline."""

    program: str
    passes: str = "grad-sync"
    most: int = 25  # pairs, of a step that takes seconds

    def __str__(self) -> str:
        return self.program if self.passes == "grad-sync" else f"{self.program}, `{self.passes}`"


@dataclass(frozen=True)
class Times:
    """Seconds of the steps of one program; the lists are in pairs."""

    program: str
    where: str
    alone: list[float] = field(default_factory=list)
    ours: list[float] = field(default_factory=list)
    skipped: str = ""  # why there are none

    @property
    def ratios(self) -> list[float]:
        """How many times longer XLA alone takes, pair by pair, in ascending order."""
        return sorted(a / o for a, o in zip(self.alone, self.ours, strict=True))

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)


def measure(steps: Sequence[Step], pairs: int, *, progress: Callable[[str], None]) -> Iterator[Times]:
    """The steps on one process and on two; a machine that cannot do the latter gives a reason."""
    for step in steps:
        yield _told(
            _measured(step, ONE_PROCESS, functools.partial(_one_process, step, min(pairs, step.most))), progress
        )
    for step in steps:
        yield _told(
            _measured(step, TWO_PROCESSES, functools.partial(_two_processes, step, min(pairs, step.most))), progress
        )


def _measured(step: Step, where: str, run: Callable[[], str]) -> Times:
    try:
        seconds = json.loads(run())
    except (LinkError, WorkerError) as error:
        return Times(str(step), where, skipped=str(error))
    return Times(str(step), where, seconds["alone"], seconds["paropt"])


def _told(times: Times, progress: Callable[[str], None]) -> Times:
    found = f"skipped: {times.skipped}" if times.skipped else f"par-opt is {times.ratio:.2f} times as fast"
    progress(f"step time, {times.where}: {times.program}: {found}")
    return times


def _one_process(step: Step, pairs: int) -> str:
    return results([_started(_command(step, pairs))])


def _two_processes(step: Step, pairs: int) -> str:
    return joined(_command(step, pairs))


def joined(command: Sequence[str]) -> str:
    """What the first of two processes of a command prints last, between which is a slow link."""
    with slow_link(RATE) as sides:
        commands = [[*side.prefix, *command, *rank_options(sides, rank)] for rank, side in enumerate(sides)]
        return results([*map(_started, commands)])


def rank_options(sides: tuple[Side, ...], rank: int) -> list[str]:
    return ["--rank", str(rank), "--coordinator", f"{sides[0].address}:{PORT}"]


def _command(step: Step, pairs: int) -> list[str]:
    return [sys.executable, str(WORKER), step.program, "--passes", step.passes, "--pairs", str(pairs)]


def _started(command: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def results(processes: list[subprocess.Popen[str]]) -> str:
    """The last line that the first process prints, when all of them have ended well."""
    try:
        said = [process.communicate(timeout=SECONDS) for process in processes]
    except subprocess.TimeoutExpired as error:
        raise WorkerError(f"no result after {SECONDS} seconds") from error
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()
    for process, (_, errors) in zip(processes, said, strict=True):
        if process.returncode:
            raise WorkerError((errors.strip().splitlines() or [f"exit status {process.returncode}"])[-1])
    return said[0][0].strip().splitlines()[-1]
