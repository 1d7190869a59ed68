"""Eight simulated CPU devices for every test, set before JAX starts; no test runs for ever; how random programs are."""

import faulthandler
import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import target_turns
import unchanged
from gpu_assembler import stand_in
from hypothesis import HealthCheck, settings
from programs.quick_options import FLAGS

DEVICES = "--xla_force_host_platform_device_count=8"
# XLA:CPU ends a process whose devices have not all reached a collective after 40 seconds, which on a busy machine they
# may not have. One that they never reach (mismatched collectives) is to end it all the same.
PATIENCE = (
    "--xla_cpu_collective_call_warn_stuck_timeout_seconds=60 --xla_cpu_collective_call_terminate_timeout_seconds=240"
)
# Anything else that hangs ends here. The slowest test takes 60 s on an idle machine, by the clock: a busy one is slower.
TEST_SECONDS = 900

# By night (`make nightly`), at least so many random programs of each form, other ones in each run.
PROGRAMS = int(os.environ.get("PAROPT_PROGRAMS", "0"))
# By day few, and the same in every run: a failure is a failure for everyone. Deadlines and speed depend on the machine.
settings.register_profile(
    "repeatable", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("nightly", settings.get_profile("repeatable"), derandomize=False, print_blob=True)
settings.load_profile("nightly" if PROGRAMS else "repeatable")
if PROGRAMS:
    TEST_SECONDS = 3600  # a failure is first made small

if "xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {DEVICES}".strip()
if "xla_cpu_collective_call" not in os.environ["XLA_FLAGS"]:
    os.environ["XLA_FLAGS"] += f" {PATIENCE}"
if "xla_cpu_parallel_codegen_split_count" not in os.environ["XLA_FLAGS"]:
    os.environ["XLA_FLAGS"] += f" {FLAGS}"
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ |= stand_in()
ENVIRONMENT = dict(os.environ)
# By default Python looks for reference cycles 60 times as often: 2 % of the tests' time.
gc.set_threshold(20_000, 20, 50)


def pytest_collection_finish() -> None:
    """The environment is that of the tests again: tools that some import set their own flags, for all processes.

    What was loaded until now stays: it is not looked through for garbage again and again. And pytest itself, where a test
    starts it, has no options of ours: with CI's `-x` it would stop where a test is to fail.
    """
    os.environ |= ENVIRONMENT
    os.environ.pop("PYTEST_ADDOPTS", None)
    gc.freeze()


@pytest.fixture(autouse=True)
def ends_in_time() -> Iterator[None]:
    """Ends the process (under pytest-xdist: the worker, which is reported with the test's name) when a test hangs."""
    faulthandler.dump_traceback_later(TEST_SECONDS, exit=True, file=sys.__stderr__)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(autouse=True, scope="session")
def compilers_stay() -> Iterator[None]:
    """Starts the children that compile once for all tests of a process; what they load takes seconds."""
    from compilers import StoredCompilers

    from paropt.clusters import compile_apart

    children = StoredCompilers(compile_apart._COMMAND)
    compile_apart._standing.append(children)
    yield
    compile_apart._standing.remove(children)
    children.close()


@pytest.fixture(autouse=True, scope="session")
def unoptimized_code() -> Iterator[None]:
    """See test/programs/machine_code.py."""
    from programs.machine_code import machine_code

    with machine_code(is_optimized=False):
        yield


@pytest.fixture(autouse=True, scope="session")
def contexts_are_shared() -> Iterator[None]:
    from modules import contexts_serve_several

    with contexts_serve_several():
        yield


# By night a file has hundreds of rounds: what they compile ends with each.
@pytest.fixture(autouse=True, scope="function" if PROGRAMS else "module")
def executables_end_with_their_file() -> Iterator[None]:
    from equal_compilations import of_a_file

    with of_a_file():
        yield


@pytest.fixture
def optimized_code() -> Iterator[None]:
    """For tests of what users measure: seconds, and bits of what is rounded."""
    from equal_compilations import compilations
    from programs.machine_code import machine_code

    with machine_code(is_optimized=True), compilations(once=False):
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--spending", metavar="FILE", help="Write there what each test takes: test/spending.py.")


def pytest_configure(config: pytest.Config) -> None:
    if file := config.getoption("--spending"):
        from spending import Spending, start_counting

        is_worker = "PYTEST_XDIST_WORKER" in os.environ
        start_counting()
        config.pluginmanager.register(Spending(Path(file).absolute(), writes=not is_worker))
    config.pluginmanager.register(target_turns)
    if unchanged.is_wanted():
        config.pluginmanager.register(unchanged.Unchanged())
    import missing_compilers  # which loads par-opt

    config.pluginmanager.register(missing_compilers)
    config.addinivalue_line("markers", "random_programs(count): makes so many by day; by night it runs more often")


@pytest.fixture
def night_round() -> None:
    """Which of the rounds of a night this is."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Has a test of random programs run as often by night as they take: each round shows, and has its time limit."""
    marker = metafunc.definition.get_closest_marker("random_programs")
    if PROGRAMS and marker is not None:
        metafunc.fixturenames.append("night_round")
        metafunc.parametrize("night_round", range(1, 1 - PROGRAMS // -marker.args[0]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Lists the functions of the lit files that the numeric oracle does not execute, with their reasons."""
    skipped = [report.longrepr[2] for report in terminalreporter.stats.get("skipped", [])]
    reasons = sorted({text.partition("NUMERIC ")[2] for text in skipped if "NUMERIC " in text})
    if reasons:
        terminalreporter.write_line(f"{len(reasons)} functions of the lit files are not executed:")
    for reason in reasons:
        terminalreporter.write_line(f"  {reason}")
