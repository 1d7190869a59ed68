"""What each test takes: `pytest --spending FILE` writes a line of JSON per test, which tools/test_times.py adds up.

CPU seconds are those of the worker, of its children that have ended, and of those that still run (the compilers that
stay). Beside them: how many modules the worker compiled for the simulated devices, how many it had compiled for other
targets, how many processes it started.
"""

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest
from jaxlib import xla_client

KINDS = ("compiled", "compile_seconds", "compiled_elsewhere", "processes")
_counted = dict.fromkeys(KINDS, 0.0)


def start_counting() -> None:
    """Wraps what compiles, what asks for a compilation, and what starts a process."""
    from paropt.clusters import compile_apart

    compile_here, ask, start = xla_client._xla.Client.compile_and_load, compile_apart._answer, subprocess.Popen.__init__

    def compile_and_load(*arguments: Any, **options: Any) -> Any:
        begun = time.process_time()
        try:
            return compile_here(*arguments, **options)
        finally:
            _counted["compiled"] += 1
            _counted["compile_seconds"] += time.process_time() - begun

    def answer(folder: Path, request: Any, environment: Mapping[str, str]) -> dict[str, Any]:
        _counted["compiled_elsewhere"] += 1
        return ask(folder, request, environment)

    def popen(*arguments: Any, **options: Any) -> None:
        _counted["processes"] += 1
        start(*arguments, **options)

    xla_client._xla.Client.compile_and_load = compile_and_load
    compile_apart._answer = answer
    subprocess.Popen.__init__ = popen  # type: ignore[method-assign]  # to count what it starts


def _cpu_seconds() -> float:
    ended = os.times()
    total = ended.user + ended.system + ended.children_user + ended.children_system
    for child in psutil.Process().children(recursive=True):
        try:
            spent = child.cpu_times()
        except psutil.Error:  # it has ended since
            continue
        total += spent.user + spent.system + spent.children_user + spent.children_system
    return total


class Spending:
    """Measures in the process that runs the tests, and writes in the one that gathers their reports."""

    def __init__(self, file: Path, writes: bool) -> None:
        self._file = file
        if writes:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        before, cpu, clock = dict(_counted), _cpu_seconds(), time.perf_counter()
        try:
            return (yield)
        finally:
            spent = {kind: round(_counted[kind] - before[kind], 3) for kind in KINDS}
            line = {
                "test": item.nodeid,
                "worker": os.environ.get("PYTEST_XDIST_WORKER", "main"),
                "cpu": round(_cpu_seconds() - cpu, 3),
                "clock": round(time.perf_counter() - clock, 3),
                **spent,
            }
            with self._file.open("a") as lines:  # appended as one write: workers share the file
                lines.write(json.dumps(line) + "\n")
