"""Runs training programs, the demo's training and the numeric suite on this machine's GPUs; prints what differs.

Eight processes run the programs (gpu_worker.py), each with a GPU of its own, or, where there are fewer, with one that
they share: that takes NCCL 2.30 or newer and the multi-process service of the driver (nvidia-cuda-mps-control). What
NCCL was asked for in one step is compared with what the executable says. The numeric suite is one process and needs
exactly 8 GPUs.

Without a GPU it says so in one line and exits with 0. With GPUs it exits with 1 when a result of par-opt is not what
it should be; where one of XLA alone is not, it says so. Programs whose mesh does not fit are named and left out.
"""

import argparse
import datetime
import fnmatch
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "test")]
os.environ.setdefault("JAX_PLATFORMS", "cpu")  # the GPUs are for the processes that this one starts

import jax  # noqa: E402  after the environment is set
from bench_summary import with_summary  # noqa: E402
from gpu_worker import ALONE, OURS, TRAINING, Finding  # noqa: E402
from programs.catalog import MATRIX  # noqa: E402

from paropt.audit import SYNC_KINDS  # noqa: E402

PROCESSES = 8
SUITE_DEVICES = 8
SECONDS = 1800  # for all programs, and for the suite
DRIVERS = "nvidia[0-9]*"
WORKER = ROOT / "tools" / "gpu_worker.py"
FLAGS = [
    f"--xla_force_host_platform_device_count={PROCESSES}",  # for the definitions
    "--xla_gpu_enable_command_buffer=",  # a graph's collectives are logged when it is captured, not when it runs
]
LOGGED = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "COLL"}
START, END = "<!-- gpu_check -->", "<!-- end of gpu_check -->"
SHARED = {  # processes that share a GPU wait for each other in kernels, which must all fit on it at once
    "NCCL_MULTI_RANK_GPU_ENABLE": "1",
    "NCCL_NVLS_ENABLE": "0",
    "NCCL_MAX_CTAS": "1",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(100 // PROCESSES),
}


# Processes that share a GPU wait for each other within kernels, so the kernels of all of them must fit on it at once.
SHARED = {
    "NCCL_MULTI_RANK_GPU_ENABLE": "1",
    "NCCL_NVLS_ENABLE": "0",
    "NCCL_MAX_CTAS": "1",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(100 // PROCESSES),
}
SERVICE = "nvidia-cuda-mps-control"


def main() -> int:
    options = _options()
    gpus = len(list(Path("/dev").glob(DRIVERS)))
    if not gpus:
        print("gpu_check: this machine has no NVIDIA GPU; nothing was run")
        return 0
    if gpus < PROCESSES and not shutil.which(SERVICE):
        print(f"gpu_check: {gpus} GPUs for {PROCESSES} processes, which takes `{SERVICE}`; nothing was run")
        return 0
    names = [name for name in (*MATRIX, TRAINING) if any(fnmatch.fnmatch(name, wanted) for wanted in options.programs)]
    with _service(gpus) as environment:
        findings = check_together(names, "cuda", environment, gpus)
    findings.append(_shown(check_suite(gpus, "cuda")))
    report = summary(findings, f"{PROCESSES} processes on {gpus} x {_gpu_name()}")
    print("\n" + report)
    if options.record:
        record(options.record, report)
    return int(any(finding.is_wrong for finding in findings))


def check_together(
    names: Sequence[str], platform: str, environment: dict[str, str], gpus: int, processes: int = PROCESSES
) -> list[Finding]:
    """Each program in all processes at once: what the first says of it, and wrong when any says that it is."""
    with tempfile.TemporaryDirectory() as folder:
        started = _started(names, platform, environment, gpus, processes, Path(folder))
        try:
            return _watched(names, started)
        finally:
            for process in started:
                process.kill()


class _Process:
    """One gpu_worker, with files for what it writes: a full pipe would stop it while the others wait for it."""

    def __init__(self, command: list[str], environment: dict[str, str], folder: Path, rank: int) -> None:
        self._out, self._errors = folder / f"out.{rank}", folder / f"errors.{rank}"
        log = {"NCCL_DEBUG_FILE": str(folder / f"nccl.{rank}")} if "NCCL_DEBUG" in environment else {}
        environment = {**os.environ, **environment, **log}
        with self._out.open("w") as out, self._errors.open("w") as errors:
            self._process = subprocess.Popen(command, env=environment, stdout=out, stderr=errors)

    @property
    def findings(self) -> list[Finding]:
        lines = self._out.read_text().split("\n")[:-1]  # what comes after the last is not whole yet
        return [Finding(**json.loads(line)) for line in lines if line.startswith("{")]

    @property
    def status(self) -> int | None:
        """The exit status; None while it runs."""
        return self._process.poll()

    @property
    def last_words(self) -> str:
        lines = self._errors.read_text().strip().splitlines()
        errors = [line for line in lines if re.match(r"[\w.]*Error\b", line)]
        return (errors or lines or [f"exit status {self.status}"])[-1]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def _started(
    names: Sequence[str], platform: str, environment: dict[str, str], gpus: int, processes: int, folder: Path
) -> list[_Process]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    common = [*names, "--platform", platform, "--processes", str(processes), "--coordinator", address]
    return [
        _Process(
            [sys.executable, str(WORKER), *common, "--rank", str(rank)],
            environment | _own_gpu(rank, gpus),
            folder,
            rank,
        )
        for rank in range(processes)
    ]


def _own_gpu(rank: int, gpus: int) -> dict[str, str]:
    return {"CUDA_VISIBLE_DEVICES": str(rank % gpus)} if gpus else {}


def _watched(names: Sequence[str], processes: list[_Process]) -> list[Finding]:
    """The findings of the processes, which are shown as they come; ends when they do, one fails or time is over."""
    merged: list[Finding] = []
    deadline = time.monotonic() + SECONDS
    while len(merged) < len(names):
        failed = [process.last_words for process in processes if process.status]  # asked before what they found
        if time.monotonic() > deadline:
            failed.append(f"no result after {SECONDS} seconds")
        found = [process.findings for process in processes]
        new = range(len(merged), min(map(len, found)))
        merged += [_shown(_merged([of[number] for of in found])) for number in new]
        if failed and len(merged) < len(names):
            return [*merged, _shown(Finding(names[len(merged)], failed[0], is_wrong=True))]
        time.sleep(0.1)
    return merged


def _merged(findings: list[Finding]) -> Finding:
    """What one of the processes has to object, else what the first says."""
    return max(findings, key=lambda finding: (finding.is_wrong, finding.is_xla_wrong))


@contextmanager
def _service(gpus: int) -> Iterator[dict[str, str]]:
    """The environment of the processes, with the driver's multi-process service running while GPUs are shared."""
    flags = " ".join([*os.environ.get("XLA_FLAGS", "").split(), *FLAGS])
    common = {"JAX_PLATFORMS": "cuda,cpu", "XLA_FLAGS": flags, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"} | LOGGED
    if gpus >= PROCESSES:
        yield common
        return
    with tempfile.TemporaryDirectory() as folder:
        own = common | SHARED | {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        subprocess.run([SERVICE, "-d"], env=os.environ | own, check=True, timeout=60)
        try:
            yield own
        finally:
            subprocess.run([SERVICE], input="quit\n", text=True, env=os.environ | own, check=False, timeout=60)


def _gpu_name() -> str:
    asked = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True)
    return (asked.stdout.splitlines() or ["NVIDIA GPU"])[0]


def check_suite(devices: int, platform: str, *options: str) -> Finding:
    """test/numeric on devices of this platform; `options` are pytest's."""
    what = "numeric suite"
    if devices != SUITE_DEVICES:
        return Finding(what, f"not run: it needs {SUITE_DEVICES} devices, this machine has {devices}")
    # jax reads its platform when it is imported: before the tests' own configuration asks for CPUs.
    script = "import sys, jax, pytest; sys.exit(pytest.main(sys.argv[1:]))"
    command = [sys.executable, "-c", script, *options, str(ROOT / "test" / "numeric")]
    environment = {**os.environ, "JAX_PLATFORMS": platform}
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return Finding(what, f"no result after {SECONDS} seconds", is_wrong=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("FAILED") or " in " in line]
    return Finding(what, "; ".join(lines) or f"exit status {done.returncode}", is_wrong=done.returncode != 0)


def summary(findings: list[Finding], machine: str) -> str:
    """What was run, what differs, and what each step communicated, in Markdown."""
    wrong = [finding for finding in findings if finding.is_wrong]
    left_out = [finding for finding in findings if finding.said.startswith("not run")]
    of_xla = [finding for finding in findings if finding.is_xla_wrong]
    today = datetime.datetime.now(datetime.UTC).date()
    head = (
        f"{today}, jax {jax.__version__}, {machine}: {len(findings) - len(left_out)} checks. Of par-opt {len(wrong)} "
        f"results are wrong, of XLA alone {len(of_xla)}. A result differs by the largest difference from the "
        "definition, relative to the largest change that the step makes to the array."
    )
    named = [f"- {finding.what}: {finding.said}" for finding in [*wrong, *left_out]]
    alone = ["", "XLA alone is wrong:", "", *(f"- {finding.what}: {finding.said}" for finding in of_xla)]
    return "\n".join([head, "", *named, *(alone if of_xla else []), *_sent_table(findings)]).rstrip()


def _sent_table(findings: list[Finding]) -> list[str]:
    sent = [finding for finding in findings if finding.sent]
    if not sent:
        return []
    rows = [
        f"| {finding.what} | {_bytes(finding, ALONE, SYNC_KINDS)} | {_bytes(finding, OURS, SYNC_KINDS)} "
        f"| {_bytes(finding, ALONE, ('all-gather',))} | {_bytes(finding, OURS, ('all-gather',))} |"
        for finding in sent
    ]
    return [
        "",
        "Bytes per device and step, as NCCL's log has them:",
        "",
        "| program | reduced, XLA alone | par-opt | gathered, XLA alone | par-opt |",
        "| --- | ---: | ---: | ---: | ---: |",
        *rows,
    ]


def _bytes(finding: Finding, kind: str, collectives: tuple[str, ...]) -> str:
    return f"{sum(finding.sent[kind].get(collective, 0) for collective in collectives):,}"


def record(page: Path, report: str) -> None:
    """Puts the report into the page's section for it. Exits with one line when the page has none."""
    text = page.read_text() if page.exists() else ""
    section = re.compile(f"{START}\n.*?\n{END}", re.DOTALL)
    if not section.search(text):
        raise SystemExit(f"gpu_check: error: {page} has no section `{START}`; `make bench` writes one")
    page.write_text(with_summary(section.sub(lambda match: f"{START}\n{report}\n{END}", text)))


def _shown(finding: Finding) -> Finding:
    word = "WRONG" if finding.is_wrong else "ok   "
    print(f"{word} {finding.what}: {finding.said}{' -- XLA alone is wrong' * finding.is_xla_wrong}", flush=True)
    return finding


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "programs", nargs="*", default=["*"], help="names or patterns, such as `plain_mlp_*` (default: all)"
    )
    parser.add_argument("--record", type=Path, metavar="PAGE", help="write the outcome into docs/benchmarks.md")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
