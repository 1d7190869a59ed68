"""Eight simulated CPU devices for every test, set before JAX starts; no test runs for ever."""

import faulthandler
import os
import sys
from collections.abc import Iterator

import pytest

DEVICES = "--xla_force_host_platform_device_count=8"
# A rendezvous that devices never reach (mismatched collectives) ends the process after XLA's 40 seconds; anything
# else that hangs ends it here.
TEST_SECONDS = 300

if "xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {DEVICES}".strip()
os.environ["JAX_PLATFORMS"] = "cpu"


@pytest.fixture(autouse=True)
def ends_in_time() -> Iterator[None]:
    """Ends the process (under pytest-xdist: the worker, which is reported with the test's name) when a test hangs."""
    faulthandler.dump_traceback_later(TEST_SECONDS, exit=True, file=sys.__stderr__)
    yield
    faulthandler.cancel_dump_traceback_later()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Lists the functions of the lit files that the numeric oracle does not execute, with their reasons."""
    skipped = [report.longrepr[2] for report in terminalreporter.stats.get("skipped", [])]
    reasons = sorted({text.partition("NUMERIC ")[2] for text in skipped if "NUMERIC " in text})
    if reasons:
        terminalreporter.write_line(f"{len(reasons)} functions of the lit files are not executed:")
    for reason in reasons:
        terminalreporter.write_line(f"  {reason}")
