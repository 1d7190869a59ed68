"""Two processes of 4 devices do what one process of 8 does: the same module on both, the same results bit for bit."""

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

SECONDS = 150
SCRIPT = Path(__file__).with_name("two_processes.py")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def reports(processes: int, folder: Path) -> list[dict[str, Any]]:
    """What each process of a run writes. None is left behind, whatever happens."""
    folder.mkdir()
    port = free_port()
    files = [folder / f"{rank}.json" for rank in range(processes)]
    logs = [path.with_suffix(".log") for path in files]
    children = []
    try:
        for rank, (path, log) in enumerate(zip(files, logs, strict=True)):
            command = [sys.executable, str(SCRIPT), str(rank), str(processes), str(port), str(path)]
            with log.open("w") as output:
                children.append(subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT))
        statuses = [child.wait(timeout=SECONDS) for child in children]
    finally:
        for child in children:
            child.kill()
            child.wait()
    assert statuses == [0] * processes, "\n".join(log.read_text() for log in logs)
    return [json.loads(path.read_text()) for path in files]


def test_two_processes_do_what_one_does(tmp_path: Path) -> None:
    (alone,) = reports(1, tmp_path / "one")
    first, second = reports(2, tmp_path / "two")

    assert (alone["devices"], alone["local devices"]) == (8, 8)
    assert all((rank["devices"], rank["local devices"]) == (8, 4) for rank in (first, second))

    assert first["module"] == second["module"]
    assert first["module"] != first["module as written"], "nothing was rewritten"
    assert first["sums"] == second["sums"] == alone["sums"] == 1

    assert alone["nonzero"] > 0
    assert first["results"] == second["results"] == alone["results"]
