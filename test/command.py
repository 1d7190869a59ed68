"""par-opt as a command, for tests: in a fork of a process that has loaded it, which saves half a second, or two with jax.

That process has no threads yet. The workers of pytest have XLA's, and may not fork.
"""

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

PAR_OPT = Path(sys.executable).with_name("par-opt")
SECONDS = 300  # a command that takes longer hangs
_server = multiprocessing.get_context("forkserver")
_server.set_forkserver_preload(["paropt.command.driver", "paropt.passes", "jax"])


def par_opt(
    *arguments: str | Path, text: str = "", folder: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """par-opt with `arguments` in `folder`, which reads `text`, after it ended. Raises subprocess.TimeoutExpired.

    With more variables, which Python may read when it starts, it is a process from the start.
    """
    command = [str(PAR_OPT), *map(str, arguments)]
    if env:
        return subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=SECONDS, cwd=folder, env={**os.environ, **env}
        )
    with tempfile.TemporaryDirectory(prefix="paropt-command-") as name:
        streams = [Path(name) / stream for stream in ("input", "output", "errors")]
        streams[0].write_text(text, encoding="utf-8")
        process = _server.Process(target=_be_par_opt, args=(command, streams, folder or Path.cwd(), dict(os.environ)))
        process.start()
        process.join(SECONDS)
        if process.exitcode is None:
            process.kill()
            raise subprocess.TimeoutExpired(command, SECONDS)
        output, errors = (stream.read_text(encoding="utf-8") for stream in streams[1:])
        return subprocess.CompletedProcess(command, process.exitcode, output, errors)


def _be_par_opt(command: list[str], streams: list[Path], folder: Path, environment: Mapping[str, str]) -> NoReturn:
    status = 1
    try:
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        if (records := sys.modules.get("tests_process_records")) is not None:  # see unchanged.py
            records.begin()
        for number, (path, flags) in enumerate(
            zip(streams, (os.O_RDONLY, *2 * [os.O_WRONLY | os.O_CREAT]), strict=True)
        ):
            os.dup2(os.open(path, flags), number)
        sys.stdin, sys.stdout, sys.stderr = (
            open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115  they stay open as long as the process
            for number, mode in enumerate("rww")
        )
        sys.argv = command
        from paropt.cli import main

        try:
            status = main()
        except SystemExit as ended:  # of --help
            status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)
