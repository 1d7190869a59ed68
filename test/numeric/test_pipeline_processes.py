"""A pipeline run by two processes of 4 devices is that of one process of 8, bit for bit; when one fails, both end."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

SECONDS = 240
ENDS_WITHIN = 60  # of which heartbeats take 10; jax alone waits 300 s
SCRIPT = Path(__file__).with_name("pipeline_process.py")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def started(mode: str, processes: int, folder: Path) -> tuple[list[int], list[str]]:
    folder.mkdir()
    port = str(free_port())
    files = [str(folder / f"{rank}.json") for rank in range(processes)]
    return ended(
        [[str(SCRIPT), mode, str(rank), str(processes), port, file] for rank, file in enumerate(files)], folder
    )


def ended(commands: list[list[str]], folder: Path, **environment: str) -> tuple[list[int], list[str]]:
    """The status and the output of each process. None is left behind, whatever happens."""
    logs, children = [folder / f"{rank}.log" for rank in range(len(commands))], []
    try:
        for command, log in zip(commands, logs, strict=True):
            with log.open("w") as output:
                children.append(
                    subprocess.Popen(
                        [sys.executable, *command],
                        stdout=output,
                        stderr=subprocess.STDOUT,
                        env=os.environ | environment,
                    )
                )
        end = time.monotonic() + SECONDS
        statuses = [child.wait(timeout=max(1, end - time.monotonic())) for child in children]
    finally:
        for child in children:
            child.kill()
            child.wait()
    return statuses, [log.read_text() for log in logs]


def reports(processes: int, folder: Path) -> list[dict[str, Any]]:
    statuses, logs = started("runs", processes, folder)
    assert statuses == [0] * processes, "\n".join(logs)
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(processes)]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What one process saw, and each of two."""
    folder = tmp_path_factory.mktemp("processes")
    return [*reports(1, folder / "one"), *reports(2, folder / "two")]


CASES = ["two stages", "four stages", "interleaved", "stacked and tied"]


@pytest.mark.parametrize("case", CASES)
def test_two_processes_do_what_one_does(seen: list[dict[str, Any]], case: str) -> None:
    alone, first, second = (each[case] for each in seen)
    assert first["loss"] == second["loss"] == alone["loss"]
    for path, parts in alone["parts"].items():
        own = [each["parts"][path] for each in (first, second)]
        assert own[0] | own[1] == parts and sum(map(len, own)) == len(parts), path


@pytest.mark.parametrize("case", CASES)
def test_two_processes_do_what_the_step_does(seen: list[dict[str, Any]], case: str) -> None:
    for each in seen:
        assert each[case]["largest update"] > 1 and each[case]["views are kept"]
        assert each[case]["error"] <= 1e-6 * each[case]["largest update"]


@pytest.mark.parametrize("case", CASES)
def test_a_process_compiles_the_programs_of_its_stages(seen: list[dict[str, Any]], case: str) -> None:
    alone, first, second = (each[case]["symbols"] for each in seen)
    assert {*first} | {*second} == {*alone} and {*first}.isdisjoint(second)
    stages = [{int(symbol.split("_")[1]) for symbol in own} for own in (first, second)]
    expected = {"four stages": [{0, 1}, {2, 3}], "interleaved": [{0, 2}, {1, 3}]}
    assert stages == expected.get(case, [{0}, {1}])


def test_each_process_has_the_state_of_its_stages(seen: list[dict[str, Any]]) -> None:
    homes = [each["two stages"]["homes"] for each in seen[1:]]
    shards = [[own[f"[{layer}]['w']"] for layer in range(4)] for own in homes]
    assert shards == [[4, 4, 0, 0], [0, 0, 4, 4]]
    for each in seen[1:]:
        assert each["stacked and tied"]["homes"]["[1]['layers']"] == 4


