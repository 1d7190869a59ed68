"""Runs a plan that is saved in a file, at a tenth of the width that it was made for: is what it assumes what runs?

`measure(MODEL)` makes the plan for 8 H100s, and runs it on 8 CPU devices of one process and of two. Each run compares
the new state with that of `jax.jit` on one device, and counts what its executable sends.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from alpa_plans import PUBLISHED
from gpt_programs import Gpt, step_of

import paropt
from paropt.hlo.census import Collective

WORKER = Path(__file__).resolve().with_name("plan_worker.py")
TARGET, DTYPE = "gpu:h100:1x1x8", "float16"
MICRO_BATCHES, RUN_MICRO_BATCHES = 64, 4
NARROWER, SEQUENCES = 10, 32
DEVICES = 8
SECONDS = 1200.0  # for one run


class RunError(Exception):
    """A process of a run failed; what it printed last."""


def measure(name: str) -> dict[str, Any]:
    """The plan for a model of the page, what its executable moves per step, and what runs."""
    model = PUBLISHED[name].model
    step, shapes = step_of(model, MICRO_BATCHES, DTYPE)
    plan = paropt.plan(step, *shapes, target=TARGET, memory="auto", progress=_say)
    best = plan.ranking[0]
    assert best.audit is not None, "a plan has an executable"
    narrow = model.narrowed(NARROWER, SEQUENCES)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.toml"
        plan.save(path)
        runs = {str(count): run(path, narrow, count) for count in (1, 2)}
    return {
        "plan": str(plan.candidate),
        "moved": moved(best.audit.collectives, model.parameters),
        "width": narrow.width,
        "parameters": narrow.parameters,
        "runs": runs,
    }


def run(plan: Path, model: Gpt, processes: int) -> dict[str, Any]:
    """What so many processes saw: the first of them, and the largest difference of all. Raises RunError."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    flags = f"--xla_force_host_platform_device_count={DEVICES // processes}"
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}
    children = []
    try:
        for rank in range(processes):
            command = [sys.executable, str(WORKER), str(plan), json.dumps(model), str(rank), str(processes), port]
            children.append(
                subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            )
        said = [child.communicate(timeout=SECONDS)[0] for child in children]
    finally:
        for child in children:
            child.kill()
    for child, text in zip(children, said, strict=True):
        if child.returncode:
            raise RunError(f"status {child.returncode}: {text.strip().splitlines()[-1]}")
    found: list[dict[str, Any]] = [json.loads(text.strip().splitlines()[-1]) for text in said]
    return {**found[0], "difference": max(each["difference"] for each in found)}


def moved(collectives: Iterable[Collective], parameters: int) -> dict[str, float]:
    """By kind the elements that collectives take per step and device, in multiples of all parameters': of an
    all-gather the results, of others the operands. What moves less than a thousandth is left out.
    """
    found = defaultdict[str, float](float)
    for each in collectives:
        elements = sum(array.elements for array in each.arrays)
        found["all-gather" if each.gathers else each.kind] += (each.executions or 0) * elements / parameters
    return {kind: round(share, 3) for kind, share in found.items() if share > 1e-3}


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
