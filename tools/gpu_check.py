"""Runs training programs, the demo's training and the numeric suite on this machine's GPUs; prints what differs.

Without a GPU it says so in one line and exits with 0. With GPUs it exits with 1 when a result differs from what it
should be. The numeric suite needs exactly 8 GPUs; programs whose mesh does not fit are named and left out.
"""

import argparse
import datetime
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "test")]
os.environ.setdefault("JAX_PLATFORMS", "cuda,cpu")
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the numeric suite is another process

import jax  # noqa: E402  after the environment is set
import numpy as np  # noqa: E402
from jax.sharding import PartitionSpec  # noqa: E402
from programs.catalog import MATRIX  # noqa: E402
from programs.compare import difference_from_definition, tolerance_of  # noqa: E402
from programs.program import placed, replicated  # noqa: E402
from programs.transformer import Config, adam, batch, program  # noqa: E402

import paropt  # noqa: E402

STEPS = 8
LOSS_TOLERANCE = 1e-4  # relative, as in the demo
SUITE_DEVICES = 8
SUITE_SECONDS = 1800
DRIVERS = "nvidia[0-9]*"
START, END = "<!-- gpu_check -->", "<!-- end of gpu_check -->"


@dataclass(frozen=True)
class Finding:
    """One thing that was checked, or that could not be."""

    what: str
    said: str
    is_wrong: bool = False


def main() -> int:
    options = _options()
    if not any(Path("/dev").glob(DRIVERS)):  # else jax tells at length what it tried
        print("gpu_check: this machine has no NVIDIA GPU; nothing was run")
        return 0
    gpus = find_gpus()
    if not gpus:
        print("gpu_check: jax finds no GPU on this machine: pip install 'jax[cuda13]'; nothing was run")
        return 0
    jax.config.update("jax_default_matmul_precision", "highest")  # else f32 products are rounded to TF32
    findings = [_shown(check_program(name, gpus)) for name in MATRIX]
    findings.append(_shown(check_training(gpus)))
    findings.append(_shown(check_suite(len(gpus), "cuda")))
    report = summary(findings, gpus)
    print("\n" + report)
    if options.record:
        record(options.record, report)
    return int(any(finding.is_wrong for finding in findings))


def find_gpus() -> Sequence[jax.Device]:
    try:
        return jax.devices("cuda")
    except RuntimeError:
        return ()


def check_program(name: str, devices: Sequence[jax.Device]) -> Finding:
    """The program as it is and with par-opt, against its definition."""
    try:
        made = MATRIX[name](devices=devices)
    except ValueError as error:
        return Finding(name, f"not run: {str(error).splitlines()[0]}")
    steps = {"jax.jit": jax.jit(made.step), "paropt.jit": paropt.jit(made.step, strict=True)}
    apart = {kind: difference_from_definition(made, step(*made.args)) for kind, step in steps.items()}
    is_right = all(value <= tolerance_of(name) for value in apart.values())  # not so if one is not a number
    said = ", ".join(f"{kind} differs by {value:.1e}" for kind, value in apart.items())
    return Finding(name, said, is_wrong=not is_right)


def check_training(devices: Sequence[jax.Device], steps: int = STEPS) -> Finding:
    """The demo's training with jax.jit and with paropt.jit: the losses of each step."""
    config = Config(is_tied=False)
    made = program(config, optimizer=adam(3e-3), devices=devices)
    start = placed(made.args[0], replicated(made.args[0]), made.mesh)
    losses = {}
    for kind, step in (("jax.jit", jax.jit(made.step)), ("paropt.jit", paropt.jit(made.step, strict=True))):
        state, losses[kind] = start, []
        for number in range(steps):
            tokens = batch(config, *made.args[1].shape[:2], step=number)
            state, loss = step(state, placed(tokens, PartitionSpec(None, "data"), made.mesh))
            losses[kind].append(float(loss.mean()))
    apart = float(np.max(np.abs(np.array(losses["paropt.jit"]) / np.array(losses["jax.jit"]) - 1)))
    said = f"losses of {steps} steps differ by {apart:.1e}"
    return Finding("training of the demo", said, is_wrong=not apart <= LOSS_TOLERANCE)


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
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SUITE_SECONDS)
    except subprocess.TimeoutExpired:
        return Finding(what, f"no result after {SUITE_SECONDS} seconds", is_wrong=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("FAILED") or " in " in line]
    return Finding(what, "; ".join(lines) or f"exit status {done.returncode}", is_wrong=done.returncode != 0)


def summary(findings: list[Finding], devices: Sequence[jax.Device]) -> str:
    """What was run and what differs, in Markdown."""
    wrong = [finding for finding in findings if finding.is_wrong]
    left_out = [finding for finding in findings if finding.said.startswith("not run")]
    today = datetime.datetime.now(datetime.UTC).date()
    head = (
        f"{today}, jax {jax.__version__}, {len(devices)} x {devices[0].device_kind}: {len(findings) - len(left_out)} "
        f"checks, {len(wrong)} with wrong results."
    )
    return "\n".join([head, "", *(f"- {finding.what}: {finding.said}" for finding in wrong + left_out)]).rstrip()


def record(page: Path, report: str) -> None:
    """Puts the report into the page's section for it. Exits with one line when the page has none."""
    text = page.read_text() if page.exists() else ""
    section = re.compile(f"{START}\n.*?\n{END}", re.DOTALL)
    if not section.search(text):
        raise SystemExit(f"gpu_check: error: {page} has no section `{START}`; `make bench` writes one")
    page.write_text(section.sub(lambda match: f"{START}\n{report}\n{END}", text))


def _shown(finding: Finding) -> Finding:
    print(f"{'WRONG' if finding.is_wrong else 'ok   '} {finding.what}: {finding.said}", flush=True)
    return finding


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", type=Path, metavar="PAGE", help="write the outcome into docs/benchmarks.md")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