def test_mistakes_are_one_line(seen: list[dict[str, Any]]) -> None:
    for rank, each in enumerate(seen[1:]):
        unread, spread, scale, batch = each["mistakes"]
        assert unread == (
            f"array {8 + rank} of the step's arguments: process {rank} has not all of its elements; "
            "give each process the whole of it, or, of the state, what this pipeline has returned"
        )
        assert spread == (
            "state[1]['layers']: its rows are not as many, and in order, in each stage, "
            "so that several processes cannot hold it as one array"
        )
        where = f"its values differ between processes {rank} and {1 - rank}"
        assert scale == f"scale: {where}: each gives all of the batch, and the same keys"
        assert batch == (
            f"paropt.pipeline: batch[0]: {where}, of which one does not read it; if each has loaded a part of the "
            "batch of its own, results are wrong: each gives all of it"
        )


@pytest.mark.parametrize(
    ("mode", "ended", "line"),
    [
        ("dies", -9, "step 0"),
        ("raises", 1, "RuntimeError: no batch is left"),
        ("differs", 1, "StageError: step: differs between processes 1 and 0, which must call the same pipeline"),
        ("refuses", 1, "StageError: microbatches: expected 4, the trips of the step's loop, got 8"),
        ("exits", 3, "step 0"),
        ("exits first", 3, ""),
        ("builds", 1, "StageError: process 0 takes a step where process 1 builds: each process calls the pipeline"),
    ],
)
def test_one_process_that_fails_ends_the_other(tmp_path: Path, mode: str, ended: int, line: str) -> None:
    start = time.monotonic()
    statuses, (first, second) = started(mode, 2, tmp_path / mode)
    assert time.monotonic() - start < ENDS_WITHIN
    assert statuses[0] != 0 and statuses[1] == ended, first + second
    assert line in second
    expected = {
        "dies": " by peer|stopped sending heartbeats",  # a connection was closed, or reset; or jax says so
        "raises": "paropt.pipeline: process 1 failed, which ends process 0: RuntimeError: no batch is left",
        "differs": "StageError: step: differs between processes 0 and 1, which must call the same pipeline",
        "exits": "^paropt.pipeline: process 1 ended after 1 steps, which ends process 0, which waits for its next one$",
        "exits first": "^paropt.pipeline: process 1 ended after 0 steps, which ends process 0, which waits for its next one$",
        "builds": "paropt.pipeline: process 1 failed, which ends process 0: StageError: process 0 takes a step where",
        "refuses": "StageError: process 1 cannot build the pipeline: microbatches: expected 4, the trips of the step's",
    }
    assert re.search(expected[mode], first, re.M), first
    assert mode not in ("exits", "exits first") or "Traceback" not in first + second


def scripts() -> list[str]:
    """Of the page: in one process, what follows it with tensor parallelism, and in two."""
    page = Path(__file__).parents[2] / "docs" / "stages.md"
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.M | re.S)


def test_the_script_of_the_page_in_one_process(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("".join(scripts()[:2]))
    statuses, (log,) = ended([[str(script)]], tmp_path, JAX_PLATFORMS="cpu")
    assert statuses == [0], log
    losses = [float(line) for line in re.findall(r"^\d\.\d+$", log, re.M)]
    assert len(losses) == 4 and losses[3] < losses[2] < losses[0]


def test_the_script_of_the_page(tmp_path: Path) -> None:
    *_, text = scripts()
    script, coordinator = tmp_path / "train.py", f"127.0.0.1:{free_port()}"
    script.write_text(text)
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=4"
    commands = [[str(script), coordinator, str(rank)] for rank in range(2)]
    # Gloo's threads print there, too: buffered, each loss is a line of its own, and not `1 [Gloo] Rank 1 ...`
    statuses, logs = ended(commands, tmp_path, JAX_PLATFORMS="cpu", XLA_FLAGS=flags, PYTHONUNBUFFERED="")
    assert statuses == [0, 0], "\n".join(logs)
    losses = [re.findall(rf"^{rank} (\S+)$", log, re.M) for rank, log in enumerate(logs)]
    assert losses[0] == losses[1] and len(losses[0]) == 3 and float(losses[0][2]) < float(losses[0][0])
